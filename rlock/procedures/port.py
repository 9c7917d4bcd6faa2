"""The port: everything that a procedure may ask of the world outside.

A procedure is a generator that holds one part of the algorithm. It waits only by `yield from` a method of its
port; all other methods of the port are plain calls that never wait. A driver implements the port: `_sync`
blocks in place, `_async` yields futures to the event loop, the simulation yields waits in virtual time. So
one text of the algorithm serves all of them. Nothing is logged or reported in a procedure: that is the port's
part, too.
"""

from __future__ import annotations

import enum
import math
from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ..clock import Clock
from ..events import News
from ..rules.command_templates import Command
from ..rules.keys import OWN, Wire
from ..rules.quorum import Ballot, Settle, quorum
from ..rules.restart_guard import Guard
from ..rules.tickets import FleetTime

if TYPE_CHECKING:
    from ..errors import QuorumUnreachableError
    from ..rules.holds import Hold
    from ..rules.options import LockOptions
    from .contender import Contender, Grant, LocalGrant

T = TypeVar("T")
#: A generator that yields where its driver has to wait, and returns a T. Only the driver knows the yielded
#: values.
WaitGenerator = Generator[Any, Any, T]


@dataclass(frozen=True)
class ClientContext:
    """What all procedures of one client share."""

    masters: Sequence[str]  # their names, for messages
    clock: Clock
    random: Random
    guard: Guard
    client_id: str = ""  # names this client in the queues and in its channels
    time: FleetTime = field(default_factory=FleetTime)
    wire: Wire = OWN

    @property
    def news(self) -> News:
        """Events that came up while a mutex was held."""
        return self.guard.news

    @cached_property
    def quorum(self) -> int:
        """Votes that win."""
        return quorum(len(self.masters))


class Request(NamedTuple):
    """One command for `Masters.call_many`; the fields are the arguments of `Masters.call`."""

    command: Command
    timeout: float
    settle: Settle = Settle.VERDICT
    targets: Sequence[int] | None = None
    resend_for: float = 0.0
    late: Command | None = None
    count_late: bool = False


class Masters(ABC):
    """The masters of one client, as procedures reach them."""

    context: ClientContext

    @abstractmethod
    def call(
        self,
        command: Command,
        timeout: float,
        settle: Settle = Settle.VERDICT,
        targets: Sequence[int] | None = None,
        *,
        resend_for: float = 0.0,
        late: Command | None = None,
    ) -> WaitGenerator[Ballot]:
        """Send a command to all masters (or ``targets``) and wait until the ballot is settled.

        Takes at most ``timeout`` seconds, and up to three times that if connections broke. A master that
        cannot be reached gets the command (or ``late`` in its place) when it is back within ``resend_for``
        seconds.
        """

    @abstractmethod
    def call_many(self, requests: Sequence[Request]) -> WaitGenerator[list[Ballot]]:
        """Make several calls at once, pipelined. Returns their ballots, in order."""

    @abstractmethod
    def collect(self, ballots: Sequence[Ballot], until: float = math.inf) -> WaitGenerator[None]:
        """Wait for the replies without which ballots were settled, at most until ``until`` and their time-
        out.
        """

    @abstractmethod
    def send(
        self, command: Command, targets: Sequence[int] | None = None, *, resend_for: float = 0.0
    ) -> None:
        """Send a command to all masters (or ``targets``) and wait for nothing; the replies are dropped.

        Raises nothing. A master that cannot be reached gets it when it is back within ``resend_for`` seconds.
        """


class Wake(enum.Enum):
    """Why a waiter wakes up."""

    TIME = "time"  # the instant has come
    FREE = "free"  # a quorum of masters published to all waiters, or a subscription had to be made again
    HANDED = "handed"  # masters handed the lock to this waiter: a quorum, or some and no more came
    GRANTED = "granted"  # a thread of this process released the lock in its favour: `Contender.local_grant`


class Notifications(ABC):
    """The channels of this client's waiters, as procedures use them."""

    @abstractmethod
    def is_subscribed(self, name: str) -> bool:
        """Whether a quorum of masters has confirmed the channels of this lock."""

    @abstractmethod
    def subscribe(self, contender: Contender, timeout: float) -> WaitGenerator[int]:
        """Subscribe and wait, at most ``timeout`` seconds, for a quorum's confirmation.

        Returns how many masters have confirmed. `unsubscribe` is owed in any case, also after an exception.
        """

    @abstractmethod
    def wait(self, contender: Contender, until: float) -> WaitGenerator[Wake]:
        """Sleep until an instant, or until there is a reason to try. Returns the reason."""

    @abstractmethod
    def unsubscribe(self, contender: Contender, *, left: bool) -> None:
        """From now on nobody takes this contender for a waiter. Twice is once.

        ``left``: its place goes from all masters now, so what they say of a later hand-off to it is old.
        """

    @abstractmethod
    def next_waiter(self, name: str) -> Contender | None:
        """The first of this process's own waiters, if it is asleep."""

    @abstractmethod
    def hand_over(self, contender: Contender, grant: LocalGrant) -> bool:
        """Wake a waiter of this process with a grant. False: it no longer waits."""


class UnderWay:
    """What close() has to take back:

    owner tokens of which the masters may know, and their owners may not yet.
    """

    __slots__ = ("acquiring", "handing_over", "releasing")

    def __init__(self) -> None:
        #: The options and the owner tokens of each acquire, by the id of its contender.
        self.acquiring: dict[int, tuple[LockOptions, list[str]]] = {}
        #: Holds that were given up and of which the masters may not know it, by owner token.
        self.releasing: dict[str, Hold] = {}
        #: Waiters of this process to which a release gives the lock, by the owner token that they get.
        self.handing_over: dict[str, Contender] = {}


class Port(ABC):
    """What acquire and release need beside the masters: the waiting and the table of holds of one client."""

    context: ClientContext
    masters: Masters
    notifications: Notifications
    under_way: UnderWay

    @abstractmethod
    def enter(self, contender: Contender) -> WaitGenerator[bool]:
        """Wait until no other owner of this process asks the masters for this lock. False:

        the time is over.
        """

    @abstractmethod
    def leave(self, contender: Contender) -> None:
        """Let the next owner of this process ask the masters. Twice is once."""

    @abstractmethod
    def prepare(self, contender: Contender) -> WaitGenerator[None]:
        """Have connections and, if the lock is to be renewed, a watchdog. Raises `RLockError` if closed."""

    @abstractmethod
    def admit(self, contender: Contender, grant: Grant) -> bool:
        """Take a grant into the table of holds. False: its validity has ended meanwhile."""

    @abstractmethod
    def taken(self, name: str) -> bool:
        """Whether some owner of this process holds the lock with validity left."""

    @abstractmethod
    def wants_queue_length(self, contender: Contender) -> bool:
        """Whether somebody observes the queue and was not told of this contender yet."""

    @abstractmethod
    def report_queued(self, contender: Contender, length: int) -> None:
        """A quorum of masters has this contender in the queue, behind which so many stand."""

    @abstractmethod
    def report_failure(self, error: QuorumUnreachableError, failures: int) -> None:
        """A round failed and is tried again; ``failures`` in a row."""
