"""Virtual time: the events of a world, what runs in it, and how long a message is on its way."""

from __future__ import annotations

import heapq
import itertools
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

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
    #: Bytes on their way are lost as well.
    is_cut: bool = False
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
