"""Servers that answer, but with an error: full, read-only, loading, locked up, or not allowed."""

from __future__ import annotations

import contextlib
import logging
import re
import time
from collections.abc import Callable, Iterator

import pytest
import redis

import rlock

from ..lock.conftest import eventually
from ..servers import acl_user, name_of, raw, tell
from .checks import everywhere, excluded, holders, unharmed, usable, waiting, within
from .conftest import POLL_S, FreshMasters, Scene, Scenes, Waiter


@contextlib.contextmanager
def admin(urls: list[str]) -> Iterator[list[redis.Redis]]:
    """Connections that were there before."""
    clients = [raw(url) for url in urls]
    for client in clients:
        client.client_id()  # not PING: a master that cannot save refuses that
    yield clients
    for client in clients:
        client.close()


#: Commands that make a server refuse, with the text of the log.
REFUSALS: dict[str, tuple[Callable[[redis.Redis], object], str]] = {
    "no memory": (lambda server: server.config_set("maxmemory", "1"), "OOM"),
    "a replica": (lambda server: server.replicaof("127.0.0.1", "1"), "READONLY|replica"),
    "no more clients": (lambda server: server.config_set("maxclients", "1"), "clients"),
    "another password": (lambda server: server.config_set("requirepass", "new"), "username-password pair"),
}


@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_minority_that_refuses_gives_no_vote_and_costs_nothing_else(
    refusal: str, fresh: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    holder, other = fresh.client(1.5), fresh.client(1.5)
    usable(holder)
    refuse, told = REFUSALS[refusal]
    with admin(fresh.urls[:1]) as [server]:
        refuse(server)
        with unharmed(holder, other), caplog.at_level(logging.WARNING, "rlock"):
            assert holders(fresh.urls[1:]) != [None] * 2
            usable(fresh.client(), name="y")
            assert eventually(lambda: re.search(f"gives no vote: .*({told})", caplog.text))


def test_a_majority_that_refuses_to_evict_is_an_error(fresh: Scene) -> None:
    lock, operator = fresh.held(10.0)
    for refusing in (fresh.urls, fresh.urls[:2]):
        tell(refusing, "CONFIG", "SET", "min-replicas-to-write", "1")
        with pytest.raises(rlock.QuorumUnreachableError, match="NOREPLICAS"):
            operator.evict("x")
        tell(refusing, "CONFIG", "SET", "min-replicas-to-write", "0")
    assert lock.is_owned()
    standing = holders(fresh.urls)[:1]
    assert operator.evict("x") == standing


def test_without_memory_on_a_majority_acquire_says_oom_while_a_holder_renews_and_releases(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    lock, other = scene.held(1.5)
    assert everywhere(scene.urls)
    tell(scene.urls, "CONFIG", "SET", "maxmemory", "1")
    lock.acquire()  # nested: no network
    with within(2.0), pytest.raises(rlock.QuorumUnreachableError, match="OOM"):
        other.lock("y").acquire(timeout=0.3)
    assert caplog.text.count("gives no vote: OOM") == 3, "once for each master"
    assert "script:" not in caplog.text  # otherwise each script's refusal would be news
    excluded(other)
    time.sleep(1.7)
    lock.check()
    lock.release()
    lock.release()
    assert holders(scene.urls) == [None] * 3
    tell(scene.urls, "CONFIG", "SET", "maxmemory", "0")
    with within(1.0):
        usable(other)


def test_an_eviction_policy_that_throws_locks_away_is_logged_once_for_each_master(
    fresh: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    tell(fresh.urls[:2], "CONFIG", "SET", "maxmemory-policy", "volatile-ttl")
    with caplog.at_level(logging.WARNING, "rlock"):
        fresh.clients()
    told = [record.getMessage() for record in caplog.records if "volatile-ttl" in record.getMessage()]
    assert all("set it to noeviction" in line for line in told)
    assert sorted(line.split()[0] for line in told) == sorted(map(name_of, fresh.urls[:2]))


def test_a_majority_of_replicas_is_raised_at_once_even_from_an_acquire_that_may_wait_for_ever(
    fresh: Scene,
) -> None:
    connected = fresh.client()
    usable(connected)
    tell(fresh.urls[:2], "REPLICAOF", "127.0.0.1", "1")
    with within(2.0), pytest.raises(rlock.OptionsError, match=r"READONLY|replica"):
        connected.lock("x").acquire()
    with within(2.0), pytest.raises(rlock.OptionsError, match="it is a replica: name its master"):
        fresh.client().lock("x").acquire()
    tell(fresh.urls[:2], "REPLICAOF", "NO", "ONE")
    with within(5.0):
        usable(fresh.client())
        usable(connected)


def test_masters_that_are_loading_give_no_vote_and_a_blocking_acquire_waits_for_them(scene: Scene) -> None:
    client = scene.client(urls=scene.proxied(2))
    for proxy in scene.proxies:
        proxy.lie = b"-LOADING Redis is loading the dataset in memory\r\n"
    with within(2.0), pytest.raises(rlock.QuorumUnreachableError, match="is loading the dataset"):
        client.lock("x").acquire(timeout=0.2)
    waiter = Waiter(client)
    time.sleep(0.5)
    assert not waiter.done
    for proxy in scene.proxies:
        proxy.mend()
    assert waiter.got(10.0)


@pytest.mark.parametrize("wrong", [":wrong@", ""], ids=["wrong", "none"])
def test_a_wrong_or_missing_password_on_a_majority_is_raised_at_once(
    wrong: str, fresh_masters: FreshMasters, scenes: Scenes
) -> None:
    scene = scenes(fresh_masters(3, password="right"))
    bad = [url.replace(":right@", wrong) for url in scene.urls[:2]]
    with within(2.0), pytest.raises(rlock.OptionsError, match=r"(?i)wrongpass|password|auth") as caught:
        scene.client(urls=[*bad, scene.urls[2]]).lock("x").acquire()
    assert ":wrong@" not in str(caught.value)
    assert eventually(lambda: holders(scene.urls) == [None] * 3, 2.0)
    with within(2.0):
        usable(scene.client(urls=[bad[0], *scene.urls[1:]]))


def without(scene: Scene, permission: str) -> list[str]:
    """URLs of a user who may do everything but this."""
    return [acl_user(url, "worker", "~*", "&*", "+@all", permission) for url in scene.urls]


def test_without_the_permission_to_publish_a_waiter_finds_the_lock_by_polling(scene: Scene) -> None:
    lock, other = scene.held(10.0, without(scene, "-publish"))
    waiter = Waiter(other)
    waiting(scene.client())
    lock.release()
    with within(POLL_S):
        assert waiter.got()


def test_without_the_permission_to_subscribe_a_waiter_polls_and_says_so(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    lock, other = scene.held(10.0, without(scene, "-subscribe"))
    with caplog.at_level(logging.WARNING, "rlock"):
        waiter = Waiter(other)
        time.sleep(0.7)
    assert not waiter.done
    lock.release()
    with within(1.5):
        assert waiter.got()
    assert "refuses SUBSCRIBE, so waiters poll" in caplog.text
    assert "NOPERM" in caplog.text


def test_without_the_permission_for_info_the_lock_works(scene: Scene) -> None:
    with unharmed(*scene.clients(1.5, without(scene, "-info"))):
        pass


def test_a_majority_that_takes_no_more_clients_is_an_error_for_newcomers_and_serves_those_who_are_there(
    fresh: Scene,
) -> None:
    lock, other = fresh.held(1.5)
    with admin(fresh.urls) as servers:
        for server in servers:
            server.config_set("maxclients", "1")
        # The server says why and hangs up; where it is faster than our first command, only the end is seen.
        told = r"max number of clients|too many clients"
        with within(2.0), pytest.raises(rlock.QuorumUnreachableError, match=told):
            fresh.client().lock("x").acquire(timeout=0.3)
        # It is connected, but there is no room for a subscription: it polls now and then.
        waiter = Waiter(other)
        time.sleep(1.7)
        lock.check()
        lock.release()
        with within(POLL_S):
            assert waiter.got()
        for server in servers:
            server.config_set("maxclients", "1000")
    with within(2.0):
        usable(fresh.client())
