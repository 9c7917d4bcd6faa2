"""The watchdog of the blocking driver: a daemon thread that runs while something is held."""

import threading
from collections import deque

from .._client import watchdog
from .._client.hold_table import HoldTable
from .._client.watchdog import OnLost, log
from ..errors import LeaseLostError
from ..procedures.port import Masters
from .runtime import run


class Watchdog(watchdog.Watchdog):
    """Renews in one thread; calls `on_lost` in a second one, which runs while there are losses to report."""

    def __init__(self, holds: HoldTable, masters: Masters) -> None:
        super().__init__(holds, masters)
        self._thread: threading.Thread | None = None
        #: Callbacks that are due, and the thread that calls them.
        self._callbacks: deque[tuple[OnLost, LeaseLostError]] = deque()
        self._callback_thread: threading.Thread | None = None

    def _start(self) -> None:
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="rlock-watchdog", daemon=True)
            thread.start()
            self._thread = thread

    def _ended(self) -> None:
        self._thread = None

    def stop(self) -> None:
        with self._mutex:
            self.stopped = True
            self._parker.wake()
        self._await(self._thread)
        self._await(self._callback_thread)  # the watchdog may have started it just now

    @staticmethod
    def _await(thread: threading.Thread | None) -> None:
        if thread is not None and thread is not threading.current_thread():
            thread.join(1.0)

    def _run(self) -> None:
        try:
            run(self._run_gen())
        finally:
            # Otherwise no acquire would start another thread after an exception.
            if self._thread is threading.current_thread():
                self._thread = None

    def _failed(self, error: BaseException) -> None:
        # Also SystemExit: an observer that ends its thread must not end the renewal.
        log.error("a renewal round failed; it is tried again", exc_info=error)

    def _call_on_lost(self, on_lost: OnLost, error: LeaseLostError) -> None:
        with self._mutex:
            self._callbacks.append((on_lost, error))
            if self._callback_thread is not None:
                return
            # Not in the watchdog's thread: a callback that blocks would stop all renewals. One thread for
            # all losses: an outage that ends thousands of leases must not start thousands of threads.
            thread = threading.Thread(target=self._run_callbacks, name="rlock-on-lost", daemon=True)
            try:
                thread.start()
                self._callback_thread = thread
                return
            except RuntimeError:
                pass  # the process may not start another thread
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
