"""The recorder: acquires, holds and releases locks for a thread, and notes each call in the journal."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from rlock._client.engine import client_label
from rlock.errors import LeaseLostError, RLockError
from rlock.rules import lease

from .journal import Journal, now_ns

#: The interval at which a holder looks at its validity.
LOOK_S = 0.02


class Hold:
    """A lock that the calling thread holds. ``lock`` has the methods of `rlock.RLock`."""

    def __init__(self, journal: Journal, lock: Any, number: int, rate: float = 1.0) -> None:
        self.lock = lock
        self.number = number
        self._journal = journal
        self._rate = rate

    def look(self, event: str = "valid", told: Callable[[], dict[str, Any]] = dict) -> bool:
        """Note the validity, with fields that are ``told`` after it; whether any is left."""
        # The instant is read first, so the noted end is never later than the client believes.
        at = now_ns()
        left = self.lock.remaining()
        valid_until = at + int(left / self._rate * 1e9) if left > 0 else 0
        fields = told()
        if left <= 0:
            # Otherwise a thread that did not run between the two lines would seem to have lost it early.
            fields["by"] = now_ns()
        self._journal.note(event, at, attempt=self.number, valid_until=valid_until, **fields)
        return bool(left > 0)

    def keep(self, seconds: float, wanted: Callable[[], bool], *, heedless: bool = False) -> None:
        """Hold for some time while the hold is wanted, and valid unless ``heedless``."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and wanted():
            time.sleep(min(left, LOOK_S))
            if left > LOOK_S and not self.look() and not heedless:
                return

    @contextmanager
    def nested(self, lock: Any) -> Iterator[None]:
        """Hold the same lock once more, by an object of its name."""
        self._journal.note("acquire", attempt=self.number)
        with lock:
            token, count = lock.fencing_token, lock.hold_count
            self._journal.note("acquired", attempt=self.number, token=token, hold_count=count)
            yield
            self._journal.note("release", attempt=self.number, hold_count=lock.hold_count)
        self._journal.note("released", attempt=self.number, outcome="released", hold_count=lock.hold_count)


class Recorder:
    """The attempts of one process. Any thread may call.

    ``rate``: how many seconds of its client's clock pass in a second. The journal has true instants.
    """

    def __init__(self, journal: Journal, ttl: float, rate: float = 1.0) -> None:
        self._journal = journal
        self._rate = rate
        self._ttl = ttl
        self._numbers = itertools.count(1)
        #: The attempt under way of each thread or task, by the label of its owner tokens.
        self._under_way: dict[str, int] = {}

    def arrived(self, label: str) -> None:
        """Note that a thread or task has its place in the queue."""
        number = self._under_way.get(label)
        if number is not None:
            self._journal.note("arrived", attempt=number)

    def attempt(
        self,
        lock: Any,
        work: Callable[[Hold], object],
        *,
        timeout: float = -1.0,
        fair: bool = False,
        within: int = 0,
    ) -> bool:
        """Acquire, work, release; False after an `RLockError`. Other exceptions are raised.

        In the end nothing is held, and the journal says so with the outcome.
        """
        hold = Hold(self._journal, lock, next(self._numbers), self._rate)
        outcome, reason = "interrupted", ""
        thread = threading.current_thread().name
        label = client_label(thread)
        try:
            asked = {"thread": thread, "lock": lock.name, "timeout": timeout, "fair": fair}
            if lock._options.shared:
                asked |= {"shared": True, "within": within}
            self._journal.note("acquire", attempt=hold.number, **asked)
            self._under_way[label] = hold.number
            got = lock.acquire(blocking=False) if timeout == 0 else lock.acquire(timeout=timeout)
            if got:
                self._acquired(hold)
                work(hold)
            outcome = "got" if got else "contention"
        except RLockError as error:
            outcome, reason = type(error).__name__, str(error)
        finally:
            self._under_way.pop(label, None)
            self._give_back(hold, outcome, reason)
        return not reason

    def downgrade(self, hold: Hold, reader: Any, work: Callable[[Hold], object]) -> None:
        """Acquire the reader of a lock whose writer is held, release the writer, work, release the reader."""

        def read_on(inner: Hold) -> None:
            self._give_back(hold, "got", "")
            work(inner)

        self.attempt(reader, read_on, timeout=0, within=hold.number)

    def _acquired(self, hold: Hold) -> None:
        lock = hold.lock

        def told() -> dict[str, Any]:
            # Only evictions need the owner, and no public name tells it without a round trip.
            held = lock._client._engine().hold(lock._options.hold_name)
            # By messages it is for the claim time. As a whole lease it would seem to be a second older.
            brief = held is not None and held.lease.confirmation is not None
            claim = lease.CLAIM_S  # type: ignore[attr-defined]  # a bug of evidence/bugs may have changed it there
            ttl = min(self._ttl, claim) if brief else self._ttl
            return {
                "token": lock.fencing_token,
                "hold_count": lock.hold_count,
                "ttl": int(ttl / self._rate * 1e9),
                "owner": "" if held is None else held.owner,
            }

        hold.look("acquired", told)

    def _give_back(self, hold: Hold, outcome: str, reason: str) -> None:
        lock, note = hold.lock, self._journal.note
        while True:
            try:
                while count := lock.hold_count:
                    hold.look("release", partial(dict, hold_count=count))
                    result = "released"
                    try:
                        lock.release()
                    except LeaseLostError:
                        result = "lost"
                    note("released", attempt=hold.number, outcome=result, hold_count=lock.hold_count)
                note("done", attempt=hold.number, outcome=outcome, error=reason)
                return
            except KeyboardInterrupt:
                continue  # a second one must not leave the lock held
