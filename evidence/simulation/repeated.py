"""Faults that come again and again: behind each event of a kind, or behind most of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .client import Client
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
}
