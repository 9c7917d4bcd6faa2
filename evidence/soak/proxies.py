"""The proxies of a soak: a process in front of each master, and in it a proxy for each place of the crew.

A process of its own: otherwise the nemesis would hold up what it does not mean to, by the interpreter's lock.
"""

from __future__ import annotations

import contextlib
import ctypes
import signal
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.managers import BaseManager

from tests.faults.proxy import Proxy


class PlaceProxy(Proxy):
    """What a worker in this place says to one master, and hears from it; used from another process."""

    def address(self) -> str:
        """The URL for the worker."""
        return self.url

    def delay(self, seconds: float) -> None:
        """Let a request and its reply take so much longer, half of it each way."""
        self.delay_s = seconds


class Front(BaseManager):
    """The process in front of one master."""

    proxy: Callable[[str], PlaceProxy]

    def __init__(self, url: str, places: int) -> None:
        super().__init__(ctx=get_context("spawn"))
        self.start(_die_with_parent)
        self.proxies = [self.proxy(url) for _ in range(places)]


Front.register("proxy", PlaceProxy)


def _die_with_parent() -> None:
    with contextlib.suppress(AttributeError):  # Linux only
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
