"""Connection: one open connection to a master, the replies that are due on it, and its users.

redis-py or valkey-py opens it. After the handshake the client itself writes and reads, because a round has to
write to all masters before it reads from any.
"""

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from ..events import MasterAnswers, MasterFailed
from ..model import Code, Fault, FaultKind, Vote
from ..procedures.port import Request
from ..rules.command_templates import Command
from ..rules.quorum import Ballot
from .handshake import NO_TLS, HandshakeResult
from .libraries import Reader
from .runtime import Parker

#: Commands that are kept for one unreachable master. The oldest go first: their leases end first.
MAX_MISSED = 10_000
NOT_CONNECTED = Fault(FaultKind.DOWN, "not connected yet: it has not answered the first attempt so far")
NO_TLS_YET = Fault(FaultKind.DOWN, f"{NOT_CONNECTED.text}; {NO_TLS}")
#: A master flaps if within so many seconds so many connections ended or attempts failed with another fault.
FLAPS, FLAPS_S = 4, 60.0


def would_block(error: OSError) -> bool:
    # By name: a Python without OpenSSL has no module ssl.
    waits = type(error).__name__ in ("SSLWantReadError", "SSLWantWriteError")
    return waits or isinstance(error, BlockingIOError | InterruptedError)


class PendingCall(Ballot):
    __slots__ = ("deadline", "max_ttl", "over", "parker", "request")

    def __init__(self, request: Request, masters: int, max_ttl: float) -> None:
        super().__init__(masters if request.targets is None else len(request.targets), request.settle)
        self.request = request
        self.deadline = 0.0
        #: The longest lease of the fleet by which the votes in the ballot were judged.
        self.max_ttl = max_ttl
        self.over = False  # the caller works with the ballot: a later reply must not change it
        self.parker: Parker | None = None  # wakes the thread or task that waits; None: it does not sleep

    @property
    def asleep(self) -> bool:
        return not self.over

    def unanswered(self) -> list[int]:
        votes, targets = self.votes, self.request.targets
        asked = range(self.masters) if targets is None else targets
        return [i for i in asked if i not in votes or votes[i].code == Code.FAULT]


class PendingReply(NamedTuple):
    """A command whose reply is due on a connection, or that a master may not have received."""

    call: PendingCall | None
    command: Command
    sent_at: float
    resend_until: float  # no later than `sent_at`: it is not sent again


@dataclass
class Unacknowledged:
    votes: list[tuple[PendingReply, Vote]] = field(default_factory=list)  # with their commands
    behind: int | None = None  # commands that were sent behind the WAIT that is due; None: no WAIT is due
    replicas: int = 0  # that acknowledged the writes before the last WAIT


class Connection(ABC):
    #: Write; how many bytes the kernel took. Raises OSError: broken, or `would_block`.
    write: Callable[[bytes], int]

    def __init__(self, result: HandshakeResult, secrets: Sequence[str] = ()) -> None:
        self.memory_report, self.connection_id = result
        self.began_at = math.inf
        self.reader = Reader(secrets)
        #: Commands whose replies are due, in order. A subscriber connection has none.
        self.pending: deque[PendingReply] = deque()
        self.backlog = bytearray()
        #: When the oldest SUBSCRIBE or UNSUBSCRIBE without a reply was sent; the same, once it was late.
        self.asked_at = self.overdue_at = math.inf
        self.answered = False  # whether anything that could be read has arrived since the handshake
        self.ended = False
        self.last_reply_at = -math.inf  # when the last command was sent that has its reply
        #: The end of a grant that counts: `end_of_acquire`. None: no grant counts, so all replies are parsed.
        self.expected_end: bytes | None = None
        #: Of a group: the votes that its replicas have not acknowledged.
        self.unacknowledged = Unacknowledged()
        #: A reply had a note of unknown age, so the handshake script was sent again.
        self.awaits_handshake = False

    @property
    def undecided(self) -> list[PendingReply]:
        """The commands without a reply, or without the acknowledgement of the replicas."""
        return [*(pending for pending, _ in self.unacknowledged.votes), *self.pending]

    def send(self, packed: bytes) -> bool:
        """Write; the rest goes to the backlog. Whether to call `hold_back`. Raises OSError if broken."""
        if self.backlog:
            self.backlog += packed  # otherwise it would overtake the bytes before it
            return False
        try:
            taken = self.write(packed)
        except OSError as error:
            if not would_block(error):
                raise
            taken = 0
        if taken == len(packed):
            return False
        self.backlog += packed[taken:]
        return True

    def flush(self) -> bool:
        """Write the backlog. Returns and raises the same as `send`."""
        kept, self.backlog = bytes(self.backlog), bytearray()
        return self.send(kept)

    @abstractmethod
    def close(self) -> None:
        """Close, and send nothing to the peer."""

    def abandon(self) -> None:
        """In a forked child: close its copy of the socket. The peer and the parent must not notice."""
        self.close()


L = TypeVar("L", bound=Connection)


@dataclass(eq=False)
class MasterConnection(Generic[L]):
    index: int
    endpoint: Any
    connection: L | None = None
    fault: Fault = NOT_CONNECTED  # why there is no connection
    failures: int = 0  # attempts that failed in a row
    probe_at: float = -math.inf  # when the next attempt is due
    is_connecting: bool = False
    attempted_at: float = math.inf  # when the last attempt began
    faults_at: deque[float] = field(default_factory=lambda: deque([-math.inf] * FLAPS, FLAPS))
    #: The last event that the log did not get, because the master flaps.
    untold: MasterFailed | MasterAnswers | None = None
    #: Connections that ended with replies due: see `ConnectOptions.kill`.
    kill: list[tuple[str, int]] = field(default_factory=list)
    #: Commands that it may not have received.
    missed: deque[PendingReply] = field(default_factory=lambda: deque(maxlen=MAX_MISSED))
    #: Until then the client tries to connect even if nobody uses it, to deliver the missed commands.
    reconnect_until: float = -math.inf
    refusal: Fault | None = None  # why its last reply was no vote; None: it was one
    last_reply_at: float = -math.inf  # `Connection.last_reply_at` of the connection before this one


class Traffic(Generic[L]):
    """The calls or the subscriptions of a client, as their connections use them."""

    check_at: float = math.inf  # when `drop_overdue` is due

    def on_connect(self, server: MasterConnection[L], connection: L) -> None:
        """Use a new connection. With the mutex."""

    def on_data(self, server: MasterConnection[L], connection: L, data: bytes) -> None:
        """Handle bytes that have arrived; none: the reader has them. With the mutex."""

    def on_drop(self, server: MasterConnection[L], connection: L, fault: Fault) -> None:
        """See to the replies that were due on a connection that has ended. With the mutex."""

    def after_data(self) -> None:
        """Do what the data demand and what must not be done with the mutex."""

    def drop_overdue(self, now: float) -> None:
        """Drop connections whose replies were overdue at ``now``, without the mutex.

        All that had arrived by then was read. A later instant would drop connections whose replies came
        while the thread or task was kept from running.
        """
