"""What goes wrong between clients and masters: connections end, and bytes arrive late, or never."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from .events import Way

if TYPE_CHECKING:
    from .faults import Nemesis


def cut(nemesis: Nemesis) -> None:
    for connection in nemesis.links():
        connection.cut()


def lose_answers(nemesis: Nemesis) -> None:
    """What was asked for is done, and nobody is told: to ask again is a second delivery."""
    client = nemesis.client()
    if client is not None:
        scripts: tuple[str, ...] = ("acquire", "acquire", "release", "renew", "any")
        if nemesis.busy:
            scripts = ("acquire", "release", "confirm", "queued", "queued", "wait")
        script = nemesis.dice.choice(scripts)
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
    ways = nemesis.ways()
    for way in ways:
        way.shut()

    def open_them() -> None:
        for way in ways:
            way.open()

    nemesis.until(open_them)


def hold_commands(nemesis: Nemesis) -> None:
    """The commands of a client to some masters arrive late; messages and replies do not."""
    client = nemesis.client()
    if client is None:
        return
    for host, (there, _) in zip(nemesis.world.hosts, client.ways, strict=True):
        if nemesis.dice.random() < 0.6:
            there.shut()
            nemesis.until(there.open, host=host)
    if nemesis.dice.random() < 0.3:
        client.stop()
        nemesis.until(client.go_on)


def partition(nemesis: Nemesis) -> None:
    """Each client reaches some masters only. Which ones these are changes with what happens to the lock."""
    play, dice, shut = nemesis.play, nemesis.dice, set[Way]()
    share, both = dice.choice((0.2, 0.3, 0.5)), dice.random() < 0.2

    def open_it(way: Way) -> None:
        if way in shut:
            shut.remove(way)
            way.open()

    def change() -> None:
        for client in nemesis.world.clients:
            for host, ways in zip(nemesis.world.hosts, client.ways, strict=True):
                for way in ways if both else ways[:1]:
                    if dice.random() > share:
                        continue
                    if way in shut:
                        open_it(way)
                        continue
                    shut.add(way)
                    way.shut()
                    left_s = host.master.pttl(nemesis.lock) / 1000
                    if left_s > 0 and dice.random() < 0.5:  # until the lease there has ended
                        nemesis.later(left_s + dice.choice((0.001, 0.01)), partial(open_it, way))

    def again(what: str) -> None:
        if not play.over:
            nemesis.later(dice.choice((0.0, 0.0, 0.01, 0.1)), change)
            play.behind(what, 1, lambda *_: again(what))

    change()
    for what in ("enter", "loss", *dice.sample(("leave", "rival", "release"), dice.choice((0, 0, 1)))):
        play.behind(what, 1, lambda *_, what=what: again(what))


def slow_down(nemesis: Nemesis) -> None:
    extra = nemesis.dice.uniform(0.0, 0.2)
    ways = nemesis.ways()
    for way in ways:
        way.extra = extra

    def mend() -> None:
        for way in ways:
            way.extra = 0.0

    nemesis.later(nemesis.duration(), mend)


def cut_messages(nemesis: Nemesis) -> None:
    """Connections for messages end, of one client or of all: idle ones, or with a message on its way."""
    client, share = nemesis.client(), nemesis.dice.choice((0.4, 1.0))
    for each in nemesis.world.clients if nemesis.dice.random() < 0.3 else [client] if client else []:
        for server in each.subscriptions.connections.servers:
            if server.connection is not None and nemesis.dice.random() < share:
                server.connection.cut()


#: By the names of `kinds.py`.
NETWORK_FAULTS: dict[str, Callable[[Nemesis], None]] = {
    "cut": cut,
    "lose answers": lose_answers,
    "half open": half_open,
    "hold up": hold_up,
    "hold commands": hold_commands,
    "partition": partition,
    "slow down": slow_down,
    "cut messages": cut_messages,
}
