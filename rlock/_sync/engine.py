"""The engine of the blocking driver: owners are threads."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Sequence
from typing import ClassVar, TypeVar

from .._client import driver, engine, lock_events
from .._client.waits import NOTHING, Waits
from ..clock import Clock
from ..model import LockStatistics
from ..procedures.attempt import Asked
from ..procedures.steps import Procedure
from ..rules.holds import Hold, OwnerKey, ThreadLiveness
from ..rules.keys import client_label
from ..rules.options import ClientOptions, LockOptions
from .calls import Calls
from .endpoints import Endpoint
from .greenlets import runner, scene
from .local_queue import LocalTurn
from .subscriptions import Subscriptions
from .waits import run
from .watchdog import Watchdog

log = logging.getLogger("rlock")

#: What ``time.sleep`` can be asked for on every system; who pauses for longer waits for an interrupt.
LONG_S = 86_400.0

T = TypeVar("T")


class Driver(driver.Driver):
    """Runs procedures, each in the thread that asks for it. Thread-safe."""

    def pausing(self, timeout: float) -> Waits[None]:
        if timeout > LONG_S:
            threading.Event().wait(min(timeout, threading.TIMEOUT_MAX))
        elif timeout > 0.0:
            time.sleep(timeout)  # no lock to be made for a moment
        yield from NOTHING


class Engine(engine.Engine):
    """Connections, threads and holds of one client in one process. Thread-safe."""

    #: Engines that hold something: they live until it is released, whether or not anybody still has
    #: their client, so that the end of the process can free it.
    holding: ClassVar[set[Engine]] = set()

    def __init__(self, endpoints: Sequence[Endpoint], options: ClientOptions, clock: Clock) -> None:
        super().__init__([endpoint.label for endpoint in endpoints], options, clock)
        self.scene = scene()
        context, timeout = self.context, options.lease(None).request_timeout
        self._calls = Calls(endpoints, context, timeout)
        self._subscriptions = Subscriptions(endpoints, timeout, context, self._pass_on)
        self._driver = Driver(self._calls, self._subscriptions, clock, self._pass_on)
        self._watchdog = Watchdog(self.holds, self.mutex, clock, self._renewing, self._healing)
        self._local = threading.local()

    def key(self) -> OwnerKey:
        """Who the calling thread is."""
        try:
            key: OwnerKey = self._local.key
        except AttributeError:
            self._local.pulse = ThreadLiveness(runner())
            key = self._local.key = OwnerKey(client_label(_thread_name()), self._local.pulse)
        return key

    def _turn(self, name: str) -> LocalTurn:
        return LocalTurn(name)

    def _holding(self) -> None:
        (self.holding.add if len(self.holds) else self.holding.discard)(self)

    # -- programs, run in the calling thread -------------------------------------------------------

    def acquire(self, options: LockOptions, until: float) -> bool:
        """Nested: counted here, at once. Else: by the masters, waiting until ``until``."""
        key = self.key()
        hold = self.holds.find(key, options.name)
        if hold is not None:
            if hold.task is not None and hold.task != _task():
                log.warning(
                    "lock %r: a second task of one thread has it now, too: an rlock.Client does not exclude "
                    "tasks; use rlock.asyncio.Client",
                    hold.name,
                )
            return self.nested(hold)
        asked = Asked()
        try:
            got = run(self.acquiring(key, options, until, asked))
            if not got:
                lock_events.not_acquired(options, asked, self.clock)
            elif (task := _task()) is not None:
                hold = self.holds.find(key, options.name)
                if hold is not None:
                    hold.task = task
            return got
        except BaseException as error:
            self.give_back(key, options, asked, error)
            raise

    def release(self, name: str) -> None:
        """One acquire less; with the last one the masters are told."""
        hold = self.held(name)
        self.release_hold(hold, hold.count - 1)

    def release_hold(self, hold: Hold, left: int) -> None:
        """Set the hold count to ``left``; 0 gives the lock up. Raises `LeaseLostError` after a loss."""
        run(self.releasing(hold, left))

    def perform(self, procedure: Procedure[T]) -> T:
        """Run a procedure on this client's connections."""
        return run(self.performing(procedure))

    def statistics(self, name: str, timeout: float) -> LockStatistics:
        """Who waits for a lock."""
        return run(self.telling(name, timeout))

    def close(self) -> None:
        """Release what is held, take back what is asked for, end threads and connections."""
        try:
            run(self.closing())
        finally:
            self.holding.discard(self)

    def abandon(self) -> None:
        """In a forked child: the parent's holds, threads and sockets are not ours."""
        super().abandon()
        self.holding.discard(self)


def _task() -> int | None:
    """Which task of asyncio calls, if one does: None in an ordinary thread."""
    library = sys.modules.get("asyncio")
    if library is None or library._get_running_loop() is None:
        return None
    return id(library.current_task())


def _thread_name() -> str:
    # Not threading.current_thread(): for a thread that was not started by `threading` it would make a
    # dummy Thread object that stays for ever.
    ident = threading.get_ident()
    for thread in threading.enumerate():
        if thread.ident == ident:
            return thread.name
    return f"thread-{threading.get_native_id()}"
