"""How threads wait: in place. Apart from sockets, nothing else in this package blocks."""

import threading
from collections.abc import Callable
from contextlib import suppress

from .._client import runtime
from .._client.runtime import NO_WAIT
from ..events import log
from ..procedures.port import T, WaitGenerator


def run(generator: WaitGenerator[T]) -> T:
    """The result of a generator of this driver, which blocks in place and yields nothing."""
    try:
        generator.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    raise AssertionError("a generator of this driver yielded instead of blocking in place")


class Parker(runtime.Parker):
    """A lock on which one thread sleeps. `threading.Event` costs ten times as much, and Ctrl-C breaks it."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def wake(self) -> None:
        if self._lock.locked():
            with suppress(RuntimeError):  # another thread has woken it at the same time
                self._lock.release()

    def clear(self) -> None:
        self._lock.acquire(blocking=False)

    def block(self, timeout: float) -> bool:
        """Sleep in place until a wake-up, at most ``timeout`` seconds; whether one came."""
        return self._lock.acquire(timeout=min(max(timeout, 0.0), threading.TIMEOUT_MAX))

    def park(self, timeout: float) -> WaitGenerator[bool]:
        woken = self.block(timeout)
        yield from NO_WAIT
        return woken


class Runtime(runtime.Runtime):
    def parker(self) -> Parker:
        return Parker()

    def sleep(self, seconds: float) -> WaitGenerator[None]:
        if seconds > 0.0:
            Parker().block(seconds)
        yield from NO_WAIT

    def repeat(self, seconds: float, function: Callable[[], bool]) -> Callable[[], None]:
        end = Parker()

        def work() -> None:
            goes_on = True
            while goes_on:
                try:
                    goes_on = function() and not end.block(seconds)
                except BaseException:
                    log.exception("the listener thread failed; it tries again")
                    goes_on = not end.block(seconds)

        def stop() -> None:
            end.wake()
            if thread is not threading.current_thread():
                thread.join(1.0)

        thread = threading.Thread(target=work, name="rlock-listener", daemon=True)
        thread.start()
        return stop

    def caller(self) -> object:
        return threading.get_ident()
