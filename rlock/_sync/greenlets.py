"""The scene: what threads are in this process, threads of the system or greenlets that a hub runs."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from types import BuiltinFunctionType

#: Two values that differ: what was made in the one cannot be used in the other.
Scene = tuple[object, int]


def greened() -> bool:
    """Whether gevent or eventlet has put greenlets in the place of threads."""
    return type(threading.get_ident) is not BuiltinFunctionType


def scene() -> Scene:
    """Where the caller runs: under which library, and with greenlets in which native thread.

    Each native thread has a hub of its own, and a hub wakes its own greenlets only.
    """
    return threading.get_ident, threading.get_native_id() if greened() else 0


#: Where the libraries say what they have patched, and how they call it.
_PATCHERS = {
    "gevent.monkey": ("is_module_patched", ("threading", "select", "socket", "time")),
    "eventlet.patcher": ("is_monkey_patched", ("thread", "select", "socket", "time")),
}


def half_patched() -> str:
    """What a library has left unpatched beside what it has patched; empty: nothing.

    With greenlets on threads' locks the process stops for ever; with an unpatched `select` nobody renews.
    """
    for name, (question, parts) in _PATCHERS.items():
        module = sys.modules.get(name)
        patched = [part for part in parts if module is not None and getattr(module, question)(part)]
        missing = [part for part in parts if part not in patched]
        if patched and missing:
            return f"{name.partition('.')[0]} has patched {_listed(patched)} but not {_listed(missing)}"
    return ""


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
