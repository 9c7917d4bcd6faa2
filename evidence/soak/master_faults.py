"""Faults of masters: crashes, stops, lost memory; of processes; and an operator who evicts."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from random import Random

import rlock
from rlock.testing.contention.checker import Eviction
from rlock.testing.contention.history import stamp
from rlock.testing.contention.journal import now_ns
from rlock.testing.local.embedded import EmbeddedError

from .field import Field, fault, some


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


@fault("disconnect")
def disconnect(on: Field, dice: Random) -> None:
    """CLIENT KILL: connections end, of commands or of subscribers."""
    kind = dice.choice(("normal", "pubsub"))
    _command(on, dice, "disconnect", "CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")


@fault("pause")
def client_pause(on: Field, dice: Random) -> None:
    """CLIENT PAUSE: the server lives and answers late, everything or what writes."""
    pause_ms = int(dice.uniform(50, 1500))
    _command(on, dice, "pause", "CLIENT", "PAUSE", pause_ms, dice.choice(("ALL", "WRITE")))
    on.rest(pause_ms / 1000)


@fault("scripts")
def script_flush(on: Field, dice: Random) -> None:
    """SCRIPT FLUSH: the scripts have to be sent again."""
    _command(on, dice, "scripts", "SCRIPT", "FLUSH")


def _command(on: Field, dice: Random, fault: str, *words: object) -> None:
    for i in some(on, dice):
        on.note(fault, f"{i}: {' '.join(map(str, words))}")
        on.fleet.command(i, *words)


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


@fault("murder")
def murder(on: Field, dice: Random) -> None:
    """SIGKILL of a worker; another one takes its place."""
    on.note("murder", on.crew.kill(dice))


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
        on.evictions.append(Eviction(at, name, frozenset(owners), now_ns()))
        on.note("evict", f"{name}: {sorted(owners)}")
