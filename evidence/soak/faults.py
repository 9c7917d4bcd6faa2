"""Faults: crashes, stops and lost memory of masters; the network; processes; and an operator who evicts."""

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
from tests.faults.proxy import Of, Then

from .field import Field, PlaceProxy

#: The effects of a lost request or reply on its connection.
THEN: tuple[Then, ...] = ("silence", "reset", "torn")
#: Requests and replies: the directions that a fault concerns.
WAYS = ((True, True), (True, False), (False, True))


def _masters(on: Field, dice: Random) -> list[int]:
    count = dice.choice((1, 1, 1, 2, len(on.fleet)))
    return dice.sample(range(len(on.fleet)), count)


def kill(on: Field, dice: Random) -> None:
    """One master crashes, and comes back empty after a moment or a while."""
    with on.fleet.claim(dice.randrange(len(on.fleet))) as masters:
        _restart(on, "kill", masters, dice.choice((0.0, 0.3, 1.0, 3.0)))


def rolling(on: Field, dice: Random) -> None:
    """All masters are restarted empty, one after another, a renewal apart."""
    gap = dice.uniform(0.05, 0.8) * on.fleet.ttl
    for i in dice.sample(range(len(on.fleet)), len(on.fleet)):
        with on.fleet.claim(i) as masters:
            _restart(on, "rolling", masters, dice.uniform(0.0, 0.2))
        on.rest(gap)


def everything(on: Field, dice: Random) -> None:
    """All masters crash at once and come back empty."""
    with on.fleet.claim(*range(len(on.fleet))) as masters:
        _restart(on, "all", masters, dice.uniform(0.0, 1.0))


def disk(on: Field, dice: Random) -> None:
    """The durable master crashes, and comes back with an empty disk."""
    with on.fleet.claim(0) as masters:
        _restart(on, "disk", masters, dice.uniform(0.0, 0.5), disk_lost=True)


def _restart(on: Field, fault: str, masters: list[int], down_s: float, *, disk_lost: bool = False) -> None:
    if not masters:
        return
    on.note(fault, f"{masters} down for {down_s:.1f} s")
    for i in masters:
        on.fleet.kill(i)
    on.rest(down_s)
    for i in masters:
        # A busy machine may not get a server up in time; the next fault finds it down, or mend() does.
        with contextlib.suppress(EmbeddedError):
            on.fleet.start(i, disk_lost=disk_lost)


def stop(on: Field, dice: Random) -> None:
    """Masters stand still and go on: one, or more than a minority. They execute their commands late."""
    pause = min(dice.choice((0.2, 0.5, 1.0, 2.0, 4.0, 8.0)), 2 * on.fleet.ttl)
    with on.fleet.claim(*_masters(on, dice)) as masters:
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
    for i in _masters(on, dice):
        on.note(name, f"{i}: {' '.join(map(str, words))}")
        on.fleet.command(i, *words)
    if name == "pause":
        on.rest(words[2] / 1000)


def flush(on: Field, dice: Random) -> None:
    """FLUSHALL of one or several: the locks are gone, the servers and their connections are not."""
    with on.fleet.claim(*_masters(on, dice)) as masters:
        for i in masters:
            if on.fleet.flush(i):
                on.note("flush", i)


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


def cut(on: Field, dice: Random) -> None:
    """Half-open connections: requests, replies or both vanish."""
    requests, replies = dice.choice(WAYS)
    pause = dice.uniform(0.1, 1.0) * on.fleet.ttl
    told = f"cut {requests=} {replies=}"
    _weather(on, told, _proxies(on, dice), pause, lambda proxy: proxy.cut(requests=requests, replies=replies))


def hold(on: Field, dice: Random) -> None:
    """Bytes are kept and delivered late: commands whose clients gave up, replies of an earlier life."""
    requests, replies = dice.choice(WAYS)
    of: Of = dice.choice(("all", "commands", "messages"))
    pause = dice.uniform(0.05, 0.8) * min(on.fleet.ttl, 3.0)

    def keep(proxy: PlaceProxy) -> None:
        proxy.hold(requests=requests, replies=replies, of=of)

    told = f"hold {requests=} {replies=} of {of}"
    _weather(on, told, _proxies(on, dice), pause, keep, lambda proxy: proxy.let_go())


def slow(on: Field, dice: Random) -> None:
    """Everything takes longer, and comes within the request time-out."""
    delay = dice.choice((0.005, 0.03, dice.uniform(0.05, 0.3)))
    pause = dice.uniform(0.1, 1.0) * on.fleet.ttl
    _weather(on, f"slow by {delay:.3f} s", _proxies(on, dice), pause, lambda proxy: proxy.delay(delay))


def lose(on: Field, dice: Random) -> None:
    """Single requests are lost, or carried out and their replies lost; or half of one arrives."""
    name = dice.choice(("acquire", "acquire", "release", "release", "renew", "fence", "confirm"))
    script = on.commands[name]
    reply, then = dice.random() < 0.7, dice.choice(THEN)
    chosen = _proxies(on, dice)
    on.note("lose", f"{'reply' if reply else 'request'} of {script.name} on {len(chosen)}, {then}")
    for proxy in chosen:
        (proxy.lose_reply if reply else proxy.lose_request)(script, then)
    on.rest(0.5)


def reset(on: Field, dice: Random) -> None:
    """All connections through some proxies end with a RST."""
    for proxy in _proxies(on, dice):
        on.note("reset", proxy.reset())


def _weather(
    on: Field,
    told: str,
    chosen: Sequence[PlaceProxy],
    pause_s: float,
    begin: Callable[[PlaceProxy], None],
    end: Callable[[PlaceProxy], None] = lambda proxy: proxy.mend(),
) -> None:
    name, _, how = told.partition(" ")
    on.note(name, f"{how} on {len(chosen)} for {pause_s:.2f} s")
    for proxy in chosen:
        begin(proxy)
    on.rest(pause_s)
    for proxy in chosen:
        end(proxy)


def _proxies(on: Field, dice: Random) -> list[PlaceProxy]:
    """The proxies of a few masters, or of all; in front of one worker, or of all."""
    chosen = [on.fleet.proxies[i] for i in _masters(on, dice)]
    only = dice.randrange(len(chosen[0])) if dice.random() < 0.5 else None
    return [proxy for proxies in chosen for place, proxy in enumerate(proxies) if only in (None, place)]


#: A fault does its harm and mends it. Two may run at once, but never on one master.
Fault = Callable[[Field, Random], None]
FAULTS: dict[str, Fault] = {
    "kill": kill, "rolling": rolling, "all": everything, "stop": stop, "flush": flush, "disk": disk,
    "evict": evict, "cut": cut, "hold": hold, "slow": slow, "lose": lose, "reset": reset,
    **{name: partial(_command, name=name) for name in COMMANDS},
    **{name: partial(_signal, name=name) for name in SIGNALS},
}  # fmt: skip
