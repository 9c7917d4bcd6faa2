"""Threads of a simulated client: programs that run until they have to wait, and the driver of procedures.

What blocks a thread in rlock/_sync is here a generator that yields a `Wait`; the rest is the real code. An
interrupt is thrown in at the wait, and goes the way that Ctrl-C goes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, TypeVar

from rlock._sync import driver
from rlock._sync.ears import Ear as RealEar
from rlock.procedures.steps import (
    Ask,
    AskMany,
    Listen,
    Procedure,
    Rest,
    Standing,
    Step,
    Tell,
    Unlisten,
    Wake,
)
from rlock.rules.holds import OwnerKey, Pulse

if TYPE_CHECKING:
    from .client import Client

T = TypeVar("T")


class Bench:
    """Threads that wait for something that others bring about."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Thread, Wait]] = []

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def sit(self, thread: Thread, wait: Wait) -> None:
        self._waiting.append((thread, wait))

    def rise(self, thread: Thread) -> None:
        self._waiting = [entry for entry in self._waiting if entry[0] is not thread]

    def poke(self) -> None:
        """Let those go on whose time has come; not at once, because whoever pokes is in the middle of it."""
        for thread, wait in self._waiting:
            if wait.done():
                thread.ready()


class Wait:
    """Until ``done``, looked at when ``bench`` is poked; at most so many seconds of the client's clock."""

    __slots__ = ("bench", "done", "timeout")

    def __init__(
        self, timeout: float, bench: Bench | None = None, done: Callable[[], bool] = lambda: False
    ) -> None:
        self.timeout = timeout
        self.bench = bench
        self.done = done


#: What blocks a thread.
Waits = Generator[Wait, None, T]
Program = Waits[Any]


def sleep(seconds: float) -> Waits[None]:
    yield Wait(seconds)


class Thread:
    """One thread of a client, and the one thing that it waits for at a time."""

    def __init__(self, client: Client, label: str) -> None:
        self.client = client
        self.label = label
        self._pulse = Pulse()
        self.key = OwnerKey(label, self._pulse)
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
        """Its process has gone."""
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
            client.glance(self._bench)
        if wait.timeout < math.inf:
            client.after(client.lasts(max(0.0, wait.timeout)), lambda: self._go_on_from(serial))


class Ear(RealEar):
    """In sets, in one order for one seed: by its number instead of by its address."""

    __slots__ = ("_number",)

    def __init__(self, place: Any, number: int) -> None:
        super().__init__(place)
        self._number = number

    def __hash__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other


class Driver(driver.Driver):
    """As the real one, but that it yields where a thread would block."""

    def __init__(self, client: Client) -> None:
        super().__init__(client.fanout, client.listener, client.clock, client._pass_on)
        self._client = client

    def performing(self, procedure: Procedure[T]) -> Waits[T]:
        """As `perform`."""
        ears: list[RealEar] = []
        answer: Any = None
        error: BaseException | None = None
        try:
            while True:
                try:
                    if (pause := self._client.kept_waiting()) > 0.0:
                        yield Wait(pause)
                    if error is not None:
                        failure, error = error, None
                        step = procedure.throw(failure)
                    else:
                        step = procedure.send(answer)
                    answer = yield from self._doing(step, ears)
                except StopIteration as stop:
                    result: T = stop.value
                    return result
                except GeneratorExit:
                    procedure.close()
                    raise
                except BaseException as failure:
                    if getattr(procedure, "gi_frame", None) is None:
                        raise
                    error = failure
        finally:
            for ear in ears:
                self._listener.leave(ear)
                self._decline(ear)

    def _doing(self, step: Step, ears: list[RealEar]) -> Waits[Any]:
        client = self._client
        fanout, listener = client.fanout, client.listener
        if isinstance(step, Ask):
            client.current.asked[step.command.script.name] += 1
            return (yield from fanout.asking(step))
        if isinstance(step, Tell):
            return fanout.tell(step)
        if isinstance(step, AskMany):
            return (yield from fanout.asking_many(step))
        if isinstance(step, Rest):
            return (yield from fanout.resting(step))
        if isinstance(step, Standing):
            return listener.standing(step.name)
        if isinstance(step, Listen):
            if ears and ears[0].place is not step.place:
                listener.leave(ears[0])
                self._decline(ears.pop())
            if not ears:
                ears.append(Ear(step.place, next(client.numbers)))
            return (yield from listener.listening(ears[0], step.timeout))
        if isinstance(step, Unlisten):
            for ear in ears:
                self.finished.append(ear.place.token)
                listener.leave(ear)
                self._decline(ear)
            return None
        timeout = step.until - client.clock()
        if ears:
            return (yield from listener.parking(ears[0], timeout))
        yield Wait(max(timeout, 0.0))
        return Wake.TIME
