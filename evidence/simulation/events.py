"""Virtual time: the events of a world, processes and their threads, and how long a message is on its way.

Where a generator of rlock/_client waits, it yields a `Wait` here, and virtual time passes; the rest is the
real code. An interrupt is thrown in at the wait, and goes the way that Ctrl-C goes. Threads are switched
where they wait, and in some schedules before and behind a few functions (`client.SWITCHED`): nowhere else.
"""

from __future__ import annotations

import heapq
import itertools
import math
import weakref
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from rlock._client import runtime
from rlock.procedures.port import WaitGenerator
from rlock.rules.holds import OwnerKey, ThreadLiveness

if TYPE_CHECKING:
    from .client import Client

Program = WaitGenerator[Any]
Action = Callable[[], object]


class Events:
    """The one clock of a world, in seconds, and what is to happen, in order."""

    def __init__(self) -> None:
        self.now = 0.0
        self._heap: list[tuple[float, int, Action]] = []
        self._serials = itertools.count()

    def at(self, when: float, action: Action) -> None:
        """Of two actions for one instant the first that was asked for comes first."""
        heapq.heappush(self._heap, (max(when, self.now), next(self._serials), action))

    def after(self, delay: float, action: Action) -> None:
        self.at(self.now + delay, action)

    def run(self, until: float = math.inf, done: Callable[[], bool] = lambda: False) -> bool:
        """Let things happen until ``done``, or until that instant; whether it was done."""
        heap, pop = self._heap, heapq.heappop
        while not done():
            if not heap or heap[0][0] > until:
                if until < math.inf:
                    self.now = max(self.now, until)
                return False
            self.now, _, action = pop(heap)
            action()
        return True


class Process:
    """A program that can be stopped for a while, and killed. What comes meanwhile waits, in order."""

    def __init__(self, events: Events) -> None:
        self.events = events
        self.dead = False
        self.stopped = False
        self._backlog: deque[Action] = deque()

    def do(self, action: Action) -> None:
        if self.dead:
            return
        if self.stopped:
            self._backlog.append(action)
        else:
            action()

    def after(self, delay: float, action: Action) -> None:
        if delay < math.inf:
            self.events.after(delay, lambda: self.do(action))

    def stop(self) -> None:
        self.stopped = True

    def resume(self, random: Random | None = None) -> None:
        """As by SIGCONT: all that has come meanwhile is there at once; ``random``: in any order.

        The user's thread may run before the watchdog, and a time-out before the answer that came first.
        """
        self.stopped = False
        if random is not None:
            backlog = list(self._backlog)
            random.shuffle(backlog)
            self._backlog = deque(backlog)
        while self._backlog and not self.stopped and not self.dead:
            self._backlog.popleft()()

    def kill(self) -> None:
        self.dead = True
        self._backlog.clear()


@dataclass(frozen=True)
class Latency:
    """One way of a message in seconds: at least ``least``, and on top of it a random part.

    The random part is exponential with the mean ``jitter``: whose message comes first is then a lottery,
    as it is among processes on loopback.
    """

    least: float = 0.0001
    jitter: float = 0.0001

    @property
    def mean(self) -> float:
        return self.least + self.jitter

    def draw(self, random: Random) -> float:
        return self.least + (random.expovariate(1 / self.jitter) if self.jitter else 0.0)


class Way:
    """One direction between two machines, for the connections of one kind.

    TCP sends again: what is sent while the way is shut arrives in order when it is open again.
    """

    def __init__(self) -> None:
        self.held_until = self.extra = 0.0
        self._shut = 0
        self.kept: list[tuple[Wire, Action]] = []

    @property
    def is_shut(self) -> bool:
        return self._shut > 0

    def shut(self) -> None:
        self._shut += 1

    def open(self, *, wide: bool = False) -> None:
        """As often as it was shut; ``wide``: however often that was."""
        self._shut = 0 if wide else max(0, self._shut - 1)
        if not self._shut:
            kept, self.kept = self.kept, []
            for wire, action in kept:
                wire.send(action)


@dataclass(eq=False)
class Wire:
    """One direction of a connection: whatever is sent arrives in order, or not at all once it is cut."""

    events: Events
    random: Random
    latency: Latency
    way: Way
    #: Bytes that are sent from now on are lost: the connection is half open, and nobody knows.
    is_mute: bool = False
    is_cut: bool = False  # bytes on their way are lost as well
    last: float = 0.0

    def send(self, action: Action) -> None:
        way = self.way
        if self.is_mute or self.is_cut:
            return
        if way.is_shut:
            way.kept.append((self, action))
            return
        took = self.latency.draw(self.random)
        self.last = max(self.last, self.events.now + took + way.extra, way.held_until + took)
        self.events.at(self.last, lambda: self.is_cut or action())


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
            # A waiting thread first reads the bytes that came before it waited.
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
        #: It is in the middle of something, and another thread may run: see `Client.may_switch`.
        self.runs = False
        self.asked: Counter[str] = Counter()  # rounds that it waited for, by script
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
        if not self.over and not self.client.dead and not self.runs:
            self._go_on(error)

    def end(self) -> None:
        self.over = True
        self._serial += 1
        if not self.runs:
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
        self.runs = True
        try:
            wait = self._program.send(None) if error is None else self._program.throw(error)
        except (StopIteration, GeneratorExit):
            self.over = True
            client.running.remove(self)
            return
        finally:
            self.runs = False
        if self.over:  # killed meanwhile
            self._program.close()
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
