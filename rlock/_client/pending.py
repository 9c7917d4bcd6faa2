"""A call on its way, and the replies that connections owe for it."""

from __future__ import annotations

from collections import deque
from collections.abc import Set
from typing import Any, NamedTuple

from ..model import Code, FaultKind
from ..procedures.port import Request
from ..rules.command_templates import Command
from ..rules.quorum import Ballot


class PendingCall:
    """A command on its way to the masters, and the ballot of its answers."""

    __slots__ = ("ballot", "deadline", "guard_time", "over", "parker", "request")

    def __init__(self, request: Request, masters: int, guard_time: float) -> None:
        self.request = request
        self.ballot = Ballot(masters if request.targets is None else len(request.targets), request.settle)
        self.deadline = 0.0
        #: How old a memory had to be for the votes in the ballot.
        self.guard_time = guard_time
        #: Its owner has gone on with the ballot: later answers change it no more.
        self.over = False
        #: Wakes the thread or task that waits for it; made by its driver.
        self.parker: Any = None

    def failed_by(self, kinds: Set[FaultKind]) -> bool:
        """Whether a master gave no vote for one of these reasons."""
        faults = (vote.fault for vote in self.ballot.votes.values())
        return any(fault is not None and fault.kind in kinds for fault in faults)

    def unanswered(self) -> list[int]:
        """The masters that said neither yes nor no."""
        votes, targets = self.ballot.votes, self.request.targets
        asked = range(self.ballot.masters) if targets is None else targets
        return [i for i in asked if i not in votes or votes[i].code == Code.FAULT]


class PendingReply(NamedTuple):
    """One reply that a connection owes, or one command that a master has not received."""

    call: PendingCall | None
    command: Command
    sent_at: float
    until: float  # it still means something on a later connection until then; 0.0: it does not


#: Commands that are kept for one unreachable master. The oldest go first: they end with their lease anyway.
MAX_REDELIVERIES = 10_000


class Redelivery:
    """Commands for masters that may not have received them."""

    def __init__(self, masters: int) -> None:
        self._kept: list[deque[PendingReply]] = [deque(maxlen=MAX_REDELIVERIES) for _ in range(masters)]

    def keep(self, master: int, pending: PendingReply) -> None:
        """Keep a command for a master, unless it means nothing on a later connection."""
        if pending.until:
            request = None if pending.call is None else pending.call.request
            command = pending.command if request is None or request.late is None else request.late
            self._kept[master].append(pending._replace(call=None, command=command))

    def take(self, master: int, now: float) -> list[PendingReply]:
        """The commands that a master has to get now, in order; they are kept no longer."""
        due = [pending._replace(sent_at=now) for pending in self._kept[master] if pending.until > now]
        self._kept[master].clear()
        return due
