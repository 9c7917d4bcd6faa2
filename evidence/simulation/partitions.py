"""Faults of the network: partitions that change with what happens to the lock, and what is lost."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from .events import Way

if TYPE_CHECKING:
    from .client import Client
    from .faults import Nemesis
    from .hosts import Host


def partition(nemesis: Nemesis) -> None:
    """Each client reaches all masters, a quorum, or one fewer. Which ones changes with what happens."""
    play, dice, shut = nemesis.play, nemesis.dice, set[Way]()
    both, quorum = dice.random() < 0.2, len(nemesis.world.hosts) // 2 + 1

    def open_it(way: Way) -> None:
        if way in shut:
            shut.remove(way)
            way.open()

    def change(there: Host | None = None) -> None:
        """``there``: only on the ways to this master, which most of them reach again."""
        hosts = nemesis.world.hosts
        for client in nemesis.world.clients:
            reached = dice.sample(hosts, dice.choice((quorum - 1, quorum, len(hosts))))
            if there is not None:
                reached = [there] if dice.random() < 0.7 else []
            for host, ways in zip(hosts, client.ways, strict=True):
                for way in ways if both else ways[:1]:
                    if host in reached:
                        open_it(way)
                    elif there in (None, host) and way not in shut:
                        shut.add(way)
                        way.shut()
                        if host.left(nemesis.lock) and dice.random() < 0.7:
                            nemesis.behind_lease(host, dice.choice((0.001, 0.01)), partial(open_it, way))

    def again(what: str, _: Client | None, there: Host | None) -> None:
        if not play.over:
            there = there if dice.random() < 0.7 else None
            nemesis.later(dice.choice((0.0, 0.0, 0.01, 0.1)), partial(change, there))
            play.behind(what, 1, partial(again, what))

    change()
    for what in ("enter", "loss", *dice.sample(("leave", "rival", "release"), dice.choice((0, 0, 1)))):
        play.behind(what, 1, partial(again, what))


def lose_commands(nemesis: Nemesis) -> None:
    """Connections to a master end in front of one kind of command: it is not done there."""
    host = nemesis.host()
    host.drops = nemesis.dice.choice(("acquire", "release", "confirm", "fence", "fence", "wait"))
    nemesis.until(lambda: vars(host).update(drops=""), host=host)


def silence(nemesis: Nemesis) -> None:
    """A firewall forgets idle connections: their client hears no message any more, and commands work."""
    client = nemesis.client()
    for server in client.subscriptions.connections.servers if client else ():
        if server.connection is not None:
            server.connection.mute(server.connection.back)
