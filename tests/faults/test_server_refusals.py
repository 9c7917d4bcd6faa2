"""Servers that answer, but with an error: full, read-only, loading, locked up, or not allowed."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator

import pytest
import redis

import rlock

from ..lock.conftest import eventually
from ..servers import Fleet, acl_user, name_of, raw, tell
from .conftest import (
    LOOK_S,
    ClientFor,
    FreshMasters,
    Proxies,
    Waiter,
    everywhere,
    excluded,
    holders,
    unharmed,
    usable,
    waiting,
    within,
)


@contextlib.contextmanager
def admin(urls: list[str]) -> Iterator[list[redis.Redis]]:
    """Connections that were there before."""
    clients = [raw(url) for url in urls]
    for client in clients:
        client.client_id()  # not PING: a master that cannot save refuses that
    yield clients
    for client in clients:
        client.close()


REFUSALS: dict[str, Callable[[redis.Redis], object]] = {
    "no memory": lambda server: server.config_set("maxmemory", "1"),
    "a replica": lambda server: server.replicaof("127.0.0.1", "1"),
    "no more clients": lambda server: server.config_set("maxclients", "1"),
}


@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_minority_that_refuses_gives_no_vote_and_nobody_notices(
    refusal: str, fresh_masters: FreshMasters, client_for: ClientFor
) -> None:
    urls = fresh_masters(3).urls
    holder, other = client_for(urls, 1.5), client_for(urls, 1.5)
    usable(holder)
    with admin(urls[:1]) as [server]:
        REFUSALS[refusal](server)
        with unharmed(holder, other):
            assert holders(urls[1:]) != [None] * 2
            usable(client_for(urls), name="y")


def test_a_majority_that_refuses_to_evict_is_an_error(
    fresh_masters: FreshMasters, client_for: ClientFor
) -> None:
    urls = fresh_masters(3).urls
    holder, operator = client_for(urls, 10.0), client_for(urls)
    lock = holder.lock("x")
    lock.acquire()
    with admin(urls) as servers:
        for refusing in (servers, servers[:2]):
            for server in refusing:
                server.config_set("min-replicas-to-write", "1")
            with pytest.raises(rlock.QuorumUnreachableError, match="NOREPLICAS"):
                operator.evict("x")
            for server in refusing:
                server.config_set("min-replicas-to-write", "0")
        assert lock.is_owned()
        standing = holders(urls)[:1]
        assert operator.evict("x") == standing


def test_without_memory_on_a_majority_acquire_says_oom_while_a_holder_renews_and_releases(
    masters3: Fleet, client_for: ClientFor, caplog: pytest.LogCaptureFixture
) -> None:
    urls = masters3.urls
    holder, other = client_for(urls, 1.5), client_for(urls, 1.5)
    usable(other)
    lock = holder.lock("x")
    lock.acquire()
    assert everywhere(urls)
    tell(urls, "CONFIG", "SET", "maxmemory", "1")
    lock.acquire()  # nested: no network
    with within(2.0), pytest.raises(rlock.QuorumUnreachableError, match="OOM"):
        other.lock("y").acquire(timeout=0.3)
    assert caplog.text.count("gives no vote: OOM") == 3, "once for each master"
    excluded(other)
    time.sleep(1.7)
    lock.check()
    lock.release()
    lock.release()
    assert holders(urls) == [None] * 3
    tell(urls, "CONFIG", "SET", "maxmemory", "0")
    with within(1.0):
        usable(other)


def test_an_eviction_policy_that_throws_locks_away_is_logged_once_for_each_master(
    fresh_masters: FreshMasters, client_for: ClientFor, caplog: pytest.LogCaptureFixture
) -> None:
    urls = fresh_masters(3).urls
    tell(urls[:2], "CONFIG", "SET", "maxmemory-policy", "volatile-ttl")
    with caplog.at_level(logging.WARNING, "rlock"):
        for _ in range(2):
            usable(client_for(urls))
    told = [record.getMessage() for record in caplog.records if "volatile-ttl" in record.getMessage()]
    assert len(told) == 2
    assert all("set it to noeviction" in line for line in told)
    assert {line.split()[0] for line in told} == set(map(name_of, urls[:2]))


def test_a_majority_of_replicas_is_raised_at_once_even_from_an_acquire_that_may_wait_for_ever(
    fresh_masters: FreshMasters, client_for: ClientFor
) -> None:
    urls = fresh_masters(3).urls
    connected = client_for(urls)
    usable(connected)
    with admin(urls[:2]) as servers:
        for server in servers:
            server.replicaof("127.0.0.1", "1")
        with within(2.0), pytest.raises(rlock.OptionsError, match=r"READONLY|replica"):
            connected.lock("x").acquire()
        with within(2.0), pytest.raises(rlock.OptionsError, match="it is a replica: name its master"):
            client_for(urls).lock("x").acquire()
        for server in servers:
            server.replicaof("NO", "ONE")
    with within(5.0):
        usable(client_for(urls))
        usable(connected)


def test_masters_that_are_loading_give_no_vote_and_a_blocking_acquire_waits_for_them(
    masters3: Fleet, client_for: ClientFor, proxies: Proxies
) -> None:
    loading = proxies(masters3.urls[1:])
    for proxy in loading:
        proxy.lie = b"-LOADING Redis is loading the dataset in memory\r\n"
    client = client_for([masters3.urls[0], *(proxy.url for proxy in loading)])
    with within(2.0), pytest.raises(rlock.QuorumUnreachableError, match="is loading the dataset"):
        client.lock("x").acquire(timeout=0.2)
    waiter = Waiter(client)
    time.sleep(0.5)
    assert not waiter.done
    for proxy in loading:
        proxy.mend()
    assert waiter.got(10.0)


def test_a_password_that_is_set_while_we_are_connected_costs_a_minority_its_vote_and_nothing_else(
    fresh_masters: FreshMasters, client_for: ClientFor, caplog: pytest.LogCaptureFixture
) -> None:
    urls = fresh_masters(3).urls
    holder, other = client_for(urls, 1.5), client_for(urls, 1.5)
    with unharmed(holder, other):
        tell(urls[:1], "CONFIG", "SET", "requirepass", "new")
        with caplog.at_level(logging.WARNING, "rlock"):
            excluded(client_for(urls))
            assert eventually(lambda: "gives no vote: " in caplog.text)
        assert "invalid username-password pair" in caplog.text


@pytest.mark.parametrize("wrong", [":wrong@", ""], ids=["wrong", "none"])
def test_a_wrong_or_missing_password_on_a_majority_is_raised_at_once(
    wrong: str, fresh_masters: FreshMasters, client_for: ClientFor
) -> None:
    urls = fresh_masters(3, password="right").urls
    bad = [url.replace(":right@", wrong) for url in urls[:2]]
    with within(2.0), pytest.raises(rlock.OptionsError, match=r"(?i)wrongpass|password|auth") as caught:
        client_for([*bad, urls[2]]).lock("x").acquire()
    assert ":wrong@" not in str(caught.value)
    assert eventually(lambda: holders(urls) == [None] * 3, 2.0)
    with within(2.0):
        usable(client_for([bad[0], *urls[1:]]))


def user(urls: list[str], *rules: str) -> list[str]:
    """URLs of a user who may do everything but this."""
    return [acl_user(url, "worker", "~*", "&*", "+@all", *rules) for url in urls]


def test_without_the_permission_to_publish_a_waiter_finds_the_lock_by_looking(
    masters3: Fleet, client_for: ClientFor
) -> None:
    urls = user(masters3.urls, "-publish")
    holder, other = client_for(urls, 10.0), client_for(urls, 10.0)
    lock = holder.lock("x")
    lock.acquire()
    waiter = Waiter(other)
    waiting(client_for(masters3.urls))
    lock.release()
    with within(LOOK_S):
        assert waiter.got()
    usable(holder)


def test_without_the_permission_to_subscribe_a_waiter_polls_and_says_so(
    masters3: Fleet, client_for: ClientFor, caplog: pytest.LogCaptureFixture
) -> None:
    urls = user(masters3.urls, "-subscribe")
    holder, other = client_for(urls, 10.0), client_for(urls, 10.0)
    lock = holder.lock("x")
    lock.acquire()
    with caplog.at_level(logging.WARNING, "rlock"):
        waiter = Waiter(other)
        time.sleep(0.7)
    assert not waiter.done
    lock.release()
    with within(1.5):
        assert waiter.got()
    assert "refuses SUBSCRIBE, so waiters poll" in caplog.text
    assert "NOPERM" in caplog.text


def test_without_the_permission_for_info_the_lock_works(masters3: Fleet, client_for: ClientFor) -> None:
    urls = user(masters3.urls, "-info")
    with unharmed(client_for(urls, 1.5), client_for(urls, 1.5)):
        pass


def test_a_majority_that_takes_no_more_clients_is_an_error_for_newcomers_and_serves_those_who_are_there(
    fresh_masters: FreshMasters, client_for: ClientFor
) -> None:
    urls = fresh_masters(3).urls
    holder, waiting_one = client_for(urls, 1.5), client_for(urls, 1.5)
    usable(holder)
    usable(waiting_one)
    lock = holder.lock("x")
    lock.acquire()
    with admin(urls) as servers:
        for server in servers:
            server.config_set("maxclients", "1")
        # The server says why and hangs up; where it is faster than our first command, only the end is seen.
        told = r"max number of clients|too many clients"
        with within(2.0), pytest.raises(rlock.QuorumUnreachableError, match=told):
            client_for(urls).lock("x").acquire(timeout=0.3)
        # It is connected, but there is no room for a subscription: it looks now and then.
        waiter = Waiter(waiting_one)
        time.sleep(1.7)
        lock.check()
        lock.release()
        with within(LOOK_S):
            assert waiter.got()
        for server in servers:
            server.config_set("maxclients", "1000")
    with within(2.0):
        usable(client_for(urls))
