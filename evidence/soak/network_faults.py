"""Faults of the network, between the proxies and those who use them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from tests.faults.proxy import Of, Then

from .field import Field, fault, some
from .fleet import PlaceProxy

#: The effects of a lost request or reply on its connection.
THEN: tuple[Then, ...] = ("silence", "reset", "torn")
#: Requests and replies: the directions that a fault concerns.
WAYS = ((True, True), (True, False), (False, True))


@fault("cut")
def cut(on: Field, dice: Random) -> None:
    """Half-open connections: requests, replies or both vanish."""
    requests, replies = dice.choice(WAYS)
    pause = dice.uniform(0.1, 1.0) * on.fleet.ttl
    told = f"cut {requests=} {replies=}"
    _weather(on, told, _some(on, dice), pause, lambda proxy: proxy.cut(requests=requests, replies=replies))


@fault("hold")
def hold(on: Field, dice: Random) -> None:
    """Bytes are kept and delivered late: commands whose clients gave up, replies of an earlier life."""
    requests, replies = dice.choice(WAYS)
    of: Of = dice.choice(("all", "commands", "messages"))
    pause = dice.uniform(0.05, 0.8) * min(on.fleet.ttl, 3.0)

    def keep(proxy: PlaceProxy) -> None:
        proxy.hold(requests=requests, replies=replies, of=of)

    told = f"hold {requests=} {replies=} of {of}"
    _weather(on, told, _some(on, dice), pause, keep, lambda proxy: proxy.let_go())


@fault("slow")
def slow(on: Field, dice: Random) -> None:
    """Everything takes longer, and comes within the request time-out."""
    delay = dice.choice((0.005, 0.03, dice.uniform(0.05, 0.3)))
    pause = dice.uniform(0.1, 1.0) * on.fleet.ttl
    _weather(on, f"slow by {delay:.3f} s", _some(on, dice), pause, lambda proxy: proxy.delay(delay))


@fault("lose")
def lose(on: Field, dice: Random) -> None:
    """Single requests are lost, or carried out and their replies lost; or half of one arrives."""
    script = on.commands[
        dice.choice(("acquire", "acquire", "release", "release", "renew", "fence", "confirm"))
    ]
    reply, then = dice.random() < 0.7, dice.choice(THEN)
    chosen = _some(on, dice)
    on.note("lose", f"{'reply' if reply else 'request'} of {script.name} on {len(chosen)}, {then}")
    for proxy in chosen:
        (proxy.lose_reply if reply else proxy.lose_request)(script, then)
    on.rest(0.5)


@fault("reset")
def reset(on: Field, dice: Random) -> None:
    """All connections through some proxies end with a RST."""
    for proxy in _some(on, dice):
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


def _some(on: Field, dice: Random) -> list[PlaceProxy]:
    """The proxies of a few masters, or of all; in front of one worker, or of all."""
    chosen = [on.fleet.proxies[i] for i in some(on, dice)]
    only = dice.randrange(len(chosen[0])) if dice.random() < 0.5 else None
    return [proxy for proxies in chosen for place, proxy in enumerate(proxies) if only in (None, place)]
