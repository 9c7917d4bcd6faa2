"""RLock: the lock that threads hold."""

import threading
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, Self, TypeVar

from ._client import hold_table
from ._client.engine import Engine
from ._client.transfers import detach_gen
from ._sync.runtime import run
from .base import public_name, raise_or_log
from .errors import NOT_HELD, LeaseLostError, NotHeldError, RLockError
from .events import log
from .model import LeaseState
from .procedures.acquire import AT_ONCE, FOR_EVER
from .procedures.inspect import locked
from .rules.holds import Hold
from .rules.options import LockOptions

if TYPE_CHECKING:
    # Otherwise type checkers refuse `threading.Condition(lock)`, and functions that take a `threading.RLock`.
    from threading import RLock as _Interface

    from .client import Client
else:
    _Interface = object


Signal = TypeVar("Signal")


class Lock(Protocol):
    """A lock for annotations: an `RLock`, a semaphore, several names, or a lock of ``threading``."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...  # noqa: D102
    def release(self) -> None: ...  # noqa: D102
    def __enter__(self) -> Any: ...
    def __exit__(self, kind: Any, error: Any, traceback: Any, /) -> None: ...


class BaseLock(Generic[Signal]):
    """The part of a lock that is the same for threads and tasks; see `rlock.RLock`."""

    __slots__ = ("__weakref__", "_client", "_options")

    _client: Any
    _signal_type: ClassVar[type[Any]]

    def __init__(self, client: Any, options: LockOptions | None = None) -> None:
        if options is None:
            raise TypeError("make locks with client.lock(name): a lock belongs to a client")
        self._client = client
        self._options = options

    @property
    def name(self) -> str:
        """The name that all users of this lock share."""
        return self._options.name

    def _hold(self) -> Hold | None:
        """The caller's hold. Makes no engine: without one there is no hold."""
        engine: Engine | None = self._client._here()
        return None if engine is None else engine.hold(self._options.hold_name)

    def _until(self, blocking: bool, timeout: float) -> float:
        """The instant at which an acquire gives up. Refuses the arguments that `threading.RLock` refuses."""
        if blocking is True and timeout == -1:
            return FOR_EVER
        if timeout is None:
            raise TypeError("timeout must be a number of seconds, or -1 to wait for ever, not None")
        # Only for its errors: they differ between versions of Python.
        threading.RLock().acquire(blocking, timeout)
        if not blocking:
            return AT_ONCE
        return FOR_EVER if timeout == -1 else self._client._engine().clock() + timeout

    def is_owned(self) -> bool:
        """Whether the caller holds the lock with validity left, at this moment. See `remaining`."""
        return self.remaining() > 0.0

    @property
    def hold_count(self) -> int:
        """The caller's unreleased acquires, also after a loss. No network."""
        hold = self._hold()
        return 0 if hold is None else hold.count

    def remaining(self) -> float:
        """Seconds of validity left to the caller; 0.0 when it does not hold the lock.

        Sends nothing. It may wait a moment for another thread that reads replies.
        """
        hold = self._hold()
        return 0.0 if hold is None else self._client._here().holds.remaining(hold)

    def check(self) -> None:
        """Raise `LeaseLostError` unless the caller holds the lock with validity left. Sends nothing.

        The answer may be out of date a moment later: the system can stop the caller right after this call.

        :raises LeaseLostError: the hold was lost, or the caller never had it; ``reason`` says which.
        """
        hold = self._hold()
        if hold is None:
            raise LeaseLostError(self.name, NOT_HELD)
        if self._client._here().holds.state(hold) is LeaseState.LOST:
            raise LeaseLostError(self.name, hold.reason)

    @property
    def lost(self) -> Signal:
        """Set when the caller's present hold is lost: ``is_set()``, ``wait(timeout)`` (awaited with asyncio).

        Keep it in a variable to ask after the release. Without a hold the signal is never set.
        """
        engine = self._client._engine()
        hold = engine.hold(self._options.hold_name)
        signal: Signal = self._signal_type(engine.holds, [] if hold is None else [hold])
        # One step, without a mutex: a signal handler may ask as well, and both must get one signal.
        return signal if hold is None else vars(hold.report).setdefault("signal", signal)

    @property
    def fencing_token(self) -> int:
        """The number of the caller's hold: strictly greater for every later holder of this name.

        Nested acquires have the same token. Send the token to the resource with each access, and let the
        resource refuse a token below the highest one that it has seen (equal is allowed). This stops a holder
        that was paused until its lease had ended, which no lock can do. So the token can also be read after a
        loss.

        No network: the acquire itself agrees on the token. The order needs no clock and no lease while a
        quorum of masters remembers the last token, for an hour after the last use. After that it needs
        masters' clocks that were not set back; after a loss of memory, clocks that also differ by less than
        the time until the next acquire. The token fits into 53 bits: it is the masters' time in microseconds,
        or a little more.

        :raises LeaseLostError: the caller does not hold the lock.
        """
        hold = self._hold()
        if hold is None:
            raise LeaseLostError(self.name, NOT_HELD)
        return hold.token

    def __reduce__(self) -> tuple[Any, ...]:
        if self._holders():
            raise TypeError(f"cannot pickle lock {self.name!r} while it is held: a hold stays in its process")
        return type(self), (self._client, self._options)

    def _holders(self) -> list[Hold]:
        engine = self._client._here()
        holds = [] if engine is None else engine.holds
        return [each for each in holds if each.options.hold_name == self._options.hold_name]

    def __repr__(self) -> str:
        valid = [hold for hold in self._holders() if self._client._here().holds.remaining(hold) > 0]
        holder = f" owner={valid[0].owner!r} count={valid[0].count}" if valid else ""
        state = "locked" if valid else "unlocked"
        return f"<{state} {public_name(self)} object name={self.name!r}{holder} at {id(self):#x}>"


class LossSignal(hold_table.LossSignal):
    """Like a ``threading.Event`` that rlock sets when one hold is lost.

    The answer is right at the moment of the question: it comes from the clock, and does not wait for the
    watchdog to notice the loss. A hold that was released in time never sets the signal.
    """

    def wait(self, timeout: float | None = None) -> bool:
        """Block until the hold is lost, or for ``timeout`` seconds; whether it is lost."""
        return run(self._wait_gen(timeout))


class RLock(BaseLock[LossSignal], _Interface):  # type: ignore[misc]
    """A reentrant lock across processes and machines, with the interface of ``threading.RLock``.

    Made by ``client.lock(name)``. The owner is a thread of a client, not this object: two objects of one
    client with one name nest in one thread and exclude each other between threads.

    A lease cannot exclude a paused holder. The promise is: no two *valid* leases of one name overlap. A hold
    is valid from the return of ``acquire`` until ``remaining()`` is 0. It is renewed as long as the process,
    the thread and a quorum of masters work. Call ``check()`` before a step that must not be done twice.

    A lock that is not held can be pickled. The pickle holds the masters' URLs with their passwords: every
    reader of the broker or the file that keeps it can read them.

    A signal handler or ``__del__`` may release it. If it interrupted the client, its acquire may raise.
    """

    __slots__ = ()

    _client: "Client"
    _signal_type = LossSignal

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock: True when the caller has it, False when another owner kept it for all the time.

        A nested call costs no network. The outermost one costs one round trip to the q-th fastest master.
        A waiter gets it by messages, and confirms them by one more. It polls one master now and then.

        :param blocking: wait. With False one round to the masters decides; a few rounds if contenders at the
            same instant have split the votes. One of them gets the lock.
        :param timeout: seconds to wait at the most; -1: as long as it takes. The first round may run on
            to its request time-out, and to settle a split vote at the end takes up to half a second.
        :raises ValueError: or OverflowError or TypeError, exactly as ``threading.RLock``.
        :raises QuorumUnreachableError: the time is over and no quorum said that another owner had the lock:
            too few masters answered or may vote, or votes stayed split. A caller that had seen a holder and
            only waited for it gets False. Never with ``timeout=-1``, which goes on trying and logs.
        :raises OptionsError: waiting cannot help (wrong password, a replica, a key of another type).
        :raises LeaseLostError: the call is nested, and the outer hold was lost.
        """
        return run(self._client._engine().acquire(self._options, self._until(blocking, timeout)))

    def release(self) -> None:
        """Give back one acquire; the last one hands the lock to the first waiter, or frees it.

        The last release costs one round trip to the q-th fastest master. Masters that cannot be reached get
        it when they are back. Fewer confirmations than a quorum are logged: the lock ends with its lease.

        :raises NotHeldError: (a ``RuntimeError``) the calling thread does not hold the lock.
        :raises LeaseLostError: the hold had been lost. The acquire is given back all the same.
        """
        engine = self._client._engine()
        run(engine.release_gen(engine.held(self._options.hold_name)))

    def detach(self, ttl: float | None = None) -> str:
        """End the caller's hold here, and keep the lock for whoever calls ``client.adopt(handle)``.

        Nobody renews it until then. All nested acquires go with it. The end of a ``with`` would raise.
        `OptionsError` keeps the hold. The errors below leave none, and free the lock on all masters that
        answer: another one may keep it for ``ttl``. Two round trips.

        :param ttl: seconds for which the masters keep the lock, at most ``max_ttl``; the lock's own ttl.
        :raises NotHeldError: the calling thread does not hold the lock.
        :raises LeaseLostError: the hold had been lost.
        :raises QuorumUnreachableError: too few masters keep it.
        """
        return run(detach_gen(self, ttl))

    def __enter__(self) -> Self:  # type: ignore[override]
        before = self.hold_count
        try:
            self.acquire()
        except BaseException:
            # A Ctrl-C after the grant: `with` calls no __exit__ then, and the lock would stay held.
            if self.hold_count > before:
                self._keep_no_longer(before)  # the body has not run
                self.release()
            raise
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        after = 0
        try:
            after = self.hold_count - 1
            self.release()
        except RLockError as failure:
            raise_or_log(failure, error)
        except BaseException:
            # A Ctrl-C before the release: without this the lock would stay held.
            if self.hold_count > after:
                self.release()
            raise

    def locked(self) -> bool:
        """Whether anybody holds the lock, asked of all masters: one round, or two if it seems to be free.

        False is certain for one moment of the call, if no ttl in use is shorter than the call. With True the
        lock may still be free: masters that do not answer, restarted or were flushed may have votes.

        :raises QuorumUnreachableError: fewer than a quorum answered (a group without all of its replicas can
            only name a holder); or no master names a holder, and too many restarted or were flushed less than
            ``max_ttl`` and a margin ago.
        """
        engine = self._client._engine()
        return engine.perform(locked(engine.masters, self.name, self._options.lease.request_timeout))

    # From here on: the private methods of threading.RLock that threading.Condition and CPython's tests call.

    _is_owned = BaseLock.is_owned

    def _keep_no_longer(self, nested: int = 0) -> None:
        """Let the next release free the lock at once, although it has `hold_at_least`."""
        if not nested and (hold := self._hold()) is not None:
            hold.keep_no_longer()

    def _release_save(self) -> int:
        if not self._options.shared:
            engine = self._client._engine()
            engine.holds.beside(engine.key(), self._options)  # refuses now what the acquire would refuse
        self._keep_no_longer()  # the waiter wants it to be free now
        count = 0
        while True:  # one by one: a signal handler may acquire or release it between any two lines
            try:
                self.release()
            except LeaseLostError as loss:
                # Not raised: Condition.wait would keep this waiter, and the next notify() would wake nobody.
                log.error("%s", loss)
            except NotHeldError:
                if count:
                    return count
                raise
            count += 1

    def _acquire_restore(self, count: int) -> None:
        for _ in range(count):
            self.acquire()

    def _recursion_count(self) -> int:
        return self.hold_count

    def _at_fork_reinit(self) -> None:
        # After a fork the child's engine holds nothing. Otherwise this frees it, as the library's own does.
        for hold in self._holders():
            self._client._engine().holds.give_up(hold)
