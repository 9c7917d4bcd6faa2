"""The stage of a directed scenario: masters without chance, clients, and what happens at which instant."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from random import Random

from rlock.errors import LeaseLostError, QuorumUnreachableError
from rlock.procedures.acquire import AT_ONCE
from rlock.rules.options import ClientOptions, LockOptions

from .client import Client
from .driver import Program, sleep
from .events import Latency
from .referee import Referee
from .world import Network, World

NAME = "job"
FLEET = ClientOptions(ttl=1.0, max_ttl=1.0, request_timeout=0.3)
OPTIONS = LockOptions(NAME, FLEET.lease(None))
SHAKE_S = 0.03


class Stage:
    """Three masters, or a group; a holder that begins at 0, others that try when they are told to.

    ``dice``: nothing happens quite when it is told to, but up to ``SHAKE_S`` before or after.
    """

    def __init__(self, dice: Random | None = None, *, replicas: int = 0) -> None:
        self._dice = dice
        exactly, of_group = Latency(0.001, 0.0), {0: replicas} if replicas else {}
        network = Network(exactly, exactly, exactly)
        self.world = World(1 if of_group else 3, 1, network, skew=0.0, max_ttl=1.0, replicas=of_group)
        self.world.history = []
        self.holder = self.client()
        self.other = self.client()

    def client(self, *, joined: bool = True) -> Client:
        return self.world.client(FLEET, joined=joined)

    def about(self, when: float) -> float:
        return when if self._dice is None else max(0.0, when + self._dice.uniform(-SHAKE_S, SHAKE_S))

    def at(self, when: float, action: Callable[[], object]) -> None:
        self.world.events.at(self.about(when), action)

    def takes(self, client: Client, when: float, *, hold_s: float) -> None:
        """Try once; hold it, without a release in the time that is played."""
        thread = client.thread()

        def program() -> Program:
            try:
                yield from client.locking(thread, OPTIONS, AT_ONCE)
            except QuorumUnreachableError:
                return
            yield from sleep(hold_s)

        self.at(when, lambda: thread.start(program()))

    def waits(self, client: Client, when: float, *, hold_s: float) -> None:
        """Wait for it, hold it, and release it."""
        thread = client.thread()

        def program() -> Program:
            hold = yield from client.locking(thread, OPTIONS)
            assert hold is not None
            yield from sleep(hold_s)
            with suppress(LeaseLostError):
                yield from client.unlocking(hold)

        self.at(when, lambda: thread.start(program()))

    def holds_up(self, client: Client, master: int, since: float, until: float) -> None:
        """What a client sends to a master in this time arrives at its end."""

        until = self.about(until)

        def hold_up() -> None:
            client.ways[master][0].held_until = until

        self.at(since, hold_up)

    def cuts(self, client: Client, master: int, when: float) -> None:
        def cut() -> None:
            connection = client.calls.connections.servers[master].connection
            if connection is not None:
                connection.cut()

        self.at(when, cut)

    def play(self, until: float) -> Referee:
        self.world.run(until)
        self.world.close()
        return self.world.referee
