"""Votes, faults, verdicts, states: the data that all layers share."""

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

AnyLock = TypeVar("AnyLock")


class Code(enum.IntEnum):
    """One master's answer about one lock; the scripts use the same numbers."""

    HEALED = 2  # the master had lost it, and it was put back
    YES = 1  # granted, renewed, released, held
    ABSENT = 0  # nobody holds it on this master
    FOREIGN = -1  # another owner holds it
    NOT_A_LOCK = -2  # no lock wrote this key
    QUEUED = -3  # nobody holds it on this master, and it is another waiter's turn
    FAULT = -9  # neither yes nor no


class FaultKind(enum.Enum):
    """Why a master gave no vote."""

    DOWN = "down"  # no connection
    TIMEOUT = "timeout"  # connected, and no answer in time
    BROKEN = "broken"  # the connection ended before the answer
    ERROR = "error"  # an error that may pass: LOADING, OOM, MISCONF, ...
    DENIED = "denied"  # wrong password, or a permission is missing
    REPLICA = "replica"  # not a master
    DUPLICATE = "duplicate"  # the same server as another of the list
    GUARDED = "guarded"  # it granted, but its memory is younger than the longest lease
    UNREPLICATED = "unreplicated"  # not all replicas of its group acknowledged the vote
    UNJUDGED = "unjudged"  # it granted, but the age of its memory was not known yet


#: These faults last until somebody changes a setting. Waiting does not help.
LASTING = frozenset({FaultKind.DENIED, FaultKind.REPLICA, FaultKind.DUPLICATE})


class Fault(NamedTuple):
    """Why a master gave no vote: a kind for programs, a text for people."""

    kind: FaultKind
    text: str


class Queue(NamedTuple):
    """The queue of a lock on one master."""

    length: int = 0
    waiters: Sequence[tuple[str, int]] = ()  # the first of them, with their tickets; in a status only
    readers: Sequence[str] = ()  # the readers that hold it, or are invited; in a status only


NO_QUEUE = Queue()


class Vote(NamedTuple):
    """One master's answer in a round."""

    code: Code
    holder: str = ""
    hold_count: int = 0
    ttl_ms: int = -2
    fault: Fault | None = None
    codes: Sequence[int] = ()  # one code for each lock, in the answer to a command about many locks
    ticket: int = 0  # of the caller in this master's queue
    time_us: int = 0  # this master's clock
    queue: Queue = NO_QUEUE
    token: int = 0  # the fencing token of a grant
    note: str | None = None  # the master's note, see rules/restart_guard.py; None: not requested
    guarded: bool = False  # its memory is younger than the longest lease


class ReadWriteLock(NamedTuple, Generic[AnyLock]):
    """Two locks of one name: many owners may hold the reader (shared), or one the writer (exclusive)."""

    reader: AnyLock
    writer: AnyLock


class Verdict(enum.Enum):
    """The outcome of a round."""

    WON = "won"  # a quorum granted, and validity is left
    HELD = "held"  # a quorum named one other owner
    SPLIT = "split"  # a quorum may vote, and no owner has a quorum
    UNREACHABLE = "unreachable"  # fewer masters than a quorum may vote
    TOO_LATE = "too late"  # a quorum granted, but no validity was left


class LeaseState(enum.Enum):
    """The state of a hold."""

    __hash__ = object.__hash__  # the hash of an enum is slow, and tables have it in their keys
    HELD = "held"
    SUSPECT = "suspect"  # a renewal failed; the validity has not ended
    LOST = "lost"  # ended without a release
    RELEASED = "released"


@dataclass(frozen=True)
class MasterStatus:
    """One master's view of one lock."""

    master: str
    holder: str | None  # None: nobody
    hold_count: int = 0
    remaining: float | None = None  # seconds; None: no expiry, or no holder
    fault: str | None = None  # set: this master gave no answer
    guarded: bool = False  # its memory is younger than the longest lease: its vote does not count yet


@dataclass(frozen=True)
class Waiter:
    """A waiter in the queue of a lock."""

    owner: str
    since: float | None  # the Unix time in seconds at which it began to wait, by its own wall clock


@dataclass(frozen=True)
class LockStatus:
    """The masters' answers about one lock.

    ``free``: certainly nobody has the lock. A lock without a holder may still be held, by an owner whose
    votes are on masters that do not answer, or that restarted or were flushed a short time ago. ``since`` is
    the Unix time in seconds by the holder's own wall clock: for people, never for decisions. In default mode
    all waiting threads of a client share one place in the queue.
    """

    name: str
    holder: str | None  # the owner on a quorum
    since: float | None  # when the winning attempt began
    hold_count: int
    remaining: float | None  # seconds for which a quorum still has the key; None: no expiry, or no holder
    quorum: int  # the votes that a holder needs
    masters: Sequence[MasterStatus] = ()
    queue_length: int = 0
    waiters: Sequence[Waiter] = ()  # the first hundred of the queue, in the order of their tickets
    free: bool = False
    readers: Sequence[Waiter] = ()  # on a quorum, also those to come next; ``holder`` is a word for all then

    @property
    def locked(self) -> bool:
        """Whether an owner holds it on a quorum."""
        return self.holder is not None
