"""How threads wait: in place. Apart from sockets, nothing else in this package blocks.

gevent turns threads into greenlets, which wait by their hub. In some processes a client would stop for ever.
"""

import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import BuiltinFunctionType

from .._client import runtime
from .._client.runtime import NO_WAIT, Background
from .._client.runtime import run as run
from ..errors import OptionsError
from ..events import log
from ..procedures.port import WaitGenerator

EVENTLET = (
    "eventlet has patched this process, and rlock does not support eventlet: "
    "use gevent (monkey.patch_all()), ordinary threads, or rlock.asyncio"
)
PATCHED_IN_PART = "greenlets would wait in ways that stop all of them; patch everything, with no arguments"
PATCHED_TOO_LATE = (
    "this client was used before gevent patched the process, and would now stop all greenlets while it "
    "waits: patch in the first lines of the program, or use the client only after the patch"
)
OTHER_NATIVE_THREAD = (
    "this client belongs to the greenlets of another native thread, and their hub cannot wake this one: "
    "make a client in each native thread (each worker of a gevent.threadpool)"
)

_GEVENT_PARTS = ("threading", "select", "socket", "time")
_EVENTLET_PARTS = ("os", "select", "socket", "thread", "time")


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
            thread.join()

        thread = Background(work, "rlock-listener")
        return stop

    def caller(self) -> object:
        return threading.get_ident()


def hub_thread() -> int:
    """The native thread whose hub runs the calling greenlet; 0 if threads are not patched.

    Each native thread has its own hub, and a hub wakes its own greenlets only.
    """
    return 0 if type(threading.get_ident) is BuiltinFunctionType else threading.get_native_id()


def check_patches() -> None:
    """Refuse a process in which a client cannot work, with `OptionsError`.

    Greenlets on locks of real threads stop the process for ever. Without a patched `select` no renewal runs.
    """
    eventlet = sys.modules.get("eventlet.patcher")
    if eventlet is not None and any(map(eventlet.is_monkey_patched, _EVENTLET_PARTS)):
        raise OptionsError(EVENTLET)
    gevent = sys.modules.get("gevent.monkey")
    patched = [part for part in _GEVENT_PARTS if gevent is not None and gevent.is_module_patched(part)]
    missing = [part for part in _GEVENT_PARTS if part not in patched]
    if patched and missing:
        found = f"gevent has patched {', '.join(patched)}, but not {', '.join(missing)}"
        raise OptionsError(f"{found}: {PATCHED_IN_PART}")
