"""Scenarios of `test_directed.py` on a group of two or three servers: a leads, and b is promoted.

A server that was promoted has no vote for 1.012 s. An old primary does harm if it goes on for longer,
or if it leads again with the older memory of the other one.
"""

from __future__ import annotations

from .groups import Server
from .referee import Referee
from .stage import FIXED, Stage


def _servers(stage: Stage) -> list[Server]:
    return stage.world.groups[0].servers


def _promotes(stage: Stage, when: float, server: Server, *, silent: bool = False) -> None:
    stage.at(when, lambda: stage.world.groups[0].promote(server, silent=silent))


def _follows(stage: Stage, when: float, server: Server, to: Server, *, kill: bool = True) -> None:
    stage.at(when, lambda: server.follow(to, kill=kill))


def _old_and_new_are_asked(stage: Stage) -> Referee:
    """One client is still connected to a, and another one has been to b since its promotion."""
    holder, newcomer = stage.client(), stage.client(joined=False)
    stage.takes(newcomer, 0.2, hold_s=0.0)
    stage.takes(holder, 1.5, hold_s=2.0, options=FIXED)
    first, second, *_ = _servers(stage)
    _follows(stage, 2.05, first, second)
    # The first try without all replicas ends the connection.
    for when in (1.8, 2.2, 2.35):
        stage.takes(newcomer, when, hold_s=2.0, options=FIXED)
    return stage.play(2.6)


def stale_primary(stage: Stage) -> Referee:
    """The only replica of a was promoted, and a goes on."""
    _promotes(stage, 0.1, _servers(stage)[1])
    return _old_and_new_are_asked(stage)


def late_follower(stage: Stage) -> Referee:
    """One replica of a was promoted; the other one acknowledges to a first, and to b later."""
    _, second, third = _servers(stage)
    _promotes(stage, 0.1, second)
    _follows(stage, 1.72, third, second)
    return _old_and_new_are_asked(stage)


def added_replica(stage: Stage) -> Referee:
    """The same with c added to the one replica that clients know of. a does not hear that b has gone."""
    stage.world.groups[0].configured = 1
    first, second, third = _servers(stage)
    first.forget(first.links[1])
    third.follow(second)
    _follows(stage, 0.05, third, first)
    _promotes(stage, 0.12, second, silent=True)
    _follows(stage, 1.72, third, second)
    return _old_and_new_are_asked(stage)


def stale_answer(stage: Stage) -> Referee:
    """a does not hear that b was promoted. b and its new replica c grant the lock, and a is asked for it."""
    stage.world.groups[0].configured = 1
    first, second, third = _servers(stage)
    first.forget(first.links[1])
    third.follow(second)
    _promotes(stage, 0.1, second, silent=True)
    looker, newcomer = stage.client(), stage.client(joined=False)
    stage.looks(looker, 0.05)
    stage.takes(newcomer, 0.2, hold_s=0.0)
    stage.takes(newcomer, 1.5, hold_s=2.0, options=FIXED)
    stage.looks(looker, 1.8)
    return stage.play(2.2)


def fail_back(stage: Stage, *, kill: bool = True) -> Referee:
    """b restarts with the memory from before the grant, and leads. a copies this memory, and leads again.

    ``kill``: a ends its connections when it follows b. Otherwise a client asks this replica for the holder.
    """
    first, second = _servers(stage)
    kept: dict[str, object] = {}
    stage.at(1.45, lambda: kept.update(second.snapshot()))
    stage.takes(stage.holder, 1.5, hold_s=2.0, options=FIXED)

    def restart() -> None:
        second.stream.held_until = 1.75
        second.restart(snapshot=kept)

    stage.at(1.55, restart)
    _promotes(stage, 1.62, second)
    _follows(stage, 1.7, first, second, kill=kill)
    if not kill:
        stage.looks(stage.client(), 1.75)
    _promotes(stage, 1.8, first)
    _follows(stage, 1.87, second, first)
    # The first try finds that the connection has ended.
    for when in (2.0, 2.1):
        stage.takes(stage.other, when, hold_s=2.0, options=FIXED)
    return stage.play(2.3)
