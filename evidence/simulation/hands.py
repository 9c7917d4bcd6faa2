"""Holds that change hands or their kind: others adopt a handle at about the same time; a writer reads on."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from rlock._client.transfers import adopt_gen, detach_gen
from rlock.errors import RLockError
from rlock.procedures.port import WaitGenerator
from rlock.rules.handles import Handle
from rlock.rules.holds import Hold
from rlock.rules.options import LockOptions

from .client import Client
from .events import Thread, sleep

if TYPE_CHECKING:
    from .play import Play


class Public:
    """The public side of a client, as far as a change of hands knows it."""

    def __init__(self, client: Client) -> None:
        self._client, self._options, self.masters = client, client.options, client.context.masters

    def _engine(self) -> Client:
        return self._client

    def lock(self, name: str, **options: Any) -> Any:
        made = LockOptions(name, self._options.lease(None), **options)
        return SimpleNamespace(_client=self, name=name, _options=made)


def hand_over(play: Play, client: Client, hold: Hold, dice: Random) -> WaitGenerator[None]:
    """Detach, or do not. One or more other threads shall adopt it."""
    if not play.setup.hands or hold.options.shared or dice.random() >= play.setup.hands:
        return
    referee, ttl = play.world.referee, dice.uniform(0.2, client.options.max_ttl)
    referee.leave(hold)
    play._happens("detach", client, None, hold.owner)
    try:
        text = yield from detach_gen(Public(client).lock(hold.name), ttl)
    except (RLockError, KeyboardInterrupt):
        return
    play.oracles.gives_away(hold)
    handle = Handle.parse(text, len(play.world.hosts))
    referee.kept[handle.owner] = (hold.name, play.world.events.now + handle.lease_ms / 1000)
    alive = [thread for thread in play.threads if not thread.client.dead]
    for thread in dice.sample(alive, min(len(alive), dice.choice((1, 2, 2, 3)))):
        play.jobs[thread].append(partial(adopt, play, text, Random(dice.random())))
        thread.client.do(play.benches[thread].poke)


def adopt(play: Play, handle: str, dice: Random, client: Client, thread: Thread) -> WaitGenerator[None]:
    try:
        lock = yield from adopt_gen(Public(client), handle, {})
    except (RLockError, KeyboardInterrupt):
        return
    hold = client.holds.find(thread.key, lock.name)
    if hold is None:
        return
    referee = play.world.referee
    if not client.switches or client.holds.remaining(hold) > 0.0:
        referee.enter(client, hold, handle)
    with suppress(KeyboardInterrupt):
        yield from sleep(dice.uniform(0.0, 0.6))
        referee.believes(client, hold)
    yield from play.let_go(client, hold)


def change_kind(play: Play, client: Client, thread: Thread, hold: Hold, dice: Random) -> WaitGenerator[Hold]:
    """The hold with which an owner goes on; often a writer's owner has become a reader."""
    if not play.setup.readers or dice.random() < 0.5:
        return hold
    shared = not hold.options.shared
    # A lease that is not renewed is lost with all that rests on it.
    renew = hold.options.renew and dice.random() < 0.8
    drawn = play.options(client, hold.name, dice, fair=True, renew=renew)
    options = replace(drawn, shared=shared, hold_at_least=0.0)
    try:
        other = yield from client.locking(thread, options)
        if other is None:
            return hold
        yield from sleep(dice.choice((0.0, 0.01, dice.uniform(0.0, 1.0))))
    except (RLockError, KeyboardInterrupt):
        other = client.holds.find(thread.key, options.hold_name)
    if other is None:
        return hold
    ends, stays = (hold, other) if shared else (other, hold)
    yield from play.let_go(client, ends)
    with suppress(KeyboardInterrupt):
        for _ in range(3):
            yield from sleep(dice.choice((0.0, dice.uniform(0.0, 0.4))))
            play.world.referee.believes(client, stays)
    return stays
