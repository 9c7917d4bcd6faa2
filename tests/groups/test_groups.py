"""Groups of servers: failovers by real Sentinels, votes, clocks that differ, URLs and ready clients."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio
import redis.asyncio.sentinel
import redis.sentinel

import rlock
import rlock.asyncio
from rlock._async.connections import Endpoint as AsyncEndpoint
from rlock._client.sentinel import Service
from rlock._sync.connections import Endpoint
from rlock.rules.keys import NOTE
from rlock.rules.timing import guard_time
from rlock.testing.local.embedded import Master, ServerBinary

from ..cli.test_doctor import doctor
from ..docs.pages import DOCS, marked
from ..faults.clock import Clock
from ..faults.conftest import POLL_S, Waiter
from ..faults.conftest import _clock_library as _clock_library
from ..fixtures import FLAVOURS
from ..servers import AnyMaster, acl_user, raw
from .conftest import ClientFor, GroupOf, one_kind, refused, usable
from .group import ReplicatedGroup, Server, until

#: How the old primary ends, or goes on.
HARMS: dict[str, Callable[[ReplicatedGroup, Server], None]] = {
    "kill": lambda _, old: old.kill(),
    "stop": lambda _, old: old.pause(),
    "partition": lambda group, old: group.shut_out(old),
}
SLACK_S = 6.0  # beyond the lease and the restart guard: Sentinels, and a poll of a waiter


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


@pytest.mark.parametrize(
    "other",
    [
        # Of one that is cut off from the others: the old primary.
        ["ip", "10.0.0.1", "port", "1", "config-epoch", "4"],
        TimeoutError(),
        ["ip", "10.0.0.3", "port", "3", "config-epoch", "many"],
        ["ip", "10.0.0.3", "port", "70000", "config-epoch", "9"],
        ["ip", "10.0.0.3", "port", "-3", "config-epoch", "9"],
        ["ip", "", "port", "3", "config-epoch", "9"],
        ["ip", "10.0.0.3\nERROR all is lost", "port", "3", "config-epoch", "9"],
        ["ip", "x" * 254, "port", "3", "config-epoch", "9"],
        ["port", "3", "config-epoch", "9"],
        [[], {}, "ip"],
        [],
    ],
    ids=str,
)
def test_the_newest_answer_of_the_sentinels_counts(other: list[str] | Exception) -> None:
    service = Service("mymaster", [], ConnectionError)
    good = ["ip", "10.0.0.2", "port", "2", "config-epoch", "5"]
    assert service.newest([other, good]) == service.newest([good, other]) == ("10.0.0.2", 2)


@one_kind
def test_wrong_service_and_dead_sentinels_are_named(client_for: ClientFor, watched: ReplicatedGroup) -> None:
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
def test_more_replicas_than_configured_are_an_error(client_for: ClientFor, group_of: GroupOf) -> None:
    client = client_for(group_of(replicas=2).url_with(1))
    refused(client, "2 replicas are connected, and replicas=1 is set: set replicas=2")


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
def test_an_acl_without_wait_is_an_error_that_names_it(client_for: ClientFor, group_of: GroupOf) -> None:
    primary = group_of().servers[0]
    url = acl_user(primary.url, "app", "~*", "&*", "+@all", "-wait") + "?replicas=1"
    client = client_for(url)
    assert "the user app may not run wait" in [found["what"] for found in doctor([url]).findings]
    with pytest.raises(rlock.OptionsError, match="no permissions to run the 'wait' command"):
        client.lock("x").acquire()


# -- clocks that differ inside a group: a lease is replicated as an instant, so it ends early or late there

SKEWED_TTL = 5.0
SKEW_S = 6.0  # more than a lease


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
            assert free_s - 0.5 < waiter.got_at - died_at < free_s + POLL_S
            tokens.append(usable(other))
            with pytest.raises(rlock.LeaseLostError):
                lease.release()
    assert tokens == sorted(set(tokens))


def test_doctor_names_a_replica_whose_clock_differs(skewed: ReplicatedGroup) -> None:
    found = doctor([skewed.url]).one("role")
    assert f"the clock of its replica 127.0.0.1:{skewed.servers[1].port} is 6.0 s ahead" in found["what"]


#: Everything that such a URL can say.
WHOLE = (
    "rediss+sentinel://joe:a%2Fb@s1:26379,s2/orders?replicas=2&db=3&sentinel_username=watch"
    "&sentinel_password=p%40w&sentinel_tls=no&ssl_cert_reqs=none"
)


def test_the_page_shows_urls_and_clients_that_can_be_used() -> None:
    first, second = marked(DOCS / "howto" / "sentinel.md", "tests/groups/test_groups.py")
    exec(first + second, {})


@pytest.mark.parametrize("kind", [Endpoint, AsyncEndpoint])
def test_a_url_says_who_is_asked_and_with_what(kind: type[Endpoint] | type[AsyncEndpoint]) -> None:
    endpoint = kind(WHOLE)
    connection = endpoint.connection(1.0)
    assert endpoint.replicas == 2
    assert (connection.db, connection.username, connection.password) == (3, "joe", "a/b")
    assert isinstance(connection, endpoint.library.sentinel.SentinelManagedSSLConnection)
    service = endpoint.service
    assert service is not None
    asked = [one.connection(1.0) for one in service.sentinels]
    assert service.service_name == "orders"
    assert [(one.host, one.port, one.username, one.password) for one in asked] == [
        ("s1", 26379, "watch", "p@w"),
        ("s2", 26379, "watch", "p@w"),
    ]
    assert not isinstance(asked[0], endpoint.library.SSLConnection)
    assert endpoint.label == "rediss+sentinel://s1:26379,s2:26379/orders"


@pytest.mark.parametrize(
    ("master", "label"),
    [
        (rlock.Group(redis.Redis("primary"), 1), "redis://primary:6379"),
        ("redis://primary?replicas=1", "redis://primary:6379"),
    ],
)
def test_a_ready_client_or_an_address_is_a_group(master: rlock.Group | str, label: str) -> None:
    endpoint = Endpoint(master)
    assert (endpoint.label, endpoint.replicas) == (label, 1)
    endpoint.connection(1.0)


SENTINEL = redis.sentinel.Sentinel([("s1", 1)])


@pytest.mark.parametrize(
    ("masters", "advice"),
    [
        ("redis+sentinel://s1,s2/mymaster", "add ?replicas=1"),
        ("redis+sentinel://s1,s2/?replicas=1", "write redis+sentinel://"),
        ("redis+sentinel://joe:secret#1@s1/m?replicas=1", "write redis+sentinel://"),
        ("redis+sentinel://s1/m?replicas=one", "the number of replicas"),
        ("redis+sentinel://s1/m?replicas=1&sentinel_tls=maybe", "write redis+sentinel://"),
        (",".join(["redis+sentinel://s1:26379,s2:26380,s3/mymaster?replicas=1"] * 2), "twice"),
        (SENTINEL.master_for("m"), "in a URL, as redis+sentinel://"),
        (rlock.Group(SENTINEL.master_for("m"), 1), "in a URL, as redis+sentinel://"),
        (rlock.Group(SENTINEL, 1), "redis+sentinel://"),
    ],
)
def test_a_wrong_url_or_client_is_refused_with_what_to_do(masters: Any, advice: str) -> None:
    with pytest.raises(rlock.OptionsError) as raised:
        rlock.Client(masters)
    assert advice in str(raised.value)
    assert "secret" not in str(raised.value)


def test_who_names_replicas_or_none_second_is_refused_and_leaves_the_note(any_server: AnyMaster) -> None:
    plain, group = any_server.url, f"{any_server.url}?replicas=1"
    for first, second, told in ((group, plain, "as a group"), (plain, group, "without .replicas=")):
        with raw(plain) as server, rlock.Client(first) as client, rlock.Client(second) as mistaken:
            server.delete(NOTE)
            with contextlib.suppress(rlock.QuorumUnreachableError):  # 0 of 1 replicas
                _ = client.init(), client.lock("x").acquire(blocking=False)
            note = server.get(NOTE)
            with pytest.raises(rlock.OptionsError, match=told):
                mistaken.lock("x").acquire(timeout=1)
            assert "it is used" in doctor([second]).one("writes")["what"]
            assert server.get(NOTE) == note


def test_a_node_of_a_cluster_is_no_master(server: ServerBinary) -> None:
    with (
        Master(server, args=("--cluster-enabled", "yes")) as node,
        rlock.Client(node.url) as client,
        pytest.raises(rlock.OptionsError, match="Cluster"),
    ):
        client.lock("x").acquire(timeout=1)
