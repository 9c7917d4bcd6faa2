"""`detach` and `adopt`: a hold that changes hands; and the handle, which is a text."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest

import rlock
from rlock import Client
from rlock.procedures import transfer
from rlock.procedures.port import Request
from rlock.rules import commands
from rlock.rules.handles import NOT_KNOWN, Handle
from rlock.rules.keys import owner_token
from rlock.rules.quorum import Settle

from ..servers import Fleet, raw
from .conftest import MakeClient, acquired, eventually, threads_only

EVERY_KIND = True


def test_another_client_gets_the_hold_with_its_count_and_token(client: Client, other: Client) -> None:
    lock = acquired(client)
    lock.acquire()
    token = lock.fencing_token
    handle = lock.detach(ttl=5)
    assert lock.hold_count == 0
    assert not lock.is_owned()
    assert not client.lock("x").acquire(blocking=False)
    adopted = other.adopt(handle)
    assert (adopted.name, adopted.hold_count, adopted.fencing_token) == ("x", 2, token)
    assert adopted.is_owned()
    assert not client.lock("x").acquire(blocking=False)
    adopted.release()
    assert other.lock("x").locked()
    adopted.release()
    assert client.lock("x").acquire(blocking=False)
    assert client.lock("x").fencing_token > token


def test_nobody_renews_it_in_between(connect: MakeClient) -> None:
    client, other = connect(0.6), connect(0.6)
    handle = acquired(client).detach(0.6)
    assert other.lock("x").acquire(timeout=3)
    with pytest.raises(rlock.LeaseLostError, match="has the lock: it adopted the handle before, or acquired"):
        client.adopt(handle)
    other.lock("x").release()
    with pytest.raises(rlock.LeaseLostError, match=r"its lease of 0.6 s has ended"):
        client.adopt(handle)


def test_a_lock_that_the_caller_does_not_hold_has_no_handle(connect: MakeClient) -> None:
    lock = connect().lock("x")
    with pytest.raises(rlock.NotHeldError):
        lock.detach()
    lock.acquire()
    with pytest.raises(rlock.OptionsError, match=r"ttl=60 s is over max_ttl="):
        lock.detach(60)
    with pytest.raises(rlock.OptionsError, match="ttl must be a finite number of seconds above 0"):
        lock.detach(0)
    assert lock.is_owned()


def test_a_caller_with_a_hold_of_it_adopts_nothing(connect: MakeClient) -> None:
    client = connect(0.6)
    lock = acquired(client)
    handle = lock.detach()
    time.sleep(0.7)
    lock.acquire()
    with pytest.raises(rlock.RLockError, match="release a hold of it first"):
        client.adopt(handle)


def test_it_outlives_its_client_and_the_adopter_renews_it(connect: MakeClient) -> None:
    client, other = connect(1.5), connect(1.5)
    handle = acquired(client, hold_at_least=1).detach()
    client.close()
    adopted = other.adopt(handle, hold_at_least=0, max_hold=5)
    time.sleep(2.0)
    adopted.check()
    adopted.release()
    assert other.lock("x").acquire(blocking=False)


@pytest.mark.kinds("blocking", "asyncio")
def test_a_handle_of_another_fleet_is_refused(
    masters: Fleet, masters1: Fleet, fresh_masters: Callable[..., Fleet], make_client: MakeClient
) -> None:
    handle = acquired(make_client(masters1.urls)).detach()
    with pytest.raises(rlock.OptionsError, match="was detached on a fleet of 1, and this client has another"):
        make_client(masters(3).urls).adopt(handle)
    with pytest.raises(rlock.LeaseLostError, match="knows the run_id of no master here"):
        make_client(fresh_masters(1).urls).adopt(handle)
    make_client(masters1.urls).adopt(handle)


@pytest.mark.real_masters
@threads_only
def test_a_failed_adopt_leaves_the_handle_good(masters3: Fleet, connect3: MakeClient) -> None:
    handle, other = acquired(connect3()).detach(10), connect3(request_timeout=0.2)
    other.lock("y").acquire()  # it is connected now
    with masters3[:2].paused(), pytest.raises(rlock.QuorumUnreachableError):
        other.adopt(handle)
    connect3().adopt(handle).check()


@pytest.mark.real_masters
@threads_only
def test_a_detach_that_too_few_masters_keep_frees_the_lock(masters3: Fleet, connect3: MakeClient) -> None:
    lock = acquired(connect3(ttl=3, request_timeout=0.2))
    with masters3[:2].paused(), pytest.raises(rlock.QuorumUnreachableError):
        lock.detach(10)
    assert lock.hold_count == 0
    assert connect3().lock("x").acquire(timeout=2)


@pytest.mark.real_masters
@pytest.mark.kinds("blocking")
def test_a_master_that_misses_an_adoption_follows_later(masters3: Fleet, connect3: MakeClient) -> None:
    handle = acquired(connect3()).detach(10)
    with masters3[2:].paused():
        connect3(request_timeout=0.2).adopt(handle)
    with raw(masters3.urls[0]) as one, raw(masters3.urls[2]) as late:
        assert eventually(lambda: late.hkeys("x") == one.hkeys("x"))


# -- handles: their text, and what masters must have given since for an adopt to be refused

HANDLE = Handle(
    "orders:42",
    owner_token("host/12/handle", 1, "0" * 18),
    1_700_000_000_000_000,
    1_700_000_000_000_007,
    2,
    60_000,
    ("12ab",) * 5,
)


@pytest.mark.rule("3.12")
@threads_only
def test_a_master_that_gave_a_greater_token_since_has_no_vote(client: Client, urls: list[str]) -> None:
    """A late command of the old holder may bring its key back, when another owner has had the lock."""
    handle = Handle.parse(acquired(client).detach(10), len(urls))
    late = handle._replace(token=handle.token - 1, mark=handle.mark - 1)
    with pytest.raises(rlock.LeaseLostError, match="greater fencing token since"):
        client.adopt(late.text())
    client.adopt(handle.text())


@threads_only
def test_tokens_that_were_given_before_the_detach_do_not_matter(client: Client, urls: list[str]) -> None:
    """A contender that lost: masters gave it greater tokens, because they had lost the holder's key."""
    lock = acquired(client)
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


@threads_only
def test_an_adopter_that_may_give_back_has_not_got_it(client: Client, other: Client, urls: list[str]) -> None:
    text = acquired(client).detach(10)
    handle, engine, pause = Handle.parse(text, len(urls)), client._engine(), vars(transfer)["pause"]
    begun = handle._replace(owner=owner_token("other/1/thread", 1, "0" * 18), hold_count=0)

    def swap(present: Handle, owner: Handle) -> None:
        command = commands.transfer(owner, present.owner, owner.owner, guarded=True)
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
def test_the_lease_is_noted_if_it_is_longer_than_all_before(
    fresh_masters: Callable[..., Fleet], make_client: MakeClient
) -> None:
    client = make_client(fresh_masters(1).urls, ttl=3, max_ttl=60)
    handle = acquired(client).detach(50)
    assert client._engine().context.guard.noted == 50
    status = client.status("x")
    assert status.remaining is not None
    assert 40 < status.remaining <= 50
    client.adopt(handle)


def test_a_handle_is_a_short_word_of_the_shell() -> None:
    text = HANDLE.text()
    assert Handle.parse(f" {text}\n", 5) == HANDLE
    assert len(text) < 200
    assert text == text.encode("ascii", "strict").decode()
    assert not set(text) & set(" \t\n\\'\"$&|;<>()`*?[]#!{}")
    odd = HANDLE._replace(name="a b:c/d\u20ac$(x)", fleet=(NOT_KNOWN, "0123", NOT_KNOWN))
    assert Handle.parse(odd.text(), 3) == odd


def test_a_name_that_makes_a_handle_too_long_is_refused_before_the_masters_know(client: Client) -> None:
    lock = client.lock("x" * 300)
    lock.acquire()
    with pytest.raises(rlock.OptionsError, match="a handle has 300 characters at the most: shorten"):
        lock.detach()
    lock.check()


@pytest.mark.parametrize(
    "wrong", ["", "x", HANDLE.text()[:-3], HANDLE.text().replace("42", "43"), "rlock1:1:2"]
)
def test_a_text_that_is_no_handle_is_refused(wrong: str) -> None:
    with pytest.raises(rlock.OptionsError, match="is no handle of this version: pass on the whole text"):
        Handle.parse(wrong, 5)
    with pytest.raises(rlock.OptionsError, match="is no handle"):
        Handle.parse(wrong.encode(), 5)  # type: ignore[arg-type]
