"""The restart guard: which masters have a vote that counts.

A master that lost its memory would grant a lock again. So its grants count only when its memory is older than
the longest lease. Source: "Distributed Locks with Redis" (redis.io), "Performance, crash recovery and fsync".

The note is the key `rlock:fleet`; only `lua/handshake.lua` writes an age into it, by the master's clock. Here
a client turns it into an instant of its own clock. The client may be more careful than the note, never less.
"""

import math
from collections.abc import Callable
from typing import NamedTuple, Self

from ..model import Code, Fault, FaultKind, Vote
from .quorum import quorum
from .timing import MAX_TTL_S, guard_time

#: A fleet that is connected within this time may be at its first use; a slower one is taken for used.
FIRST_USE_S = 1.0

NEW = "it is new, or restarted, or was flushed"
RESTARTED = "it restarted"
FLUSHED = "its memory was lost (FLUSHALL?)"
NO_INFO = "this user may not run INFO, so a restart before this connection cannot be seen (grant +info)"


class Note(NamedTuple):
    run_id: str  # of the server that has it
    first_us: int  # the first since_us of this memory: its clock may have been set back behind that
    since_us: int  # since when its memory is whole, by its own clock; 0: an operator stated it
    max_ttl_ms: int  # the longest lease that it granted

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """The note in a text; None: the text is empty or not understood."""
        run_id, *numbers = text.rsplit(" ", 2)
        # 16 digits reach the year 2286; longer numbers would overflow a conversion to seconds.
        if len(numbers) < 2 or not all(n.isascii() and n.isdigit() and len(n) <= 16 for n in numbers):
            return None
        # The mark of a durable life decides in `lua/handshake.lua` only.
        run_id, _, first_us = run_id.removesuffix(":durable").partition("@")
        first_us = first_us if first_us.isascii() and first_us.isdigit() else numbers[0]
        return cls(run_id, int(first_us[:16]), int(numbers[0]), int(numbers[1]))


def same_memory(text: str | None, other: str | None) -> bool:
    """Whether two notes are of one memory. Their longest leases may differ."""
    note, before = Note.parse(text or ""), Note.parse(other or "")
    return note is not None and before is not None and note[:2] == before[:2]


class MemoryReport(NamedTuple):
    """The answers of a master to a new connection about its memory."""

    run_id: str = ""  # "": this user may not run INFO; of a group: `<run_id>+<replication id>`
    memory: str = "volatile"  # its kind in `lua/handshake.lua`: what a restart does to it
    note: str = ""
    time_us: int = 0

    def of_group(self, replication_id: str) -> Self:
        """The report of a group's primary: of one life as a primary, and never durable."""
        return self._replace(run_id=f"{self.run_id}+{replication_id}", memory="volatile")

    @property
    def server(self) -> str:
        return self.run_id.partition("+")[0]

    @property
    def replication_id(self) -> str:
        """Of the primary of a group: each promotion changes it."""
        return self.run_id.partition("+")[2]


class MemoryEpoch(NamedTuple):
    """One life of a master's memory, as this client judged it."""

    note: str  # "": no note, or one that no handshake has judged yet; no grant counts
    first_us: int | None
    whole_from: float  # since when the memory is whole, by the client's clock, or a later instant
    run_id: str
    reason: str  # why it is no older, for people
    judged_at: float


UNKNOWN = MemoryEpoch("", None, -math.inf, "", NEW, -math.inf)


class Guard:
    """The memory epochs of all masters of one client. Not thread-safe: the driver serialises the calls.

    ``seconds``: how old a memory has to be; None: as `max_ttl` demands; 0: any age, the guard is off.
    """

    def __init__(self, masters: int, max_ttl: float, seconds: float | None = None) -> None:
        self._seconds = seconds
        self.on = seconds != 0
        #: The longest lease of the fleet in seconds: the client's ``own``, or a longer one in a note.
        self.max_ttl = self.own = max_ttl
        #: The longest lease in seconds that the notes of a quorum have: a longer one must be noted first.
        self.noted = 0.0 if self.on else math.inf
        self._epochs = [UNKNOWN] * masters
        self._reported: set[int] = set()
        self._first_use_over = False
        #: Called with a master whose grant did not count, and with True if that is news.
        self.on_uncounted: Callable[[int, bool], object] = lambda master, news: None
        #: Called with a master that knows a longer lease, the lease, and the longest one before.
        self.on_longer: Callable[[int, float, float], object] = lambda master, longest, before: None

    @property
    def time(self) -> float:
        least = guard_time(self.max_ttl)
        return least if self._seconds is None else max(self._seconds, least)

    def remaining(self, master: int, now: float) -> float:
        return max(0.0, self._epochs[master].whole_from + self.time - now)

    def counts(self, master: int, note: str | None, now: float) -> bool:
        """Whether a grant that came with ``note`` counts; None: it came without, so the known one decides."""
        epoch = self._epochs[master]
        judged = bool(epoch.note) and note in (None, epoch.note)
        return judged and now >= epoch.whole_from + self.time

    def fault(self, master: int, now: float) -> str:
        epoch = self._epochs[master]
        if not epoch.note:
            return f"{epoch.reason}: the age of its memory is not known yet"
        rest = self.remaining(master, now)
        return f"{epoch.reason}: it has no vote for {rest:.1f} s more, while a lease from before may be valid"

    def run_id(self, master: int) -> str:
        """The run_id of a master; "": not known."""
        return self._epochs[master].run_id

    def judge(
        self,
        master: int,
        report: MemoryReport,
        now: float,
        *,
        last_reply_at: float = -math.inf,
        new_connection: bool = True,
    ) -> None:
        """Judge the report of a handshake: only a handshake tells the age of a memory.

        ``last_reply_at``: when the previous connection got its last reply, or an earlier instant.
        """
        if not self.on:
            return
        note, before, run_id = Note.parse(report.note), self._epochs[master], report.run_id
        first_us, whole_from, reason = None, now, NEW if before is UNKNOWN else FLUSHED
        if note is not None:
            # The master replied before `now`, so its memory is at least this old.
            whole_from = now - max(0, report.time_us - note.since_us) / 1e6 if note.since_us else -math.inf
            first_us, reason = note.first_us, NEW
            if before is not UNKNOWN and note.since_us:
                if before.first_us == first_us:
                    # The same memory: keep the first estimate, because this reply may have been read late.
                    whole_from, reason = before.whole_from, before.reason
                elif before.run_id != run_id or before.first_us is None or before.first_us < first_us:
                    # It began behind the last reply of the one before, whatever the master's clock says.
                    whole_from = max(whole_from, last_reply_at)
                    reason = FLUSHED if before.run_id == run_id else RESTARTED
                # Else the memory is older than its note said: `first_use`.
            if not run_id:
                # A snapshot may have restored an old note, and without a run_id nothing shows it.
                is_new = new_connection or before is UNKNOWN
                whole_from = now if is_new else max(whole_from, before.whole_from)
                reason = NO_INFO
        text = "" if note is None else report.note
        self._epochs[master] = MemoryEpoch(text, first_us, whole_from, run_id, reason, now)
        self._read_longest(master)

    def first_use(self, now: float) -> list[tuple[int, str]]:
        """The masters whose memory may be older than their notes say, with these notes.

        The answer comes once, after the first handshake of every master; later calls return an empty list.
        Empty if a master has granted a lease since its note was written: then a master without grants may
        have lost its memory, or be another server. Empty if a note was read too long ago to be sure.
        """
        if self._first_use_over or UNKNOWN in self._epochs:
            return []
        self._first_use_over = True
        notes = [Note.parse(epoch.note) for epoch in self._epochs]
        used = any(note is None or note.max_ttl_ms for note in notes)
        if used or any(now - epoch.judged_at > FIRST_USE_S for epoch in self._epochs):
            return []
        return [(i, epoch.note) for i, epoch in enumerate(self._epochs) if self.remaining(i, now) > 0.0]

    def check_note(self, master: int, text: str, now: float) -> bool:
        """Whether the note of a reply is the one that was judged. If not, only a handshake can judge it."""
        epoch = self._epochs[master]
        if epoch is UNKNOWN or text == epoch.note:
            return bool(text)
        if same_memory(text, epoch.note):
            # Only its longest lease has changed.
            self._epochs[master] = epoch._replace(note=text)
            self._read_longest(master)
            return True
        self._epochs[master] = epoch._replace(note="", whole_from=now, reason=FLUSHED)
        self._reported.discard(master)
        self._read_longest(master)
        return False

    def filter_vote(self, master: int, vote: Vote, now: float, *, grants: bool) -> Vote:
        """The vote as it counts. ``grants``: a YES would make a new holder, or a fencing token."""
        if vote.fault is not None:
            return vote  # Not `guarded`: `may_be_held` would count a failed master twice.
        if not self.on or self.counts(master, vote.note, now):
            self._reported.discard(master)
            return vote
        if vote.code == Code.YES and grants:
            # Only for a grant that does not count: reading the state of a fleet is no reason for a warning.
            news = master not in self._reported
            self._reported.add(master)
            self.on_uncounted(master, news)
            kind = FaultKind.GUARDED if self._epochs[master].note else FaultKind.UNJUDGED
            return vote._replace(code=Code.FAULT, fault=Fault(kind, self.fault(master, now)), guarded=True)
        # A batch is judged lock by lock. Its YES as a whole would settle the round.
        code = Code.FOREIGN if vote.codes and vote.code == Code.YES else vote.code
        return vote._replace(code=code, guarded=True)

    def _read_longest(self, master: int) -> None:
        notes = [Note.parse(epoch.note) for epoch in self._epochs]
        leases = [0.0 if note is None else min(note.max_ttl_ms / 1000, MAX_TTL_S) for note in notes]
        self.noted = sorted(leases, reverse=True)[quorum(len(leases)) - 1]
        # It falls when an operator has stated for all memories that no lease is older (`rlock init`).
        vouched = all(note is not None and note.since_us == 0 for note in notes)
        longest = max(self.own if vouched else self.max_ttl, *leases)
        if longest > self.max_ttl:
            self.on_longer(master, longest, self.max_ttl)
        self.max_ttl = longest
