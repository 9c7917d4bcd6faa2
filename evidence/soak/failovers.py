"""Masters of a soak that are groups, each with its own Sentinels; faults that change their primaries.

Sentinel makes the old primary a replica only ten seconds later. The nemesis does so itself, or there would be
few failovers in a run.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any

from rlock.rules.timing import guard_time
from rlock.testing.contention.checker import Eviction
from rlock.testing.contention.history import Attempt, History
from rlock.testing.contention.journal import now_ns
from rlock.testing.local.embedded import ServerBinary, find_server
from tests.groups.group import ReplicatedGroup, Server, until

from .field import Failover, Field, fault
from .fleet import Fleet
from .progress import lost_early

SENTINELS = 3


class GroupFleet(Fleet):
    """``acknowledged``: how many replicas have to acknowledge a vote; None: all."""

    def __init__(
        self,
        count: int,
        ttl: float,
        replicas: int,
        acknowledged: int | None,
        server: ServerBinary | None,
    ) -> None:
        self.ttl = ttl
        server = server or find_server()
        self.server = str(server)
        self._acknowledged = replicas if acknowledged is None else acknowledged
        self.masters, self.proxies, self.clocks = [], [], []
        self._ends = contextlib.ExitStack()
        try:
            made = (ReplicatedGroup(server, replicas, SENTINELS) for _ in range(count))
            self.groups = [self._ends.enter_context(group) for group in made]
            self.vouch()
        except BaseException:
            self._ends.close()
            raise
        self._claims = [threading.Lock() for _ in self.groups]
        self._grown_at = [0.0 for _ in self.groups]
        self._mutex = threading.Lock()

    def __len__(self) -> int:
        return len(self.groups)

    @property
    def urls(self) -> list[str]:
        return [group.url_with(self._acknowledged) for group in self.groups]

    def proxied(self, place: int) -> list[str]:
        """The same: Sentinels tell the addresses of the servers."""
        return self.urls

    def address(self, i: int) -> str:
        return self.groups[i].primary.url

    def mend(self) -> None:
        for group in self.groups:
            group.mend()


def failover_figures(
    history: History, failovers: Sequence[Failover], evictions: Iterable[Eviction]
) -> dict[str, Any]:
    """The holds that had validity left at a promotion, and those of them that were lost early."""
    holds = history.holds
    early = {hold.id for hold in lost_early(holds, evictions)}
    across = {
        hold.id
        for hold in holds
        for failover in failovers
        if hold.grant.at < failover.promoted_at < _believed_until(hold, failover.promoted_at)
    }
    return {
        "failovers": dict(Counter(failover.kind for failover in failovers)),
        "holds_at_a_failover": len(across),
        "of_these_lost_early": len(across & early),
    }


def _believed_until(hold: Attempt, at: int) -> int:
    """The end of a hold as its holder believed it at an instant."""
    until = next((look.valid_until for look in reversed(hold.looks) if look.at <= at), 0)
    return until if hold.left_at is None else min(until, hold.left_at)


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
        on.failovers.append(Failover(kind, promoted_at))


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
