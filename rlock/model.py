"""The words: votes, faults, verdicts, states."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Code(enum.IntEnum):
    """What one master answered about one lock; the scripts use the same numbers."""

    HEALED = 2  # it was gone here, and was put back
    YES = 1  # granted, renewed, released, held
    ABSENT = 0  # nobody holds it here
    FOREIGN = -1  # someone else's
    NOT_A_LOCK = -2  # the key is something that no lock wrote
    QUEUED = -3  # nobody holds it here, and it is another waiter's turn
    FAULT = -9  # no answer that could be counted: neither yes nor no


class FaultKind(enum.Enum):
    """Why a master gave no vote."""

    DOWN = "down"  # no connection
    TIMEOUT = "timeout"  # connected, and no answer in time
    BROKEN = "broken"  # the connection ended before the answer
    ERROR = "error"  # it answered with an error that may pass: LOADING, OOM, MISCONF, ...
    DENIED = "denied"  # wrong password, or a permission is missing
    REPLICA = "replica"  # not a master
    DUPLICATE = "duplicate"  # the same server as another of the list
    GUARDED = "guarded"  # it granted, but its memory is younger than the longest lease
    UNJUDGED = "unjudged"  # it granted, and how old its memory is was not known yet


#: Faults that waiting does not mend: someone has to change a setting.
LASTING = frozenset({FaultKind.DENIED, FaultKind.REPLICA, FaultKind.DUPLICATE})


class Fault(NamedTuple):
    """Why a master gave no vote, for a program and for a person."""

    kind: FaultKind
    text: str


class Vote(NamedTuple):
    """One master's answer in a round."""

    code: Code
    holder: str = ""
    hold_count: int = 0
    ttl_ms: int = -2
    fault: Fault | None = None
    codes: Sequence[int] = ()  # one for each lock, in the answer to a batch
    ticket: int = 0  # the caller's place in this master's queue
    time_us: int = 0  # this master's clock
    length: int = 0  # of this master's queue
    queue: Sequence[tuple[str, int]] = ()  # who waits there, with their tickets
    token: int = 0  # the fencing token of a grant
    note: str | None = None  # the master's note, see rules/restart_guard.py; None: it was not asked for
    guarded: bool = False  # its memory is younger than the longest lease


class Verdict(enum.Enum):
    """What a round came to."""

    WON = "won"  # a quorum granted, and validity is left
    HELD = "held"  # a quorum named one other owner
    SPLIT = "split"  # a quorum may vote, and nobody was seen with a quorum
    UNREACHABLE = "unreachable"  # fewer masters than a quorum may vote
    TOO_LATE = "too late"  # a quorum granted, but no validity was left


class LeaseState(enum.Enum):
    """Where a hold stands."""

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
    """Somebody who stands in the queue of a lock.

    ``since`` is the Unix time in seconds at which it began to wait, by its own wall clock.
    """

    owner: str
    since: float | None


@dataclass(frozen=True)
class LockStatus:
    """What the masters say of one lock.

    ``holder`` is who has it on a quorum, or None. ``free`` is whether certainly nobody has it: without a
    holder it may still be held, by an owner whose votes are on masters that do not answer, or that restarted
    or were flushed a short time ago. ``since`` is the Unix time in seconds at which the winning attempt
    began, by the holder's own wall clock: for people, never for decisions. ``remaining`` is for how many
    seconds a quorum still has its key, unless it is renewed; None: no expiry, or no holder. ``quorum`` is
    how many votes a holder needs, and ``masters`` what each of them says. ``waiters`` are the first hundred
    who stand in the queue, in the order of their tickets; ``queue_length`` is how many there are. Of the
    threads of one client that wait in default mode only one stands in the queue.
    """

    name: str
    holder: str | None
    since: float | None
    hold_count: int
    remaining: float | None
    quorum: int
    masters: Sequence[MasterStatus] = field(default_factory=tuple)
    queue_length: int = 0
    waiters: Sequence[Waiter] = field(default_factory=tuple)
    free: bool = False

    @property
    def locked(self) -> bool:
        """Whether somebody holds it on a quorum."""
        return self.holder is not None


@dataclass(frozen=True)
class LockStatistics:
    """Who waits for a lock, as of the moment of the question: for people and gauges, not for decisions.

    ``queue_length``: places in the masters' queue; one for each waiting thread in fair mode, one for each
    waiting client in default mode. Waiters that died are in it until a release passes over them.
    ``position``: how many are before the first of the calling client; 0: it is next; None: it has none.
    ``local_waiters``: threads of the calling client that wait, in the queue or behind one that is.
    ``waiters``: the first hundred, in order.
    """

    name: str
    queue_length: int
    position: int | None
    local_waiters: int
    waiters: Sequence[Waiter]
