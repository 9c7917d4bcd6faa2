"""A world: masters, clients, the network between them, and a referee. One seed, one history."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from random import Random
from typing import Any
from unittest.mock import patch

from rlock._client import subscriptions
from rlock.rules.command_templates import Command
from rlock.rules.holds import Hold
from rlock.rules.options import DEFAULT_TTL, ClientOptions

from .client import Client
from .events import Events, Latency
from .groups import Group
from .hosts import Host
from .recorder import Recorder
from .referee import Referee

_log = logging.getLogger("rlock")


@dataclass(eq=False)
class World:
    """Everything there is, and the time."""

    masters: int
    seed: int
    #: One way, of clients to masters and back; and within a group.
    latency: Latency = field(default_factory=Latency)
    replication: Latency = field(default_factory=Latency)
    skew: float = 0.005
    drift: float = 0.0
    max_ttl: float = DEFAULT_TTL
    replicas: tuple[int, ...] = ()  # of its first masters, which are groups; ``spare``: see Group
    spare: bool = False
    may_kill: bool = True  # whether users may CLIENT KILL their own connections
    history: list[str] | None = None  # the events in words, for people: a list if they are to be kept
    #: Called with what has happened: an event, its client, its master and its owner.
    happens: Callable[[str, Client | None, Host | None, str], object] = lambda *_: None
    #: Called when a client tells that it has lost a hold.
    on_lost: Callable[[Client, Hold], object] = lambda *_: None
    recorder: Recorder | None = None

    def __post_init__(self) -> None:
        self.max_ttl_ms = round(self.max_ttl * 1000)
        self.random = Random(self.seed)
        self.events = Events()
        self.clients: list[Client] = []
        self.referee = Referee(self)
        self.sent: Counter[str] = Counter()  # commands that went to masters, by script
        self.groups = {i: Group(self, i, k, spare=self.spare) for i, k in enumerate(self.replicas)}
        #: The masters; of a group, its primary.
        self.hosts: list[Host] = [group.primary for group in self.groups.values()]
        self.hosts += [Host(self, i, *self.clock()) for i in range(len(self.groups), self.masters)]

    def clock(self) -> tuple[float, float]:
        skew, drift = (self.random.uniform(-most, most) for most in (self.skew, self.drift))
        return skew, 1 + drift

    @property
    def servers(self) -> list[Host]:
        """The masters, and the replicas of groups."""
        return self.hosts + [replica for group in self.groups.values() for replica in group.replicas]

    def named(self, master: int) -> Host:
        """The server to which a new connection to a master goes."""
        return self.groups[master].named() if master in self.groups else self.hosts[master]

    def client(
        self,
        options: ClientOptions | None = None,
        joined: bool = True,
        offset: float = 0.0,
        rate: float = 1.0,
    ) -> Client:
        label = f"c{len(self.clients):03d}"
        client = Client(self, label, options or ClientOptions(), joined, offset, rate)
        self.clients.append(client)
        return client

    def run(self, until: float = math.inf, done: Callable[[], bool] = lambda: False) -> bool:
        with ExitStack() as stack:
            if self.recorder is not None:
                self.recorder.watch(stack)
            # The connections of subscribers carry words.
            stack.enter_context(patch.object(subscriptions, "encode", lambda words: words))
            stack.callback(_log.setLevel, _log.level)
            _log.setLevel(logging.CRITICAL)
            return self.events.run(until, done)

    def meanwhile(self, seconds: float, done: Callable[[], bool]) -> None:
        """Let so much time pass, and then more of it until ``done``, in the middle of an event."""
        try:
            self.events.run(self.events.now + seconds)
            self.events.run(done=done)
        except Exception as error:  # of another thread
            self.referee.accuse("", type(error).__name__, "", f"raised {error!s:.80}")

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


def _short(word: str) -> str:
    """An owner token or a place as a person wants to read it."""
    client, mark, uuid = word.partition(":")
    return f"{client}:{uuid[:4]}" if mark and len(uuid) >= 32 else word[:34]
