"""Threads of a simulated client: programs that run until they have to wait, and its runtime.

Where a generator of rlock/_client waits, it yields a `Wait` here, and virtual time passes; the rest is the
real code. An interrupt is thrown in at the wait, and goes the way that Ctrl-C goes.
"""

from __future__ import annotations

import math
import weakref
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from rlock._client import runtime
from rlock.procedures.port import WaitGenerator
from rlock.rules.holds import OwnerKey, ThreadLiveness

if TYPE_CHECKING:
    from .client import Client

Program = WaitGenerator[Any]


class Bench:
    """Threads that wait for something that others bring about.

    ``read``: what has come on connections is read by them, and only while at least one of them waits.
    """

    def __init__(self, read: Callable[[], object] | None = None) -> None:
        self._waiting: list[tuple[Thread, Wait]] = []
        self._read = read

    def sit(self, thread: Thread, wait: Wait) -> None:
        self._waiting.append((thread, wait))
        if self._read is not None:
            # What has lain there unread.
            thread.client.after(0.0, self.arrived)

    def rise(self, thread: Thread) -> None:
        self._waiting = [entry for entry in self._waiting if entry[0] is not thread]

    def poke(self) -> None:
        """Let those go on whose time has come; not at once, because whoever pokes is in the middle of it."""
        for thread, wait in self._waiting:
            if wait.done():
                thread.ready()

    def arrived(self) -> None:
        """Something can be read; somebody may be there to do it."""
        if self._waiting and self._read is not None:
            self._read()


class Wait(NamedTuple):
    """Until ``done``, looked at when ``bench`` is poked; at most so many seconds of the client's clock."""

    timeout: float
    bench: Bench | None = None
    done: Callable[[], bool] = lambda: False


def sleep(seconds: float) -> WaitGenerator[None]:
    yield Wait(seconds)


class Thread:
    """One thread of a client, and the one thing that it waits for at a time."""

    def __init__(self, client: Client, label: str) -> None:
        self.client = client
        self.label = label
        self._liveness = ThreadLiveness()
        self.key = OwnerKey(label, weakref.ref(self._liveness))
        self.over = False
        #: Rounds that it waited for, by script.
        self.asked: Counter[str] = Counter()
        self._program: Program
        self._bench: Bench | None = None
        self._serial = 0
        self._ready = False

    def start(self, program: Program) -> Thread:
        self._program = program
        self.client.running.append(self)
        self._go_on()
        return self

    def ready(self) -> None:
        """Go on, when whoever says so has done."""
        if not self._ready:
            self._ready = True
            serial = self._serial
            self.client.after(0.0, lambda: self._go_on_from(serial))

    def interrupt(self, error: BaseException) -> None:
        """A signal comes while it waits; it does nothing else that takes time."""
        if not self.over and not self.client.dead:
            self._go_on(error)

    def end(self) -> None:
        self.over = True
        self._serial += 1
        self._program.close()

    def _go_on_from(self, serial: int) -> None:
        if serial == self._serial and not self.over:
            self._go_on()

    def _go_on(self, error: BaseException | None = None) -> None:
        self._serial += 1
        self._ready = False
        if self._bench is not None:
            self._bench.rise(self)
            self._bench = None
        client = self.client
        client.current = self
        try:
            wait = self._program.send(None) if error is None else self._program.throw(error)
        except StopIteration:
            self.over = True
            client.running.remove(self)
            return
        serial = self._serial
        self._bench = wait.bench
        if self._bench is not None:
            self._bench.sit(self, wait)
        if wait.timeout < math.inf:
            client.after(client.lasts(max(0.0, wait.timeout)), lambda: self._go_on_from(serial))


class Parker(runtime.Parker):
    """Where one thread sleeps; ``bench``: one that it shares with others."""

    def __init__(self, bench: Bench | None = None) -> None:
        self._bench = Bench() if bench is None else bench
        self._woken = False

    def wake(self) -> None:
        self._woken = True
        self._bench.poke()

    def clear(self) -> None:
        self._woken = False

    def park(self, timeout: float) -> WaitGenerator[bool]:
        if not self._woken:
            yield Wait(timeout, self._bench, lambda: self._woken)
        woken, self._woken = self._woken, False
        return woken


class Runtime(runtime.Runtime):
    """Waiting in virtual time."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def parker(self) -> Parker:
        return Parker()

    def sleep(self, seconds: float) -> WaitGenerator[None]:
        yield Wait(max(seconds, 0.0))

    def repeat(self, seconds: float, function: Callable[[], bool]) -> Callable[[], None]:
        def work() -> None:
            if function():
                self._client.after(self._client.lasts(seconds), work)

        self._client.after(self._client.lasts(seconds), work)
        return lambda: None  # its client is closed, so the function returns False

    def caller(self) -> object:
        return self._client.current
