"""The nemesis: faults of masters, of the network, and of processes, with a seed.

A fault is a function of a `Field` and a dice; it does its harm and mends it. Two of them may be at it at
once, but never on one master.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

import redis

import rlock
from rlock.rules import scripts
from rlock.testing.local.embedded import EmbeddedError

from ..faults.proxy import Proxy
from .checker import Eviction
from .fleet import Fleet
from .journal import now_ns, stamp


class Crew(Protocol):
    """The worker processes, as the nemesis sees them."""

    def kill(self, dice: Random) -> str: ...
    def dismiss(self, pid: int) -> str: ...
    def freeze(self, dice: Random, seconds: float, share: float = 0.0) -> str: ...
    def interrupt(self, dice: Random) -> str: ...


@dataclass
class Field:
    """What faults act on, and what is noted of them."""

    fleet: Fleet
    crew: Crew
    names: Sequence[str]
    #: What the workers call by these names: a broken rule may be a broken script, with another hash.
    commands: Mapping[str, scripts.Script]
    over: threading.Event = field(default_factory=threading.Event)
    done: Counter[str] = field(default_factory=Counter)
    log: list[str] = field(default_factory=list)
    evictions: list[Eviction] = field(default_factory=list)

    def note(self, fault: str, told: object) -> None:
        """One fault more."""
        self.done[fault] += 1
        self.log.append(f"{stamp(now_ns())} {fault} {told}")

    def rest(self, seconds: float) -> None:
        """Sleep, unless the run is over."""
        self.over.wait(seconds)


# -- masters -------------------------------------------------------------------------------------------


def kill(on: Field, dice: Random) -> None:
    """One master crashes, and comes back empty after a moment or a while."""
    with on.fleet.claim(dice.randrange(len(on.fleet))) as masters:
        _restart(on, dice, "kill", masters, dice.choice((0.0, 0.3, 1.0, 3.0)))


def rolling(on: Field, dice: Random) -> None:
    """All masters are restarted empty, one after another, a renewal apart."""
    gap = dice.uniform(0.05, 0.8) * on.fleet.ttl
    for i in dice.sample(range(len(on.fleet)), len(on.fleet)):
        with on.fleet.claim(i) as masters:
            _restart(on, dice, "rolling", masters, dice.uniform(0.0, 0.2))
        on.rest(gap)


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


def stop(on: Field, dice: Random) -> None:
    """Masters stand still and go on: one, or more than a minority. What they were sent is done late."""
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


def rotate(on: Field, dice: Random) -> None:
    """One master after another stands still for a moment, so that every majority comes up."""
    for i in dice.sample(range(len(on.fleet)), len(on.fleet)):
        with on.fleet.claim(i) as masters:
            on.note("rotate", masters)
            for j in masters:
                on.fleet.masters[j].pause()
            on.rest(dice.uniform(0.2, 0.6))
            for j in masters:
                on.fleet.masters[j].resume()


def disconnect(on: Field, dice: Random) -> None:
    """CLIENT KILL: connections end, of commands or of subscribers."""
    kind = dice.choice(("normal", "pubsub"))
    for i in _some(on, dice):
        on.note("disconnect", f"{kind} of {i}")
        on.fleet.command(i, "CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")


def client_pause(on: Field, dice: Random) -> None:
    """CLIENT PAUSE: the server lives and answers late, everything or what writes."""
    pause_ms = int(dice.uniform(50, 1500))
    mode = dice.choice(("ALL", "WRITE"))
    for i in _some(on, dice):
        on.note("pause", f"{mode} of {i} for {pause_ms} ms")
        on.fleet.command(i, "CLIENT", "PAUSE", pause_ms, mode)
    on.rest(pause_ms / 1000)


def script_flush(on: Field, dice: Random) -> None:
    """SCRIPT FLUSH: the scripts have to be sent again."""
    for i in _some(on, dice):
        on.note("scripts", i)
        on.fleet.command(i, "SCRIPT", "FLUSH")


def debug_sleep(on: Field, dice: Random) -> None:
    """DEBUG SLEEP: one command blocks the server, as a slow script of somebody else's does."""
    seconds = dice.uniform(0.05, 0.9)
    for i in _some(on, dice):
        on.note("sleep", f"{i} for {seconds:.2f} s")
        on.fleet.command(i, "DEBUG", "SLEEP", f"{seconds:.2f}")


def flush(on: Field, dice: Random) -> None:
    """FLUSHALL of one or several: the locks are gone, the servers and their connections are not."""
    count = dice.choice((1, 1, 1, 2, len(on.fleet)))
    with on.fleet.claim(*dice.sample(range(len(on.fleet)), count)) as masters:
        for i in masters:
            if on.fleet.flush(i):
                on.note("flush", i)


def disk(on: Field, dice: Random) -> None:
    """The durable master crashes, and comes back with an empty disk."""
    with on.fleet.claim(0) as masters:
        for i in masters:
            on.note("disk", i)
            on.fleet.kill(i)
            on.rest(dice.uniform(0.0, 0.5))
            with contextlib.suppress(EmbeddedError):
                on.fleet.start(i, disk_lost=True)


def ghosts(on: Field, dice: Random) -> None:
    """Votes of contenders that died stand on a minority, so that nobody gets more than a bare quorum.

    When they end, one of the masters of that quorum may lose its memory: then nobody has one but by what is
    known of its age.
    """
    fewer = (len(on.fleet) - 1) // 2
    order = dice.sample(range(len(on.fleet)), len(on.fleet))
    chosen, flushed = order[:fewer], order[-1]
    on.note("ghosts", chosen)
    with contextlib.ExitStack() as stack:
        masters = [stack.enter_context(contextlib.closing(on.fleet.raw(i))) for i in chosen]

        def each(script: str, *more: str | int) -> None:
            for master in masters:
                with contextlib.suppress(redis.RedisError):
                    master.eval(script, len(on.names), *on.names, *more)

        until = time.monotonic() + dice.uniform(0.3, 1.5)
        while time.monotonic() < until and not on.over.is_set():
            each(_HAUNT, f"{GHOST}{dice.getrandbits(128):032x}", int(on.fleet.ttl * 1000))
            on.rest(0.02)
        each(_LAY, GHOST)
    if dice.random() < 0.7 and on.fleet.flush(flushed):
        on.note("flush", f"{flushed}, after the ghosts")


GHOST = "dead/0/ghost:"
_HAUNT = """
for _, lock in ipairs(KEYS) do
    if redis.call('exists', lock) == 0 then
        redis.call('hset', lock, ARGV[1], 1)
        redis.call('pexpire', lock, ARGV[2])
    end
end
"""
_LAY = """
for _, lock in ipairs(KEYS) do
    local holder = redis.call('hkeys', lock)[1]
    if holder and string.sub(holder, 1, #ARGV[1]) == ARGV[1] then
        redis.call('del', lock)
    end
end
"""


def clock(on: Field, dice: Random) -> None:
    """The wall clock of a master is set back."""
    i = dice.randrange(len(on.fleet))
    if step := on.fleet.set_back(i, dice.uniform(0.05, 0.4) * on.fleet.ttl):
        on.note("clock", f"{i} by {step:.2f} s")


# -- the network, between the proxies and those who use them -------------------------------------------


def cut(on: Field, dice: Random) -> None:
    """Half-open connections: requests, replies or both vanish."""
    requests, replies = dice.choice(((True, True), (True, False), (False, True)))
    _weather(
        on,
        dice,
        "cut",
        f"{requests=} {replies=}",
        lambda proxy: proxy.cut(requests=requests, replies=replies),
    )


def hold(on: Field, dice: Random) -> None:
    """Everything is kept and delivered late: commands whose clients gave up, replies of an earlier life."""
    chosen = _some_proxies(on, dice)
    pause = dice.uniform(0.05, 0.8) * min(on.fleet.ttl, 3.0)
    on.note("hold", f"{len(chosen)} for {pause:.2f} s")
    for proxy in chosen:
        proxy.hold()
    on.rest(pause)
    for proxy in chosen:
        proxy.let_go()


def slow(on: Field, dice: Random) -> None:
    """Everything takes longer."""
    delay = dice.choice((0.005, 0.03, 0.1, 0.3))

    def worsen(proxy: Proxy) -> None:
        proxy.delay_s = delay

    _weather(on, dice, "slow", delay, worsen)


def crawl(on: Field, dice: Random) -> None:
    """All proxies take 0.3 s at once; who goes directly is fast."""
    on.note("crawl", "all")
    for proxy in on.fleet.proxies:
        proxy.delay_s = 0.3
    on.rest(5.0)
    for proxy in on.fleet.proxies:
        proxy.mend()


def lose(on: Field, dice: Random) -> None:
    """Single requests are lost, or carried out and their replies lost."""
    script = on.commands[dice.choice(("acquire", "acquire", "release", "release", "renew", "heal", "fence"))]
    reply, reset = dice.random() < 0.7, dice.random() < 0.5
    chosen = _some_proxies(on, dice)
    on.note("lose", f"{'reply' if reply else 'request'} of {script.name} on {len(chosen)}")
    for proxy in chosen:
        (proxy.lose_reply if reply else proxy.lose_request)(script, "reset" if reset else "silence")
    on.rest(0.5)


def lost_replies(on: Field, dice: Random) -> None:
    """All masters carry an acquire out, and the connections break before they have said so."""
    on.note("lost replies", "of all")
    for proxy in on.fleet.proxies:
        proxy.lose_reply(on.commands["acquire"], "reset")
    on.rest(0.3)


def reset(on: Field, dice: Random) -> None:
    """All connections through some proxies end with a RST."""
    for proxy in _some_proxies(on, dice):
        on.note("reset", proxy.reset())


def _weather(
    on: Field, dice: Random, fault: str, told: object, worsen: Callable[[Proxy], None], mean: float = 0.5
) -> None:
    chosen = _some_proxies(on, dice)
    pause = dice.uniform(0.1, 2 * mean) * on.fleet.ttl
    on.note(fault, f"{told} on {len(chosen)} for {pause:.2f} s")
    for proxy in chosen:
        worsen(proxy)
    on.rest(pause)
    for proxy in chosen:
        proxy.mend()


def _some(on: Field, dice: Random) -> list[int]:
    count = dice.choice((1, 1, 2, len(on.fleet)))
    return dice.sample(range(len(on.fleet)), count)


def _some_proxies(on: Field, dice: Random) -> list[Proxy]:
    return [on.fleet.proxies[i] for i in _some(on, dice)]


# -- processes -----------------------------------------------------------------------------------------


def murder(on: Field, dice: Random) -> None:
    """SIGKILL of a worker; another one takes its place."""
    on.note("murder", on.crew.kill(dice))


def behead(on: Field, dice: Random) -> None:
    """SIGKILL of whoever holds a lock, with nobody new in its place; then time for the others to notice."""
    name = dice.choice(on.names)
    with rlock.Client(on.fleet.urls, ttl=on.fleet.ttl, max_ttl=on.fleet.ttl) as client:
        holder = client.status(name).holder
    if holder is not None:
        told = on.crew.dismiss(int(holder.split("/")[1]))
        on.note("behead", f"{told}, which held {name}")
        on.rest(6 * on.fleet.ttl)


def freeze(on: Field, dice: Random) -> None:
    """SIGSTOP of a worker, and SIGCONT after a moment or after its leases."""
    on.note("freeze", on.crew.freeze(dice, dice.choice((0.05, 0.3, 0.7, 1.1, 1.5)) * on.fleet.ttl))


def freeze_half(on: Field, dice: Random) -> None:
    """SIGSTOP of half of the workers for longer than a lease, every five seconds or so."""
    on.note("freeze-half", on.crew.freeze(dice, dice.uniform(1.5, 3.0) * on.fleet.ttl, share=0.5))
    on.rest(4.0)


def interrupt(on: Field, dice: Random) -> None:
    """Ctrl-C."""
    on.note("interrupt", on.crew.interrupt(dice))


def evict(on: Field, dice: Random) -> None:
    """An operator removes whoever holds a lock."""
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
