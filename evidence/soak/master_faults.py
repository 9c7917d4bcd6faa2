"""Faults of masters: crashes, stops, lost memory; of processes; and an operator who evicts."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any

import rlock
from rlock.testing.contention.checker import Eviction
from rlock.testing.contention.history import stamp
from rlock.testing.contention.journal import now_ns
from rlock.testing.local.embedded import EmbeddedError

from .field import FAULTS, Field, fault, some


@fault("kill")
def kill(on: Field, dice: Random) -> None:
    """One master crashes, and comes back empty after a moment or a while."""
    with on.fleet.claim(dice.randrange(len(on.fleet))) as masters:
        _restart(on, dice, "kill", masters, dice.choice((0.0, 0.3, 1.0, 3.0)))


@fault("rolling")
def rolling(on: Field, dice: Random) -> None:
    """All masters are restarted empty, one after another, a renewal apart."""
    gap = dice.uniform(0.05, 0.8) * on.fleet.ttl
    for i in dice.sample(range(len(on.fleet)), len(on.fleet)):
        with on.fleet.claim(i) as masters:
            _restart(on, dice, "rolling", masters, dice.uniform(0.0, 0.2))
        on.rest(gap)


@fault("all")
def everything(on: Field, dice: Random) -> None:
    """All masters crash at once and come back empty."""
    with on.fleet.claim(*range(len(on.fleet))) as masters:
        _restart(on, dice, "all", masters, dice.uniform(0.0, 1.0))


def _restart(on: Field, dice: Random, fault: str, masters: Sequence[int], down_s: float) -> None:
    if not masters:
        return
    on.note(fault, f"{list(masters)} down for {down_s:.1f} s")
    for i in masters:
        on.fleet.kill(i)
    on.rest(down_s)
    for i in masters:
        # A busy machine may not get a server up in time; the next fault finds it down, or mend() does.
        with contextlib.suppress(EmbeddedError):
            on.fleet.start(i)


@fault("stop")
def stop(on: Field, dice: Random) -> None:
    """Masters stand still and go on: one, or more than a minority. They execute their commands late."""
    count = dice.choice((1, 1, 1, 2, len(on.fleet)))
    pause = min(dice.choice((0.2, 0.5, 1.0, 2.0, 4.0, 8.0)), 2 * on.fleet.ttl)
    with on.fleet.claim(*dice.sample(range(len(on.fleet)), count)) as masters:
        on.note("stop", f"{masters} for {pause} s")
        with contextlib.suppress(EmbeddedError):
            for i in masters:
                on.fleet.masters[i].pause()
        on.rest(pause)
        for i in masters:
            with contextlib.suppress(EmbeddedError):
                on.fleet.masters[i].resume()


#: Commands: connections end, of commands or of subscribers; a server lives and answers late, everything or
#: what writes; and scripts have to be sent again.
COMMANDS: dict[str, Callable[[Random], tuple[Any, ...]]] = {
    "disconnect": lambda dice: ("CLIENT", "KILL", "TYPE", dice.choice(("normal", "pubsub")), "SKIPME", "yes"),
    "pause": lambda dice: ("CLIENT", "PAUSE", dice.randrange(50, 1500), dice.choice(("ALL", "WRITE"))),
    "scripts": lambda dice: ("SCRIPT", "FLUSH"),
}


def _command(on: Field, dice: Random, *, name: str) -> None:
    words = COMMANDS[name](dice)
    for i in some(on, dice):
        on.note(name, f"{i}: {' '.join(map(str, words))}")
        on.fleet.command(i, *words)
    if name == "pause":
        on.rest(words[2] / 1000)


FAULTS.update({name: partial(_command, name=name) for name in COMMANDS})


@fault("flush")
def flush(on: Field, dice: Random) -> None:
    """FLUSHALL of one or several: the locks are gone, the servers and their connections are not."""
    count = dice.choice((1, 1, 1, 2, len(on.fleet)))
    with on.fleet.claim(*dice.sample(range(len(on.fleet)), count)) as masters:
        for i in masters:
            if on.fleet.flush(i):
                on.note("flush", i)


@fault("disk")
def disk(on: Field, dice: Random) -> None:
    """The durable master crashes, and comes back with an empty disk."""
    with on.fleet.claim(0) as masters:
        for i in masters:
            on.note("disk", i)
            on.fleet.kill(i)
            on.rest(dice.uniform(0.0, 0.5))
            with contextlib.suppress(EmbeddedError):
                on.fleet.start(i, disk_lost=True)


#: Signals: a worker is killed, and another one takes its place; a worker stops, for a moment or beyond its
#: leases; half of them stop for longer than a lease; and Ctrl-C.
SIGNALS: dict[str, Callable[[Field, Random], str]] = {
    "murder": lambda on, dice: on.crew.kill(dice),
    "freeze": lambda on, dice: on.crew.freeze(dice, dice.choice((0.05, 0.3, 0.7, 1.1, 1.5)) * on.fleet.ttl),
    "freeze-half": lambda on, dice: on.crew.freeze(dice, dice.uniform(1.5, 3.0) * on.fleet.ttl, share=0.5),
    "interrupt": lambda on, dice: on.crew.interrupt(dice),
}


def _signal(on: Field, dice: Random, *, name: str) -> None:
    on.note(name, SIGNALS[name](on, dice))
    if name == "freeze-half":
        on.rest(4.0)


FAULTS.update({name: partial(_signal, name=name) for name in SIGNALS})


@fault("evict")
def evict(on: Field, dice: Random) -> None:
    """An operator evicts the holder of a lock."""
    name, at = dice.choice(on.names), now_ns()
    try:
        with rlock.Client(on.fleet.urls, ttl=on.fleet.ttl, max_ttl=on.fleet.ttl) as client:
            seen = {view.holder for view in client.status(name).masters if view.holder}
            owners = seen | set(client.evict(name))
    except rlock.RLockError as error:
        on.log.append(f"{stamp(now_ns())} evict {name}: {error}")
        return
    if owners:
        on.evictions.append(Eviction(at, name, frozenset(owners), now_ns()))
        on.note("evict", f"{name}: {sorted(owners)}")
