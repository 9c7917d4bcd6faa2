"""RLock: the lock that threads hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, Self

from ._client import hold_table
from ._client.transfers import detach_gen
from ._sync.runtime import run
from .base import BaseLock, log_failed_release
from .errors import LeaseLostError, NotHeldError, RLockError
from .events import log
from .procedures.inspect import locked

if TYPE_CHECKING:
    # Otherwise type checkers refuse `threading.Condition(lock)`, and functions that take a `threading.RLock`.
    from threading import RLock as _Interface

    from .client import Client
else:
    _Interface = object


class Lock(Protocol):
    """A lock for annotations: an `RLock`, a semaphore, several names, or a lock of ``threading``."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...  # noqa: D102
    def release(self) -> None: ...  # noqa: D102
    def __enter__(self) -> Any: ...
    def __exit__(self, kind: Any, error: Any, traceback: Any, /) -> None: ...


class LossSignal(hold_table.LossSignal):
    """Like a ``threading.Event`` that is set when one hold is lost; only rlock can set it.

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

    _client: Client
    _signal_type = LossSignal

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock: True when the caller has it, False when another owner kept it for all the time.

        A nested call costs no network. The outermost one costs one round trip to the q-th fastest master.
        A waiter costs one more when it is handed the lock, and looks at one master every second or so.

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

        Nobody renews it until then. All nested acquires go with it. Not within ``with lock``, which would
        release it at the end. The errors below leave no hold, and free the lock on all masters that can be
        reached: another one may keep it for ``ttl``. Two round trips.

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
            if error is None:
                raise
            log_failed_release(failure, error)
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
                # Not raised: Condition.wait would keep this waiter in its list, and the next notify() would
                # wake nobody. The acquire after the wait takes the lock again.
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
        # After a fork the child's engine is new and holds nothing. Without a fork this frees the lock, as
        # the standard library's method does.
        for hold in self._holders():
            self._client._engine().holds.give_up(hold)
