"""Handles: their text, and what masters must have given since for an adopt to be refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest

import rlock
from rlock.procedures import transfer
from rlock.procedures.port import Request
from rlock.procedures.transfer import handle_of, mark
from rlock.rules import commands
from rlock.rules.handles import NOT_KNOWN, Handle, checksum
from rlock.rules.keys import owner_token
from rlock.rules.quorum import Settle

from ..servers import Fleet
from .conftest import MakeClient, threads_only

EVERY_KIND = True
HANDLE = Handle(
    "orders:42",
    owner_token("host/12/handle", 1, "0" * 18),
    1_700_000_000_000_000,
    1_700_000_000_000_007,
    2,
    60_000,
    ("12ab",) * 5,
)
#: Of version 1, which had no mark.
OLD = (
    "rlock1:orders%3A42:host%2F12%2FMainThread%3A00000000000170008000000000000000:1700000000000000:2:60000:"
    "12ab0000-12ab0000--12ab0000-12ab0000"
)


@threads_only
def test_a_master_that_gave_a_greater_token_since_has_no_vote(
    urls: list[str], make_client: MakeClient
) -> None:
    """A late command of the old holder may bring its key back, when another owner has had the lock."""
    client = make_client(urls)
    lock = client.lock("x")
    lock.acquire()
    handle = Handle.parse(lock.detach(10), len(urls))
    late = handle._replace(token=handle.token - 1, mark=handle.mark - 1)
    with pytest.raises(rlock.LeaseLostError, match="greater fencing token since"):
        client.adopt(late.text())
    adopted = client.adopt(handle.text())
    adopted.release()


@threads_only
def test_tokens_that_were_given_before_the_detach_do_not_matter(
    urls: list[str], make_client: MakeClient
) -> None:
    """A contender that lost: masters gave it greater tokens, because they had lost the holder's key."""
    client = make_client(urls)
    lock = client.lock("x")
    lock.acquire()
    engine = client._engine()
    greater = commands.fence("x", owner_token("other/1/thread", 1, "0" * 18), lock.fencing_token + 10)
    engine.perform(engine.masters.call(Request(greater, 1.0, Settle.ALL)))
    token, handle = lock.fencing_token, lock.detach(10)
    assert Handle.parse(handle, len(urls)).mark == token + 11
    lock = client.adopt(handle)
    assert lock.fencing_token == token
    lock = client.adopt(lock.detach())
    assert lock.fencing_token == token
    lock.release()
    lock.acquire()
    assert lock.fencing_token > token + 11
    lock.release()


@threads_only
def test_an_adopter_that_may_give_it_back_has_not_got_it_yet(
    urls: list[str], make_client: MakeClient
) -> None:
    client, other = make_client(urls), make_client(urls)
    lock = client.lock("x")
    lock.acquire()
    text = lock.detach(10)
    handle, engine, pause = Handle.parse(text, len(urls)), client._engine(), vars(transfer)["pause"]
    begun = handle._replace(owner=owner_token("other/1/thread", 1, "0" * 18), hold_count=0)

    def swap(present: Handle, owner: Handle) -> None:
        command = commands.transfer(owner, present.owner, owner.owner)
        engine.perform(engine.masters.call(Request(command, 1.0, Settle.ALL)))

    def gives_it_back(*args: Any) -> Any:
        swap(begun, handle)
        return pause(*args)

    swap(handle, begun)
    with pytest.raises(rlock.QuorumUnreachableError, match="which may still give its vote back"):
        other.adopt(text)
    with patch.object(transfer, "pause", gives_it_back):
        other.adopt(text).release()


@threads_only
def test_a_mark_that_comes_too_late_is_none(urls: list[str], make_client: MakeClient) -> None:
    client = make_client(urls)
    lock = client.lock("x")
    lock.acquire()
    engine, hold = client._engine(), lock._hold()
    assert hold is not None
    handle = handle_of(engine.context, hold, 5.0)
    hold.lease.valid_until = engine.clock()
    assert engine.perform(mark(engine.masters, hold, handle, handle.token + 1)) == handle


@threads_only
def test_the_lease_is_noted_if_it_is_longer_than_all_before(
    fresh_masters: Callable[..., Fleet], make_client: MakeClient
) -> None:
    fleet = fresh_masters(1)
    client = make_client(fleet.urls, ttl=3, max_ttl=60)
    lock = client.lock("x")
    lock.acquire()
    handle = lock.detach(50)
    assert client._engine().context.guard.noted == 50
    status = client.status("x")
    assert status.remaining is not None
    assert 40 < status.remaining <= 50
    adopted = client.adopt(handle)
    adopted.release()


def test_a_handle_is_a_short_word_of_the_shell() -> None:
    text = HANDLE.text()
    assert Handle.parse(f" {text}\n", 5) == HANDLE
    assert len(text) < 200
    assert text == text.encode("ascii", "strict").decode()
    assert not set(text) & set(" \t\n\\'\"$&|;<>()`*?[]#!{}")
    odd = HANDLE._replace(name="a b:c/d\u20ac$(x)", fleet=(NOT_KNOWN, "0123", NOT_KNOWN))
    assert Handle.parse(odd.text(), 3) == odd


def test_a_handle_of_version_1_is_read() -> None:
    old = Handle.parse(f"{OLD}:{checksum(OLD)}", 5)
    assert old.owner == owner_token("host/12/MainThread", 1, "0" * 18)
    assert old.fleet == ("12ab", "12ab", NOT_KNOWN, "12ab", "12ab")
    assert old[2:6] == (HANDLE.token, HANDLE.token, 2, 60_000)


def test_a_name_that_makes_a_handle_too_long_is_refused_before_the_masters_know(
    urls: list[str], make_client: MakeClient
) -> None:
    client = make_client(urls)
    lock = client.lock("x" * 300)
    lock.acquire()
    with pytest.raises(rlock.OptionsError, match="a handle has 300 characters at the most: shorten"):
        lock.detach()
    lock.check()
    lock.release()
    lock = client.lock("x" * 100)
    lock.acquire()
    handle = lock.detach()
    assert len(handle) <= 300
    client.adopt(handle).release()


@pytest.mark.parametrize(
    "wrong", ["", "x", HANDLE.text()[:-3], HANDLE.text().replace("42", "43"), OLD, "rlock3:1:2"]
)
def test_a_text_that_is_no_handle_is_refused(wrong: str) -> None:
    with pytest.raises(rlock.OptionsError, match="is no handle of this version: pass on the whole text"):
        Handle.parse(wrong, 5)
    with pytest.raises(rlock.OptionsError, match="is no handle"):
        Handle.parse(wrong.encode(), 5)  # type: ignore[arg-type]
