"""What only goes wrong when two things happen at once; Ctrl-C before each line that reads a message."""

from __future__ import annotations

import ctypes
import threading
import time
from concurrent.futures import Future
from functools import partial
from typing import Any

import pytest

import rlock
from rlock._client.subscriptions import Subscriptions
from rlock.errors import RLockError
from rlock.procedures import acquire as acquiring
from rlock.procedures.contender import Contender, Grant
from rlock.procedures.port import WaitGenerator, Wake
from rlock.testing import memory_client

from ..fixtures import FreshMasters
from ..interrupts import every_line, interrupted
from ..servers import Fleet, left, raw
from .conftest import MakeClient, acquired, eventually, in_thread, running, threads_only


@pytest.mark.rule("3.1")
@threads_only
def test_an_owner_that_was_kept_from_running_since_the_verdict_gets_no_lease_that_has_ended(
    masters3: Fleet, make_client: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds: list[float] = []

    def late(*arguments: Any) -> WaitGenerator[Grant | None]:
        grant = yield from contend(*arguments)
        rounds.append(time.monotonic())
        if len(rounds) == 1:
            time.sleep(0.3)  # stopped by the kernel, behind the procedure's own last look
        return grant

    contend = acquiring._contend
    monkeypatch.setattr(acquiring, "_contend", late)
    lock = make_client(masters3.urls, 0.25).lock("x")
    assert lock.acquire(timeout=5)
    assert lock.remaining() > 0
    assert len(rounds) == 2
    lock.release()


def test_a_kept_exception_does_not_keep_a_dead_threads_lock(masters3: Fleet, make_client: MakeClient) -> None:
    client, other = make_client(masters3.urls, ttl=0.6), make_client(masters3.urls)
    kept: Future[None] = Future()

    def die_inside() -> None:
        lock = acquired(client)
        try:
            lock.acquire(False, 3)
        except ValueError as error:
            kept.set_exception(error)

    in_thread(die_inside)
    assert kept.exception() is not None
    assert other.lock("x").acquire(timeout=5.0), "renewed for ever, because a traceback keeps a frame"


@threads_only
def test_a_loss_while_a_condition_is_waited_on_strands_no_waiter(
    masters3: Fleet, make_client: MakeClient, caplog: pytest.LogCaptureFixture
) -> None:
    client = make_client(masters3.urls)
    condition = threading.Condition(client.lock("x"))
    with condition:
        client.evict("x")
        assert condition.wait(0.1) is False
        assert not condition._waiters  # type: ignore[attr-defined]
    assert any("was lost" in record.message for record in caplog.records)


@pytest.mark.rule("3.9")
@pytest.mark.real_masters
def test_a_server_that_appears_under_a_second_name_later_loses_no_held_lock(
    fresh_masters: FreshMasters, make_client: MakeClient
) -> None:
    fleet = fresh_masters(3)
    client = make_client(fleet.urls, ttl=1.5)
    lock = acquired(client)
    connections = client._engine().masters._connections
    with connections._mutex:
        # As when an address is pointed at another server by mistake.
        connections.servers[2].endpoint = connections.servers[0].endpoint
    fleet[2].kill()
    time.sleep(2.0)
    lock.check()
    with pytest.raises(rlock.OptionsError, match="same server"):
        client.lock("y").acquire(timeout=5.0)
    lock.release()


#: A pause that is longer than the request time-out of a lease of 10 s.
PAUSE_S = 0.8
#: How long the masters keep their replies back.
DELAY_MS = 100


def test_an_extension_that_keeps_all_threads_from_running_costs_no_call(masters3: Fleet) -> None:
    """It holds the interpreter's lock: no thread can read until the time of every call is over."""
    got: list[object] = []

    def work(name: str) -> None:
        try:
            got.append(client.lock(name).acquire(blocking=False))
        except rlock.RLockError as error:
            got.append(error)

    with rlock.Client(masters3.urls, ttl=10.0) as client:
        client.lock("first").acquire()
        for attempt in range(3):
            for master in masters3:
                raw(master.url).client_pause(DELAY_MS)
            with running(*(partial(work, f"{attempt}-{i}") for i in range(3))):
                time.sleep(DELAY_MS / 4000)
                ctypes.PyDLL(None).usleep(round(PAUSE_S * 1e6))
    assert got == [True] * 9


@threads_only
@pytest.mark.parametrize("kept", ["releaser", "heir"])
def test_close_in_the_middle_of_a_hand_off_leaves_nothing_of_the_heir(
    masters3: Fleet, make_client: MakeClient, monkeypatch: pytest.MonkeyPatch, kept: str
) -> None:
    """The masters gave it the lock; one of the two threads is kept from running until close() is over."""
    client = make_client(masters3.urls, ttl=10.0)
    where = Subscriptions
    hand_over, wait_for = where.hand_over, where.wait
    found: list[list[str]] = []

    def close() -> None:
        client.close()
        found.extend(left(master.url) for master in masters3)

    def tell_late(self: Any, contender: Contender, grant: Grant) -> bool:
        close()
        return hand_over(self, contender, grant)

    def go_on_late(self: Any, contender: Contender, until: float) -> WaitGenerator[Wake]:
        wake = yield from wait_for(self, contender, until)
        if wake is Wake.GRANTED:
            close()
        return wake

    if kept == "releaser":
        monkeypatch.setattr(where, "hand_over", tell_late)
    else:
        monkeypatch.setattr(where, "wait", go_on_late)
    ends: list[object] = []

    def wait() -> None:
        try:
            ends.append(client.lock("x").acquire())
        except RLockError as error:
            ends.append(str(error))

    next_waiter = threading.Thread(target=wait)
    with client.lock("x"):
        next_waiter.start()
        assert eventually(lambda: client.status("x").queue_length == 1)
        time.sleep(0.1)
    next_waiter.join(20)
    assert found == [[], [], []]
    assert ends == ["the client was closed"] or ends == ["the client is closed"]


#: The files through which a nested acquire and release go.
NESTING = ("rlock/lock.py", "rlock/base.py", "engine.py", "hold_table.py")


def test_ctrl_c_before_any_line_of_a_nested_acquire_leaves_the_count_as_it_was() -> None:
    wrong: dict[str, int] = {}
    with memory_client(3) as client, client.lock("x") as lock:
        for tracer in every_line(*NESTING):
            before = lock.hold_count
            with tracer:
                lock.acquire()
            if tracer.where and lock.hold_count != before:
                wrong[tracer.where] = lock.hold_count
                lock.release()
        assert (lock.hold_count, tracer.where) == (2, "")
        lock.release()
    assert wrong == {}


def test_ctrl_c_before_any_line_of_a_nested_release_gives_back_one_acquire_or_none() -> None:
    given_back: list[int] = []
    with memory_client(3) as client, client.lock("x") as lock:
        for tracer in every_line(*NESTING):
            lock.acquire()
            with tracer:
                lock.release()
            given_back.append(2 - lock.hold_count)
            if tracer.where and lock.hold_count == 2:
                lock.release()
            lock.check()
        assert (lock.hold_count, tracer.where) == (1, "")
    assert given_back == sorted(given_back), "what an interrupt found given back was taken again"
    assert set(given_back) == {0, 1}


#: The files through which a message goes.
READING = ("subscriptions.py", "notifications.py", "_sync/connections.py")
NEVER = 1_000_000_000


def test_ctrl_c_before_any_line_that_reads_a_message_keeps_no_other_waiter_asleep(masters1: Fleet) -> None:
    """One thread reads for all that wait; the message is for another one of them."""
    holder, client = rlock.Client(masters1.urls, ttl=10.0), rlock.Client(masters1.urls, ttl=10.0)
    subscriptions: Any = client._engine().notifications
    late: dict[str, float] = {}
    armed: list[int] = []

    def asleep(name: str) -> bool:
        found = subscriptions._by_name.values()
        return any(inbox.asleep for one in found for inbox in one.inboxes if inbox.name == name)

    def attempt(at: int) -> str:
        """An interrupt in front of the n-th line from when the first message has come."""
        told, got = threading.Event(), threading.Event()
        released_at = got_at = 0.0
        poll = subscriptions._connections.poll

        def polled(timeout: float) -> Any:
            events = poll(timeout)
            reads = told.is_set() and not got.is_set() and threading.current_thread() is reader
            if events and reads and tracer.left > at:
                tracer.left = at
                armed.append(at)
            return events

        def wait() -> None:
            nonlocal got_at
            with client.lock("b"):
                got_at = time.monotonic()
                got.set()
                tracer.left = NEVER

        def release() -> None:
            nonlocal released_at
            with holder.lock("b"):
                ready.set()
                assert eventually(lambda: subscriptions._connections._leader and asleep("a"))
                waiter.start()
                assert eventually(lambda: asleep("b"))
                told.set()
                released_at = time.monotonic()

        ready, reader = threading.Event(), threading.current_thread()
        waiter, releaser = threading.Thread(target=wait), threading.Thread(target=release)
        releaser.start()
        ready.wait(10)
        subscriptions._connections.poll = polled
        with interrupted(NEVER, *READING) as tracer:
            client.lock("a").acquire(timeout=2.0)
        subscriptions._connections.poll = poll
        releaser.join(10)
        waiter.join(10)
        if got_at - released_at > 0.7:
            late[tracer.where] = got_at - released_at
        return tracer.where

    with holder, client, holder.lock("a"):
        at = 1
        for _ in range(1000):
            # On a busy machine another thread may read the message: then nothing was tried.
            if not attempt(at) and at in armed:
                break
            at += at in armed
    assert at > 20
    assert late == {}, "looked again only after the poll cap of about 1.2 s"
