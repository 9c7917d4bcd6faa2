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
        """Something reaches the process now."""
        if self.dead:
            return
        if self.stopped:
            self._backlog.append(action)
        else:
            action()

    def after(self, delay: float, action: Action) -> None:
        if delay < math.inf:
            self.events.at(self.events.now + delay, lambda: self.do(action))

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
        """As by SIGKILL."""
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

    __slots__ = ("_kept", "_shut", "extra", "held_until")

    def __init__(self) -> None:
        self.held_until = 0.0
        self.extra = 0.0
        self._shut = 0
        self._kept: list[tuple[Wire, Action]] = []

    def keeps(self, wire: Wire, action: Action) -> bool:
        """Whether it is shut, and keeps this until it is open."""
        if self._shut:
            self._kept.append((wire, action))
        return self._shut > 0

    @property
    def is_shut(self) -> bool:
        return self._shut > 0

    def shut(self) -> None:
        self._shut += 1

    def open(self, *, wide: bool = False) -> None:
        """As often as it was shut; ``wide``: however often that was."""
        self._shut = 0 if wide else max(0, self._shut - 1)
        if not self._shut:
            kept, self._kept = self._kept, []
            for wire, action in kept:
                wire.send(action)


class Wire:
    """One direction of a connection: whatever is sent arrives in order, or not at all once it is cut."""

    __slots__ = ("_cut", "_events", "_last", "_latency", "_mute", "_random", "_way")

    def __init__(self, events: Events, random: Random, latency: Latency, way: Way) -> None:
        self._events = events
        self._random = random
        self._latency = latency
        self._way = way
        self._last = 0.0
        self._cut = False
        self._mute = False

    def send(self, action: Action) -> None:
        way = self._way
        if self._mute or self._cut or way.keeps(self, action):
            return
        took = self._latency.draw(self._random)
        self._last = max(self._last, self._events.now + took + way.extra, way.held_until + took)
        self._events.at(self._last, lambda: self._cut or action())

    def cut(self) -> None:
        """What is still on its way is lost, and what is sent from now on."""
        self._cut = True

    @property
    def is_mute(self) -> bool:
        return self._mute

    def mute(self) -> None:
        """What is sent from now on is lost: the connection is half open, and nobody knows."""
        self._mute = True
