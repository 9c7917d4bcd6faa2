"""`detach` and `adopt`: a hold that changes hands."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest

import rlock

from ..servers import Fleet
from .conftest import MakeClient, in_thread, threads_only

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


def test_it_goes_from_hand_to_hand(urls: list[str], make_client: MakeClient) -> None:
    clients = [make_client(urls) for _ in range(3)]
    lock = clients[0].lock("x")
    lock.acquire()
    token, handles = lock.fencing_token, []
    for client in clients * 2:
        handles.append(lock.detach())
        lock = client.adopt(handles[-1])
        assert lock.fencing_token == token
    lock.release()
    for handle in handles:
        with pytest.raises(rlock.LeaseLostError, match="nobody has the lock"):
            clients[0].adopt(handle)


def test_of_many_adopters_one_gets_it(urls: list[str], make_client: MakeClient) -> None:
    client = make_client(urls)
    others = [make_client(urls) for _ in range(4)]
    for _ in range(3):
        lock = client.lock("x")
        lock.acquire()
        handle, begin = lock.detach(), threading.Barrier(4)
        got: list[Any] = []

        def adopt(other: rlock.Client, handle: str, begin: threading.Barrier, got: list[Any]) -> None:
            begin.wait()
            try:
                adopted = other.adopt(handle)
            except rlock.LeaseLostError as lost:
                got.append(lost.reason)
            else:
                got.append(None)
                time.sleep(0.05)
                adopted.release()

        threads = [threading.Thread(target=adopt, args=(other, handle, begin, got)) for other in others]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(got) == 4
        assert got.count(None) == 1, got


def test_a_release_hands_it_to_a_waiter(urls: list[str], make_client: MakeClient) -> None:
    client, other = make_client(urls), make_client(urls)
    lock = client.lock("x")
    lock.acquire()
    got = threading.Event()

    def wait() -> None:
        with other.lock("x"):
            got.set()

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.2)
    adopted = client.adopt(lock.detach())
    assert not got.is_set()
    adopted.release()
    thread.join(10)
    assert got.is_set()


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


def test_an_operator_ends_it(urls: list[str], make_client: MakeClient) -> None:
    client, other = make_client(urls), make_client(urls)
    lock = client.lock("x")
    lock.acquire()
    handle = lock.detach()
    assert other.evict("x")
    with pytest.raises(rlock.LeaseLostError, match="released or evicted"):
        other.adopt(handle)


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


@threads_only
def test_the_hold_of_an_ended_thread_can_be_adopted(urls: list[str], make_client: MakeClient) -> None:
    client = make_client(urls)

    def begin() -> str:
        lock = client.lock("x")
        lock.acquire()
        return lock.detach()

    adopted = client.adopt(in_thread(begin))
    adopted.check()
    adopted.release()


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


@threads_only
@pytest.mark.parametrize("behind", [False, True])
def test_an_interrupted_detach_frees_the_lock(urls: list[str], make_client: MakeClient, behind: bool) -> None:
    client = make_client(urls)
    lock = client.lock("x")
    lock.acquire()
    call = client._engine().masters.call

    def interrupted(request: Any) -> Any:
        if behind:
            yield from call(request)
        raise KeyboardInterrupt

    with patch.object(client._engine().masters, "call", interrupted), pytest.raises(KeyboardInterrupt):
        lock.detach(10)
    assert lock.hold_count == 0
    assert make_client(urls).lock("x").acquire(timeout=2)


@threads_only
def test_an_interrupted_adopt_leaves_the_handle_good(urls: list[str], make_client: MakeClient) -> None:
    client, other = make_client(urls), make_client(urls)
    lock = client.lock("x")
    lock.acquire()
    handle = lock.detach(10)
    admit = other._engine().admit

    def interrupted(*args: Any) -> bool:
        admit(*args)
        raise KeyboardInterrupt

    with patch.object(other._engine(), "admit", interrupted), pytest.raises(KeyboardInterrupt):
        other.adopt(handle)
    assert other.lock("x").hold_count == 0
    adopted = client.adopt(handle)
    adopted.check()
    adopted.release()


@pytest.mark.real_masters
@threads_only
def test_the_end_of_both_processes_loses_nothing(urls: list[str], make_client: MakeClient) -> None:
    program = """if True:
        import os, signal, sys, rlock
        client = rlock.Client(sys.argv[2:], max_ttl=60)
        lock = client.lock("x") if sys.argv[1] == "-" else client.adopt(sys.argv[1])
        lock.hold_count or lock.acquire()
        print(lock.detach(60), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    handle = "-"
    for _ in range(2):
        ended = subprocess.run(
            [sys.executable, "-c", program, handle, *urls], timeout=60, check=False, stdout=subprocess.PIPE
        )
        assert ended.returncode == -signal.SIGKILL
        handle = ended.stdout.decode().strip()
    adopted = make_client(urls, max_ttl=60).adopt(handle)
    adopted.check()
    adopted.release()
