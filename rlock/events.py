"""The events of locks and masters, for log records, metrics and spans. Each is emitted once."""

import logging
import re
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, dataclass_transform

log = logging.getLogger("rlock")

CLOSED = "closed"


@dataclass_transform(frozen_default=True)
class Event:
    """Something that happened. Each kind of event is a frozen dataclass."""

    _level: ClassVar[int] = 0
    _text: ClassVar[str] = ""
    __dataclass_fields__: ClassVar[dict[str, Any]]  # for type checkers

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True)(cls)

    @property
    def level(self) -> int:
        """The level of its log record; 0: it has none."""
        return self._level if getattr(self, "news", True) else 0

    @property
    def event(self) -> str:
        """Its name in log records, such as ``not_acquired``."""
        return re.sub(r"\B([A-Z])", r"_\1", type(self).__name__).lower()

    def __str__(self) -> str:
        return self._text.format_map(vars(self)) or repr(self)


class HoldEvent(Event):
    """An event of one hold of this client."""

    lock: str
    owner: str  # the owner token


class MasterEvent(Event):
    """An event of one master."""

    master: str


class Acquired(HoldEvent):
    """An outermost acquire got the lock. Emitted in the thread or task that holds it."""

    fair: bool
    waited: float  # seconds from the call of acquire
    votes: int  # masters that granted it before the round was decided
    masters: int
    handed: bool  # its last holder handed it over; otherwise it was free
    queued: bool  # it waited in the queue


class NotAcquired(Event):
    """An outermost acquire ended without the lock. Emitted in the thread or task that called it."""

    lock: str
    fair: bool
    waited: float  # seconds
    outcome: str  # "busy", "unreachable", "error" (settings have to change), "interrupted"
    queued: bool = False  # it waited in the queue, and has left it


class Queued(Event):
    """A refused acquire joined the queue."""

    lock: str
    length: int  # of the queue, with this acquire


class Released(HoldEvent):
    """The last release of a hold that was not lost. Emitted in the thread or task that held it."""

    held: float  # seconds from the grant to the call of release
    took: float  # seconds that the release itself took
    confirmed: bool  # by a quorum of masters


class Renewed(Event):
    """A round of the watchdog, which renews many locks at once."""

    locks: int
    failed: int  # locks that no quorum renewed
    took: float  # seconds


class RenewalFailed(HoldEvent):
    """The first renewal of a lock that no quorum answered. It is repeated until the validity ends."""

    _level = logging.WARNING
    _text = "lock {lock!r}: no quorum renewed it; {remaining:.1f} s of validity left, trying on"
    remaining: float  # seconds of validity


class RenewalRecovered(HoldEvent):
    """A renewal succeeded after one that had failed."""

    _level = logging.WARNING
    _text = "lock {lock!r}: renewed again by a quorum"


class RenewalStopped(HoldEvent):
    """A hold is not renewed any more, on purpose. It ends with its lease."""

    _level = logging.ERROR
    _text = "lock {lock!r} is renewed no more: {reason}; it ends with its lease"
    cause: str  # "dead owner" (its thread or task ended without releasing it), "max_hold"
    reason: str


class Lost(HoldEvent):
    """A hold ended without a release: another owner may have entered the critical section."""

    held: float  # seconds from the grant until the loss was reported
    cause: str  # "expired", "disowned", "dead owner", "max_hold", "fixed lease", "closed" (and so released)
    reason: str  # the same, for people

    @property
    def level(self) -> int:
        """The level of its log record."""
        return logging.WARNING if self.cause == CLOSED else logging.ERROR

    def __str__(self) -> str:
        if self.cause == CLOSED:
            return f"lock {self.lock!r} was still held when its client was closed; it is released"
        return f"lock {self.lock!r} was lost: {self.reason}"


class ReleaseUnsure(HoldEvent):
    """Fewer than a quorum confirmed a release; the rest of the hold ends with its lease."""

    _level = logging.WARNING
    _text = "lock {lock!r}: fewer than a quorum confirmed the release; it ends with its lease of {ttl:g} s"
    ttl: float  # seconds


class KeepUnsure(HoldEvent):
    """Fewer than a quorum confirmed that a lock with ``hold_at_least`` stays taken."""

    _level = logging.WARNING
    _text = "lock {lock!r}: fewer than a quorum keeps it after its release: it may be free {rest:.3g} s early"
    rest: float  # seconds for which it should stay taken


class MasterFailed(MasterEvent):
    """A master gives no vote: its connection ended, could not be made, or the master refuses."""

    kind: str  # a `FaultKind`; "silent": only messages do not arrive; "flapping": too many faults for a log
    reason: str
    news: bool = True  # another fault than the last one of this master, or a connection that ended
    connected: bool = False  # an open connection ended; the client connects again
    messages: bool = False  # it was the connection for the messages of waiters

    @property
    def level(self) -> int:  # noqa: D102
        if not self.news:
            return 0
        if self.connected and self.kind not in ("duplicate", "silent", "flapping"):
            return logging.INFO  # servers close idle connections
        return logging.ERROR if self.kind == "duplicate" else logging.WARNING

    def __str__(self) -> str:
        told = f"{self.master}{'' if self.connected else ' gives no vote'}: {self.reason}"
        return self.reason if self.kind == "duplicate" else told


class MasterAnswers(MasterEvent):
    """A master is connected, or has confirmed a subscription, for the first time or again."""

    _level = logging.INFO
    news: bool = True  # it had failed, and is not flapping
    messages: bool = False  # it has confirmed a subscription

    def __str__(self) -> str:
        said = "confirms subscriptions" if self.messages else "answers"
        return f"{self.master} {said}{' again' if self.news else ''}"


class MasterSlow(MasterEvent):
    """A master has not answered for more than half of the request time-out. At most once a minute each."""

    _level = logging.WARNING
    _text = "{master} is slow: it has not answered for {took:.3g} s, and has no vote after {timeout:.3g} s"
    took: float  # seconds without an answer so far
    timeout: float  # seconds, after which it has no vote


class MasterGuarded(MasterEvent):
    """A grant of a master did not count: the master may have forgotten a lease that is still valid."""

    _level = logging.WARNING
    _text = "{master}: {reason}"
    remaining: float  # seconds until its votes count
    reason: str
    news: bool = True  # the first grant that did not count since the master came back


class MasterHealed(MasterEvent):
    """Keys of holds were put back on a master that had lost them."""

    _level = logging.INFO
    _text = "{master} lacked {locks} locks of ours; put back"
    locks: int


class GroupChanged(MasterEvent):
    """A group has another primary, or another number of acknowledgements. Told again after a minute."""

    primary: str  # the id of its replication: another one after each promotion
    replicas: int  # as configured; all have to acknowledge a vote
    acknowledged: int


class MaxTtlDiffers(MasterEvent):
    """A master has the note of a client with a longer ``max_ttl``, which is used from now on."""

    _level = logging.WARNING
    _text = "{master} knows a max_ttl of {max_ttl:g} s, this client has {own:g} s: use one value in a fleet"
    max_ttl: float  # seconds, of the others
    own: float  # seconds, of this client


class OutOfStep(MasterEvent):
    """A connection was dropped because an answer belonged to another command."""

    _level = logging.ERROR
    _text = "{master}: dropped a connection whose answers were out of step"


class SubscribeRefused(MasterEvent):
    """A master does not answer SUBSCRIBE as a server does."""

    _level = logging.WARNING
    _text = "{master} refuses SUBSCRIBE, so waiters poll: {answer}"
    answer: str


class UnknownMessage(MasterEvent):
    """A message on a channel of a lock that no client of rlock sends. It is ignored."""

    _level = logging.WARNING
    _text = "{master}: ignored a message of another program on a channel of lock {lock!r}: {start}"
    lock: str
    kind: str  # "release" (to all waiters), "hand-off" (to one client)
    start: str  # of the message
    news: bool = True  # the first of this kind that the client received


Observer = Callable[[Event], object]
_observers: tuple[Observer, ...] = ()


def observe(observer: Observer) -> Callable[[], None]:
    """Call ``observer`` with each event of each client of this process; returns the function that ends it.

    The observer runs where the event happens, with no mutex of rlock held. It must be quick and must not
    wait. Its exceptions are logged and go no further, except KeyboardInterrupt. Forked children inherit it.

    Each `Acquired` is followed by one `Released` or one `Lost` with its owner. Each `Queued` is followed by
    one `Acquired` or `NotAcquired` of its lock with ``queued``. The loss of a fixed lease without ``on_lost``
    is reported by its release, the end of its owner, or the close. Ctrl-C may leave one event out.
    """
    global _observers
    registered = partial(observer)  # not the observer: ending it would end its other registrations
    _observers = (*_observers, registered)

    def end() -> None:
        global _observers
        _observers = tuple(other for other in _observers if other is not registered)

    return end


def observed() -> bool:
    """Whether there is an observer. Without one, events that have no log record are not made."""
    return bool(_observers)


def emit(event: Event) -> None:
    """Pass an event to the log and to all observers; raises KeyboardInterrupt and the like only.

    The caller holds no mutex: an observer may use the client, which takes it.
    """
    if event.level:
        log.log(event.level, "%s", event, extra=fields(event))
    interrupt: BaseException | None = None
    for observer in _observers:
        try:
            observer(event)
        except Exception:
            log.exception("an observer failed on %r", event)
        except BaseException as error:
            # Raised later: after a Ctrl-C in one observer the others still get the event.
            interrupt = error
    if interrupt is not None:
        raise interrupt


def fields(event: Event) -> dict[str, Any]:
    """An event as plain values, with its name as ``event``."""
    return {"event": event.event, **vars(event)}


class PendingEvents(deque[Event]):
    """Events that happen while a mutex is held, until `emit`."""

    def add(self, event: Event) -> None:
        """Keep an event that has a log record or an observer."""
        if event.level or _observers:
            self.append(event)

    def emit(self) -> None:
        """Emit the kept events, in any thread, without a mutex."""
        while self:
            with suppress(IndexError):  # another thread was faster
                emit(self.popleft())
