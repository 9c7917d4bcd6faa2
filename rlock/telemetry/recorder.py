"""Recorder: from events to measurements, the same for Prometheus and OpenTelemetry."""

from __future__ import annotations

import os
import threading
import weakref
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from typing import Any, Protocol

from .. import events
from ..events import Event
from . import instruments as the
from .instruments import Instrument
from .labels import Limited, LockLabels

#: Guards all recorders. Held during a fork, or the child could inherit a metric in the middle of a change,
#: with its mutex taken by a thread that the child does not have. Reentrant: a destructor that the garbage
#: collector runs in here may close a client, which tells events.
mutex = threading.RLock()

_forgetful: weakref.WeakSet[Forgetful] = weakref.WeakSet()


class Forgetful(ABC):
    """Something that remembers what this process holds, and that a forked child must not."""

    def __init__(self) -> None:
        _forgetful.add(self)

    @abstractmethod
    def begin_again(self) -> None:
        """In a forked child: it holds nothing and waits for nothing. With the mutex."""


class Sink(Protocol):
    """Where measurements go. ``labels`` are values, in the order of the instrument's labels."""

    def add(self, instrument: Instrument, amount: float, *labels: str) -> None:
        """Add to a counter."""

    def note(self, instrument: Instrument, value: float, *labels: str) -> None:
        """One value more of a histogram."""

    def set(self, instrument: Instrument, value: float, *labels: str) -> None:
        """The value of a gauge from now on."""


class Recorder(Forgetful):
    """An observer that turns events into measurements. Thread-safe; a forked child begins with no holds."""

    def __init__(self, sink: Sink, labels: LockLabels) -> None:
        super().__init__()
        self._sink = sink
        self._lock = labels
        self._master = Limited()
        self._owners: dict[str, str] = {}  # the label of each lock that is held, by owner token
        self._primaries: dict[str, set[str]] = {}  # of each group: each client reports a promotion
        self._lacking: set[str] = set()  # groups that lack replicas
        self.held: Counter[str] = Counter()
        self.waiting: Counter[str] = Counter()
        self._record: dict[type[Event], Callable[[Any], None]] = {
            events.Acquired: self._acquired,
            events.NotAcquired: self._not_acquired,
            events.Queued: self._queued,
            events.Released: self._released,
            events.Renewed: self._renewed,
            events.Lost: self._lost,
            events.ReleaseUnsure: self._unsure,
            events.KeepUnsure: self._unsure,
            events.MasterFailed: self._failed,
            events.MasterAnswers: self._answers,
            events.SubscribeRefused: lambda event: self._hears(event.master, False),
            events.MasterSlow: self._slow,
            events.MasterGuarded: self._guarded,
            events.MasterHealed: self._healed,
            events.UnknownMessage: self._unknown,
            events.GroupChanged: self._group_changed,
        }

    def __call__(self, event: Event) -> None:
        """Take note of an event."""
        record = self._record.get(type(event))
        if record is not None:
            with mutex:
                record(event)

    def levels(self, instrument: Instrument) -> dict[str, int]:
        """The present values of a level, by label."""
        with mutex:
            return dict(self.held if instrument is the.HELD else self.waiting)

    def _acquired(self, event: events.Acquired) -> None:
        lock, sink = self._lock(event.lock), self._sink
        sink.note(the.ACQUIRE, event.waited, lock, "acquired")
        sink.set(the.QUORUM, event.votes, lock)
        if event.queued:
            self._waited(lock, event.waited)
        if event.handed:
            sink.add(the.HAND_OFFS, 1, lock)
        self._owners[event.owner] = lock
        self.held[lock] += 1
        sink.set(the.HELD, self.held[lock], lock)

    def _not_acquired(self, event: events.NotAcquired) -> None:
        lock = self._lock(event.lock)
        self._sink.note(the.ACQUIRE, event.waited, lock, event.outcome)
        if event.queued:
            self._waited(lock, event.waited)

    def _queued(self, event: events.Queued) -> None:
        lock = self._lock(event.lock)
        self._sink.note(the.QUEUE, event.length, lock)
        self.waiting[lock] += 1
        self._sink.set(the.WAITING, self.waiting[lock], lock)

    def _waited(self, lock: str, waited: float) -> None:
        self._sink.note(the.WAIT, waited, lock)
        # It may have been queued before this recorder was there.
        self.waiting[lock] = max(0, self.waiting[lock] - 1)
        self._sink.set(the.WAITING, self.waiting[lock], lock)

    def _released(self, event: events.Released) -> None:
        self._ended(event.owner, event.lock, event.held)

    def _lost(self, event: events.Lost) -> None:
        self._ended(event.owner, event.lock, event.held)
        self._sink.add(the.LOSSES, 1, self._lock(event.lock), event.cause)

    def _ended(self, owner: str, name: str, held: float) -> None:
        self._sink.note(the.HELD_TIME, held, self._lock(name))
        lock = self._owners.pop(owner, None)
        if lock is not None:  # else it was acquired before this recorder was there
            self.held[lock] -= 1
            self._sink.set(the.HELD, self.held[lock], lock)

    def _renewed(self, event: events.Renewed) -> None:
        self._sink.add(the.RENEWALS, event.locks)
        self._sink.add(the.RENEWAL_FAILURES, event.failed)
        self._sink.note(the.RENEWAL_TIME, event.took)

    def _unsure(self, event: events.HoldEvent) -> None:
        self._sink.add(the.UNSURE, 1, self._lock(event.lock))

    def _failed(self, event: events.MasterFailed) -> None:
        if event.messages:
            self._hears(event.master, False)
            return
        master = self._master(event.master)
        self._sink.add(the.FAILURES, 1, master, event.kind)
        # A server that closes an idle connection is not down: the next dial tells.
        if not (event.connected and event.kind in ("broken", "silent", "flapping")):
            self._sink.set(the.UP, 0, master)

    def _hears(self, master: str, hears: bool) -> None:
        self._sink.set(the.HEARD, int(hears), self._master(master))

    def _answers(self, event: events.MasterAnswers) -> None:
        if event.messages:
            self._hears(event.master, True)
            return
        master = self._master(event.master)
        # Otherwise a group without replicas would be up after each new connection, and no alert would fire.
        self._sink.set(the.UP, int(event.master not in self._lacking), master)
        # From 0 on: the first of what is rare is an increase only if there was a value before.
        for instrument in (the.SLOW, the.GUARDED, the.HEALED, the.UNKNOWN_MESSAGES):
            self._sink.add(instrument, 0, master)

    def _slow(self, event: events.MasterSlow) -> None:
        self._sink.add(the.SLOW, 1, self._master(event.master))

    def _guarded(self, event: events.MasterGuarded) -> None:
        self._sink.add(the.GUARDED, 1, self._master(event.master))

    def _healed(self, event: events.MasterHealed) -> None:
        self._sink.add(the.HEALED, event.locks, self._master(event.master))

    def _unknown(self, event: events.UnknownMessage) -> None:
        self._sink.add(the.UNKNOWN_MESSAGES, 1, self._master(event.master))

    def _group_changed(self, event: events.GroupChanged) -> None:
        master = self._master(event.master)
        self._sink.set(the.REPLICAS, event.replicas, master)
        self._sink.set(the.ACKNOWLEDGED, event.acknowledged, master)
        if event.acknowledged == event.replicas:
            self._lacking.discard(event.master)
        else:
            self._lacking.add(event.master)
        known = self._primaries.setdefault(event.master, {event.primary})
        self._sink.add(the.PROMOTIONS, event.primary not in known, master)
        known.add(event.primary)

    def begin_again(self) -> None:
        """See `Forgetful`."""
        self._owners.clear()
        for instrument, level in ((the.HELD, self.held), (the.WAITING, self.waiting)):
            for lock in [lock for lock, value in level.items() if value]:
                level[lock] = 0
                self._sink.set(instrument, 0, lock)


def _after_fork_in_child() -> None:
    try:
        for one in list(_forgetful):
            one.begin_again()
    finally:
        mutex.release()


os.register_at_fork(before=mutex.acquire, after_in_parent=mutex.release, after_in_child=_after_fork_in_child)
