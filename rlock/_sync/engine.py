"""The engine of the blocking driver: owners are threads."""

from __future__ import annotations

import math
import os
import threading
import time
import weakref
from collections.abc import Sequence
from contextlib import suppress
from typing import ClassVar

from .._client import engine
from .._client.engine import client_label
from ..clock import Clock
from ..procedures.port import T, WaitGenerator
from ..rules.holds import OwnerKey, ThreadLiveness
from ..rules.options import ClientOptions
from .connections import Connections, Endpoint
from .runtime import Runtime, hub_thread, run
from .watchdog import Watchdog


class Engine(engine.Engine):
    #: Engines that hold something. Otherwise the end of the process could not release the locks of a client
    #: that was collected.
    holding: ClassVar[set[Engine]] = set()

    def __init__(self, endpoints: Sequence[Endpoint], options: ClientOptions, clock: Clock) -> None:
        super().__init__(endpoints, options, clock, Runtime())
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
            key = own.setdefault("key", OwnerKey(client_label(_thread_name()), alive))
        return key

    def _owner_ended(self, ended: object) -> None:
        """See to the holds of a thread that has ended: nobody will release them."""
        if self.pid != os.getpid():
            return  # in a forked child; another thread may have had the mutex
        with self.holds.mutex, suppress(RuntimeError):  # there are no more threads
            for hold in self.holds:
                if hold.owner_key.alive is ended and hold.report.end_reported:
                    self.holds.remove(hold)
                elif hold.owner_key.alive is ended and hold.renewal.due_at == math.inf:
                    self.watchdog.watch(hold)  # to report the end of its lease

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

    def abandon(self) -> None:
        super().abandon()
        self.holding.discard(self)


def _thread_name() -> str:
    # Not threading.current_thread(): it leaks a dummy Thread for a thread that `threading` did not start.
    own = (thread.name for thread in threading.enumerate() if thread.ident == threading.get_ident())
    return next(own, f"thread-{threading.get_native_id()}")
