"""Commands whose replies are due, and the calls that wait for them."""

from __future__ import annotations

from typing import NamedTuple

from ..model import Code
from ..procedures.port import Request
from ..rules.command_templates import Command
from ..rules.quorum import Ballot
from .runtime import Parker


class PendingCall:
    """A command that was sent to masters, and the ballot of their replies."""

    __slots__ = ("ballot", "deadline", "max_ttl", "over", "parker", "request")

    def __init__(self, request: Request, masters: int, max_ttl: float) -> None:
        self.request = request
        self.ballot = Ballot(masters if request.targets is None else len(request.targets), request.settle)
        self.deadline = 0.0
        #: The longest lease of the fleet by which the votes in the ballot were judged.
        self.max_ttl = max_ttl
        #: The caller works with the ballot: a later reply must not change it.
        self.over = False
        #: Wakes the thread or task that waits; None: it does not sleep.
        self.parker: Parker | None = None

    @property
    def asleep(self) -> bool:
        """Whether its thread or task waits, or reads for others."""
        return not self.over

    def unanswered(self) -> list[int]:
        """The masters that said neither yes nor no."""
        votes, targets = self.ballot.votes, self.request.targets
        asked = range(self.ballot.masters) if targets is None else targets
        return [i for i in asked if i not in votes or votes[i].code == Code.FAULT]


class PendingReply(NamedTuple):
    """A command whose reply is due on a connection, or that a master may not have received."""

    call: PendingCall | None
    command: Command
    sent_at: float
    resend_until: float  # no later than `sent_at`: it is not sent again
