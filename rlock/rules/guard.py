"""The restart guard: which masters of a fleet have a countable vote.

A master that comes back without its memory would grant a lock that it has granted before. So its vote
counts only when no vote of an earlier life can be valid any more: when the master is older than the longest
lease. Source: "Distributed Locks with Redis" (redis.io), "Performance, crash recovery and fsync", which
leaves the delay to the operator.

How old a master's memory is, is told by

- its uptime, and its `run_id`, which is another one after each restart;
- the marker, a key that a restart without memory or a FLUSHALL takes with it;
- what this process has seen itself: a server that is another one than before has just been started.

The least of these counts. The check belongs to a connection, because a restart ends them all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..events import MasterGuarded, MaxTtlDiffers, News, observed
from ..model import Code, Fault, FaultKind, Vote
from .timing import UPTIME_ERROR_S, guard_time

FLUSHED = "its memory was lost (FLUSHALL?)"
RESTARTED = "it restarted"
STRANGE = "it is empty, while other masters are not: flushed, or new here"

_CENTURY_S = 100 * 365.25 * 86400
#: Old enough, and not older than the clocks' year 0.
_DECADE_S = _CENTURY_S / 10
#: From when on the votes of a life count that was always old enough.
_LONG_AGO = -math.inf


class Marker(NamedTuple):
    """What the marker of a master says."""

    life: str  # the run_id of the server that had it
    since_us: int  # from when on its memory is whole, by its own clock; 0: the operator vouches for it
    max_ttl_ms: int  # the longest lease of the fleet

    @classmethod
    def parse(cls, text: str) -> Marker | None:
        """None: there is none, or nothing that can be understood."""
        life, *numbers = text.rsplit(" ", 2)
        if len(numbers) < 2 or not all(number.isascii() and number.isdigit() for number in numbers):
            return None
        since_us, max_ttl_ms = map(int, numbers)
        return cls(life, since_us, max_ttl_ms)


@dataclass(frozen=True)
class Handshake:
    """What a master told of itself when a connection was made."""

    run_id: str = ""  # "": it does not tell
    uptime_s: float | None = None  # None: it does not tell
    time_us: int = 0  # 0: it does not tell
    marker: str = ""
    durable: bool = False  # nothing that was answered is lost by a restart
    promoted: bool = False  # it was a replica once


class Life:
    """One master from one loss of memory to the next, as this client knows it."""

    __slots__ = ("age", "due", "handshake", "known_at", "marked", "marker", "votes_from", "why")

    def __init__(self, handshake: Handshake, now: float) -> None:
        self.handshake = handshake
        #: How old its memory was, in seconds, at the instant ``known_at``; and why no older, for people.
        self.age, self.known_at, self.why = 0.0, now, ""
        #: From this instant on its votes count.
        self.votes_from = -math.inf
        #: A note that was not ours says that it is old.
        self.marked = False
        #: The marker as it was last told.
        self.marker = ""
        #: A marker is to be written.
        self.due = False

    def is_of(self, marker: Marker) -> bool:
        """Whether a marker was written in this life; who may not ask for the run_id takes any for one."""
        return not self.handshake.run_id or marker.life == self.handshake.run_id


class Guard:
    """The masters of one client. Not thread-safe: the driver serialises the calls.

    ``seconds``: how old a master has to be; None: as `max_ttl` asks for; 0: any age, the guard is off.
    """

    def __init__(self, masters: Sequence[str], max_ttl: float, seconds: float | None = None) -> None:
        self._masters = masters
        self._seconds = seconds
        #: The longest lease of the fleet in seconds: ours, or a longer one that a marker tells of.
        self.max_ttl = self._own_max_ttl = max_ttl
        self._lives: list[Life | None] = [None for _ in masters]
        #: How often something came up by which what was known may be so no more.
        self.changes = 0
        self._told: set[int] = set()
        #: What is to be told, by who serialises the calls, when others may call again.
        self.news = News()

    @property
    def on(self) -> bool:
        """Whether it guards."""
        return self._seconds != 0

    @property
    def time(self) -> float:
        """How old a master has to be, in seconds."""
        least = guard_time(self.max_ttl)
        return least if self._seconds is None else max(self._seconds, least)

    def wait(self, master: int, now: float) -> float:
        """In how many seconds the votes of a master count; 0.0: they do."""
        life = self._lives[master]
        return 0.0 if life is None else max(0.0, life.votes_from - now)

    def fault(self, master: int, now: float) -> str:
        """Why a master has no vote, for people."""
        life = self._lives[master]
        why = "" if life is None else life.why
        left = self.wait(master, now)
        return f"{why}: it has no vote for {left:.1f} s more, while a lease from before may be valid"

    def met(self, master: int, handshake: Handshake, now: float) -> None:
        """A connection was made."""
        if not self.on:
            return
        before, life = self._lives[master], Life(handshake, now)
        self._lives[master] = life
        self.changes += 1
        marker = Marker.parse(handshake.marker)
        self._heed(master, marker)
        # Without a restart, or in spite of it; but a replica lacks the last moments of its master.
        ours = marker is not None and (life.is_of(marker) or (handshake.durable and not handshake.promoted))
        if ours:
            life.marked, life.marker = True, handshake.marker
        life.due = not ours or (marker is not None and marker.max_ttl_ms < self.max_ttl_ms())
        age, life.why = self._age(before, life, marker if ours else None, now)
        self._date(life, age, now)
        if ours:
            self._suspect_the_unmarked()

    def _age(self, before: Life | None, life: Life, marker: Marker | None, now: float) -> tuple[float, str]:
        """The least age that anything tells, and why it is no more. ``marker``: the one of this life."""
        handshake = life.handshake
        if marker is not None and not marker.since_us and life.is_of(marker):
            return math.inf, ""  # the operator vouches for it
        # Configured so, and its memory is there: not if its disk was left behind.
        durable = handshake.durable
        if before is not None:
            durable = durable and before.handshake.durable and (marker is not None or not before.marker)
            if before.handshake.run_id != handshake.run_id:
                if not durable:
                    # Its uptime goes by the wall clock, which may have been set since: we know better.
                    return 0.0, RESTARTED
            elif before.marker and (marker is None or _rewritten(before, marker)):
                return 0.0, FLUSHED
            elif handshake.run_id:
                # Of one life the first judgement stays.
                return before.age + now - before.known_at, before.why
        if marker is not None:
            return self._marked_age(handshake, marker), "it is new, or restarted, or was flushed"
        if handshake.promoted:
            return 0.0, "it was a replica"
        if any(other is not None and other.marked for other in self._lives):
            return 0.0, STRANGE
        return (math.inf, "") if durable else (_uptime(handshake), "it is new, or restarted")

    def told(self, master: int, text: str, now: float) -> float | None:
        """A marker came with an answer. The age in seconds with which one is to be written; None: none is."""
        life = self._lives[master]
        if life is None:
            return None
        self.changes += 1
        marker = Marker.parse(text)
        if text != life.marker:
            self._heed(master, marker)
            if (marker is None and life.marker) or (marker is not None and _rewritten(life, marker)):
                # Its locks are gone with it; somebody else may have been the first to see that.
                life.due, life.why, life.marked = marker is None, FLUSHED, False
                self._date(life, 0.0, now)
                self._told.discard(master)
            elif marker is not None and life.is_of(marker):
                self._believe(life, marker)
            life.marker = text if marker is not None else ""
        if not life.due:
            return None
        life.due = False
        if not life.marked and None in self._lives:
            return 0.0  # until all masters are met, nobody knows whether this one alone is empty
        return min(life.age + now - life.known_at, _DECADE_S)

    def _believe(self, life: Life, marker: Marker) -> None:
        """The operator, or somebody who came before us, knows more than we."""
        since_us, time_us = marker.since_us, life.handshake.time_us
        old = bool(time_us) and time_us - since_us >= self.time * 1e6
        if not since_us:
            self._date(life, math.inf, life.known_at)
        elif not life.marked:
            self._date(life, max(life.age, self._marked_age(life.handshake, marker)), life.known_at)
        life.marked = life.marked or not since_us or old

    def _date(self, life: Life, age: float, now: float) -> None:
        """Set the age of a life as of now."""
        life.age, life.known_at = age, now
        life.votes_from = now + self.time - age if age < self.time else -math.inf

    def known(self, master: int, marker: str | None) -> bool:
        """Whether an answer with this marker brings no news, and its vote counts. Needs no clock."""
        life = self._lives[master]
        if life is None:
            return True
        return life.votes_from == _LONG_AGO and (marker is None or (marker == life.marker and not life.due))

    def screen(self, master: int, vote: Vote, now: float, *, grants: bool) -> Vote:
        """A vote as it counts. ``grants``: YES would make a new holder, or a token."""
        life = self._lives[master]
        if life is None or not self.wait(master, now):
            if life is not None:
                life.votes_from = _LONG_AGO
                self._told.discard(master)
            return vote
        if vote.code == Code.YES and grants:
            self._tell(master, now)
            fault = Fault(FaultKind.GUARDED, self.fault(master, now))
            return vote._replace(code=Code.FAULT, fault=fault, guarded=True)
        # A batch is looked into code by code; as a whole it must not settle a round.
        code = Code.FOREIGN if vote.codes and vote.code == Code.YES else vote.code
        return vote._replace(code=code, guarded=True)

    def life(self, master: int) -> str | None:
        """The run_id of a master; None: it was never met."""
        life = self._lives[master]
        return None if life is None else life.handshake.run_id

    def max_ttl_ms(self) -> int:
        """What a marker is to say of the longest lease."""
        return math.ceil(self.max_ttl * 1000)

    def own_max_ttl_ms(self) -> int:
        """The same, whatever other clients have; what an operator says goes before."""
        return math.ceil(self._own_max_ttl * 1000)

    def _marked_age(self, handshake: Handshake, marker: Marker) -> float:
        age = max(0.0, (handshake.time_us - marker.since_us) / 1e6) if handshake.time_us else 0.0
        if handshake.durable or handshake.uptime_s is None:
            return age
        # A note cannot be older than the server. The uptime is cut off, the time of the note is not: without
        # the second nobody would be older for all than for the first one who came.
        return min(age, _uptime(handshake) + UPTIME_ERROR_S)

    def _suspect_the_unmarked(self) -> None:
        # They connected first, and were taken for a fleet that nobody has used yet.
        # Young or old: its uptime says nothing about a flush.
        for life in self._lives:
            if life is not None and not life.marked and life.age:
                self._date(life, 0.0, life.known_at)
                life.why = STRANGE

    def _heed(self, master: int, marker: Marker | None) -> None:
        if marker is None or marker.max_ttl_ms <= self.max_ttl_ms():
            return
        longest = marker.max_ttl_ms / 1000
        self.news.note(MaxTtlDiffers(self._masters[master], longest, self.max_ttl))
        self.max_ttl = longest
        for life in self._lives:
            if life is not None:
                self._date(life, life.age, life.known_at)

    def _tell(self, master: int, now: float) -> None:
        # When a vote is needed that does not count: a look at the fleet is no reason to warn.
        news = master not in self._told
        if news or observed():
            self._told.add(master)
            reason, left = self.fault(master, now), self.wait(master, now)
            self.news.note(MasterGuarded(self._masters[master], left, reason, news))


def _rewritten(life: Life, marker: Marker) -> bool:
    """Whether the note of this life was lost and written anew: else it only ever becomes the operator's."""
    before = Marker.parse(life.marker)
    if before is None or not marker.since_us:
        return False
    if marker.life == before.life:
        return marker.since_us != before.since_us  # earlier, too: the clock may have been set back
    # A durable master keeps the note of a former life; a new one that is older than our connection is only
    # a correction by somebody who did not know that.
    return marker.since_us > life.handshake.time_us


def _uptime(handshake: Handshake) -> float:
    """The uptime that a server tells, if it can be true."""
    uptime = handshake.uptime_s
    if uptime is None or not 0 <= uptime < _CENTURY_S:
        return 0.0
    if handshake.time_us and uptime > handshake.time_us / 1e6:
        return 0.0  # older than time itself: its clock was set
    return uptime
