"""Greenlets: what gevent does to threads, and the processes in which a client would stop for ever."""

import sys
import threading
from collections.abc import Sequence
from types import BuiltinFunctionType

from ..errors import OptionsError

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
        raise OptionsError(
            f"gevent has patched {_listed(patched)} but not {_listed(missing)}: {PATCHED_IN_PART}"
        )


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
