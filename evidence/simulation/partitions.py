"""Partitions that change with what happens to the lock."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from .events import Way

if TYPE_CHECKING:
    from .faults import Nemesis


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
