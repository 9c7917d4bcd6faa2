"""Faults of processes, and an operator who evicts."""

from __future__ import annotations

from random import Random

import rlock
from rlock.testing.contention.checker import Eviction
from rlock.testing.contention.history import stamp
from rlock.testing.contention.journal import now_ns

from .field import Field, fault


@fault("murder")
def murder(on: Field, dice: Random) -> None:
    """SIGKILL of a worker; another one takes its place."""
    on.note("murder", on.crew.kill(dice))


@fault("behead")
def behead(on: Field, dice: Random) -> None:
    """SIGKILL of the holder of a lock, without a new worker; then time for the others to notice."""
    name = dice.choice(on.names)
    with rlock.Client(on.fleet.urls, ttl=on.fleet.ttl, max_ttl=on.fleet.ttl) as client:
        holder = client.status(name).holder
    if holder is not None:
        told = on.crew.dismiss(int(holder.split("/")[1]))
        on.note("behead", f"{told}, which held {name}")
        on.rest(6 * on.fleet.ttl)


@fault("freeze")
def freeze(on: Field, dice: Random) -> None:
    """SIGSTOP of a worker, and SIGCONT after a moment or after its leases."""
    on.note("freeze", on.crew.freeze(dice, dice.choice((0.05, 0.3, 0.7, 1.1, 1.5)) * on.fleet.ttl))


@fault("freeze-half")
def freeze_half(on: Field, dice: Random) -> None:
    """SIGSTOP of half of the workers for longer than a lease, every five seconds or so."""
    on.note("freeze-half", on.crew.freeze(dice, dice.uniform(1.5, 3.0) * on.fleet.ttl, share=0.5))
    on.rest(4.0)


@fault("interrupt")
def interrupt(on: Field, dice: Random) -> None:
    on.note("interrupt", on.crew.interrupt(dice))


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
        on.evictions.append(Eviction(at, name, frozenset(owners)))
        on.note("evict", f"{name}: {sorted(owners)}")
