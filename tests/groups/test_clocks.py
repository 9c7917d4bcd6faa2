"""Clocks that differ inside a group: a lease is replicated as an instant, so it ends early or late there."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import rlock
from rlock.rules.timing import guard_time
from rlock.testing.local.embedded import ServerBinary

from ..cli.doctoring import doctor
from ..faults.clock import Clock
from ..faults.conftest import LOOK_S, Waiter
from ..faults.conftest import _clock_library as _clock_library
from .conftest import ClientFor, GroupOf, one_kind, usable
from .group import Place, ReplicatedGroup

Skewed = Callable[[float], ReplicatedGroup]
TTL = 5.0
#: More than a lease.
SKEW_S = 6.0


@pytest.fixture
def skewed(
    group_of: GroupOf, server: ServerBinary, _clock_library: tuple[Path, str], tmp_path: Path
) -> Skewed:
    """``skewed(seconds)``: a group whose replica has a clock that is ahead by so much."""
    library, reason = _clock_library
    if reason:
        pytest.skip(reason)

    def make(seconds: float) -> ReplicatedGroup:
        clock = Clock(library, tmp_path)
        clock.step(seconds)
        return group_of(1, 1, [Place(server), Place(clock.binary(server)), Place(server)])

    return make


@one_kind
@pytest.mark.rule("3.6")
@pytest.mark.parametrize("seconds", [SKEW_S, -SKEW_S], ids=["ahead", "behind"])
def test_failovers_between_clocks_that_differ_let_nobody_in_and_cost_a_holder_nothing(
    client_for: ClientFor, skewed: Skewed, server: ServerBinary, seconds: float
) -> None:
    group = skewed(seconds)
    late_s = TTL + SKEW_S if server.version >= "7" else guard_time(TTL)  # Redis 6.2 replicates the duration
    holder, other, dead, waiting = (client_for(group.url, ttl=TTL) for _ in range(4))
    tokens = []
    with holder.lock("held") as lock:
        for behind in (seconds < 0, seconds > 0):  # to the replica, and back
            lease = dead.lock("x", renew=False)
            assert lease.acquire(timeout=TTL)
            tokens.append(lease.fencing_token)
            died_at = time.monotonic()
            group.fail_over()
            group.mend()
            waiter = Waiter(waiting)
            while not waiter.done:
                lock.check()
                with contextlib.suppress(rlock.QuorumUnreachableError):
                    assert not other.lock("held").acquire(timeout=0.1)
            assert waiter.got()
            free_s = late_s if behind else guard_time(TTL)
            assert free_s - 0.5 < waiter.got_at - died_at < free_s + LOOK_S
            tokens.append(usable(other))
            with pytest.raises(rlock.LeaseLostError):
                lease.release()
    assert tokens == sorted(set(tokens))


def test_doctor_names_a_replica_whose_clock_differs(skewed: Skewed) -> None:
    group = skewed(SKEW_S)
    found = doctor([group.url]).one("role")
    assert f"the clock of its replica 127.0.0.1:{group.servers[1].port} is 6.0 s ahead" in found["what"]
