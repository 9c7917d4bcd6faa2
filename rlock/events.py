"""What happens to locks and masters, as data: one vocabulary for log records, metrics and spans.

A client tells each event once. The log takes those with a level; metrics and spans are observers
(`observe`). Without observers, events that nobody would see are not made.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

log = logging.getLogger("rlock")

#: The cause of a loss by `close`.
CLOSED = "closed"


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
    queued: bool = False  # it stood in the queue, and has left it


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
    """A hold ended without a release: what it protects may have been entered by another owner.

    With the cause "closed" it was released by the close of its client.
    """

    lock: str
    owner: str
    held: float  # seconds from the grant until the loss was told
    cause: str  # "expired", "disowned", "dead owner", "max_hold", "fixed lease", "closed"
    reason: str  # the same, for people

    @property
    def level(self) -> int:  # type: ignore[override]
        """The level of its log record."""
        return logging.WARNING if self.cause == CLOSED else logging.ERROR

    def __str__(self) -> str:
        if self.cause == CLOSED:
            return f"lock {self.lock!r} was still held when its client was closed; it is released"
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
    """A master gives no vote: a connection ended, could not be made, or the master answers and refuses.

    Each failure is told; the log takes those that are another one than before.
    """

    master: str
    kind: str  # a `FaultKind`: "down", "timeout", "broken", "error", "denied", "replica", "duplicate"
    reason: str
    news: bool = True  # another fault than the last one of this master
    connected: bool = False  # a connection ended; it is dialled again

    @property
    def level(self) -> int:  # type: ignore[override]
        """The level of its log record."""
        if self.kind == "duplicate":
            return logging.ERROR if self.news else 0
        # A server that closes an idle connection is nothing to worry about.
        return logging.INFO if self.connected else logging.WARNING if self.news else 0

    def __str__(self) -> str:
        if self.kind == "duplicate":
            return self.reason
        return (
            f"{self.master}: {self.reason}"
            if self.connected
            else f"{self.master} gives no vote: {self.reason}"
        )


@dataclass(frozen=True)
class MasterAnswers(Event):
    """A master is connected: for the first time, or again."""

    master: str
    news: bool = True  # it had failed

    @property
    def level(self) -> int:  # type: ignore[override]
        """The level of its log record."""
        return logging.INFO if self.news else 0

    def __str__(self) -> str:
        return f"{self.master} answers again" if self.news else f"{self.master} answers"


@dataclass(frozen=True)
class MasterSlow(Event):
    """A master has owed an answer for more than half of the request time-out.

    Told at most once a minute for each master.
    """

    level = logging.WARNING

    master: str
    took: float  # seconds without an answer so far
    timeout: float  # seconds, after which it has no vote

    def __str__(self) -> str:
        return (
            f"{self.master} is slow: it has not answered for {self.took:.3g} s, and has no vote after "
            f"{self.timeout:.3g} s"
        )


@dataclass(frozen=True)
class MasterGuarded(Event):
    """A grant of a master did not count: it may have forgotten a lease that is still valid."""

    master: str
    remaining: float  # seconds until its votes count
    reason: str
    news: bool = True  # the first one that did not count since the master came back

    @property
    def level(self) -> int:  # type: ignore[override]
        """The level of its log record."""
        return logging.WARNING if self.news else 0

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


@dataclass(frozen=True)
class MaxTtlDiffers(Event):
    """A master has the note of a client with a longer ``max_ttl``, which is used from now on."""

    level = logging.WARNING

    master: str
    max_ttl: float  # seconds, of the others
    own: float  # seconds, of this client

    def __str__(self) -> str:
        return (
            f"{self.master} knows a max_ttl of {self.max_ttl:g} s, this client has {self.own:g} s: "
            f"the longer one is used; it has to be one value for the whole fleet"
        )


@dataclass(frozen=True)
class OutOfStep(Event):
    """A connection was dropped because an answer belonged to another command."""

    level = logging.ERROR

    master: str

    def __str__(self) -> str:
        return f"{self.master}: dropped a connection whose answers were out of step"


Observer = Callable[[Event], object]

_observers: tuple[Observer, ...] = ()


def observe(observer: Observer) -> Callable[[], None]:
    """Have every event of every client of this process told to ``observer``; call the answer to end it.

    It is called where the event comes up, also in the thread that renews: it must be quick, and wait for
    nothing. What it raises is logged and goes no further, but for KeyboardInterrupt and its like. No mutex
    of ours is held then. Inherited by forked children.

    Each `Acquired` is followed by one `Released` or one `Lost` with its owner, and each `Queued` by one
    `Acquired` or `NotAcquired` of its lock that says so. A fixed lease that nobody watches (``renew=False``
    without ``on_lost``) is told to be lost by its release, or by the close of its client. A KeyboardInterrupt
    in the very telling of an event may leave that one out.
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
    """Tell an event to the log and to all observers. Not with a mutex held; raises interrupts only."""
    if event.level:
        log.log(event.level, "%s", event, extra=fields(event))
    interrupt: BaseException | None = None
    for observer in _observers:
        try:
            observer(event)
        except Exception:
            log.exception("an observer failed on %r", event)
        except BaseException as error:
            # Ctrl-C in the middle of one observer: the others are told all the same.
            interrupt = error
    if interrupt is not None:
        raise interrupt


def fields(event: Event) -> dict[str, Any]:
    """An event as a mapping of plain values, with its name as ``event``."""
    return {"event": event.event, **asdict(event)}


class News:
    """Events that came up while a mutex was held: told when it is not, for an observer may do anything."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque()

    def __iter__(self) -> Iterator[Event]:
        return iter(self._events)

    def note(self, event: Event) -> None:
        """Keep an event that somebody will see."""
        if event.level or _observers:
            self._events.append(event)

    def tell(self) -> None:
        """Tell what was kept. Without a mutex; by any thread."""
        while self._events:
            try:
                event = self._events.popleft()
            except IndexError:  # another thread was faster
                return
            tell(event)
