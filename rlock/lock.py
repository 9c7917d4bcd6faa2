"""RLock: the lock that users hold in their hands."""

from __future__ import annotations

import logging
from types import TracebackType
from typing import TYPE_CHECKING

from ._sync.loss_signal import LossSignal
from .base import BaseLock
from .errors import LeaseLostError, RLockError
from .model import LockStatistics
from .procedures.inspect import locked

if TYPE_CHECKING:
    from typing_extensions import Self

    from .client import Client

log = logging.getLogger("rlock")


class RLock(BaseLock):
    """A reentrant lock across processes and machines, with the interface of ``threading.RLock``.

    Made by ``client.lock(name)``. The owner is a thread of a client, not this object: two objects of one
    client with one name nest in one thread and exclude each other between threads.

    A lease cannot exclude a paused holder. What is promised: no two *valid* leases of one name overlap.
    A hold is valid from the return of ``acquire`` until ``remaining()`` is 0; it is renewed as long as
    the process, the thread and a quorum of masters are well. Ask ``check()`` before what must not be
    done twice.

    A lock that is not held can be pickled. The pickle holds the masters' URLs with their passwords: whoever
    can read the broker or the file where it is kept can read them.

    Not for signal handlers: one that uses the lock while the same thread is inside it dead-locks.
    """

    __slots__ = ()

    _client: Client

    # -- threading.RLock ---------------------------------------------------------------------------

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock; True when the caller has it, False when the time is over and somebody else had it.

        Nested calls cost no network. Otherwise: one round trip to the q-th fastest master. One who has
        to wait takes a place in the queue with the round that refused it, is handed the lock by the
        release of the one before it, and claims it: one round trip more. While it waits: one
        subscription, and a look at one master every second or so.

        :param blocking: wait; with False one round to the masters decides, or a few if contenders at the
            same instant have split the votes: one of them gets it.
        :param timeout: seconds to wait at the most; -1: as long as it takes. The first round may run on
            to its request time-out, and to settle a split vote at the end takes up to half a second.
        :raises ValueError: or OverflowError or TypeError, exactly as ``threading.RLock``.
        :raises QuorumUnreachableError: the time is over and nobody can say that somebody else had it: fewer
            than a quorum of masters answered the last round or may vote, or votes stayed split. One who had
            seen a holder and was only waiting for it gets False. Never with ``timeout=-1``, which goes on
            trying and logs.
        :raises OptionsError: no waiting can help (wrong password, a replica, a key of another type).
        :raises LeaseLostError: nested, and the outer hold was lost.
        """
        until = self._until(blocking, timeout)
        return self._client._engine().acquire(self._options, until)

    def release(self) -> None:
        """Give back one acquire; the last one hands the lock to the first waiter, or frees it.

        The last release costs one round trip to the q-th fastest master; masters that cannot be reached
        get it when they are back. Fewer confirmations than a quorum are logged, not raised: the work
        was done under a valid lease, and what is left of the lock ends with it.

        :raises NotHeldError: (a ``RuntimeError``) the calling thread does not hold it.
        :raises LeaseLostError: the hold had been lost. The acquire is given back all the same.
        """
        self._client._engine().release(self.name)

    def __enter__(self) -> Self:
        engine = self._client._engine()
        before = self.hold_count
        try:
            self.acquire()
        except BaseException:
            # Ctrl-C on the way out of acquire: `with` will call no __exit__.
            hold = engine.hold(self.name)
            if hold is not None and hold.count > before:
                engine.release_hold(hold, before)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        left = None
        try:
            left = self.hold_count - 1
            self.release()
        except RLockError as failure:
            if error is None:
                raise
            # The body's own exception is what the caller must see; the failure is told beside it.
            log.error("%s", failure)
            if hasattr(error, "add_note"):
                error.add_note(f"rlock: {failure}")
        except BaseException:
            # Ctrl-C before the release was done: nobody would try again.
            if self.hold_count > (self.hold_count - 1 if left is None else left):
                self.release()
            raise

    # -- what a lease adds -------------------------------------------------------------------------

    def locked(self) -> bool:
        """Whether anybody holds it, asked of the masters: one round to all of them.

        False is certain for the moment of the question; True may be a holder whose missing votes lie on
        masters that do not answer, or that restarted or were flushed a short time ago.

        :raises QuorumUnreachableError: fewer than a quorum answered; or none of them names a holder, and too
            many restarted or were flushed less than ``max_ttl`` and a margin ago.
        """
        engine = self._client._engine()
        return engine.perform(locked(engine.masters, self.name, self._options.lease.request_timeout))

    def statistics(self) -> LockStatistics:
        """Who waits for it, in which order and since when, asked of the masters: one round to all.

        For people and gauges: it may have changed before it is read.

        :raises QuorumUnreachableError: fewer than a quorum answered.
        """
        return self._client._engine().statistics(self.name, self._options.lease.request_timeout)

    @property
    def lost(self) -> LossSignal:
        """Set when the calling thread's present hold is lost: ``is_set()``, ``wait(timeout)``.

        Keep it in a variable to ask after the release; without a hold one that is never set.
        """
        engine = self._client._engine()
        hold = engine.hold(self.name)
        if hold is None:
            return LossSignal(None, engine.clock)
        with engine.mutex:
            signal = hold.report.signal
            if not isinstance(signal, LossSignal):
                signal = hold.report.signal = LossSignal(hold, engine.clock)
        return signal

    # -- what threading.Condition and the standard library's tests use -----------------------------

    def _is_owned(self) -> bool:
        return self.is_owned()

    def _release_save(self) -> int:
        engine = self._client._engine()
        hold = engine.hold(self.name)
        if hold is None:
            raise RuntimeError("cannot release un-acquired lock")
        count = hold.count
        try:
            engine.release_hold(hold, 0)
        except LeaseLostError as loss:
            # Condition.wait has put its waiter in the list already: raising here would leave it there,
            # and the next notify() would go to nobody. The lock is given up for the wait anyway.
            log.error("%s", loss)
        return count

    def _acquire_restore(self, count: int) -> None:
        self.acquire()
        hold = self._client._engine().hold(self.name)
        if hold is not None:
            hold.count = count

    def _recursion_count(self) -> int:
        return self.hold_count

    def _at_fork_reinit(self) -> None:
        # After a real fork the child's engine is new and holds nothing; in the same process this frees
        # the lock, as it does with the standard library's.
        self._client._engine().reset(self.name)
