"""The watchdog of the blocking driver: a daemon thread, while something is held."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence

from .._client import watchdog
from ..clock import Clock
from ..errors import LeaseLostError, RLockError
from ..procedures.port import WaitGenerator
from ..procedures.renew import Renewal, Round
from ..rules.holds import Hold, Holds
from .runtime import run

log = logging.getLogger("rlock")

OnLost = Callable[[LeaseLostError], object]


class Watchdog(watchdog.Watchdog):
    """Renews in a thread of its own; calls `on_lost` in a second one, while there is a loss to tell."""

    def __init__(
        self,
        holds: Holds,
        mutex: threading.Lock,
        clock: Clock,
        renewing: Callable[[Sequence[Hold]], WaitGenerator[Round]],
        healing: Callable[[Round, float], WaitGenerator[list[Renewal]]],
    ) -> None:
        super().__init__(holds, mutex, clock, renewing, healing)
        self._changed = threading.Condition(mutex)
        self._thread: threading.Thread | None = None
        #: Callbacks that are due, and the thread that calls them.
        self._losses: deque[tuple[OnLost, LeaseLostError]] = deque()
        self._teller: threading.Thread | None = None

    def _start(self) -> None:
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="rlock-watchdog", daemon=True)
            thread.start()
            self._thread = thread

    def _stir(self) -> None:
        self._changed.notify_all()

    def stop(self) -> None:
        """End the thread."""
        with self._changed:
            self._closed = True
            thread = self._thread
            self._changed.notify_all()
        if thread is not None and thread is not threading.current_thread():
            thread.join(1.0)

    # -- the thread --------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while (due := self._wait()) is not None:
                try:
                    run(self._looking_after(due))
                except RLockError as error:
                    log.debug("no renewal: %s", error)  # the client is being closed
                except BaseException:
                    log.exception("a renewal round failed; it is tried again")
                    self._try_again(due)
        finally:
            # Whatever ended it, the next acquire has to start another one.
            if self._thread is threading.current_thread():
                self._thread = None

    def _wait(self) -> list[Hold] | None:
        """The holds that are due; None: nobody needs the thread any more."""
        with self._changed:
            while not (due := self._next()):
                if due is None:
                    # Under the mutex: an acquire that comes now finds no thread and starts one.
                    self._thread = None
                    return None
                self._changed.wait(self._wake_at - self._clock())
            return due

    def _connect_options(self, on_lost: OnLost, error: LeaseLostError) -> None:
        self._losses.append((on_lost, error))
        with self._mutex:
            if self._teller is not None:
                return
            # In a thread of its own: a callback that blocks must not stop the renewal of other locks. One for
            # all losses: an outage that ends thousands of leases must not start thousands of threads.
            thread = threading.Thread(target=self._tell_losses, name="rlock-on-lost", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                pass
            else:
                self._teller = thread
                return
        self._tell_losses()  # no thread to be had: late is better than never

    def _tell_losses(self) -> None:
        """Call what is due, one after another; close() does not end this."""
        while True:
            with self._mutex:
                if not self._losses:
                    # Under the mutex: a loss that comes now finds no thread and starts one.
                    if self._teller is threading.current_thread():
                        self._teller = None
                    return
                on_lost, error = self._losses.popleft()
            try:
                on_lost(error)
            except BaseException:  # SystemExit, too: the others have to be told
                log.exception("on_lost of lock %r raised", error.name)
