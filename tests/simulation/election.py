"""Elections: many contenders ask for one lock at the same instant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rlock.rules.options import ClientOptions, LockOptions
from rlock.rules.places import Place

from .client import cycle
from .driver import Thread
from .world import Network, Violation, World

NAME = "job"
START_S = 1.0
#: Nobody waits longer; a run that takes it is stuck.
PATIENCE_S = 600.0
#: After the last release: what is on its way arrives, and what was handed to nobody has been given on.
SETTLING_S = 1.5


@dataclass
class Election:
    """What came of it. Times are in mean round trips."""

    masters: int
    contenders: int
    seed: int
    round_trip: float
    first: float  # until somebody has the lock
    rounds: int  # that the first owner needed
    gaps: list[float]  # from each release until the next owner has it
    owners: list[str]  # in the order in which they had it
    violations: list[Violation]
    left: dict[int, Any]  # on the masters at the end
    sent: dict[str, int]  # commands, by script

    @property
    def what(self) -> str:
        return f"N={self.masters} k={self.contenders} seed={self.seed}"


def options(*, fair: bool = False) -> LockOptions:
    return LockOptions(NAME, ClientOptions().lease(None), fair=fair)


def contend(
    world: World, contenders: int, *, hold_s: float, standing: bool = False, fair: bool = False
) -> list[Thread]:
    """So many fresh clients, each of which wants the lock once, all of them at START_S."""
    threads = []
    for _ in range(contenders):
        client = world.client()
        thread = client.thread()
        if standing:
            # As after an earlier wait, not long ago.
            ear = client.listener.ear(Place(NAME, "nobody", client.terms.station, 0, fair=False))
            earlier, program = client.thread(), client.listener.listening(ear, 0.0)
            world.events.at(START_S - 0.2, lambda t=earlier, p=program: t.start(p))  # type: ignore[misc]
            world.events.at(START_S - 0.1, lambda c=client, e=ear: c.listener.leave(e))  # type: ignore[misc]
        program = cycle(client, thread, options(fair=fair), hold_s=hold_s)
        world.events.at(START_S, lambda t=thread, p=program: t.start(p))  # type: ignore[misc]
        threads.append(thread)
    return threads


def until_owned(world: World, times: int = 1, within: float = PATIENCE_S) -> bool:
    """Let things happen until the lock has been had so many times."""
    return world.run(world.events.now + within, lambda: len(world.referee.entered) >= times)


def until_over(world: World, threads: Sequence[Thread], within: float = PATIENCE_S) -> bool:
    """Let things happen until all these threads have ended, or died with their process."""
    return world.run(
        world.events.now + within, lambda: all(thread.over or thread.client.dead for thread in threads)
    )


def elect(
    masters: int,
    contenders: int,
    seed: int,
    *,
    standing: bool = False,
    fair: bool = False,
    hold_s: float = 0.001,
    network: Network | None = None,
    only_first: bool = False,
) -> Election:
    """Let them contend until each has had it once; or, ``only_first``, until somebody has it."""
    world = World(masters, seed, network)
    threads = contend(world, contenders, hold_s=hold_s, standing=standing, fair=fair)
    entered, left = world.referee.entered, world.referee.left
    assert until_owned(world), f"nobody got it: {masters=} {contenders=} {seed=} {world.left(NAME)}"
    round_trip = world.network.round_trip
    first, winner = (entered[0].at - START_S) / round_trip, entered[0].owner
    rounds = next(thread.asked["acquire"] for thread in threads if winner.startswith(f"{thread.label}:"))
    if not only_first:
        until_over(world, threads)
        world.run(world.events.now + SETTLING_S)
    world.close()
    return Election(
        masters,
        contenders,
        seed,
        round_trip,
        first,
        rounds,
        [(after.at - before.at) / round_trip for before, after in zip(left, entered[1:], strict=False)],
        [event.owner.partition("/")[0] for event in entered],
        world.referee.violations,
        world.left(NAME),
        dict(world.sent),
    )
