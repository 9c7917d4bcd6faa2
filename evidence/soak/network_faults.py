"""Faults of the network, between the proxies and those who use them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from random import Random

from tests.faults.proxy import Of, Then

from .field import Field, fault, some
from .proxies import PlaceProxy

#: What a lost request or reply does to its connection.
THEN: tuple[Then, ...] = ("silence", "reset", "torn")


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
    """Bytes are kept and delivered late: commands whose clients gave up, replies of an earlier life."""
    chosen = _some_proxies(on, dice)
    pause = dice.uniform(0.05, 0.8) * min(on.fleet.ttl, 3.0)
    requests, replies = dice.choice(((True, True), (True, False), (False, True)))
    of: Of = dice.choice(("all", "commands", "messages"))
    on.note("hold", f"{requests=} {replies=} of {of} on {len(chosen)} for {pause:.2f} s")
    for proxy in chosen:
        proxy.hold(requests=requests, replies=replies, of=of)
    on.rest(pause)
    for proxy in chosen:
        proxy.let_go()


@fault("slow")
def slow(on: Field, dice: Random) -> None:
    """Everything takes longer, and comes within the request time-out."""
    delay = dice.choice((0.005, 0.03, dice.uniform(0.05, 0.3)))
    _weather(on, dice, "slow", f"{delay:.3f}", lambda proxy: proxy.delay(delay))


@fault("crawl")
def crawl(on: Field, dice: Random) -> None:
    """All proxies take 0.3 s at once; who goes directly is fast."""
    on.note("crawl", "all")
    for proxy in itertools.chain(*on.fleet.proxies):
        proxy.delay(0.3)
    on.rest(5.0)
    for proxy in itertools.chain(*on.fleet.proxies):
        proxy.mend()


@fault("lose")
def lose(on: Field, dice: Random) -> None:
    """Single requests are lost, or carried out and their replies lost; or half of one arrives."""
    script = on.commands[
        dice.choice(("acquire", "acquire", "release", "release", "renew", "heal", "fence", "confirm"))
    ]
    reply, then = dice.random() < 0.7, dice.choice(THEN)
    chosen = _some_proxies(on, dice)
    on.note("lose", f"{'reply' if reply else 'request'} of {script.name} on {len(chosen)}, {then}")
    for proxy in chosen:
        (proxy.lose_reply if reply else proxy.lose_request)(script, then)
    on.rest(0.5)


@fault("lost-replies")
def lost_replies(on: Field, dice: Random) -> None:
    """All masters carry an acquire out, and the connections break before they have said so."""
    on.note("lost replies", "of all")
    for proxy in itertools.chain(*on.fleet.proxies):
        proxy.lose_reply(on.commands["acquire"], "reset")
    on.rest(0.3)


@fault("reset")
def reset(on: Field, dice: Random) -> None:
    """All connections through some proxies end with a RST."""
    for proxy in _some_proxies(on, dice):
        on.note("reset", proxy.reset())


def _weather(
    on: Field, dice: Random, fault: str, told: object, worsen: Callable[[PlaceProxy], None], mean: float = 0.5
) -> None:
    chosen = _some_proxies(on, dice)
    pause = dice.uniform(0.1, 2 * mean) * on.fleet.ttl
    on.note(fault, f"{told} on {len(chosen)} for {pause:.2f} s")
    for proxy in chosen:
        worsen(proxy)
    on.rest(pause)
    for proxy in chosen:
        proxy.mend()


def _some_proxies(on: Field, dice: Random) -> list[PlaceProxy]:
    """Those of a few masters, or of all; in front of one worker, or of all."""
    chosen = [on.fleet.proxies[i] for i in some(on, dice)]
    places = range(len(chosen[0]))
    if dice.random() < 0.5:
        only = dice.randrange(len(chosen[0]))
        places = range(only, only + 1)
    return [proxies[place] for proxies in chosen for place in places]
