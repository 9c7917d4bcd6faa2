"""The watchdog of the blocking driver: a daemon thread, while something is held."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from .._driver import watchdog
from .._driver.waits import Waits
from ..clock import Clock
from ..errors import LeaseLostError, RLockError
from ..procedures.renew import Renewal, Round
from ..rules.holds import Hold, Holds
from .waits import run

log = logging.getLogger("rlock")


class Watchdog(watchdog.Watchdog):
    """Renews in a thread of its own."""

    def __init__(
        self,
        holds: Holds,
        mutex: threading.Lock,
        clock: Clock,
        renewing: Callable[[Sequence[Hold]], Waits[Round]],
        healing: Callable[[Round, float], Waits[list[Renewal]]],
    ) -> None:
        super().__init__(holds, mutex, clock, renewing, healing)
        self._changed = threading.Condition(mutex)
        self._thread: threading.Thread | None = None

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

    def _call(self, on_lost: Callable[[LeaseLostError], object], error: LeaseLostError) -> None:
        try:
            # In a thread of its own: a callback that blocks must not stop the renewal of other locks.
            threading.Thread(target=_tell, args=(on_lost, error), name="rlock-on-lost", daemon=True).start()
        except RuntimeError:  # no thread to be had: late is better than never
            _tell(on_lost, error)


def _tell(on_lost: Callable[[LeaseLostError], object], error: LeaseLostError) -> None:
    try:
        on_lost(error)
    except Exception:
        log.exception("on_lost of lock %r raised", error.name)
