"""A history in EDN, the form that Knossos and Elle read, for checkers that are not ours.

One map a line, ``:invoke`` and ``:ok`` for each operation. An owner is one outermost acquisition.

- ``acquire``: from the call to its return, with the fencing token. Acquires that did not get the lock say
  nothing about exclusion and are left out.
- ``share``: as acquire, for a reader. ``:within`` is the owner whose writer its thread held when it asked.
- ``release``: from the call to its return.
- ``expire``: the end of a validity without a release, as far as its holder knew, or an eviction. It has no
  return: the lock may stay taken for longer, and nobody may have it earlier.

``evidence/porcupine`` judges such a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import NamedTuple

from .checker import Eviction, end_of
from .history import Attempt, History


class Event(NamedTuple):
    """One line of the EDN form."""

    at: int
    #: Among events of one instant an invocation comes first: equal instants count as concurrent.
    order: bool
    process: int
    kind: str
    f: str
    lock: str
    owner: str
    token: int = 0
    within: str = ""

    def edn(self, index: int) -> str:
        """The line."""
        more = f", :token {self.token}" if self.token else ""
        more += f', :within "{self.within}"' if self.within else ""
        lock = self.lock.replace("\\", "\\\\").replace('"', '\\"')
        return (
            f"{{:index {index}, :process {self.process}, :type :{self.kind}, :f :{self.f}, "
            f':time {self.at}, :value ["{lock}" {{:owner "{self.owner}"{more}}}]}}'
        )


def events(history: History, evictions: Iterable[Eviction] = ()) -> list[Event]:
    """The operations of all holds, in the order of their instants."""
    holds, numbers, evicted = history.holds, count(), list(evictions)
    owners = {hold.id: hold.grant.owner for hold in holds}
    ends = [(hold, end_of(hold, evicted, owners)) for hold in holds]
    return sorted(event for hold, end in ends for event in _operations(hold, end, numbers))


def _operations(hold: Attempt, end: int, numbers: Iterator[int]) -> Iterator[Event]:
    def event(at: int, kind: str, f: str, token: int = 0, within: str = "") -> Event:
        return Event(at, kind != "invoke", process, kind, f, hold.lock, hold.id, token, within)

    # A process has one operation at a time, and the end of a validity is no call of the holder.
    process, how = next(numbers), "share" if hold.shared else "acquire"
    yield event(hold.asked_at, "invoke", how, within=hold.within)
    yield event(hold.grant.at, "ok", how, hold.grant.token)
    if hold.left_at is None or hold.left_at > end:
        process = next(numbers)
        # A holder that was stopped before `acquire` returned may have held the lock at an earlier time only.
        yield event(end if end > hold.grant.at else hold.grant.sent_after, "invoke", "expire")
        return
    yield event(hold.left_at, "invoke", "release")
    if hold.done_at is not None and hold.outcome == "got":
        yield event(hold.done_at, "ok", "release")


def write(path: Path, history: History, evictions: Iterable[Eviction] = ()) -> int:
    """Write the EDN form; how many operations it has."""
    found = events(history, evictions)
    path.write_text("".join(f"{event.edn(i)}\n" for i, event in enumerate(found)), encoding="utf-8")
    return sum(event.kind == "invoke" for event in found)
