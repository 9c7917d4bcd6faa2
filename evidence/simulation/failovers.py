"""Faults of replicated groups: servers that are promoted, and those that have not heard of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .groups import Group, Server

if TYPE_CHECKING:
    from .faults import Nemesis


def _chosen(nemesis: Nemesis) -> tuple[Group, Server]:
    """A group, and a replica of it that Sentinel knows: it follows the primary, or did so before."""
    group = nemesis.dice.choice(list(nemesis.world.groups.values()))
    known = [server for server in group.replicas if server.follows in (group.primary, None)]
    return group, nemesis.dice.choice(known or group.replicas[: group.configured])


def _promote(
    nemesis: Nemesis, group: Group, server: Server, within_s: float, *, stale_s: float = 0.0
) -> None:
    """The others follow it ``within_s``; the old primary goes on until then, at least for ``stale_s``."""
    dice, old = nemesis.dice, group.primary
    # While it counts more replicas than the clients were told of it has no vote: docs/howto/sentinel.md.
    silent = dice.random() < 0.5 or len(old.links) > group.configured
    group.promote(server, silent=silent, stale_s=dice.choice((0.0, within_s)))
    for other in group.servers:
        late = other is old or dice.random() < 0.5
        kill, delay = dice.random() < 0.7, dice.uniform(stale_s if late else 0.0, within_s)
        nemesis.later(delay, lambda other=other, kill=kill: group.rejoin(other, kill=kill))  # type: ignore[misc]
    for _ in range(2):  # it does harm if somebody asks
        nemesis.later(dice.choice((0.0, within_s)) + dice.uniform(0.0, 0.1), lambda: nemesis.play.take(dice))


def promote(nemesis: Nemesis) -> None:
    _promote(nemesis, *_chosen(nemesis), 0.3)


def stale_primary(nemesis: Nemesis) -> None:
    """The old primary goes on for longer than the restart guard waits, with every second of its clients."""
    group, server = _chosen(nemesis)
    old, lease_s = group.primary, nemesis.play.oracles.longest
    if nemesis.dice.random() < 0.4:
        added_replica(nemesis)
    _promote(nemesis, group, server, 3.0 * lease_s, stale_s=1.2 * lease_s)
    for number in list(old.sessions)[::2]:
        old.kill_connection(number)


def late_replica(nemesis: Nemesis) -> None:
    """A replica lacks the last writes, and may be promoted without them."""
    group, server = _chosen(nemesis)
    lasts = nemesis.duration()
    server.stream.held_until = nemesis.world.events.now + lasts
    if nemesis.dice.random() < 0.7:
        within_s = nemesis.dice.choice((0.3, 3.0))
        nemesis.later(nemesis.dice.uniform(0.0, lasts), lambda: _promote(nemesis, group, server, within_s))


def empty_return(nemesis: Nemesis) -> None:
    """The primary comes back empty before anybody notices, or goes on like that beside another one."""
    group, server = _chosen(nemesis)
    old, within_s = group.primary, nemesis.dice.choice((0.3, 3.0))
    old.restart(nemesis.dice.uniform(0.0, 0.2), silent=nemesis.dice.random() < 0.2)
    noticed_after = nemesis.dice.choice((0.0, nemesis.duration(), 99.0))
    nemesis.later(noticed_after, lambda: _promote(nemesis, group, server, within_s))


def fail_back(nemesis: Nemesis, chosen: tuple[Group, Server] | None = None) -> None:
    """The old primary copies the memory of the new one, perhaps on open connections, and leads again."""
    group, server = chosen or _chosen(nemesis)
    old, kill = group.primary, nemesis.dice.random() < 0.4
    group.promote(server)
    nemesis.later(0.0, lambda: group.rejoin(old, kill=kill))
    again = nemesis.dice.choice((nemesis.dice.uniform(0.0, 0.05), nemesis.duration() / 4))
    nemesis.later(again, lambda: _promote(nemesis, group, old, nemesis.dice.choice((0.02, 0.02, 0.3))))


def old_replica(nemesis: Nemesis) -> None:
    """A replica restarts with an older memory, or empty, and is promoted before it has copied more."""
    group, server = _chosen(nemesis)
    snapshot = nemesis.dice.choice((server.snapshot(), server.snapshot(), {}))

    def restart() -> None:
        server.stream.held_until = nemesis.world.events.now + 0.2
        server.restart(snapshot=snapshot)
        nemesis.later(0.1, lead)

    def lead() -> None:
        if nemesis.dice.random() < 0.7 and server is not group.primary:
            fail_back(nemesis, (group, server))
        else:
            _promote(nemesis, group, server, 0.3)

    nemesis.until(restart)


def added_replica(nemesis: Nemesis) -> None:
    """Somebody adds a replica to those that the clients were told of."""
    group = nemesis.dice.choice(list(nemesis.world.groups.values()))
    if len(group.replicas) > group.configured:
        group.rejoin(nemesis.dice.choice(group.replicas))


FAILOVERS = (promote, stale_primary, late_replica, empty_return, fail_back, old_replica, added_replica)
