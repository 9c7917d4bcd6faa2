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

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..model import Code, Fault, FaultKind, Vote
from .timing import UPTIME_ERROR_S, guard_time

log = logging.getLogger("rlock")

FLUSHED = "its memory was lost (FLUSHALL?)"
RESTARTED = "it restarted"
STRANGE = "it is empty, while other masters are not: flushed, or new here"

_CENTURY_S = 100 * 365.25 * 86400
#: Old enough, and not older than the clocks' year 0.
_DECADE_S = _CENTURY_S / 10


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

    __slots__ = ("handshake", "marked", "marker", "met_at", "votes_from", "why")

    def __init__(self, handshake: Handshake, met_at: float) -> None:
        self.handshake = handshake
        self.met_at = met_at
        #: The marker of this life was there when we came.
        self.marked = False
        #: The marker as it was last told.
        self.marker = ""
        #: From this instant on its votes count.
        self.votes_from = -math.inf
        self.why = ""


class Guard:
    """The masters of one client. Not thread-safe: the driver serialises the calls.

    ``seconds``: how old a master has to be; None: as `max_ttl` asks for; 0: any age, the guard is off.
    """

    def __init__(self, masters: Sequence[str], max_ttl: float, seconds: float | None = None) -> None:
        self._masters = masters
        self._seconds = seconds
        #: The longest lease of the fleet in seconds: ours, or a longer one that a marker tells of.
        self.max_ttl = max_ttl
        self._lives: list[Life | None] = [None for _ in masters]
        self._told: set[int] = set()

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
        return (
            f"{why}; it has no vote for {self.wait(master, now):.1f} s more, until no lease from before can "
            f"be valid (`rlock init` ends this, if nothing was locked before)"
        )

    def met(self, master: int, handshake: Handshake, now: float) -> float | None:
        """A connection was made. The age in seconds with which a marker is to be written; None: none is."""
        if not self.on:
            return None
        before, life = self._lives[master], Life(handshake, now)
        self._lives[master] = life
        marker = Marker.parse(handshake.marker)
        if marker is not None:
            self._heed(master, marker)
        ours = marker is not None and (handshake.durable or marker.life == handshake.run_id)
        if handshake.promoted and marker is not None and marker.life != handshake.run_id:
            ours = False  # a replica lacks the last moments of its master, durable or not
        if ours and marker is not None:
            life.marked, life.marker = True, handshake.marker
        known = before is not None and before.handshake.run_id == handshake.run_id
        changed = before is not None and not known and not handshake.durable
        if ours and marker is not None and not marker.since_us:
            age = math.inf  # the operator vouches for it
        elif before is not None and known and before.marker and not ours:
            age, life.why = 0.0, FLUSHED
        elif changed:
            # Its uptime goes by the wall clock, which may have been set since: we know better.
            age, life.why = 0.0, RESTARTED
        elif before is not None and known and handshake.run_id:
            # Of one life the first judgement stays: its age is now what it was then, and the time since.
            age, life.why = now + self.time - before.votes_from, before.why
        elif marker is not None and ours:
            age, life.why = self._marked_age(handshake, marker), "it restarted, or was flushed"
        elif handshake.promoted:
            age, life.why = 0.0, "it was a replica"
        elif marker is None and any(other is not None and other.marked for other in self._lives):
            age, life.why = 0.0, STRANGE
        elif handshake.durable:
            age = math.inf
        else:
            age, life.why = _uptime(handshake), "it started a short time ago"
        life.votes_from = now + self.time - age if age < self.time else -math.inf
        if marker is not None and ours:
            self._suspect_the_unmarked()
        if ours and marker is not None and marker.max_ttl_ms >= self.max_ttl_ms():
            return None
        return min(age, _DECADE_S)

    def told(self, master: int, text: str, now: float) -> bool:
        """A marker came with an answer; whether it is gone, and has to be written again."""
        life = self._lives[master]
        if life is None or text == life.marker:
            return False
        marker = Marker.parse(text)
        if marker is None:
            if not life.marker:
                return False  # not written yet, or we may not
            # Its locks are gone with it.
            life.marker, life.why = "", FLUSHED
            life.votes_from = now + self.time
            self._told.discard(master)
            return True
        life.marker = text
        self._heed(master, marker)
        handshake = life.handshake
        if marker.life == handshake.run_id:
            vouched = marker.since_us == 0
            old = handshake.time_us and handshake.time_us - marker.since_us >= self.time * 1e6
            if vouched or (old and not life.marked and life.votes_from > now):
                # Stated by the operator; or somebody came before us who knew more than we.
                life.votes_from = -math.inf
        return False

    def known(self, master: int, marker: str | None) -> bool:
        """Whether an answer with this marker brings no news, and its vote counts. Needs no clock."""
        life = self._lives[master]
        return life is None or (life.votes_from == -math.inf and (marker is None or marker == life.marker))

    def screen(self, master: int, vote: Vote, now: float, *, grants: bool) -> Vote:
        """A vote as it counts. ``grants``: YES would make a new holder, or a token."""
        life = self._lives[master]
        if life is None or not self.wait(master, now):
            if life is not None:
                life.votes_from = -math.inf
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

    def _marked_age(self, handshake: Handshake, marker: Marker) -> float:
        age = max(0.0, (handshake.time_us - marker.since_us) / 1e6) if handshake.time_us else 0.0
        if handshake.durable or handshake.uptime_s is None:
            return age
        # A note cannot be older than the server. The uptime is cut off, the time of the note is not: without
        # the second nobody would be older for all than for the first one who came.
        return min(age, _uptime(handshake) + UPTIME_ERROR_S)

    def _suspect_the_unmarked(self) -> None:
        # They connected first, and were taken for a fleet that nobody has used yet.
        for life in self._lives:
            if life is not None and not life.marked and not life.marker and life.votes_from == -math.inf:
                life.votes_from = life.met_at + self.time
                life.why = STRANGE

    def _heed(self, master: int, marker: Marker) -> None:
        longest = marker.max_ttl_ms / 1000
        if longest > self.max_ttl:
            log.warning(
                "%s knows a max_ttl of %g s, this client has %g s: the longer one is used; it has to be one "
                "value for the whole fleet",
                self._masters[master],
                longest,
                self.max_ttl,
            )
            before, self.max_ttl = self.time, longest
            for life in self._lives:
                if life is not None and life.votes_from > -math.inf:
                    life.votes_from += self.time - before

    def _tell(self, master: int, now: float) -> None:
        # Once, when a vote is needed that does not count: a look at the fleet is no reason to warn.
        if master not in self._told:
            self._told.add(master)
            log.warning("%s: %s", self._masters[master], self.fault(master, now))


def _uptime(handshake: Handshake) -> float:
    """The uptime that a server tells, if it can be true."""
    uptime = handshake.uptime_s
    if uptime is None or not 0 <= uptime < _CENTURY_S:
        return 0.0
    if handshake.time_us and uptime > handshake.time_us / 1e6:
        return 0.0  # older than time itself: its clock was set
    return uptime
