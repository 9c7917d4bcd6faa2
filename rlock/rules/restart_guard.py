"""The restart guard: which masters have a vote that counts.

A master that comes back without its memory would grant a lock that it has granted before. So its grants count
only when its memory is older than the longest lease. Source: "Distributed Locks with Redis" (redis.io),
"Performance, crash recovery and fsync", which leaves the delay to the operator.

A note on the master says since when its memory is whole. Only `lua/handshake.lua` writes an age into it, by
the clock of the master, and the scripts that grant, renew or heal return it in the same call. Here a client
turns a note into an instant of its own clock. It may be more careful than the note, never less.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ..events import MasterGuarded, MaxTtlDiffers, News, observed
from ..model import Code, Fault, FaultKind, Vote
from .timing import guard_time

NEW = "it is new, or restarted, or was flushed"
RESTARTED = "it restarted"
FLUSHED = "its memory was lost (FLUSHALL?)"
NO_INFO = "this user may not run INFO, so a restart before this connection cannot be seen (grant +info)"


#: All masters are met within this at the first use of a fleet, or it is taken for one that is in use.
FIRST_USE_S = 1.0


class Note(NamedTuple):
    """What the note of a master says."""

    run_id: str  # of the server that has it
    since_us: int  # since when its memory is whole, by its own clock; 0: an operator's word
    max_ttl_ms: int  # the longest lease that it granted

    @classmethod
    def parse(cls, text: str) -> Note | None:
        """None: there is none, or nothing that can be understood."""
        run_id, *numbers = text.rsplit(" ", 2)
        # 16 digits are the year 2286; more could not be computed with.
        if len(numbers) < 2 or not all(n.isascii() and n.isdigit() and len(n) <= 16 for n in numbers):
            return None
        return cls(run_id, int(numbers[0]), int(numbers[1]))


class Handshake(NamedTuple):
    """What a master told when a connection was made."""

    run_id: str = ""  # "": it does not tell
    memory: str = "volatile"  # as `lua/handshake.lua` has it: what a restart does to it
    note: str = ""
    time_us: int = 0


class Memory(NamedTuple):
    """The memory of one master, as this client judged its note."""

    note: str  # "": there is none, or one that is not judged yet; no grant counts
    since_us: int | None
    whole_from: float  # the local instant since when it is whole, or a later one
    run_id: str
    why: str  # it is no older, for people
    met_at: float  # the local instant of the handshake, or a later one


class Guard:
    """The masters of one client. Not thread-safe: the driver serialises the calls.

    ``seconds``: how old a memory has to be; None: as `max_ttl` asks for; 0: any age, the guard is off.
    """

    def __init__(self, masters: Sequence[str], max_ttl: float, seconds: float | None = None) -> None:
        self._masters = masters
        self._seconds = seconds
        #: The longest lease of the fleet in seconds: ours, or a longer one that a note tells of.
        self.max_ttl = max_ttl
        self._memories: list[Memory | None] = [None for _ in masters]
        self._reported: set[int] = set()
        self._first_use_over = False
        #: Events to be told when the driver's mutex is free.
        self.news = News()

    @property
    def on(self) -> bool:
        """Whether it guards."""
        return self._seconds != 0

    @property
    def time(self) -> float:
        """How old a memory has to be, in seconds."""
        least = guard_time(self.max_ttl)
        return least if self._seconds is None else max(self._seconds, least)

    def wait(self, master: int, now: float) -> float:
        """In how many seconds the grants of a master count; 0.0: they do."""
        memory = self._memories[master]
        return 0.0 if memory is None else max(0.0, memory.whole_from + self.time - now)

    def counts(self, master: int, note: str | None, now: float) -> bool:
        """Whether a grant that came with ``note`` counts; None: it came with none, the last one decides."""
        memory = self._memories[master]
        if memory is None or not memory.note or note not in (None, memory.note):
            return False
        return now >= memory.whole_from + self.time

    def fault(self, master: int, now: float) -> str:
        """Why a master has no vote, for people."""
        memory = self._memories[master]
        if memory is not None and not memory.note:
            return f"{memory.why}: how old its memory is has still to be found out"
        why, left = "" if memory is None else memory.why, self.wait(master, now)
        return f"{why}: it has no vote for {left:.1f} s more, while a lease from before may be valid"

    def run_id(self, master: int) -> str:
        """The run_id of a master, "" if it does not tell."""
        memory = self._memories[master]
        return "" if memory is None else memory.run_id

    def judge(
        self,
        master: int,
        told: Handshake,
        now: float,
        *,
        heard_at: float = -math.inf,
        new_connection: bool = True,
    ) -> None:
        """Take the note of a handshake, which has its age.

        ``heard_at``: when the connection of before gave its last answer, or an earlier instant.
        """
        if not self.on:
            return
        before, note = self._memories[master], Note.parse(told.note)
        if note is None:
            self._memories[master] = Memory("", None, now, told.run_id, FLUSHED if before else NEW, now)
            return
        self._raise_max_ttl(master, note)
        # `now` is later than the instant of the master's answer, so the memory is at least this old.
        whole_from = now - max(0, told.time_us - note.since_us) / 1e6 if note.since_us else -math.inf
        why = NEW
        if before is not None and note.since_us:
            if before.since_us == note.since_us:
                # The first judgement stays: this answer may have been read long after it came.
                whole_from, why = before.whole_from, before.why
            elif before.run_id != told.run_id or before.since_us is None or before.since_us < note.since_us:
                # This life began after the last answer of the one before, whatever its clock says: it may
                # have been set since. (Otherwise the memory is older than its note said: `first_use`.)
                whole_from = max(whole_from, heard_at)
                why = FLUSHED if before.run_id == told.run_id else RESTARTED
        if not told.run_id:
            # An old snapshot brings an old note back, and nothing tells it from the present one.
            whole_from = now if new_connection or before is None else max(whole_from, before.whole_from)
            why = NO_INFO
        self._memories[master] = Memory(told.note, note.since_us, whole_from, told.run_id, why, now)

    def first_use(self, now: float) -> list[tuple[int, str]]:
        """The masters that may be older than their notes, with these; asked for once, when all are known.

        None where a lease was granted since a note was written: then a master without grants may have lost
        its memory, or be another server than it was. None either where a note was read too long ago to know.
        """
        memories = [memory for memory in self._memories if memory is not None]
        if self._first_use_over or len(memories) < len(self._memories):
            return []
        self._first_use_over = True
        notes = [Note.parse(memory.note) for memory in memories]
        used = any(note is None or note.max_ttl_ms for note in notes)
        if used or any(now - memory.met_at > FIRST_USE_S for memory in memories):
            return []
        return [(i, memory.note) for i, memory in enumerate(memories) if self.wait(i, now) > 0.0]

    def recognise(self, master: int, text: str, now: float) -> bool:
        """Whether the note of an answer is the one that was judged; if not, only a handshake can judge it."""
        memory = self._memories[master]
        if memory is None or text == memory.note:
            return bool(text)
        note, known = Note.parse(text), Note.parse(memory.note)
        if note is not None and known is not None and note[:2] == known[:2]:
            # Only its longest lease has changed.
            self._memories[master] = memory._replace(note=text)
            self._raise_max_ttl(master, note)
            return True
        self._memories[master] = memory._replace(note="", whole_from=now, why=FLUSHED)
        self._reported.discard(master)
        return False

    def screen(self, master: int, vote: Vote, now: float, *, grants: bool) -> Vote:
        """A vote as it counts. ``grants``: YES would make a new holder, or a token."""
        if vote.fault is not None:
            return vote  # no answer: whoever adds up missing and young masters would count it twice
        if not self.on or self.counts(master, vote.note, now):
            self._reported.discard(master)
            return vote
        if vote.code == Code.YES and grants:
            self._report(master, now)
            memory = self._memories[master]
            kind = FaultKind.GUARDED if memory and memory.note else FaultKind.UNJUDGED
            return vote._replace(code=Code.FAULT, fault=Fault(kind, self.fault(master, now)), guarded=True)
        # A batch is looked into code by code; as a whole it must not settle a round.
        code = Code.FOREIGN if vote.codes and vote.code == Code.YES else vote.code
        return vote._replace(code=code, guarded=True)

    def _raise_max_ttl(self, master: int, note: Note) -> None:
        longest = note.max_ttl_ms / 1000
        if longest > self.max_ttl:
            self.news.note(MaxTtlDiffers(self._masters[master], longest, self.max_ttl))
            self.max_ttl = longest

    def _report(self, master: int, now: float) -> None:
        # When a vote is needed that does not count: a look at the fleet is no reason to warn.
        news = master not in self._reported
        if news or observed():
            self._reported.add(master)
            reason, left = self.fault(master, now), self.wait(master, now)
            self.news.note(MasterGuarded(self._masters[master], left, reason, news))
