"""Faults of the network, between the proxies and those who use them."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.faults.proxy import Proxy

from .field import Field, fault, some


@fault("cut")
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


@fault("hold")
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


@fault("slow")
def slow(on: Field, dice: Random) -> None:
    """Everything takes longer."""
    delay = dice.choice((0.005, 0.03, 0.1, 0.3))

    def worsen(proxy: Proxy) -> None:
        proxy.delay_s = delay

    _weather(on, dice, "slow", delay, worsen)


@fault("crawl")
def crawl(on: Field, dice: Random) -> None:
    """All proxies take 0.3 s at once; who goes directly is fast."""
    on.note("crawl", "all")
    for proxy in on.fleet.proxies:
        proxy.delay_s = 0.3
    on.rest(5.0)
    for proxy in on.fleet.proxies:
        proxy.mend()


@fault("lose")
def lose(on: Field, dice: Random) -> None:
    """Single requests are lost, or carried out and their replies lost."""
    script = on.commands[dice.choice(("acquire", "acquire", "release", "release", "renew", "heal", "fence"))]
    reply, reset = dice.random() < 0.7, dice.random() < 0.5
    chosen = _some_proxies(on, dice)
    on.note("lose", f"{'reply' if reply else 'request'} of {script.name} on {len(chosen)}")
    for proxy in chosen:
        (proxy.lose_reply if reply else proxy.lose_request)(script, "reset" if reset else "silence")
    on.rest(0.5)


@fault("lost-replies")
def lost_replies(on: Field, dice: Random) -> None:
    """All masters carry an acquire out, and the connections break before they have said so."""
    on.note("lost replies", "of all")
    for proxy in on.fleet.proxies:
        proxy.lose_reply(on.commands["acquire"], "reset")
    on.rest(0.3)


@fault("reset")
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


def _some_proxies(on: Field, dice: Random) -> list[Proxy]:
    return [on.fleet.proxies[i] for i in some(on, dice)]
