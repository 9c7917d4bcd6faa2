"""Fork, pickle, close, interpreter exit; and descriptors."""

from __future__ import annotations

import copy
import gc
import logging
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import rlock
from rlock import Client
from rlock._client.connections import broken
from rlock.events import Acquired, Lost
from rlock.procedures.release import end
from rlock.rules.keys import queue

from ..servers import Fleet, raw
from .conftest import Kind, MakeClient, acquired, eventually, in_background, in_thread, threads_only
from .test_watchdog import threads


def forked(work: Callable[[], object]) -> str:
    """What ``work`` returned or raised in a forked child, as text."""
    near, far = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            told = repr(work())
        except BaseException as error:
            told = type(error).__name__
        os.write(far, told.encode())
        os._exit(0)
    os.close(far)
    with os.fdopen(near) as pipe:
        told = pipe.read()
    os.waitpid(pid, 0)
    return told


@pytest.mark.rule("1.3")
@threads_only
def test_a_forked_child_holds_nothing_and_harms_nothing(connect: MakeClient) -> None:
    client = connect(ttl=0.9)
    lock = acquired(client)
    assert forked(lambda: (lock.is_owned(), lock.hold_count, lock.remaining())) == "(False, 0, 0.0)"
    assert forked(lock.release) == "NotHeldError"
    assert forked(lambda: lock.acquire(blocking=False)) == "False"
    assert forked(lambda: client.lock("y").acquire(blocking=False)) == "True"
    assert forked(lambda: [call() for call in (client.close, lambda: client.status("x"))]) == "RLockError"
    # The parent's sockets and its watchdog are as they were.
    time.sleep(1.2)
    lock.check()
    lock.release()


@pytest.mark.rule("1.3")
@pytest.mark.real_masters
def test_a_child_keeps_no_connection_open_that_was_being_made(kind: Kind, masters3: Fleet) -> None:
    """It has a copy of the socket, which no table had at the fork: the parent has to shut it down."""
    look = raw(masters3[0].url)
    before = {each["id"] for each in look.client_list()}
    for url in masters3.urls:
        raw(url).execute_command("CLIENT", "PAUSE", 400, "ALL")
    client = kind.client(masters3.urls, 10.0)
    acquiring = in_background(client.lock("x").acquire)
    time.sleep(0.2)
    if (pid := os.fork()) == 0:
        signal.pause()
    try:
        assert acquiring.result(5.0)
        client.close()
        assert eventually(lambda: {each["id"] for each in look.client_list()} <= before)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


@threads_only
def test_a_child_does_not_wait_for_a_mutex_that_a_thread_of_its_parent_had(client: Client) -> None:
    with client._mutex:
        # The alarm ends a child that would wait for ever.
        assert forked(lambda: signal.alarm(10) or client.lock("x").acquire(blocking=False)) == "True"


@threads_only
def test_a_fork_does_not_wait_for_a_mutex_of_another_thread(connect3: MakeClient) -> None:
    """In the child the other threads have ended, and their ends are noted."""
    client, used, stop = connect3(), threading.Event(), threading.Event()

    def use() -> None:
        with client.lock("x"):
            pass
        used.set()
        stop.wait()

    user = in_background(use)
    used.wait()
    with client._engine().holds.mutex:
        pid = in_thread(lambda: os.fork() or os._exit(0))
        ended = eventually(lambda: os.waitpid(pid, os.WNOHANG)[0] == pid, 10.0)
    stop.set()
    if not ended:
        os.kill(pid, signal.SIGKILL)
    assert ended
    user.result(5.0)


@threads_only
@pytest.mark.real_masters
def test_an_unheld_lock_pickles_and_finds_its_client_again(client: Client) -> None:
    lock = client.lock("x", ttl=2.0, max_hold=60.0)
    copied = pickle.loads(pickle.dumps(lock))
    with lock:
        assert copied.hold_count == 1, "not the same owner: it would block itself"
        with pytest.raises(TypeError, match="held"):
            pickle.dumps(lock)
        with pytest.raises(TypeError, match="held"):
            copy.copy(copied)
    assert pickle.loads(pickle.dumps(client)) is client


def test_errors_pickle_with_their_fields() -> None:
    for error in (
        rlock.RLockError("x"),
        rlock.OptionsError("x"),
        rlock.NotHeldError("x"),
        rlock.LockBusyError("x", 5.0),
        rlock.LeaseLostError("x", "evicted"),
        rlock.QuorumUnreachableError("x", 2, 1, {"redis://a": "down"}),
    ):
        copied = pickle.loads(pickle.dumps(error))
        assert type(copied) is type(error)
        assert str(copied) == str(error)
        assert vars(copied) == vars(error)


def test_close_releases_what_is_held_and_ends_everything(
    client: Client, other: Client, caplog: pytest.LogCaptureFixture
) -> None:
    lock = acquired(client)
    lost, told = lock.lost, list[rlock.LeaseLostError]()
    content = client.read_write_lock("content", on_lost=told.append)
    for each in (content.writer, content.reader, client.lock("evicted", on_lost=told.append)):
        each.acquire()
    other.evict("evicted")
    with caplog.at_level(logging.WARNING, "rlock"):
        client.close()
    assert [error.name for error in told] == ["evicted"], "the watchdog had not noticed it"
    assert ["still held" in line for line in caplog.messages].count(True) == 3
    assert "lock 'evicted' was lost: a quorum of masters" in caplog.text
    assert lost.is_set()
    assert other.lock("x").acquire(blocking=False)
    with pytest.raises(rlock.LeaseLostError, match="closed"):
        lock.acquire()
    with pytest.raises(rlock.RLockError, match="closed"):
        client.status("x")
    assert repr(lock).startswith("<unlocked")
    assert not lock.is_owned()
    with pytest.raises(rlock.LeaseLostError, match="closed"):
        lock.release()
    with pytest.raises(rlock.NotHeldError):
        lock.release()
    client.close()
    other.close()
    # A thread that has just made a connection may still be on its way out.
    assert eventually(lambda: not threads(), within=1.0)


@threads_only
def test_a_close_before_the_end_of_an_acquire_is_no_loss(client: Client, other: Client) -> None:
    """Its undo comes before the release, which finds no lock."""
    told: list[rlock.LeaseLostError] = []
    end = rlock.events.observe(lambda event: client.close() if type(event) is Acquired else None)
    acquired(client, on_lost=told.append)
    end()
    assert told == []
    assert other.lock("x").acquire(blocking=False)


@threads_only
@pytest.mark.parametrize(("missed", "closes"), [(True, False), (True, True), (False, True)])
def test_a_release_that_a_broken_connection_missed_needs_no_other_use_of_the_client(
    missed: bool, closes: bool, client: Client, other: Client
) -> None:
    """As behind the third Ctrl-C in a row in the middle of a reply: the next attempt has to wait a little."""
    acquired(client, renew=False)
    engine, hold = client._engine(), client._engine().held("x")
    connections = engine.masters._connections
    with connections._mutex:
        for server in connections.servers:
            assert server.connection is not None
            server.failures, server.connection.answered = 2, False
            connections.drop(server, broken("interrupted"))
    if missed:
        engine.holds.remove(hold)  # otherwise close() releases it again
        end(engine.masters, hold)
    if closes:
        client.close()
    assert eventually(lambda: other.lock("x").acquire(blocking=False), within=1.0)


def test_a_client_that_was_never_used_can_be_closed_and_asked() -> None:
    client = rlock.Client(["redis://127.0.0.1:1"])
    lock = client.lock("x")
    client.close()
    assert "unlocked" in repr(lock)
    assert (lock.is_owned(), lock.hold_count) == (False, 0)
    with pytest.raises(rlock.RLockError, match="closed"):
        lock.acquire(blocking=False)


def test_close_ends_the_acquires_that_wait(connect3: MakeClient) -> None:
    holder, client = connect3(), connect3()
    with holder.lock("x"):
        threading.Timer(0.4, client.close).start()
        for waiter in (lambda: client.lock("x").acquire(), lambda: client.lock("x").acquire(timeout=20)):
            began = time.monotonic()
            with pytest.raises(rlock.RLockError, match="closed"):
                in_thread(waiter)
            assert time.monotonic() - began < 5


def test_closing_frees_the_place_of_a_lost_hold(kind: Kind, connect3: MakeClient, masters3: Fleet) -> None:
    """On a master that refused it, too; with threads also in the middle of its release, which tells first."""
    client, masters = connect3(), [raw(master.url) for master in masters3]
    for master, dead, lease_ms in zip(masters, "aab", (300, 300, 60_000), strict=True):
        master.hset("x", f"{dead}:{0:032x}", 1)
        master.pexpire("x", lease_ms)
    lock = client.lock("x", ttl=0.5, renew=False)
    assert lock.acquire(timeout=5)
    assert eventually(lambda: not masters[0].exists("x"))
    assert masters[2].zcard(queue("x")) == 1
    if kind.client is rlock.Client:
        end = rlock.events.observe(lambda event: client.close() if type(event) is Lost else None)
        with pytest.raises(rlock.LeaseLostError):
            lock.release()
        end()
    client.close()
    assert masters[2].zcard(queue("x")) == 0


def test_a_client_that_is_dropped_leaks_no_descriptor(masters3: Fleet, kind: Kind) -> None:
    def open_files() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    def use_and_drop() -> None:
        client = kind.client(masters3.urls, 3.0)
        with client.lock("x"):
            assert in_thread(lambda: client.lock("x").acquire(timeout=0.05)) is False

    use_and_drop()
    eventually(lambda: not threads())
    gc.collect()
    before = open_files()
    for _ in range(5):
        use_and_drop()
    eventually(lambda: not threads())
    gc.collect()
    assert eventually(lambda: open_files() <= before + 1, within=5.0), (before, open_files())


@pytest.mark.real_masters
def test_a_close_waits_until_the_slowest_master_has_done_what_it_was_told(masters3: Fleet) -> None:
    """A socket that is closed with unread answers is reset, and the server forgets what it has not read."""
    client = rlock.Client(masters3.urls, 10.0)
    client.lock("x").acquire()
    assert eventually(lambda: all(raw(master.url).exists("x") for master in masters3))
    raw(masters3[2].url).execute_command("CLIENT", "PAUSE", 250, "ALL")
    client.close()
    assert eventually(lambda: not any(raw(master.url).exists("x") for master in masters3), within=3.0)
