"""A vote of a group counts only when all its replicas have acknowledged it."""

from __future__ import annotations

import pytest

import rlock

from ..cli.doctoring import doctor
from ..fixtures import FLAVOURS
from .conftest import ClientFor, GroupOf, one_kind, promote, refused, usable
from .group import until


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
    primary.client.execute_command("ACL", "SETUSER", "app", "on", ">app", "~*", "&*", "+@all", "-wait")
    url = f"redis://app:app@127.0.0.1:{primary.port}?replicas=1"
    client = client_for(url)
    assert "the user app may not run wait" in [found["what"] for found in doctor([url]).findings]
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
    until(lambda: not new.client.exists("x"), "the replica has copied the empty memory")
    for url in (group.url, f"{new.url}?replicas=0"):
        if url != group.url:
            promote(new)
        refused(client_for(url, ttl=6.0), "it has no vote for")
        lock.check()
