"""Faults of the network that lose something: commands of one kind, or all messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .faults import Nemesis


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


def cut_messages(nemesis: Nemesis) -> None:
    """Connections for messages end, of one client or of all: idle ones, or with a message on its way."""
    client, share = nemesis.client(), nemesis.dice.choice((0.4, 1.0))
    for each in nemesis.world.clients if nemesis.dice.random() < 0.3 else [client] if client else []:
        for server in each.subscriptions.connections.servers:
            if server.connection is not None and nemesis.dice.random() < share:
                server.connection.cut()
