"""The port: the methods through which procedures reach the masters, other threads and observers.

A procedure waits only by `yield from` a method of its port. The other methods never wait. `_sync` blocks in
place, `_async` yields futures to the event loop, the simulation waits in virtual time: one algorithm.
"""

import enum
import math
import os
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from random import Random
from typing import Any, NamedTuple, Protocol, TypeVar

from ..clock import Clock
from ..errors import QuorumUnreachableError
from ..events import PendingEvents
from ..rules.command_templates import Command
from ..rules.holds import Hold
from ..rules.keys import OWN, Wire, owner_token
from ..rules.options import LockOptions
from ..rules.quorum import Ballot, Settle, quorum
from ..rules.restart_guard import Guard
from ..rules.tickets import FleetTime, Place
from .contender import Contender, Grant

T = TypeVar("T")
#: A generator that yields where its driver has to wait, and returns a T. Only the driver reads the values.
WaitGenerator = Generator[Any, Any, T]
Targets = Sequence[int] | None  # masters by index; None: all of them


def new_owner(client: str) -> str:
    return owner_token(client, time.time_ns() // 1_000_000, os.urandom(9).hex())


@dataclass(frozen=True)
class ClientContext:
    masters: Sequence[str]  # their names, for messages
    clock: Clock
    random: Random
    guard: Guard
    client_id: str = ""  # names this client in the queues and in its channels
    time: FleetTime = field(default_factory=FleetTime)
    wire: Wire = OWN
    #: The masters that are groups, with the number of replicas that have to acknowledge a vote.
    groups: Mapping[int, int] = field(default_factory=dict)
    #: The servers that answer for the groups now, by their run_id.
    primaries: dict[int, str] = field(default_factory=dict)
    timed_out: dict[int, float] = field(default_factory=dict)  # when a command to a master did so last
    pending_events: PendingEvents = field(default_factory=PendingEvents)
    new_owner: Callable[[str], str] = new_owner  # makes an owner token

    @cached_property
    def quorum(self) -> int:
        return quorum(len(self.masters))


class Request(NamedTuple):
    """A command to masters whose replies somebody waits for. Times are seconds."""

    command: Command
    timeout: float
    settle: Settle = Settle.VERDICT
    targets: Targets = None
    resend_for: float = 0.0  # a master that cannot be reached gets it if it is back within this time
    count_late: bool = False  # the ballot also takes the replies that come when nobody waits any more
    wanted: Callable[[], bool] | None = None  # asked right before the first byte is sent; False: nothing is


class Masters(Protocol):
    context: ClientContext

    def call(self, request: Request) -> WaitGenerator[Ballot]:
        """Send a command and wait until the ballot is settled.

        Takes at most its time-out, and up to six times that if it has to connect again.
        """

    def call_many(self, requests: Sequence[Request]) -> WaitGenerator[list[Ballot]]:
        """Make several calls at once, pipelined. Returns their ballots, in order."""

    def collect(self, ballots: Sequence[Ballot], until: float = math.inf) -> WaitGenerator[None]:
        """Wait for the replies that came after the verdict, at most until ``until`` and the time-out."""

    def start(self, request: Request) -> Ballot:
        """Send a command, and wait for nothing: the ballot fills while this client reads for other calls."""

    def read_arrived(self) -> None:
        """Read the replies that have arrived, if the driver can do so at once. Waits for nothing."""

    def send(self, command: Command, targets: Targets = None, *, resend_for: float = 0.0) -> None:
        """Send a command to all masters (or ``targets``) and wait for nothing; the replies are dropped.

        Raises nothing. A master that cannot be reached gets it when it is back within ``resend_for`` seconds.
        """


class Wake(enum.IntEnum):
    """The reason to wake up; of several reasons the highest counts."""

    TIME = 0  # the instant has come
    FREE = 1  # a quorum of masters published to all waiters, or a subscription had to be made again
    HANDED = 2  # masters handed the lock to this waiter: a quorum, or fewer and no more came


class Notifications(Protocol):
    def is_subscribed(self, name: str) -> bool:
        """Whether a quorum of masters has confirmed the channels of this lock."""

    def subscribe(self, contender: Contender, timeout: float) -> WaitGenerator[int]:
        """Wait at most ``timeout`` seconds for a quorum's confirmation. Returns how many masters confirmed.

        The caller must `unsubscribe` in any case, also after an exception.
        """

    def wait(self, contender: Contender, until: float) -> WaitGenerator[Wake]:
        """Sleep until an instant, or until there is a reason to try. Returns the reason."""

    def unsubscribe(self, contender: Contender, *, withdrawn: bool) -> None:
        """Take this contender out of the waiters. A second call does nothing.

        ``withdrawn``: the caller removes its place from all masters, and passes on what they handed to it.
        """

    def polls_for(self, contender: Contender) -> Sequence[Place]:
        """The places of this process for which this waiter polls now. Empty: another waiter does so."""

    def doubt(self, contender: Contender) -> None:
        """Find out which connections still live: a poll found a release that no message told."""


@dataclass
class UnderWay:
    """The owner tokens that masters may have while no hold has them: `close` must undo them."""

    #: The options and the owner tokens of each acquire, by the id of its list of tokens.
    acquiring: dict[int, tuple[LockOptions, list[str]]] = field(default_factory=dict)
    #: Holds whose release the masters may not have received, by owner token.
    releasing: dict[str, Hold] = field(default_factory=dict)


class Port(Protocol):
    """The part of an engine that acquire and release use."""

    context: ClientContext
    masters: Masters
    notifications: Notifications
    under_way: UnderWay

    def enter(self, contender: Contender) -> WaitGenerator[bool]:
        """Wait until no other owner of this process asks the masters for this lock. False: too late."""

    def leave(self, contender: Contender) -> None:
        """Let the next owner of this process ask the masters. A second call does nothing."""

    def prepare(self, contender: Contender) -> WaitGenerator[None]:
        """Connect to the masters, and start the watchdog if needed. Raises `RLockError` if closed."""

    def admit(self, contender: Contender, grant: Grant) -> bool:
        """Add a grant to the table of holds. False: its validity has ended meanwhile."""

    def taken(self, name: str) -> bool:
        """Whether some owner of this process holds the lock with validity left."""

    def owns(self, contender: Contender) -> bool:
        """Whether its owner has the lock: a signal handler or a finalizer has acquired it meanwhile."""

    def report_place(self, contender: Contender) -> None:
        """Report, once, that a quorum of masters has this contender in its queue."""

    def report_failure(self, error: QuorumUnreachableError, failures: int) -> None:
        """Report a failed round before the next try; ``failures`` in a row have failed."""
