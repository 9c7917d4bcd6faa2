"""Faults that come again and again: behind each event of a kind, or behind most of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from rlock.rules.options import LockOptions

if TYPE_CHECKING:
    from .client import Client
    from .events import Way
    from .faults import Nemesis
    from .hosts import Host


def behind_each(
    nemesis: Nemesis, what: str, chance: float, action: Callable[[Client | None, Host | None], object]
) -> None:
    """Do it behind each event of a kind, with a chance."""

    def again(client: Client | None, there: Host | None) -> None:
        if not nemesis.play.over:
            nemesis.play.behind(what, 1, again)
            if nemesis.dice.random() < chance:
                action(client, there)

    nemesis.play.behind(what, 1, again)


def late_commands(nemesis: Nemesis) -> None:
    """Behind each event of a kind the commands of its client reach some masters late."""
    dice = nemesis.dice
    what = dice.choice(("release", "release", "hand-off", "hand-off", "claim", "queued"))
    share, spans = (
        dice.choice((0.35, 0.6, 1.0)),
        dice.choice(((0.05, 0.4), (0.3, 0.95), (0.9, 1.6), (1.2, 2.2))),
    )

    def hold_up(client: Client | None, _: Host | None) -> None:
        for way in [there for there, _ in client.ways] if client else []:
            if not way.is_shut and dice.random() < share:
                way.shut()
                nemesis.later(dice.uniform(*spans), way.open)

    behind_each(nemesis, what, dice.choice((0.3, 0.7, 1.0)), hold_up)


def late_waiters(nemesis: Nemesis) -> None:
    """Behind each event of a kind one that waits, or the client of the event, does not run for a while."""
    dice = nemesis.dice
    what = dice.choice(("release", "hand-off", "claim", "queued"))
    spans = dice.choice(((0.1, 0.9), (0.9, 1.7), (1.2, 2.4)))

    def stop(client: Client | None, _: Host | None) -> None:
        if what == "release":
            waiting = [each for each in nemesis.world.clients if each.under_way.acquiring and not each.dead]
            client = dice.choice(waiting) if waiting else None
        if client is not None and not client.stopped and not client.dead:
            client.stop()
            nemesis.later(dice.uniform(*spans), client.go_on)

    behind_each(nemesis, what, dice.choice((0.3, 0.7)), stop)


def uneven(nemesis: Nemesis) -> None:
    """Behind each release or grant the ways of all clients to all masters change."""
    dice = nemesis.dice
    extras = dice.choice(((0.0, 0.0, 0.03, 0.1), (0.0, 0.0, 0.1, 0.3), (0.0, 0.0, 0.02, 0.1, 0.3, 1.1)))

    def change(*_: object) -> None:
        for there in [there for client in nemesis.world.clients for there, _ in client.ways]:
            there.extra = dice.choice(extras)

    behind_each(nemesis, dice.choice(("leave", "leave", "enter")), dice.choice((0.5, 1.0)), change)


def one_fewer(nemesis: Nemesis) -> None:
    """Each client does not reach one master; when it has left a lock, another one.

    It reaches it again when the master has lost its memory, or after a while.
    """
    play, dice = nemesis.play, nemesis.dice
    chance = dice.choice((0.4, 0.8))

    def shut(client: Client | None, _: Host | None = None) -> None:
        if client is None:
            return
        host = dice.choice(nemesis.world.hosts)
        way, opened = client.ways[host.index][0], list[bool]()
        way.shut()

        def open_it() -> None:
            if not opened:
                opened.append(True)
                way.open()

        def at_loss(_: Client | None, there: Host | None) -> None:
            if there is host:
                nemesis.later(dice.choice((0.001, 0.01, 0.05)), open_it)
            elif not opened:
                play.behind("loss", 1, at_loss)

        play.behind("loss", 1, at_loss)
        nemesis.later(dice.uniform(1.0, 2.5), open_it)

    for client in nemesis.world.clients:
        if dice.random() < chance:
            shut(client)
    behind_each(nemesis, "leave", chance, shut)


def out_of_reach(nemesis: Nemesis) -> None:
    """Behind each grant some clients do not reach one master of it, until the lease there has ended.

    Others, who do not reach it either, ask for the lock in the meantime.
    """
    dice, lock, fleet = nemesis.dice, nemesis.lock, nemesis.play.fleet

    def until_its_end(way: Way, host: Host) -> None:
        way.shut()
        nemesis.behind_lease(host, dice.choice((0.001, 0.003, 0.01)), way.open)

    def ask(host: Host) -> None:
        one = nemesis.world.client(fleet[0])
        until_its_end(one.ways[host.index][0], host)
        one.thread().start(one.trying_once(LockOptions(lock, fleet[0].lease(None)), 0.0))

    def shut(client: Client | None, there: Host | None) -> None:
        taken = [host for host in nemesis.world.hosts if host.left(nemesis.lock)]
        if client is None or not taken:
            return
        host = dice.choice(taken)
        for each in nemesis.world.clients:
            if each is client or dice.random() < 0.6:
                until_its_end(each.ways[host.index][0], host)
        for _ in range(dice.choice((0, 1, 1, 2))):
            nemesis.later(dice.uniform(0.3, 0.97), partial(ask, host))

    behind_each(nemesis, "enter", 0.9, shut)


def broken_off(nemesis: Nemesis) -> None:
    """Behind each grant beside a valid lease connections of its client end, and it asks again."""

    def cut(client: Client | None, _: Host | None) -> None:
        for server in client.calls.connections.servers if client else ():
            if server.connection is not None and server.connection.pending:
                server.connection.cut()

    def later(client: Client | None, there: Host | None) -> None:
        nemesis.later(nemesis.dice.uniform(0.05, 0.31), lambda: cut(client, there))

    behind_each(nemesis, "rival", 0.7, later)


def evictions(nemesis: Nemesis) -> None:
    """An operator, whom nothing holds up, evicts those that were handed the lock."""
    operator = nemesis.world.client(nemesis.play.fleet[0])

    def evict(*_: object) -> None:
        start = lambda: operator.thread().start(operator.evict(nemesis.lock))  # noqa: E731
        nemesis.later(nemesis.dice.uniform(0.0, 0.3), start)

    behind_each(nemesis, "claim", nemesis.dice.choice((0.3, 0.7)), evict)


REPEATED: dict[str, Callable[[Nemesis], None]] = {
    "late commands": late_commands,
    "late waiters": late_waiters,
    "uneven": uneven,
    "evictions": evictions,
    "one fewer": one_fewer,
    "out of reach": out_of_reach,
    "broken off": broken_off,
}
