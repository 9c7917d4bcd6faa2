"""Groups of real servers: failovers by real Sentinels, votes, clocks that differ, and error texts."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

import rlock
from rlock._client.sentinel import Service
from rlock.rules.timing import guard_time
from rlock.testing.local.embedded import ServerBinary

from ..cli.test_doctor import doctor
from ..faults.clock import Clock
from ..faults.conftest import LOOK_S, Waiter
from ..faults.conftest import _clock_library as _clock_library
from ..fixtures import FLAVOURS
from ..servers import acl_user
from .conftest import ClientFor, GroupOf, one_kind, refused, usable
from .group import ReplicatedGroup, Server, until

#: How the old primary ends, or goes on.
HARMS: dict[str, Callable[[ReplicatedGroup, Server], None]] = {
    "kill": lambda _, old: old.kill(),
    "stop": lambda _, old: old.pause(),
    "partition": lambda group, old: group.shut_out(old),
}
#: Beyond the lease and the restart guard: Sentinels, and a look of a waiter.
SLACK_S = 6.0


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.rule("3.6")
def test_nobody_gets_a_lock_beside_its_holder(
    client_for: ClientFor, watched: ReplicatedGroup, harm: str
) -> None:
    holder, other = client_for(watched.url, ttl=3.0), client_for(watched.url, ttl=3.0)
    usable(other)
    lock = holder.lock("x", renew=False)
    assert lock.acquire()
    token, until_s = lock.fencing_token, time.monotonic() + lock.remaining()
    waiter = Waiter(other)
    old = watched.primary
    HARMS[harm](watched, old)
    until(lambda: watched.primary is not old, "the Sentinels name another primary")
    while time.monotonic() < until_s - 0.1:
        lock.check()
        assert not waiter.done
        time.sleep(0.05)
    if old.running:
        old.resume()
    watched.mend()
    assert waiter.got(3.0 + SLACK_S)
    assert usable(other) > token


def test_the_newest_answer_of_the_sentinels_counts() -> None:
    """One that is cut off from the others names the old primary."""
    answers = [
        ["ip", "10.0.0.1", "port", "1", "config-epoch", "4"],
        ["ip", "10.0.0.2", "port", "2", "config-epoch", "5"],
    ]
    service = Service("mymaster", [], ConnectionError)
    for each in (answers, answers[::-1]):
        assert service.newest([*each, TimeoutError()]) == ("10.0.0.2", 2)


@pytest.mark.parametrize(
    "nonsense",
    [
        ["ip", "10.0.0.3", "port", "3", "config-epoch", "many"],
        ["ip", "10.0.0.3", "port", "70000", "config-epoch", "9"],
        ["ip", "10.0.0.3", "port", "-3", "config-epoch", "9"],
        ["ip", "", "port", "3", "config-epoch", "9"],
        ["ip", "10.0.0.3\nERROR all is lost", "port", "3", "config-epoch", "9"],
        ["ip", "x" * 254, "port", "3", "config-epoch", "9"],
        ["port", "3", "config-epoch", "9"],
        ["ip", "10.0.0.3", "port", "9" * 30, "config-epoch", "9"],
        [[], {}, "ip"],
        [],
    ],
    ids=str,
)
def test_a_sentinel_that_talks_nonsense_does_not_cost_the_group_its_vote(nonsense: list[str]) -> None:
    service = Service("mymaster", [], ConnectionError)
    good = ["ip", "10.0.0.2", "port", "2", "config-epoch", "5"]
    assert service.newest([nonsense, good]) == service.newest([good, nonsense]) == ("10.0.0.2", 2)


def test_a_sentinel_without_an_answer_is_an_error_that_says_so() -> None:
    service = Service("mymaster", [SimpleNamespace(label="redis://10.0.0.1")], ConnectionError)
    with pytest.raises(ConnectionError, match=r"redis://10\.0\.0\.1: no answer within 1\.5 s"):
        service.newest([TimeoutError()])  # of asyncio.wait_for


@one_kind
def test_an_unknown_service_and_unreachable_sentinels_are_errors_that_name_them(
    client_for: ClientFor, watched: ReplicatedGroup
) -> None:
    unknown = client_for(watched.url.replace("/mymaster", "/nobody"))
    refused(unknown, "its Sentinels know no service 'nobody': check the name in the URL")
    client = client_for(watched.url)
    usable(client)
    for sentinel in watched.sentinels:
        sentinel.pause()
    usable(client)  # on the connection that there is
    told = refused(client_for(watched.url), "no Sentinel of 'mymaster' answers")
    assert str(watched.sentinels[0].port) in told


# -- a vote of a group counts only when all its replicas have acknowledged it


@pytest.mark.rule("3.6")
def test_a_stale_primary_grants_nothing(client_for: ClientFor, group_of: GroupOf) -> None:
    """No Sentinel runs, so nobody makes the old primary a replica."""
    group = group_of()
    old, new = group.servers
    late, early = client_for(group.url), client_for(f"{new.url}?replicas=0")
    usable(late)
    new.client.execute_command("REPLICAOF", "NO", "ONE")  # as Sentinel does
    with early.lock("x") as lock:
        refused(late, "0 of 1 replicas acknowledged")
        patient = client_for(group.url, ttl=6.0)  # gives the replicas 0.25 s
        refused(patient, "0 of 1 replicas acknowledged")
        with pytest.raises(rlock.QuorumUnreachableError, match="its replicas have to answer, too"):
            patient.lock("x").acquire(timeout=0.1)
        lock.check()
    assert old.client.role()[0] == "master"


@one_kind
def test_more_replicas_than_configured_are_an_error_that_names_the_number(
    client_for: ClientFor, group_of: GroupOf
) -> None:
    refused(
        client_for(group_of(replicas=2).url_with(1)),
        "2 replicas are connected, and replicas=1 is set: set replicas=2",
    )


@one_kind
@pytest.mark.rule("2.4")
@pytest.mark.parametrize("server", FLAVOURS.values(), ids=FLAVOURS)
def test_nobody_calls_a_lock_free_while_a_replica_stands_still(
    client_for: ClientFor, group_of: GroupOf
) -> None:
    """It is counted as connected. It may have been promoted, and the lock granted there."""
    group = group_of()
    client = client_for(group.url)
    usable(client)
    group.servers[1].pause()
    with pytest.raises(rlock.QuorumUnreachableError):
        client.lock("x").locked()


@one_kind
def test_an_acl_that_forbids_wait_is_an_error_that_names_the_command(
    client_for: ClientFor, group_of: GroupOf
) -> None:
    primary = group_of().servers[0]
    url = acl_user(primary.url, "app", "~*", "&*", "+@all", "-wait") + "?replicas=1"
    client = client_for(url)
    assert "the user app may not run wait" in [found["what"] for found in doctor([url]).findings]
    with pytest.raises(rlock.OptionsError, match="no permissions to run the 'wait' command"):
        client.lock("x").acquire()


# -- clocks that differ inside a group: a lease is replicated as an instant, so it ends early or late there


SKEWED_TTL = 5.0
#: More than a lease.
SKEW_S = 6.0


@pytest.fixture
def skewed(group_of: GroupOf, server: ServerBinary, _clock_library: Path, tmp_path: Path) -> ReplicatedGroup:
    """A group whose replica has a clock that is ahead by `SKEW_S`."""
    clock = Clock(_clock_library, tmp_path)
    clock.step(SKEW_S)
    return group_of(1, 1, clock.binary(server))


@one_kind
@pytest.mark.rule("3.6")
def test_failovers_between_clocks_that_differ_let_nobody_in_and_cost_a_holder_nothing(
    client_for: ClientFor, skewed: ReplicatedGroup, server: ServerBinary
) -> None:
    late_s = guard_time(SKEWED_TTL)
    if server.version >= "7":  # Redis 6.2 replicates the duration
        late_s = SKEWED_TTL + SKEW_S
    holder, other, dead, waiting = (client_for(skewed.url, ttl=SKEWED_TTL) for _ in range(4))
    tokens = []
    with holder.lock("held") as lock:
        for behind in (False, True):  # to the replica, whose clock is ahead, and back
            lease = dead.lock("x", renew=False)
            assert lease.acquire(timeout=SKEWED_TTL)
            tokens.append(lease.fencing_token)
            died_at = time.monotonic()
            skewed.fail_over()
            skewed.mend()
            waiter = Waiter(waiting)
            while not waiter.done:
                lock.check()
                with contextlib.suppress(rlock.QuorumUnreachableError):
                    assert not other.lock("held").acquire(timeout=0.1)
            assert waiter.got()
            free_s = late_s if behind else guard_time(SKEWED_TTL)
            assert free_s - 0.5 < waiter.got_at - died_at < free_s + LOOK_S
            tokens.append(usable(other))
            with pytest.raises(rlock.LeaseLostError):
                lease.release()
    assert tokens == sorted(set(tokens))


def test_doctor_names_a_replica_whose_clock_differs(skewed: ReplicatedGroup) -> None:
    found = doctor([skewed.url]).one("role")
    assert f"the clock of its replica 127.0.0.1:{skewed.servers[1].port} is 6.0 s ahead" in found["what"]
