"""A round on its way, and the replies that connections owe for it."""

from __future__ import annotations

from collections import deque
from collections.abc import Set
from typing import Any, NamedTuple

from ..model import Code, FaultKind
from ..procedures.steps import Ask
from ..rules import commands
from ..rules.quorum import Ballot


class PendingCall:
    """A command on its way, and the ballot of its answers."""

    __slots__ = ("ask", "ballot", "deadline", "guard_time", "over", "parker")

    def __init__(self, ask: Ask, masters: int, guard_time: float) -> None:
        self.ask = ask
        self.ballot = Ballot(masters if ask.targets is None else len(ask.targets), ask.settle)
        self.deadline = 0.0
        #: How old a memory had to be for the votes in the ballot.
        self.guard_time = guard_time
        #: Its owner has gone on with the ballot: later answers change it no more.
        self.over = False
        #: The driver's own: what wakes the one who waits for it.
        self.parker: Any = None

    def failed_by(self, kinds: Set[FaultKind]) -> bool:
        """Whether a master gave no vote for one of these reasons."""
        faults = (vote.fault for vote in self.ballot.votes.values())
        return any(fault is not None and fault.kind in kinds for fault in faults)

    def unanswered(self) -> list[int]:
        """The masters that said neither yes nor no."""
        votes, targets = self.ballot.votes, self.ask.targets
        asked = range(self.ballot.masters) if targets is None else targets
        return [i for i in asked if i not in votes or votes[i].code == Code.FAULT]


#: Releases that one unreachable master may be owed; the oldest go first, they end with their lease anyway.
MAX_DEBTS = 10_000


class Redelivery:
    """What masters have to get when they are back, because they may not have got it."""

    def __init__(self, masters: int) -> None:
        self._redelivery: list[deque[PendingReply]] = [deque(maxlen=MAX_DEBTS) for _ in range(masters)]

    def note(self, master: int, pending: PendingReply) -> None:
        """A command that may be lost, if it is to be delivered late at all."""
        call = pending.round
        if pending.until:
            command = pending.command if call is None else call.ask.late
            self._redelivery[master].append(pending._replace(round=None, command=command))

    def settle(self, master: int, now: float) -> list[PendingReply]:
        """What it has to get now, in order; from here on it is owed nothing."""
        due = [pending._replace(sent_at=now) for pending in self._redelivery[master] if pending.until > now]
        self._redelivery[master].clear()
        return due


class PendingReply(NamedTuple):
    """One reply that a link owes, or one command that a master has not got."""

    round: PendingCall | None
    command: commands.Command
    sent_at: float
    until: float  # it still means something on a later connection until then; 0.0: it does not
