"""Leader: one process of many leads. It holds a lock, and steps down before its lease ends.

A campaign is one generator for both drivers, like the procedures: acquire, lead until the term is over, call
``on_stopped``, release, acquire again. It runs in a thread or task of its own, which owns the lock.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from .._async import runtime as tasks
from .._client.engine import Engine
from .._client.runtime import NO_WAIT
from .._sync import runtime as threads
from ..errors import NOT_LEADER, LeaseLostError, OptionsError, RLockError
from ..events import log
from ..procedures.acquire import AT_ONCE, FOR_EVER
from ..procedures.contender import Contender
from ..procedures.port import WaitGenerator
from ..rules.holds import Hold
from ..rules.options import check_callback
from ..rules.timing import CLAIM_S, step_down_margin
from .holding import contend

Observer = Callable[..., object]

STAY_AWAY_S = 1.0  # after a failed ``on_started``, or an error that waiting cannot mend
NOTICE_S = 0.005  # how long `wait` sleeps when a term is over and its thread has not noticed it yet


class _Term:
    """One leadership, from the grant to the step-down."""

    def __init__(self, engine: Engine, hold: Hold) -> None:
        self.hold = hold
        self.over = self.resigned = False
        self._engine = engine

    def remaining_s(self) -> float:
        """Seconds until the leader has to step down; 0.0: the term is over, for ever."""
        engine, lease = self._engine, self.hold.lease
        # First: otherwise a confirmation in between would end the term of a lease that it prolongs.
        margin = step_down_margin(lease.ttl if lease.confirmation is None else min(CLAIM_S, lease.ttl))
        # In a forked child no lease is asked for: another thread of its parent may have had the mutex.
        if engine.pid != os.getpid() or (rest := engine.holds.remaining(self.hold) - margin) <= 0.0:
            self.over = True
        return 0.0 if self.over else rest


class BaseLeader:
    """The part that threads and tasks share; see `Leader`."""

    def __init__(self, lock: Any, on_started: Observer | None, on_stopped: Observer | None) -> None:
        for option, observer in ("on_started", on_started), ("on_stopped", on_stopped):
            if observer is not None and not callable(observer):
                raise OptionsError(f"{option} must be callable, not {observer!r}")
            if isinstance(self, Leader):
                check_callback(option, observer)
        self.name: str = lock.name
        self._lock = lock
        self._on_started, self._on_stopped = on_started, on_stopped
        self._engine: Engine | None = None
        self._campaign: Any = None  # the thread or task
        self._parker: Any = None  # where it sleeps
        self._contender: Contender | None = None
        self._term: _Term | None = None
        self._end = ""  # why the campaign ends; "": it goes on
        self._leads: Any = None  # a signal: set while it leads, and when the campaign has ended

    def is_leader(self) -> bool:
        """Whether this process leads at this moment, by the clock and the lease. No network.

        False as soon as a quarter of ``ttl`` is left of a lease that could not be renewed. The answer may be
        out of date a moment later: the system can stop the caller right after this call.
        """
        return self._term is not None and self._term.remaining_s() > 0.0

    @property
    def token(self) -> int:
        """The fencing token of the present term: greater than that of each earlier leader.

        :raises LeaseLostError: it does not lead.
        """
        term = self._term
        if term is None or term.remaining_s() <= 0.0:
            raise LeaseLostError(self.name, NOT_LEADER if term is None else "its term as the leader is over")
        return term.hold.token

    def resign(self) -> None:
        """Step down, if it leads: ``is_leader()`` is False when this returns. Waits for nothing.

        The campaign then calls ``on_stopped``, hands the lock to the first waiter, and waits behind it.
        """
        term = self._term
        if term is not None and term.remaining_s() > 0.0:
            term.over = term.resigned = True
            with suppress(RuntimeError):  # another thread has woken it at the same time
                self._parker.wake()

    def _begin(self) -> Engine:
        if self._engine is not None:
            raise RuntimeError(f"leader {self.name!r} was used already: make another one by client.leader()")
        engine: Engine = self._lock._client._engine()
        if engine.holds.closed:
            raise RLockError("the client is closed")
        self._engine, self._parker = engine, engine.runtime.parker()
        self._leads = self._lock._signal_type(engine.holds)
        return engine

    def _leave(self) -> Any:
        """End the campaign, wherever it waits. Returns its thread or task; None: it is of another process."""
        engine = self._engine
        if engine is None or engine.pid != os.getpid():
            return None
        self._end = self._end or "its `with` block was left"
        self.resign()
        if (contender := self._contender) is not None:
            contender.until = AT_ONCE
            engine.notifications.interrupt(contender)
        with suppress(RuntimeError):  # see `resign`
            self._parker.wake()
        return self._campaign

    def _wait_gen(self, timeout: float) -> WaitGenerator[bool]:
        if (engine := self._engine) is None:
            raise RuntimeError(f"leader {self.name!r} does not campaign yet: use it in a `with` block first")
        until = FOR_EVER if timeout == -1 else engine.clock() + timeout
        while not self._end and engine.pid == os.getpid():
            if not (yield from self._leads._wait_gen(until - engine.clock())):
                return False
            if self.is_leader():
                return True
            yield from engine.runtime.sleep(NOTICE_S)
        reason = self._end if engine.pid == os.getpid() else "this process was forked"
        raise RLockError(f"leader {self.name!r} campaigns no more: {reason}; make another by client.leader()")

    def _campaign_gen(self, engine: Engine) -> WaitGenerator[None]:
        """Acquire, lead, release, again and again, until the user leaves or the client is closed."""
        failed = False
        try:
            while not (self._end or engine.holds.closed):
                try:
                    self._contender = Contender(engine.key(), self._lock._options, FOR_EVER, engine.clock())
                    # The user may have left before `_leave` could see the contender.
                    if not self._end and (yield from contend(engine, self._contender)):
                        failed = yield from self._lead(engine, engine.held(self.name))
                except RLockError as error:
                    if failed := not (self._end or engine.holds.closed):
                        log.error("leader %r campaigns again in %g s: %s", self.name, STAY_AWAY_S, error)
                if failed and not self._end:
                    yield from self._parker.park(STAY_AWAY_S)
        except (Exception, SystemExit, KeyboardInterrupt) as error:  # `threading` hides a SystemExit
            log.error("leader %r campaigns no more: %r ended its thread or task", self.name, error)
            raise
        finally:
            self._end = self._end or (
                "its client is closed" if engine.holds.closed else "its thread or task ended"
            )
            self._leads.set()  # otherwise `wait` would wait for ever

    def _lead(self, engine: Engine, hold: Hold) -> WaitGenerator[bool]:
        """Lead for one term. Returns whether ``on_started`` failed."""
        term, announced, failed = _Term(engine, hold), False, False
        interrupt: BaseException | None = None
        self._lock.lost._waiting.append(self._parker)  # otherwise a loss or a close would wake nobody
        self._term = term
        if self._end:  # behind the line above: otherwise a user that leaves in between is not seen
            term.over = term.resigned = True
        try:
            if term.remaining_s() > 0.0:
                announced = True
                if failed := not (yield from self._tell(self._on_started, hold.token)):
                    term.over = True
                elif term.remaining_s() > 0.0:
                    self._leads.set()
                # Not for longer: a suspended machine does not count the sleep, but the lease.
                while (rest_s := term.remaining_s()) > 0.0:
                    yield from self._parker.park(min(rest_s, step_down_margin(hold.lease.ttl)))
        except GeneratorExit:
            raise  # the event loop has ended: nothing can be awaited any more
        except BaseException as error:
            interrupt = error
        term.over = True
        self._leads._set = False
        try:
            if announced:
                yield from self._stop(engine, hold, resigned=term.resigned)
        finally:  # behind on_stopped: otherwise the next leader could start before this one has stopped
            hold.count = 1  # also if its callbacks have acquired it
            with suppress(LeaseLostError):  # it is logged already
                yield from engine.release_gen(hold)
        if interrupt is not None:
            raise interrupt
        return failed

    def _stop(self, engine: Engine, hold: Hold, *, resigned: bool) -> WaitGenerator[None]:
        """Call ``on_stopped``, and say why and when."""
        rest = engine.holds.remaining(hold)
        yield from self._tell(self._on_stopped)  # before the log: a blocked one would delay it
        if rest > 0.0 and engine.holds.remaining(hold) <= 0.0:
            told = "leader %r: on_stopped returned after the lease had ended, and another may have led since"
            log.error(told + "; make on_stopped faster, or ttl longer than %g s", self.name, hold.lease.ttl)
        if not resigned and 0.0 < rest <= step_down_margin(hold.lease.ttl):
            log.warning("leader %r stepped down: %.3g s were left of its lease, not renewed", self.name, rest)

    def _tell(self, callback: Observer | None, *arguments: object) -> WaitGenerator[bool]:
        """Call an observer. False: it raised."""
        try:
            result = None if callback is None else callback(*arguments)
            yield from result.__await__() if inspect.isawaitable(result) else NO_WAIT
            return True
        except (Exception, asyncio.CancelledError) as error:
            cancelling = getattr(self._campaign, "cancelling", lambda: 1)  # a thread has none
            if isinstance(error, asyncio.CancelledError) and cancelling():
                raise  # somebody cancels the campaign, or it cannot be known
            log.exception("%s of leader %r raised", getattr(callback, "__name__", "an observer"), self.name)
            return False


class Leader(BaseLeader):
    """One of many processes that leads; made by ``client.leader(name)``. Use it as a context manager.

    A daemon thread campaigns from the beginning of the ``with`` block to its end. It owns the lock, calls
    ``on_started`` and ``on_stopped``, and releases the lock after ``on_stopped`` has returned. Any thread may
    call the methods. A forked child does not lead.
    """

    def __enter__(self) -> Leader:
        target, campaign = threads.run, self._campaign_gen(self._begin())
        self._campaign = threading.Thread(target=target, args=(campaign,), name="rlock-leader", daemon=True)
        try:
            self._campaign.start()
            return self
        except BaseException:
            self._leave()  # a Ctrl-C may come when the thread runs already
            raise

    def __exit__(self, *_: object) -> None:
        try:
            self._leave_and_join()
        except BaseException:
            # Ctrl-C, or SystemExit by SIGTERM: otherwise it would lead on, or the client's end would release
            # the lock while on_stopped runs. A second one ends this wait, too.
            self._leave_and_join()
            raise

    def _leave_and_join(self) -> None:
        if (campaign := self._leave()) not in (None, threading.current_thread()):
            campaign.join()

    def wait(self, timeout: float = -1) -> bool:
        """Wait until this process leads and ``on_started`` has returned. False: the time is over.

        :param timeout: seconds to wait at the most; -1: as long as it takes.
        :raises RLockError: the campaign is over, by the end of the block or otherwise. Make another leader.
        :raises RuntimeError: it was not used in a ``with`` block yet.
        """
        return threads.run(self._wait_gen(timeout))

    def leader(self) -> str | None:
        """The process and thread that leads now, asked of the masters: a round or two. None: nobody.

        :raises QuorumUnreachableError: fewer than a quorum answered.
        """
        return self._lock._client.status(self.name).holder  # type: ignore[no-any-return]


class AsyncLeader(BaseLeader):
    """As `Leader`, for tasks: use ``async with``. A task of the event loop campaigns and calls the observers.

    ``wait`` and ``leader`` are awaited. An observer may be a coroutine function. Call everything in the event
    loop. A cancellation of the campaign, as at the end of ``asyncio.run``, steps down and releases.
    """

    async def __aenter__(self) -> AsyncLeader:
        campaign = self._lock._client._engine().perform(self._campaign_gen(self._begin()))
        self._campaign = asyncio.get_running_loop().create_task(campaign, name="rlock-leader")
        return self

    async def __aexit__(self, *_: object) -> None:
        campaign = self._leave()
        if campaign is not None and campaign is not asyncio.current_task():
            cancelled = None
            while not campaign.done():
                try:
                    await asyncio.wait([campaign])  # not the task itself: a cancellation must not reach it
                except asyncio.CancelledError as error:
                    cancelled = error  # later: the next leader must not start before on_stopped has ended
            if cancelled is not None:
                raise cancelled

    async def wait(self, timeout: float = -1) -> bool:
        """Wait until this process leads and ``on_started`` has returned; see `Leader.wait`."""
        return await tasks.run(self._wait_gen(timeout))

    async def leader(self) -> str | None:
        """The process and task that leads now; see `Leader.leader`."""
        return (await self._lock._client.status(self.name)).holder  # type: ignore[no-any-return]
