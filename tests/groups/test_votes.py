"""A vote of a group counts only when all its replicas have acknowledged it."""

from __future__ import annotations

import contextlib
import time

import pytest

import rlock

from ..faults.conftest import Waiter, waiting
from ..servers import Fleet
from .conftest import TTL, ClientFor, GroupOf, one_kind, promote, refused, usable
from .group import ask, until


@pytest.mark.rule("3.6")
def test_a_stale_primary_grants_nothing(client_for: ClientFor, group_of: GroupOf) -> None:
    """No Sentinel runs, so nobody makes the old primary a replica."""
    group = group_of()
    old, new = group.servers
    late, early = client_for(group.url), client_for(f"{new.url}?replicas=0")
    usable(late)
    promote(new)
    with early.lock("x") as lock:
        refused(late, "0 of 1 replicas acknowledged")
        lock.check()
    assert ask(old.port).role()[0] == "master"


def test_without_acknowledgements_a_stale_primary_grants_a_second_lease(
    client_for: ClientFor, group_of: GroupOf
) -> None:
    """The control of the test above."""
    group = group_of()
    new = group.servers[1]
    late, early = client_for(group.url_with(0)), client_for(f"{new.url}?replicas=0")
    usable(late)
    promote(new)
    with early.lock("x") as first, late.lock("x") as second:
        assert first.is_owned()
        assert second.is_owned()


@pytest.mark.rule("3.6")
def test_a_stale_primary_renews_nothing(client_for: ClientFor, group_of: GroupOf) -> None:
    group = group_of()
    new = group.servers[1]
    late, early = client_for(group.url), client_for(f"{new.url}?replicas=0")
    lock = late.lock("x")
    assert lock.acquire()
    promote(new)
    with early.lock("x"):
        assert not lock.is_owned()
    with pytest.raises(rlock.LeaseLostError):
        lock.release()


@pytest.mark.rule("3.6")
def test_the_message_of_a_stale_primary_is_no_grant(client_for: ClientFor, group_of: GroupOf) -> None:
    """A release hands the lock to a waiter, and the replicas have not got that grant."""
    group = group_of()
    holder, other = client_for(group.url, ttl=3.0), client_for(group.url, ttl=3.0)
    lock = holder.lock("x")
    assert lock.acquire()
    waiter = Waiter(other, timeout=2.5)
    waiting(holder)
    promote(group.servers[1])
    with contextlib.suppress(rlock.RLockError):
        lock.release()
    with pytest.raises(rlock.QuorumUnreachableError):
        waiter.got()


def test_a_vote_that_its_replica_never_got_was_no_vote(client_for: ClientFor, group_of: GroupOf) -> None:
    group = group_of()
    old, new = group.servers
    first, second = client_for(group.url), client_for(f"{new.url}?replicas=0")
    usable(first)
    new.pause()
    refused(first, "0 of 1 replicas acknowledged")
    old.kill()
    new.resume()
    promote(new)
    usable(second)


def test_a_replica_that_lags_takes_the_vote_away_until_it_is_back(
    client_for: ClientFor, group_of: GroupOf
) -> None:
    group = group_of()
    client = client_for(group.url)
    token = usable(client)
    group.servers[1].pause()
    refused(client, "0 of 1 replicas acknowledged")
    group.servers[1].resume()
    assert usable(client) > token


def test_a_hold_outlives_a_moment_of_lag(client_for: ClientFor, group_of: GroupOf) -> None:
    group = group_of()
    with client_for(group.url, ttl=2.0).lock("x") as lock:
        group.servers[1].pause()
        time.sleep(1.0)
        lock.check()
        group.servers[1].resume()
        time.sleep(2.0)
        lock.check()


@one_kind
def test_one_replica_that_follows_another_primary_is_missed(client_for: ClientFor, group_of: GroupOf) -> None:
    group = group_of(replicas=2)
    client = client_for(group.url)
    usable(client)
    # The state after a promotion that the second replica has not heard of.
    promote(group.servers[1])
    refused(client, "1 of 2 replicas acknowledged")
    ask(group.servers[1].port).replicaof("127.0.0.1", group.servers[0].port)
    usable(client)


@one_kind
def test_a_group_that_lacks_a_configured_replica_has_no_vote(
    client_for: ClientFor, group_of: GroupOf
) -> None:
    refused(client_for(group_of().url_with(2)), "1 of 2 replicas acknowledged")


@one_kind
def test_more_replicas_than_configured_are_an_error_that_names_the_number(
    client_for: ClientFor, group_of: GroupOf
) -> None:
    refused(
        client_for(group_of(replicas=2).url_with(1)),
        "2 replicas are connected, and replicas=1 is set: set replicas=2",
    )


@one_kind
def test_a_replica_that_is_added_later_takes_the_vote_away(client_for: ClientFor, group_of: GroupOf) -> None:
    """Otherwise that one alone could acknowledge, and the other one be promoted."""
    group, other = group_of(), group_of(replicas=0)
    client = client_for(group.url)
    usable(client)
    added = ask(other.servers[0].port)
    added.replicaof("127.0.0.1", group.servers[0].port)
    until(lambda: len(group.replicas_of(group.servers[0])) == 2, "the second replica is connected")
    refused(client, "2 replicas are connected, and replicas=1 is set")
    added.replicaof("NO", "ONE")
    usable(client)


def test_an_address_that_names_a_replica_is_an_error(client_for: ClientFor, group_of: GroupOf) -> None:
    replica = group_of().servers[1]
    refused(client_for(f"{replica.url}?replicas=1"), "a replica answers at the address of the primary")


def test_a_primary_that_becomes_a_replica_is_left(client_for: ClientFor, group_of: GroupOf) -> None:
    """READONLY on a connection that stays open: nobody ends it."""
    group = group_of()
    old, new = group.servers
    client = client_for(group.url)
    usable(client)
    promote(new)
    ask(old.port).replicaof("127.0.0.1", new.port)
    refused(client, "a replica answers at the address of the primary")
    usable(client_for(f"{new.url}?replicas=1"))


@one_kind
def test_an_acl_that_forbids_wait_is_an_error_that_names_the_command(
    client_for: ClientFor, group_of: GroupOf
) -> None:
    primary = group_of().servers[0]
    ask(primary.port).execute_command("ACL", "SETUSER", "app", "on", ">app", "~*", "&*", "+@all", "-wait")
    client = client_for(f"redis://app:app@127.0.0.1:{primary.port}?replicas=1")
    with pytest.raises(rlock.OptionsError, match="no permissions to run the 'wait' command"):
        client.lock("x").acquire()


def test_an_empty_primary_does_not_grant_what_its_replica_forgets_with_it(
    client_for: ClientFor, group_of: GroupOf
) -> None:
    """The primary is back before anybody notices, and the replica copies its empty memory."""
    group = group_of()
    old, new = group.servers
    lock = client_for(group.url, ttl=6.0).lock("x", renew=False)
    assert lock.acquire()
    old.kill()
    old.start()
    until(lambda: group.replicas_of(old) == [new.port], "the replica follows the empty primary")
    assert not ask(new.port).exists("x")
    for url in (group.url, f"{new.url}?replicas=0"):
        if url != group.url:
            promote(new)
        refused(client_for(url, ttl=6.0), "it has no vote for")
        lock.check()


@one_kind
def test_a_promoted_server_waits_for_the_restart_guard(client_for: ClientFor, group_of: GroupOf) -> None:
    new = group_of().servers[1]
    promote(new)
    client = client_for(f"{new.url}?replicas=0")
    refused(client, "it has no vote for")
    began = time.monotonic()
    usable(client)
    assert time.monotonic() - began > TTL - 0.3


def test_groups_and_bare_masters_make_one_fleet(
    client_for: ClientFor, group_of: GroupOf, masters3: Fleet
) -> None:
    group = group_of()
    client = client_for(group.url, *masters3(2).urls)
    usable(client)
    group.servers[1].pause()
    usable(client)
    masters3[1].pause()
    try:
        refused(client, "needs the votes of 2 masters")
        group.servers[1].resume()
        usable(client)
    finally:
        masters3[1].resume()
