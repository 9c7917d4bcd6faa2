"""Faults of groups: the primary changes, and the old one goes on for a while where it can.

Sentinel makes the old primary a replica only ten seconds later. The nemesis does so itself, or there would be
few failovers in a run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random

from rlock.rules.timing import guard_time
from rlock.testing.contention.journal import now_ns
from tests.groups.group import ReplicatedGroup, Server, until

from .field import Failover, Field, fault
from .groups import GroupFleet

#: How long the old primary goes on beside the new one, beyond the restart guard of that one or instead of it.
STALE_S = 3.0


@contextmanager
def _some_group(on: Field, dice: Random) -> Iterator[tuple[int, ReplicatedGroup] | None]:
    """A group that no other fault has; it is whole afterwards."""
    fleet = on.fleet
    assert isinstance(fleet, GroupFleet)
    i = dice.randrange(len(fleet))
    with fleet.claim(i) as mine:
        if not mine:
            yield None
            return
        fleet.lose(i)
        try:
            yield i, fleet.groups[i]
        finally:
            fleet.groups[i].mend()
            fleet.await_guard(i)


def _failover(on: Field, dice: Random, kind: str, harm: Callable[[ReplicatedGroup, Server], None]) -> None:
    with _some_group(on, dice) as some:
        if some is None:
            return
        i, group = some
        old = group.primary
        harm(group, old)
        until(lambda: group.promoted(old), f"a replica is promoted ({kind})")
        promoted_at = now_ns()
        on.note(f"failover-{kind}", i)
        until(lambda: group.primary is not old, "the Sentinels name the new primary")
        if kind == "stop":
            on.rest(dice.uniform(0.0, STALE_S))
            old.resume()
        if kind != "kill":
            # Otherwise all clients would stay with the old primary.
            group.disconnect_some(old, dice)
        guard = guard_time(on.fleet.ttl)
        on.rest(dice.choice((0.0, guard)) + dice.uniform(0.0, STALE_S))
        group.mend()
        on.failovers.append(Failover(kind, promoted_at, now_ns()))


@fault("failover-command")
def command(on: Field, dice: Random) -> None:
    """An operator has a replica promoted. The old primary goes on."""
    _failover(on, dice, "command", lambda group, _: group.fail_over())


@fault("failover-kill")
def kill(on: Field, dice: Random) -> None:
    """The primary crashes, and comes back empty after the promotion."""
    _failover(on, dice, "kill", lambda _, old: old.kill())


@fault("failover-stop")
def stop(on: Field, dice: Random) -> None:
    """The primary stands still, and goes on after the promotion."""
    _failover(on, dice, "stop", lambda _, old: old.pause())


@fault("failover-partition")
def partition(on: Field, dice: Random) -> None:
    """The primary loses replicas and Sentinels, and clients still reach it."""
    _failover(on, dice, "partition", lambda group, old: group.shut_out(old))


@fault("failover-empty")
def empty(on: Field, dice: Random) -> None:
    """The primary crashes and is back, empty, before a Sentinel notices; its replicas follow it."""
    with _some_group(on, dice) as some:
        if some is not None:
            i, group = some
            old = group.primary
            old.kill()
            old.start()
            on.note("failover-empty", i)
            with contextlib.suppress(AssertionError):
                until(group.whole, "the replicas follow the empty primary", 5.0)
