"""A world: masters, clients, the network between them, and a referee. One seed, one history."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any
from unittest.mock import patch

from rlock._client import subscriptions
from rlock.rules import keys
from rlock.rules.command_templates import Command
from rlock.rules.holds import Hold
from rlock.rules.options import DEFAULT_TTL, ClientOptions

from .client import Client
from .events import Events, Latency
from .groups import Group
from .hosts import EPOCH_US, Host
from .recorder import Recorder
from .referee import Referee, Violation

_log = logging.getLogger("rlock")


@dataclass(frozen=True)
class Network:
    """How long what is on its way, one way each."""

    commands: Latency = field(default_factory=Latency)
    messages: Latency = field(default_factory=Latency)
    replication: Latency = field(default_factory=Latency)

    @property
    def round_trip(self) -> float:
        """The mean of a command and its reply."""
        return 2 * self.commands.mean


class World:
    """Everything there is, and the time."""

    def __init__(
        self,
        masters: int,
        seed: int,
        network: Network | None = None,
        *,
        skew: float = 0.005,
        drift: float = 0.0,
        max_ttl: float = DEFAULT_TTL,
        replicas: Mapping[int, int] | None = None,
        spare: bool = False,
    ) -> None:
        """``replicas``: the masters that are groups, and how many replicas each has. ``spare``: see Group."""
        self.max_ttl_ms = round(max_ttl * 1000)
        self.seed = seed
        self.skew = skew
        self.random = Random(seed)
        self.events = Events()
        self.network = network or Network()
        #: Whether users may CLIENT KILL their own connections.
        self.may_kill = True
        self.clients: list[Client] = []
        self.referee = Referee(self)
        self.recorder: Recorder | None = None
        #: Commands that went to masters, by script.
        self.sent: Counter[str] = Counter()
        #: Called with what has happened: an event, its client, its master and its owner.
        self.happens: Callable[[str, Client | None, Host | None, str], object] = lambda *_: None
        #: Called when a client tells that it has lost a hold.
        self.on_lost: Callable[[Client, Hold], object] = lambda *_: None
        #: What happened, for people: a list if it is to be kept.
        self.history: list[str] | None = None
        uniform = self.random.uniform
        self.groups = {i: Group(self, i, k, skew, drift, spare=spare) for i, k in (replicas or {}).items()}
        #: The masters; of a group, its primary.
        self.hosts = [
            self.groups[i].primary
            if i in self.groups
            else Host(self, i, uniform(-skew, skew), 1 + uniform(-drift, drift))
            for i in range(masters)
        ]

    @property
    def servers(self) -> list[Host]:
        """The masters, and the replicas of groups."""
        return self.hosts + [replica for group in self.groups.values() for replica in group.replicas]

    def named(self, master: int) -> Host:
        """The server to which a new connection to a master goes."""
        return self.groups[master].named() if master in self.groups else self.hosts[master]

    def client(self, options: ClientOptions | None = None, *, joined: bool = True, **clock: float) -> Client:
        client = Client(self, f"c{len(self.clients):03d}", options, joined=joined, **clock)
        self.clients.append(client)
        return client

    def run(self, until: float = math.inf, done: Callable[[], bool] = lambda: False) -> bool:
        with self._at_work():
            return self.events.run(until, done)

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        with ExitStack() as stack:
            if self.recorder is not None:
                stack.enter_context(self.recorder.watching())
            # The connections of subscribers carry words.
            stack.enter_context(patch.object(subscriptions, "encode", lambda words: words))
            level = _log.level
            _log.setLevel(logging.CRITICAL)
            stack.callback(_log.setLevel, level)
            yield

    def close(self) -> None:
        """Nothing runs any more, and what Python collects later has no effect."""
        self.referee.finish()
        for client in self.clients:
            client.kill()

    def dice(self, *names: object) -> Random:
        """Random numbers of their own for a part of the world."""
        return Random(f"{self.seed} {names}")

    def token(self, client: str) -> str:
        """An owner token out of the seed: they decide between equal tickets."""
        return f"{client}:{self.clients[int(client[1:4])].random.getrandbits(128):032x}"

    def note(self, what: str, command: Command, reply: Any) -> None:
        words = " ".join(_short(str(word)) for word in command.by_sha()[3:])
        told = [_short(word.decode()) if isinstance(word, bytes) else word for word in reply]
        self.tell(f"{what} {words} -> {told}")

    def tell(self, what: str, owner: str = "") -> None:
        if self.history is not None:
            self.history.append(f"{self.events.now * 1e3:11.3f} ms  {what} {_short(owner)}".rstrip())

    def left(self, name: str) -> dict[int, tuple[dict[str, str], list[str]]]:
        """What stands on the masters about a lock: its holder, its queue; masters with nothing left out."""
        found = {}
        for i, host in enumerate(self.hosts):
            holder = host.left(name)
            queue = [waiter for waiter, _ in host.master.line(keys.queue(name))]
            if holder or queue:
                found[i] = (holder, queue)
        return found


def _short(word: str) -> str:
    """An owner token or a place as a person wants to read it."""
    client, mark, uuid = word.partition(":")
    return f"{client}:{uuid[:4]}" if mark and len(uuid) >= 32 else word[:34]


__all__ = ["EPOCH_US", "Network", "Violation", "World"]
