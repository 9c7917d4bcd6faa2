"""Threads that share one connection: their commands are gathered, in order, and never left behind."""

from __future__ import annotations

import math
import select
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import rlock
from rlock._client.connection import PendingCall
from rlock._sync import connections as sync
from rlock.procedures.port import Request, new_owner
from rlock.rules import commands
from rlock.rules.keys import OWN
from rlock.rules.quorum import Settle
from rlock.testing import MemoryMasters

MASTERS = 3
OWNER = new_owner("h/1/t")


@pytest.fixture
def masters() -> MemoryMasters:
    return MemoryMasters(MASTERS)


@pytest.fixture
def client(masters: MemoryMasters) -> Iterator[rlock.Client]:
    with rlock.Client(list(masters), ttl=2.0) as client:
        with client.lock("first"):
            pass  # it is connected now
        yield client


def calls_of(client: rlock.Client) -> Any:
    return client._engine().masters


def is_free(masters: MemoryMasters, name: str) -> bool:
    with rlock.Client(list(masters), ttl=2.0) as other:
        return other.lock(name).acquire(blocking=False)


def asking(calls: Any, name: str, owner: str = OWNER) -> PendingCall:
    """A call that its thread has sent."""
    call = PendingCall(Request(commands.acquire(name, owner, 1_900), 1.0, Settle.ALL), MASTERS, 0.0)
    calls._send(call)
    return call


def follower(calls: Any, name: str) -> PendingCall:
    """A call whose thread sleeps."""
    call = asking(calls, name)
    call.parker = calls._connections.parker()
    calls._connections._followers.add(call)
    return call


def is_woken(call: Any) -> bool:
    return not call.parker._lock.locked()


@pytest.mark.rule("3.4")
def test_an_undo_is_written_at_once_and_behind_the_acquire_that_was_gathered(
    client: rlock.Client, masters: MemoryMasters
) -> None:
    calls = calls_of(client)
    connections = calls._connections
    connections._next = follower(calls, "other")
    connections.gathering, connections._gather_until = True, math.inf
    asking(calls, "job")
    assert is_free(masters, "job"), "not written yet"
    calls.send(commands.undo(OWN, "job", OWNER))
    assert all(not server.connection.backlog for server in connections.servers)
    assert is_free(masters, "job"), "otherwise the undo has overtaken its acquire"


def test_a_confirmation_is_written_at_once(client: rlock.Client, masters: MemoryMasters) -> None:
    """Its lease would end after the claim time, because no thread waits for the replies."""
    calls = calls_of(client)
    connections = calls._connections
    connections._next = follower(calls, "other")
    connections.gathering, connections._gather_until = True, math.inf
    calls.start(Request(commands.acquire("job", OWNER, 1_900), 1.0, Settle.HOLDER, count_late=True))
    assert not is_free(masters, "job")


def test_replies_that_have_arrived_are_read_although_another_thread_reads(client: rlock.Client) -> None:
    """Otherwise a lease behind a hand-off would be told to be lost."""
    calls = calls_of(client)
    call = asking(calls, "job")
    for fd in calls._connections.by_fd:
        select.select([fd], [], [], 1.0)
    with ThreadPoolExecutor(1) as other:
        with calls._mutex:
            calls.read_arrived()  # in a signal handler its own thread may have the mutex
            reading = other.submit(calls.read_arrived)
            time.sleep(0.01)
        reading.result()
    assert call.ballot.answered == MASTERS


@pytest.mark.rule("3.4")
def test_nothing_is_written_before_the_backlog(client: rlock.Client, masters: MemoryMasters) -> None:
    calls = calls_of(client)
    connections = calls._connections
    connections.gathering, connections._gather_until = True, math.inf
    asking(calls, "job")
    connections.gathering = False
    calls.send(commands.undo(OWN, "job", OWNER))
    for server in connections.servers:
        server.connection.flush()
    assert is_free(masters, "job"), "otherwise the undo has overtaken its acquire"


def test_a_thread_that_has_left_is_not_woken_in_place_of_another(client: rlock.Client) -> None:
    calls = calls_of(client)
    connections = calls._connections
    connections._leader = asking(calls, "a")
    late, patient = follower(calls, "b"), follower(calls, "c")
    connections._read(0.0)
    connections._leave(late)
    assert is_woken(patient)


def test_threads_with_replies_wake_one_after_another_and_the_last_one_writes_for_all(
    client: rlock.Client, masters: MemoryMasters, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync, "GATHER_S", 60.0)
    calls = calls_of(client)
    connections = calls._connections
    leader, first, second = asking(calls, "a"), follower(calls, "b"), follower(calls, "c")
    connections._leader = leader
    connections._read(0.0)
    assert not is_woken(first), "not while the leader has the interpreter"
    connections._leave(leader)
    connections._leave(asking(calls, "f"))
    assert is_woken(first)
    assert not is_woken(second)
    late = [follower(calls, "d")]
    connections._leave(first)
    assert is_woken(second)
    late.append(follower(calls, "e"))
    assert is_free(masters, "d"), "gathered: the second one has not run"
    connections._leave(second)
    (leads,) = [call for call in late if is_woken(call)]
    assert is_free(masters, "e")
    assert connections._leads(leads, time.monotonic()), "it reads for both"
    assert not is_free(masters, "d")
    assert not is_free(masters, "e")


@pytest.mark.parametrize("died", [True, False], ids=["it has died", "it is kept from running"])
def test_a_woken_thread_that_does_not_run_holds_the_others_up_for_a_moment(
    client: rlock.Client, died: bool
) -> None:
    calls = calls_of(client)
    connections = calls._connections
    leader, woken = asking(calls, "a"), follower(calls, "b")
    connections._leader = leader
    connections._read(0.0)
    connections._leave(leader)
    assert is_woken(woken)
    woken.over = died
    began = time.monotonic()
    with client.lock("x"):
        pass
    # Otherwise the thread would wait for its reply behind its own command, which nobody writes.
    assert time.monotonic() - began < connections._patience * (1 if died else 4)
