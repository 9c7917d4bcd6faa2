"""One hold of a client in this process, its owner, and when each hold is due for renewal.

Not thread-safe: the mutex of `HoldTable` serialises the calls. ``now`` is a parameter.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from .lease import EXPIRED, Lease, LeaseEvent, LockVotes
from .options import LockOptions
from .timing import RENEW_SLACK_S, renew_period, retry_period

FIXED = "fixed lease"  # the cause of a loss that the owner asked for
_NO_REFUSALS: Mapping[int, float] = {}


class ThreadLiveness:
    """Lives as long as its thread, because only the thread's own `threading.local` refers to it.

    No stack frame may refer to it. Otherwise the traceback of an exception that somebody keeps would keep
    it alive, and the locks of a dead thread would be renewed for ever.
    """

    __slots__ = ("__weakref__",)


@dataclass(slots=True, eq=False, repr=False)
class OwnerKey:
    """The identity of one thread or task. Never a thread ident: the system reuses those.

    ``label``: the `<client>` of this owner's tokens. ``alive``: a weak reference, or a function, that gives
    something false when the thread or task has ended.
    """

    label: str
    alive: Callable[[], object]


class Stop(NamedTuple):
    cause: str  # for programs
    reason: str  # for people


WITHIN = Stop("writer", "the writer of the same owner holds it")  # the masters do not know this hold


class RenewalState:
    """The watchdog's notes about one hold. A new one has these values."""

    due_at = math.inf  # when the hold is due, or was due if the watchdog has taken it
    stopped: Stop | None = None
    last_votes: LockVotes | None = None  # the last renewal whose votes were incomplete
    #: Masters that refuse this lock alone, and until when nobody asks them again.
    refused_until: Mapping[int, float] = _NO_REFUSALS


class ReportState:
    """The reports about one hold to its owner and to observers. A new one has these values."""

    #: Events that wait until the acquire was reported; None: it was, or nobody observes.
    pending_events: Any = None
    end_reported = False  # the release or the loss was reported, or is being reported
    signal: Any = None  # set by the driver when the hold is lost; made when somebody asks for it


@dataclass(slots=True, eq=False, repr=False)
class Hold:
    owner_key: OwnerKey
    options: LockOptions
    owner: str  # the owner token on the masters: `<client>:<uuid>`
    acquired_at: float  # when the round that won it was sent
    waiter: str = ""  # the queue entry that the release removes; "": none
    token: int = 0  # the fencing token
    count: int = 1  # unreleased acquires; the masters get a changed count with the next renewal
    renewal: RenewalState = field(default_factory=RenewalState)
    report: ReportState = field(default_factory=ReportState)
    name: str = field(init=False)
    lease: Lease = field(init=False)
    writer: "Hold | None" = None  # of the same owner: its lease is this reader's, until it is released
    reader: "Hold | None" = None  # of the same owner, which reads on after the release of this writer
    #: When the command was sent by which a quorum made it that reader; -inf: no quorum knew the writer.
    read_since: float = math.inf
    mark: int = 0  # of the handle that has its lease

    def __post_init__(self) -> None:
        self.name, self.lease = self.options.name, Lease(self.options.lease.ttl, self.acquired_at)
        if self.writer is not None:
            self.lease, self.renewal.stopped = self.writer.lease, WITHIN

    def rest(self, now: float) -> float:
        """How long the lock must stay taken after a release at ``now``, unless its owner reads on."""
        return 0.0 if self.reader else max(0.0, self.acquired_at + self.options.hold_at_least - now)

    def keep_no_longer(self) -> None:
        """Let the release free the lock at once."""
        self.options = replace(self.options, hold_at_least=0.0)

    @property
    def reason(self) -> str:
        """Why the hold was lost, and why it was not renewed if that was on purpose."""
        reason, stopped = self.lease.reason or EXPIRED, self.renewal.stopped
        return f"{reason} ({stopped.reason})" if stopped and stopped is not WITHIN else reason

    @property
    def cause(self) -> str:
        """The same for programs: why it was not renewed any more, or else the event that ended the lease."""
        stopped, ended_by = self.renewal.stopped, self.lease.ended_by
        if stopped and stopped is not WITHIN:
            return stopped.cause
        return FIXED if ended_by is LeaseEvent.EXPIRED and not self.options.renew else ended_by.value

    def renewal_stop(self, now: float) -> Stop | None:
        options = self.options
        if self.writer is not None:
            return WITHIN
        if not options.renew:
            return Stop(FIXED, "it has a fixed lease (renew=False)")
        if not self.owner_key.alive():
            # Redisson renews the lock of a dead thread for ever and so blocks the fleet (its issue 6198).
            return Stop("dead owner", "the thread or task that held it has ended without releasing it")
        if options.max_hold is not None and now - self.acquired_at >= options.max_hold:
            return Stop("max_hold", f"it was held for max_hold={options.max_hold:g} s")
        return None


class RenewalSchedule:
    """The holds by the instants at which they are due. Holds that are due at one instant share a round."""

    def __init__(self) -> None:
        self._due: dict[float, dict[Hold, None]] = {}

    def renew(self, hold: Hold, sent_at: float, within: float = math.inf) -> None:
        """Schedule the next renewal after a successful one, or an acquire, that was sent at ``sent_at``."""
        period = renew_period(hold.lease.ttl)
        # A little early, at one of few instants: otherwise each of many locks would need its own round.
        step = min(RENEW_SLACK_S, period / 4)
        self._put(hold, (sent_at + min(within, period)) // step * step)

    def retry(self, hold: Hold, sent_at: float) -> None:
        """Schedule the next renewal after a failed one, or the end of the validity if that comes first."""
        retry_at = sent_at + retry_period(hold.lease.ttl)
        self._put(hold, min(retry_at, hold.lease.valid_until))

    def end(self, hold: Hold) -> None:
        self._put(hold, hold.lease.valid_until)

    def remove(self, hold: Hold) -> None:
        due_at = hold.renewal.due_at
        holds = self._due.get(due_at)
        if holds is not None:
            holds.pop(hold, None)
            if not holds:
                del self._due[due_at]

    def next_due(self) -> float:
        return min(self._due, default=math.inf)

    def take_due(self, now: float) -> list[Hold]:
        instants = sorted([due_at for due_at in self._due if due_at <= now])
        return [hold for due_at in instants for hold in self._due.pop(due_at)]

    def _put(self, hold: Hold, due_at: float) -> None:
        if hold.renewal.due_at in self._due:
            self.remove(hold)
        hold.renewal.due_at = due_at
        self._due.setdefault(due_at, {})[hold] = None
