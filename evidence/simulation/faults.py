"""Faults of a random schedule: what goes wrong, with whom, when, and for how long."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from .connections import Connection
from .events import Way
from .failovers import FAILOVERS
from .hosts import Host
from .world import World

if TYPE_CHECKING:
    from .client import Client

Act = Callable[["Nemesis"], None]
#: With how often each happens.
Kinds = dict[str, tuple[int, Act]]

#: How long something is stopped, or on its way, at the most.
HELD_UP_S = 3.0
#: When a process that was killed has begun anew, at the latest.
REBIRTH_S = 0.5


class Nemesis:
    """Does harm to a world until `end`. ``dice`` are its own: the same harm whatever the world does."""

    def __init__(self, world: World, dice: Random, reborn: Callable[[], object], name: str) -> None:
        self.world = world
        self.dice = dice
        self.reborn = reborn
        self.lock = name
        self.restarts = self.failovers = 0
        self.over = False

    def plan(self, faults: int, begin: float, end: float) -> list[str]:
        """Have so many faults happen; their names."""
        names = self._planned(KINDS, faults, begin, end)
        if self.world.groups:
            # Early: a server that was promoted has no vote for a second.
            names += self._planned(FAILOVERS, self.dice.randint(1, 5), begin, end / 2)
        return names

    def _planned(self, kinds: Kinds, faults: int, begin: float, end: float) -> list[str]:
        names = self.dice.choices(list(kinds), [weight for weight, _ in kinds.values()], k=faults)
        for name in names:
            self.world.events.at(self.dice.uniform(begin, end), lambda name=name: self._do(name))  # type: ignore[misc]
        return names

    def _do(self, name: str) -> None:
        self.world.tell(f"FAULT {name}")
        (KINDS | FAILOVERS)[name][1](self)

    def end(self) -> None:
        """From now on nothing goes wrong any more; what has gone wrong is felt until it is noticed."""
        self.over = True
        self.world.tell("the faults end")
        for client in self.world.clients:
            client.kept = (0.0, 0.0)
            for way in (way for pair in client.ways for way in pair):
                way.held_until, way.extra = 0.0, 0.0
            if client.stopped and not client.dead:
                client.resume(self.world.random)
        for host in self.world.servers:
            host.tripwire = False
            if host.stopped:
                host.go_on()
        for group in self.world.groups.values():
            group.mend()

    def duration(self) -> float:
        return self.dice.uniform(*self.dice.choice(((0.01, 0.2), (0.1, 0.6), (0.5, 1.5), (1.0, HELD_UP_S))))

    def client(self) -> Client | None:
        alive = [client for client in self.world.clients if not client.dead]
        return self.dice.choice(alive) if alive else None

    def host(self) -> Host:
        return self.dice.choice(self.world.hosts)

    def links(self) -> list[Connection]:
        """Those of a client to a master, for commands, for messages, or both."""
        client, host = self.client(), self.host()
        if client is None:
            return []
        rosters = [client.calls.connections, client.subscriptions.connections]
        chosen = self.dice.choice((rosters, rosters[:1], rosters[:1], rosters[1:]))
        links = [connections.servers[host.index].connection for connections in chosen]
        return [connection for connection in links if connection is not None]

    def ways(self) -> list[Way]:
        """Between some clients and some masters, one way or both."""
        client, host = self.client(), self.host()
        if client is None:
            return []
        kind = self.dice.choice(("pair", "pair", "master", "client", "minority"))
        if kind == "master":
            pairs = [other.ways[host.index] for other in self.world.clients]
        elif kind == "client":
            pairs = client.ways
        elif kind == "minority":
            pairs = self.dice.sample(client.ways, len(client.ways) // 2)
        else:
            pairs = [client.ways[host.index]]
        chosen = self.dice.choice(("both", "there", "back"))
        there = [there for there, _ in pairs] if chosen != "back" else []
        return there + ([back for _, back in pairs] if chosen != "there" else [])

    def later(self, delay: float, action: Callable[[], object]) -> None:
        self.world.events.at(self.world.events.now + delay, lambda: self.over or action())


def cut(nemesis: Nemesis) -> None:
    for connection in nemesis.links():
        connection.cut()


def lose_answers(nemesis: Nemesis) -> None:
    """What was asked for is done, and nobody is told: to ask again is a second delivery."""
    client = nemesis.client()
    if client is not None:
        script = nemesis.dice.choice(("acquire", "acquire", "release", "renew", "any"))
        servers = client.calls.connections.servers
        for server in nemesis.dice.sample(servers, nemesis.dice.choice((len(servers), len(servers), 1))):
            if server.connection is not None:
                server.connection.fuse = script


def half_open(nemesis: Nemesis) -> None:
    chosen = nemesis.dice.choice(("both", "there", "back"))
    for connection in nemesis.links():
        wires = {
            "both": (connection.there, connection.back),
            "there": (connection.there,),
            "back": (connection.back,),
        }
        connection.mute(*wires[chosen])


def hold_up(nemesis: Nemesis) -> None:
    """What is sent arrives when the way is open again: late, and perhaps after its sender has given up."""
    until = nemesis.world.events.now + nemesis.duration()
    for way in nemesis.ways():
        way.held_until = until


def slow_down(nemesis: Nemesis) -> None:
    extra = nemesis.dice.uniform(0.0, 0.2)
    ways = nemesis.ways()
    for way in ways:
        way.extra = extra

    def mend() -> None:
        for way in ways:
            way.extra = 0.0

    nemesis.later(nemesis.duration(), mend)


def stop_master(nemesis: Nemesis) -> None:
    host = nemesis.host()
    host.stop()
    nemesis.later(nemesis.duration(), host.go_on)


def restart(nemesis: Nemesis) -> None:
    nemesis.restarts += 1
    down_s = nemesis.dice.choice((0.0, nemesis.dice.uniform(0.0, 0.4)))
    nemesis.host().restart(down_s, silent=nemesis.dice.random() < 0.2)


def restart_after_a_grant(nemesis: Nemesis) -> None:
    """The vote is on its way, and forgotten."""
    nemesis.restarts += 1
    host = nemesis.host()
    host.tripwire = True
    # Somebody may have it already, and be cut off from one that it needs.
    nemesis.later(0.0, lambda: hold_up(nemesis))


def restart_from_snapshot(nemesis: Nemesis) -> None:
    """It comes back with what it knew a moment ago."""
    nemesis.restarts += 1
    host = nemesis.host()
    snapshot = host.snapshot()
    nemesis.later(nemesis.duration() / 2, lambda: host.restart(snapshot=snapshot))


def restart_several(nemesis: Nemesis) -> None:
    """All at once, or one after another."""
    hosts = list(nemesis.world.hosts)
    nemesis.dice.shuffle(hosts)
    gap = nemesis.dice.choice((0.0, 0.0, nemesis.dice.uniform(0.0, 0.5)))
    for i, host in enumerate(hosts[: nemesis.dice.randint(1, len(hosts))]):
        nemesis.restarts += 1
        nemesis.later(i * gap, host.restart)


def flush(nemesis: Nemesis) -> None:
    nemesis.host().flush()


def flush_several(nemesis: Nemesis) -> None:
    for host in nemesis.dice.sample(nemesis.world.hosts, nemesis.dice.randint(1, len(nemesis.world.hosts))):
        host.flush()


def lose_the_disk(nemesis: Nemesis) -> None:
    """A master comes back empty that says of itself that it loses nothing."""
    nemesis.restarts += 1
    host = nemesis.host()
    host.durable = True
    host.restart(nemesis.dice.uniform(0.0, 0.4), snapshot={}, disk_lost=True)


def stop_client(nemesis: Nemesis) -> None:
    client = nemesis.client()
    if client is not None:
        client.stop()
        nemesis.later(nemesis.duration(), lambda: client.resume(nemesis.world.random))


def kill_client(nemesis: Nemesis) -> None:
    client = nemesis.client()
    if client is not None:
        client.kill()
        nemesis.world.events.at(
            nemesis.world.events.now + nemesis.dice.uniform(0.0, REBIRTH_S), nemesis.reborn
        )


def keep_from_running(nemesis: Nemesis) -> None:
    client = nemesis.client()
    if client is not None:
        client.kept = (nemesis.dice.uniform(0.05, 0.5), nemesis.dice.choice((0.01, 0.1, 0.4)))

        def mend() -> None:
            client.kept = (0.0, 0.0)

        nemesis.later(nemesis.duration(), mend)


def interrupt(nemesis: Nemesis) -> None:
    client = nemesis.client()
    if client is not None and not client.stopped:
        threads = [thread for thread in client.running if "/t" in thread.label]
        if threads:
            nemesis.dice.choice(threads).interrupt(KeyboardInterrupt())


def evict(nemesis: Nemesis) -> None:
    client = nemesis.client()
    if client is not None:
        thread = client.thread()
        nemesis.world.events.at(
            nemesis.world.events.now, lambda: client.do(lambda: thread.start(client.evict(nemesis.lock)))
        )


KINDS: Kinds = {
    "cut": (3, cut),
    "lose answers": (4, lose_answers),
    "half open": (2, half_open),
    "hold up": (5, hold_up),
    "slow down": (4, slow_down),
    "stop master": (3, stop_master),
    "restart": (4, restart),
    "restart after a grant": (2, restart_after_a_grant),
    "restart from a snapshot": (1, restart_from_snapshot),
    "restart several": (2, restart_several),
    "flush": (2, flush),
    "flush several": (1, flush_several),
    "lose the disk": (1, lose_the_disk),
    "stop client": (3, stop_client),
    "kill client": (2, kill_client),
    "keep from running": (2, keep_from_running),
    "interrupt": (3, interrupt),
    "evict": (1, evict),
}
