"""`detach` and `adopt`: a hold that changes hands."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

import rlock

from ..servers import Fleet, raw
from .conftest import MakeClient, eventually, threads_only

EVERY_KIND = True


def test_another_client_gets_the_hold_with_its_count_and_token(
    urls: list[str], make_client: MakeClient
) -> None:
    client, other = make_client(urls), make_client(urls)
    lock = client.lock("x")
    lock.acquire()
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
    client.lock("x").release()


def test_the_adopter_renews_it(urls: list[str], make_client: MakeClient) -> None:
    client, other = make_client(urls, 1.5), make_client(urls, 1.5)
    lock = client.lock("x")
    lock.acquire()
    adopted = other.adopt(lock.detach())
    time.sleep(2.0)
    adopted.check()
    adopted.release()


def test_nobody_renews_it_in_between(urls: list[str], make_client: MakeClient) -> None:
    client, other = make_client(urls, 0.6), make_client(urls, 0.6)
    lock = client.lock("x")
    lock.acquire()
    handle = lock.detach(0.6)
    assert other.lock("x").acquire(timeout=3)
    with pytest.raises(rlock.LeaseLostError, match="has the lock: it adopted the handle before, or acquired"):
        client.adopt(handle)
    other.lock("x").release()
    with pytest.raises(rlock.LeaseLostError, match=r"its lease of 0.6 s has ended"):
        client.adopt(handle)


def test_a_lock_that_the_caller_does_not_hold_has_no_handle(urls: list[str], make_client: MakeClient) -> None:
    lock = make_client(urls).lock("x")
    with pytest.raises(rlock.NotHeldError):
        lock.detach()
    lock.acquire()
    with pytest.raises(rlock.OptionsError, match=r"ttl=60 s is over max_ttl="):
        lock.detach(60)
    with pytest.raises(rlock.OptionsError, match="ttl must be a finite number of seconds above 0"):
        lock.detach(0)
    assert lock.is_owned()
    lock.release()


def test_a_caller_with_a_hold_of_it_adopts_nothing(urls: list[str], make_client: MakeClient) -> None:
    client = make_client(urls, 0.6)
    lock = client.lock("x")
    lock.acquire()
    handle = lock.detach()
    time.sleep(0.7)
    lock.acquire()
    with pytest.raises(rlock.RLockError, match="release a hold of it first"):
        client.adopt(handle)
    lock.release()


def test_it_outlives_its_client(urls: list[str], make_client: MakeClient) -> None:
    client, other = make_client(urls), make_client(urls)
    lock = client.lock("x", hold_at_least=2)
    lock.acquire()
    handle = lock.detach()
    client.close()
    adopted = other.adopt(handle, hold_at_least=0, max_hold=5)
    adopted.release()
    assert other.lock("x").acquire(blocking=False)
    other.lock("x").release()


@pytest.mark.kinds("blocking", "asyncio")
def test_a_handle_of_another_fleet_is_refused(
    masters: Fleet, masters1: Fleet, fresh_masters: Callable[..., Fleet], make_client: MakeClient
) -> None:
    lock = make_client(masters1.urls).lock("x")
    lock.acquire()
    handle = lock.detach()
    with pytest.raises(rlock.OptionsError, match="was detached on a fleet of 1, and this client has another"):
        make_client(masters(3).urls).adopt(handle)
    with pytest.raises(rlock.LeaseLostError, match="knows the run_id of no master here"):
        make_client(fresh_masters(1).urls).adopt(handle)
    adopted = make_client(masters1.urls).adopt(handle)
    adopted.release()


@pytest.mark.real_masters
@threads_only
def test_a_failed_adopt_leaves_the_handle_good(masters3: Fleet, make_client: MakeClient) -> None:
    client = make_client(masters3.urls, request_timeout=0.2)
    lock = client.lock("x")
    lock.acquire()
    handle = lock.detach(10)
    other = make_client(masters3.urls, request_timeout=0.2)
    with other.lock("y"):
        pass
    for master in masters3[:2]:
        master.pause()
    try:
        with pytest.raises(rlock.QuorumUnreachableError):
            other.adopt(handle)
    finally:
        for master in masters3[:2]:
            master.resume()
    adopted = make_client(masters3.urls).adopt(handle)
    adopted.check()
    adopted.release()


@pytest.mark.real_masters
@threads_only
def test_a_detach_that_too_few_masters_keep_frees_the_lock(masters3: Fleet, make_client: MakeClient) -> None:
    client = make_client(masters3.urls, ttl=3, request_timeout=0.2)
    lock = client.lock("x")
    lock.acquire()
    for master in masters3[:2]:
        master.pause()
    try:
        with pytest.raises(rlock.QuorumUnreachableError):
            lock.detach(10)
    finally:
        for master in masters3[:2]:
            master.resume()
    assert lock.hold_count == 0
    assert make_client(masters3.urls).lock("x").acquire(timeout=2)


@pytest.mark.real_masters
@pytest.mark.kinds("blocking")
def test_a_detach_that_fails_as_its_process_ends_prolongs_no_lease(masters3: Fleet) -> None:
    """A stopped server executes what a client sent before it gave up."""
    client = rlock.Client(masters3.urls, 3, request_timeout=0.2)
    lock = client.lock("x")
    lock.acquire()
    for master in masters3[:2]:
        master.pause()
    try:
        with pytest.raises(rlock.QuorumUnreachableError):
            lock.detach(10)
        client._engine().abandon()
    finally:
        for master in masters3[:2]:
            master.resume()
    for url in masters3.urls:
        with raw(url) as master:
            assert master.pttl("x") <= 3000


@pytest.mark.real_masters
@pytest.mark.kinds("blocking")
def test_a_master_that_does_not_answer_an_adopter_follows_later(masters3: Fleet) -> None:
    with rlock.Client(masters3.urls) as first, rlock.Client(masters3.urls, request_timeout=0.2) as second:
        lock = first.lock("x")
        lock.acquire()
        handle = lock.detach(10)
        masters3[2].pause()
        try:
            adopted = second.adopt(handle)
        finally:
            masters3[2].resume()
        with raw(masters3.urls[0]) as one, raw(masters3.urls[2]) as late:
            assert eventually(lambda: late.hkeys("x") == one.hkeys("x"))
        adopted.release()
