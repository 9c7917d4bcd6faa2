"""What happens to locks and masters, as data: one vocabulary for log records, metrics and spans.

A client tells each event once. The log takes those with a level; metrics and spans are observers
(`observe`). Without observers, events that nobody would see are not made.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

log = logging.getLogger("rlock")


@dataclass(frozen=True)
class Event:
    """Something that happened. ``level`` is that of its log record; 0: it has none."""

    level: ClassVar[int] = 0

    @property
    def event(self) -> str:
        """Its name in log records: the class's, in small letters with underscores."""
        return "".join("_" + c.lower() if c.isupper() else c for c in type(self).__name__)[1:]

    def __str__(self) -> str:
        told = ", ".join(f"{key}={value!r}" for key, value in asdict(self).items())
        return f"{self.event}: {told}"


# -- one lock of this client -----------------------------------------------------------------------


@dataclass(frozen=True)
class Acquired(Event):
    """An outermost acquire has the lock. Told in the thread or task that has it."""

    lock: str
    owner: str  # the owner token
    fair: bool
    waited: float  # seconds from the call of acquire
    votes: int  # masters that granted it before it was decided
    masters: int
    handed: bool  # by the release of its last holder, not found free
    queued: bool  # it stood in the queue


@dataclass(frozen=True)
class NotAcquired(Event):
    """An outermost acquire ended without the lock. Told in the thread or task that asked."""

    lock: str
    fair: bool
    waited: float  # seconds
    outcome: str  # "busy", "unreachable", "error" (settings have to change), "interrupted"
    queued: bool = False  # it stood in the queue


@dataclass(frozen=True)
class Queued(Event):
    """An acquire that was refused took its place in the queue."""

    lock: str
    length: int  # of the queue, with itself


@dataclass(frozen=True)
class Released(Event):
    """The last release of a hold that was not lost. Told in the thread or task that had it."""

    lock: str
    owner: str
    held: float  # seconds from the grant to the call of release
    took: float  # seconds that the release itself took
    confirmed: bool  # by a quorum of masters
    handed: bool  # to a waiter of this client, in the same round


@dataclass(frozen=True)
class Renewed(Event):
    """A round of the watchdog. One round renews many locks."""

    locks: int
    failed: int  # of them, by no quorum
    took: float  # seconds


@dataclass(frozen=True)
class RenewalFailed(Event):
    """The first renewal of a lock that no quorum answered; it is tried again until the validity ends."""

    level = logging.WARNING

    lock: str
    owner: str
    remaining: float  # seconds of validity

    def __str__(self) -> str:
        return f"lock {self.lock!r}: no quorum renewed it; {self.remaining:.1f} s of validity left, trying on"


@dataclass(frozen=True)
class RenewalRecovered(Event):
    """A renewal succeeded after one that had failed."""

    level = logging.WARNING

    lock: str
    owner: str

    def __str__(self) -> str:
        return f"lock {self.lock!r}: renewed again by a quorum"


@dataclass(frozen=True)
class RenewalStopped(Event):
    """A hold is renewed no more, on purpose; it ends with its lease."""

    level = logging.ERROR

    lock: str
    owner: str
    cause: str  # "dead owner" (its thread or task ended without releasing it), "max_hold"
    reason: str

    def __str__(self) -> str:
        return f"lock {self.lock!r} is renewed no more: {self.reason}; it ends with its lease"


@dataclass(frozen=True)
class Lost(Event):
    """A hold ended without a release: what it protects may have been entered by another owner."""

    level = logging.ERROR

    lock: str
    owner: str
    held: float  # seconds from the grant until the loss was told
    cause: str  # "expired", "disowned", "dead owner", "max_hold", "fixed lease", "closed"
    reason: str  # the same, for people

    def __str__(self) -> str:
        return f"lock {self.lock!r} was lost: {self.reason}"


@dataclass(frozen=True)
class ReleaseUnsure(Event):
    """Fewer than a quorum confirmed a release; what is left of the hold ends with its lease."""

    level = logging.WARNING

    lock: str
    owner: str
    ttl: float  # seconds

    def __str__(self) -> str:
        return (
            f"lock {self.lock!r}: fewer than a quorum confirmed the release; what is left of it on the "
            f"others ends within {self.ttl:g} s after they answer again"
        )


# -- one master ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MasterFailed(Event):
    """A master gives no vote from now on: a connection ended, or could not be made.

    Each failure is told; the log takes those of another kind than the one before.
    """

    master: str
    kind: str  # a `FaultKind`: "down", "timeout", "broken", "error", "denied", "replica", "duplicate"
    reason: str
    news: bool = True  # another fault than the last one of this master

    @property
    def level(self) -> int:  # type: ignore[override]
        """The level of its log record."""
        return logging.WARNING if self.news else 0

    def __str__(self) -> str:
        return f"{self.master} gives no vote: {self.reason}"


@dataclass(frozen=True)
class MasterAnswers(Event):
    """A master that had failed is connected again."""

    level = logging.INFO

    master: str

    def __str__(self) -> str:
        return f"{self.master} answers again"


@dataclass(frozen=True)
class MasterSlow(Event):
    """A master took more than half of the request time-out to answer, after it had been faster."""

    level = logging.WARNING

    master: str
    took: float  # seconds
    timeout: float  # seconds; an answer later than this is none

    def __str__(self) -> str:
        return (
            f"{self.master} is slow: it answered after {self.took:.3g} s, and has no vote after "
            f"{self.timeout:.3g} s"
        )


@dataclass(frozen=True)
class MasterGuarded(Event):
    """A grant of a master did not count: it may have forgotten a lease that is still valid."""

    level = logging.WARNING

    master: str
    remaining: float  # seconds until its votes count
    reason: str

    def __str__(self) -> str:
        return f"{self.master}: {self.reason}"


@dataclass(frozen=True)
class MasterHealed(Event):
    """Keys of holds were put back on a master that had lost them."""

    level = logging.INFO

    master: str
    locks: int

    def __str__(self) -> str:
        return f"{self.master} lacked {self.locks} locks of ours; put back"


Observer = Callable[[Event], object]

_observers: tuple[Observer, ...] = ()


def observe(observer: Observer) -> Callable[[], None]:
    """Have every event of every client of this process told to ``observer``; call the answer to end it.

    It is called where the event comes up, also in the thread that renews: it must be quick, and wait for
    nothing. What it raises is logged and goes no further. No mutex of ours is held then. Inherited by
    forked children.
    """
    global _observers
    _observers = (*_observers, observer)

    def end() -> None:
        global _observers
        _observers = tuple(other for other in _observers if other is not observer)

    return end


def observed() -> bool:
    """Whether anybody would see an event without a level."""
    return bool(_observers)


def tell(event: Event) -> None:
    """Tell an event to the log and to all observers. Never raises; not with a mutex held."""
    if event.level:
        log.log(event.level, "%s", event, extra=fields(event))
    for observer in _observers:
        try:
            observer(event)
        except Exception:
            log.exception("an observer failed on %r", event)


def fields(event: Event) -> dict[str, Any]:
    """An event as a mapping of plain values, with its name as ``event``."""
    return {"event": event.event, **asdict(event)}
