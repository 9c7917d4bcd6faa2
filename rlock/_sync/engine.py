"""The engine of the blocking driver: owners are threads. Its watchdog is a thread, too."""

import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import ClassVar

from .. import clock
from .._client import engine, watchdog
from .._client.hold_table import HoldTable
from .._client.runtime import Background
from ..errors import LeaseLostError
from ..events import log
from ..procedures.port import Masters, T, WaitGenerator
from ..rules.holds import OwnerKey, ThreadLiveness
from ..rules.options import ClientOptions
from .connections import Connections, Endpoint
from .runtime import Runtime, hub_thread, run


class Engine(engine.Engine):
    #: Engines that hold something: the end of the process releases the locks of collected clients, too.
    holding: ClassVar[set["Engine"]] = set()

    def __init__(self, endpoints: Sequence[Endpoint], options: ClientOptions) -> None:
        super().__init__(endpoints, options, clock.now, Runtime())
        #: Before gevent patches it; a hub cannot wake the greenlets of another thread.
        self.get_ident, self.hub_thread = threading.get_ident, hub_thread()
        self._compose(Connections, Watchdog)
        self._local = threading.local()

    def key(self) -> OwnerKey:
        try:
            key: OwnerKey = self._local.key
        except AttributeError:
            # By setdefault: a finalizer may come in between, and make a key that then counts.
            own = self._local.__dict__
            alive = weakref.ref(own.setdefault("liveness", ThreadLiveness()), self._owner_ended)
            # Not threading.current_thread(): it leaks a dummy Thread for one that `threading` did not start.
            names = (each.name for each in threading.enumerate() if each.ident == threading.get_ident())
            label = engine.client_label(next(names, f"thread-{threading.get_native_id()}"))
            key = own.setdefault("key", OwnerKey(label, alive))
        return key

    def _owner_ended(self, _: object) -> None:
        if self.pid == os.getpid():  # not in a forked child; another thread may have had the mutex
            self.watchdog.owner_ended()

    def _holding(self) -> None:
        (self.holding.add if len(self.holds) else self.holding.discard)(self)

    def perform(self, procedure: WaitGenerator[T]) -> T:
        return run(procedure)

    def close(self) -> None:
        if self.interrupted():
            self.runtime.later(self.close)
            return
        # At the end of the process the thread of `later` would stop in the middle.
        until = time.monotonic() + self.timeout
        while self.holds.closer not in (None, self.runtime.caller()) and time.monotonic() < until:
            time.sleep(0.005)
        try:
            run(self._close_gen())
        finally:
            self.holding.discard(self)


class Watchdog(watchdog.Watchdog):
    """Renews in one thread; calls `on_lost` in a second one, which runs while there are losses to report."""

    def __init__(self, holds: HoldTable, masters: Masters) -> None:
        super().__init__(holds, masters)
        self._thread: Background | None = None
        #: Callbacks that are due, and the thread that calls them.
        self._callbacks: deque[tuple[watchdog.OnLost, LeaseLostError]] = deque()
        self._callback_thread: Background | None = None

    def _start(self) -> None:
        if self._thread is None:
            self._thread = Background(self._run, "rlock-watchdog")

    def _ended(self) -> None:
        self._thread = None

    def stop(self) -> None:
        with self._mutex:
            self.stopped = True
            self._parker.wake()
        if (thread := self._thread) is not None:
            thread.join()
        if (thread := self._callback_thread) is not None:  # the watchdog may have started it just now
            thread.join()

    def _run(self) -> None:
        try:
            run(self._run_gen())
        except BaseException:
            self._thread = None  # otherwise no acquire would start another one
            raise

    def _failed(self, error: BaseException) -> None:
        # Also SystemExit: an observer that ends its thread must not end the renewal.
        with suppress(BaseException):  # of a log handler, too
            log.error("a renewal round failed; it is tried again", exc_info=error)

    def _call_on_lost(self, on_lost: watchdog.OnLost, error: LeaseLostError) -> None:
        with self._mutex:
            self._callbacks.append((on_lost, error))
            if self._callback_thread is not None:
                return
            # Not in the watchdog's thread: a callback that blocks would stop all renewals. One thread for
            # all losses: an outage that ends thousands of leases must not start thousands of threads.
            with suppress(RuntimeError):  # the process may not start another thread
                self._callback_thread = Background(self._run_callbacks, "rlock-on-lost")
                return
        self._run_callbacks()

    def _run_callbacks(self) -> None:
        """Call the callbacks one after another, also when the client was closed meanwhile."""
        while True:
            with self._mutex:
                if not self._callbacks:
                    # With the mutex: a loss that comes now finds no thread and starts one.
                    self._callback_thread = None
                    return
                on_lost, error = self._callbacks.popleft()
            try:
                on_lost(error)
            except BaseException:  # also SystemExit: the other callbacks must be called
                log.exception("on_lost of lock %r raised", error.name)
