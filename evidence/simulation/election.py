"""Elections: many contenders ask for one lock at the same instant."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from rlock._client.connection import PendingCall
from rlock.errors import QuorumUnreachableError
from rlock.procedures.acquire import AT_ONCE
from rlock.rules.command_templates import Command
from rlock.rules.options import ClientOptions, LockOptions

from .client import Client, cycle
from .driver import Program, Thread
from .hosts import Host, Session
from .world import Violation, World

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
    owners: list[str]  # in the order in which they had it
    violations: list[Violation]
    left: dict[int, Any]  # on the masters at the end

    @property
    def what(self) -> str:
        return f"N={self.masters} k={self.contenders} seed={self.seed}"


def options(*, fair: bool = False) -> LockOptions:
    return LockOptions(NAME, ClientOptions().lease(None), fair=fair)


def contend(world: World, contenders: int, *, hold_s: float) -> list[Thread]:
    """So many fresh clients, each of which wants the lock once, all of them at START_S."""
    threads = []
    for _ in range(contenders):
        client = world.client()
        thread = client.thread()
        program = cycle(client, thread, options(), hold_s=hold_s)
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


def elect(masters: int, contenders: int, seed: int) -> Election:
    world = World(masters, seed)
    threads = contend(world, contenders, hold_s=0.001)
    entered = world.referee.entered
    assert until_owned(world), f"nobody got it: {masters=} {contenders=} {seed=} {world.left(NAME)}"
    round_trip = world.network.round_trip
    first, winner = (entered[0].at - START_S) / round_trip, entered[0].owner
    rounds = next(thread.asked["acquire"] for thread in threads if winner.startswith(f"{thread.label}:"))
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
        [event.owner.partition("/")[0] for event in entered],
        world.referee.violations,
        world.left(NAME),
    )


@dataclass
class Instant:
    """What came of one instant at which several clients asked for a free lock without waiting."""

    what: str
    won: int
    busy: int  # False
    lies: int  # False before anybody had the votes of a quorum
    errors: list[str]
    violations: list[Violation]


def answered(client: Client, thread: Thread, until: float, answers: list[tuple[float, Any]]) -> Program:
    """A program: acquire once and note the result. The winner keeps the lock."""
    try:
        answer: Any = yield from client.locking(thread, options(), until)
    except QuorumUnreachableError as error:
        answer = error
    answers.append((client.events.now, answer))


def watched(world: World) -> Callable[[], float]:
    """Since when somebody has had votes that count, those of a quorum; inf: never."""
    seen = [math.inf]

    def execute(host: Host, session: Session, command: Command, call: PendingCall | None = None) -> None:
        genuine(host, session, command, call)
        whole = [each for each in world.hosts if each.life == f"m{each.index}-life1"]
        named = Counter(owner for each in whole for owner in each.left(NAME))
        if max(named.values(), default=0) > len(world.hosts) // 2:
            seen[0] = min(seen[0], world.events.now)

    genuine = Host.execute
    for host in world.hosts:
        host.execute = partial(execute, host)  # type: ignore[method-assign]
    return lambda: seen[0]


def instant(
    masters: int,
    contenders: int,
    seed: int,
    *,
    apart: float = 0.0,
    cold: bool = False,
    kept: tuple[float, float] = (0.0, 0.0),
    until: Callable[[int], float] = lambda i: AT_ONCE,
    upset: Callable[[World], object] = lambda world: None,
) -> Instant:
    """So many clients ask at once; each is near one master and ``apart`` from the others.

    ``cold``: they are not connected yet. ``kept``: how often and how long they are kept from running.
    ``until``: how long each of them waits. ``upset``: what happens besides.
    """
    world = World(masters, seed)
    clients = [world.client(joined=not cold) for _ in range(contenders)]
    owned_since = watched(world)
    answers: list[tuple[float, Any]] = []
    threads = []
    for i, client in enumerate(clients):
        client.kept = kept
        for m, ways in enumerate(zip(client.ways, client.message_ways, strict=True)):
            for way in (way for pair in ways for way in pair):
                way.extra = 0.0 if m == i % masters else apart
        thread = client.thread()
        threads.append(thread)
        when = START_S + world.random.uniform(0.0, 0.0001)
        program = answered(client, thread, until(i), answers)
        world.events.at(when, lambda t=thread, p=program: t.start(p))  # type: ignore[misc]
    upset(world)
    until_over(world, threads)
    world.run(world.events.now + 0.1)
    world.close()
    errors = [str(answer) for _, answer in answers if isinstance(answer, Exception)]
    busy = sum(answer is None for _, answer in answers)
    lies = sum(answer is None and at < owned_since() for at, answer in answers)
    won = len(answers) - busy - len(errors)
    what = f"N={masters} k={contenders} seed={seed} apart={apart}"
    return Instant(what, won, busy, lies, errors, world.referee.violations)
