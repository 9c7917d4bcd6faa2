"""The age of one master's memory, by the note on that master.

The note is the key `rlock:fleet`; only `lua/handshake.lua` writes an age into it, by the master's clock. Here
a client turns it into an instant of its own clock. The client may be more careful than the note, never less.
"""

from __future__ import annotations

import math
from typing import NamedTuple

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
    def parse(cls, text: str) -> Note | None:
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

    def of_group(self, replication_id: str) -> MemoryReport:
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


#: The epoch of a master before its first handshake.
UNKNOWN = MemoryEpoch("", None, -math.inf, "", NEW, -math.inf)


def judge(
    report: MemoryReport, before: MemoryEpoch, now: float, last_reply_at: float, *, new_connection: bool
) -> MemoryEpoch:
    """Judge the report of a handshake, given the epoch that was known before it.

    ``last_reply_at``: when the previous connection got its last reply, or an earlier instant.
    """
    note = Note.parse(report.note)
    if note is None:
        return MemoryEpoch("", None, now, report.run_id, NEW if before is UNKNOWN else FLUSHED, now)
    # The master replied before `now`, so its memory is at least this old.
    whole_from = now - max(0, report.time_us - note.since_us) / 1e6 if note.since_us else -math.inf
    reason = NEW
    if before is not UNKNOWN and note.since_us:
        if before.first_us == note.first_us:
            # The same memory: keep the first estimate, because this reply may have been read late.
            whole_from, reason = before.whole_from, before.reason
        elif before.run_id != report.run_id or before.first_us is None or before.first_us < note.first_us:
            # This memory began after the last reply of the one before. By the master's clock it may be
            # older, because somebody may have set that clock.
            whole_from = max(whole_from, last_reply_at)
            reason = FLUSHED if before.run_id == report.run_id else RESTARTED
        # Else the memory is older than its note said: `Guard.first_use`.
    if not report.run_id:
        # A snapshot may have restored an old note, and without a run_id nothing shows it.
        whole_from = now if new_connection or before is UNKNOWN else max(whole_from, before.whole_from)
        reason = NO_INFO
    return MemoryEpoch(report.note, note.first_us, whole_from, report.run_id, reason, now)
