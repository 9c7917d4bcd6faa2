"""The watchdog of the blocking driver: a daemon thread that runs while something is held."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

from .._client import watchdog
from .._client.engine import Engine
from ..errors import LeaseLostError, RLockError
from ..rules.holds import Hold
from .runtime import run

log = logging.getLogger("rlock")

OnLost = Callable[[LeaseLostError], object]


class Watchdog(watchdog.Watchdog):
    """Renews in one thread; calls `on_lost` in a second one, which runs while there are losses to report."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._changed = threading.Condition(engine.mutex)
        self._thread: threading.Thread | None = None
        #: Callbacks that are due, and the thread that calls them.
        self._callbacks: deque[tuple[OnLost, LeaseLostError]] = deque()
        self._callback_thread: threading.Thread | None = None

    def _start(self) -> None:
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="rlock-watchdog", daemon=True)
            thread.start()
            self._thread = thread

    def _wake(self) -> None:
        self._changed.notify_all()

    def stop(self) -> None:
        with self._changed:
            self._closed = True
            thread = self._thread
            self._changed.notify_all()
        if thread is not None and thread is not threading.current_thread():
            thread.join(1.0)

    def _run(self) -> None:
        try:
            while (due := self._wait()) is not None:
                try:
                    run(self._look_after(due))
                except RLockError as error:
                    log.debug("no renewal: %s", error)  # the client is being closed
                except BaseException:
                    log.exception("a renewal round failed; it is tried again")
                    self._try_again(due)
        finally:
            # Otherwise the next acquire would not start another thread.
            if self._thread is threading.current_thread():
                self._thread = None

    def _wait(self) -> list[Hold] | None:
        """Wait for holds that are due; None: the thread is not needed any more."""
        with self._changed:
            while not (due := self._take_due()):
                if due is None:
                    # With the mutex: an acquire that comes now finds no thread and starts one.
                    self._thread = None
                    return None
                self._changed.wait(self._wake_at - self._clock())
            return due

    def _call_on_lost(self, on_lost: OnLost, error: LeaseLostError) -> None:
        self._callbacks.append((on_lost, error))
        with self._mutex:
            if self._callback_thread is not None:
                return
            # Not in the watchdog's thread: a callback that blocks would stop all renewals. One thread for
            # all losses: an outage that ends thousands of leases must not start thousands of threads.
            thread = threading.Thread(target=self._run_callbacks, name="rlock-on-lost", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                pass  # the process may not start another thread
            else:
                self._callback_thread = thread
                return
        self._run_callbacks()

    def _run_callbacks(self) -> None:
        """Call the callbacks one after another, also when the client was closed meanwhile."""
        while True:
            with self._mutex:
                if not self._callbacks:
                    # With the mutex: a loss that comes now finds no thread and starts one.
                    if self._callback_thread is threading.current_thread():
                        self._callback_thread = None
                    return
                on_lost, error = self._callbacks.popleft()
            try:
                on_lost(error)
            except BaseException:  # also SystemExit: the other callbacks must be called
                log.exception("on_lost of lock %r raised", error.name)
