"""A world: masters, clients, the network between them, and a referee. One seed, one history."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any
from unittest.mock import patch

from rlock.procedures import acquire as acquiring
from rlock.rules import keys, places, scripts
from rlock.rules.holds import Hold

from .client import Client
from .events import Events, Latency, Process
from .masters import Master

#: The wall clock at the beginning, so that tickets are as large as they are in life.
EPOCH_US = 1_790_000_000_000_000


@dataclass(frozen=True)
class Network:
    """How long what is on its way, one way each; ``dials``: round trips of a new subscriber connection."""

    commands: Latency = field(default_factory=Latency)
    messages: Latency = field(default_factory=Latency)
    dials: int = 2

    @property
    def round_trip(self) -> float:
        """The mean of a command and its reply."""
        return 2 * self.commands.mean


class Host(Process):
    """A master's machine; its wall clock is off by ``skew`` seconds."""

    def __init__(self, world: World, skew: float) -> None:
        super().__init__(world.events)
        self.world = world
        self.skew = skew
        self.master = Master(lambda: EPOCH_US + round((self.events.now + self.skew) * 1e6))

    def run(self, command: scripts.Command) -> Any:
        """Run a script now; what it publishes is on its way with the reply."""
        reply, messages = self.master.run(command)
        for message in messages:
            for receiver in message.receivers:
                receiver.hear(message.channel, message.payload)
        return reply


@dataclass(frozen=True)
class Moment:
    """A lease begins, or is given up."""

    at: float
    name: str
    owner: str


@dataclass(frozen=True)
class Violation:
    """Two valid leases of one lock at the same time."""

    at: float
    name: str
    first: str
    second: str


class Referee:
    """Sees all clients at once. A lease counts from the return of acquire until release is called.

    In between it ends by itself when its validity does, on its holder's own clock. A lease is prolonged
    only while it is valid, so two overlap if, and only if, the earlier one is valid when the later begins.
    """

    def __init__(self, events: Events) -> None:
        self._events = events
        self._valid: dict[str, list[tuple[Client, Hold]]] = {}
        self.violations: list[Violation] = []
        self.entered: list[Moment] = []
        self.left: list[Moment] = []

    def enter(self, client: Client, hold: Hold) -> None:
        others = self._valid.setdefault(hold.name, [])
        others[:] = [(who, other) for who, other in others if other.lease.remaining(who.clock()) > 0.0]
        for _, other in others:
            self.violations.append(Violation(self._events.now, hold.name, other.owner, hold.owner))
        others.append((client, hold))
        self.entered.append(Moment(self._events.now, hold.name, hold.owner))

    def leave(self, hold: Hold) -> None:
        others = self._valid.get(hold.name, [])
        others[:] = [(who, other) for who, other in others if other is not hold]
        self.left.append(Moment(self._events.now, hold.name, hold.owner))


class World:
    """Everything there is, and the time."""

    def __init__(
        self, masters: int, seed: int, network: Network | None = None, *, skew: float = 0.005
    ) -> None:
        self.random = Random(seed)
        self.events = Events()
        self.network = network or Network()
        self.hosts = [Host(self, self.random.uniform(-skew, skew)) for _ in range(masters)]
        self.clients: list[Client] = []
        self.referee = Referee(self.events)
        #: Commands that went to masters, by script.
        self.sent: Counter[str] = Counter()
        #: What happened, for people: a list if it is to be kept.
        self.history: list[str] | None = None

    def client(self, **clock: float) -> Client:
        client = Client(self, f"c{len(self.clients):03d}", **clock)
        self.clients.append(client)
        return client

    def run(self, until: float = math.inf, done: Callable[[], bool] = lambda: False) -> bool:
        """See `Events.run`."""
        with (
            patch.object(acquiring, "owner_token", self.token),
            patch.object(places, "owner_token", self.token),
        ):
            return self.events.run(until, done)

    def token(self, client: str) -> str:
        """An owner token out of the seed: they decide between equal tickets."""
        return f"{client}:{self.random.getrandbits(128):032x}"

    def note(self, what: str, command: scripts.Command, reply: Any) -> None:
        if self.history is not None:
            words = [_short(str(word)) for word in command.by_sha()[5:]]
            told = [_short(word.decode()) if isinstance(word, bytes) else word for word in reply]
            self.history.append(f"{self.events.now * 1e3:9.3f} ms  {what} {words} -> {told}")

    def left(self, name: str) -> dict[int, tuple[dict[str, str], list[str]]]:
        """What stands on the masters about a lock: its holder, its queue; masters with nothing left out."""
        found = {}
        for i, host in enumerate(self.hosts):
            entry = host.master.find(name)
            holder = {} if entry is None else entry.fields
            queue = [waiter for waiter, _ in host.master.line(keys.queue(name))]
            if holder or queue:
                found[i] = (holder, queue)
        return found


def _short(word: str) -> str:
    """An owner token or a place as a person wants to read it."""
    client, mark, uuid = word.partition(":")
    return f"{client.partition('/')[0]}:{uuid[:4]}" if mark and len(uuid) >= 32 else word[:20]
