"""What only goes wrong when two things happen at once."""

from __future__ import annotations

import ctypes
import threading
import time
from concurrent.futures import Future
from functools import partial
from typing import Any

import pytest

import rlock
from rlock.procedures import acquire as acquiring
from rlock.procedures.contender import Grant
from rlock.procedures.port import WaitGenerator

from ..fixtures import FreshMasters
from ..servers import Fleet, raw
from .conftest import MakeClient, acquired, in_thread, running, threads_only


@pytest.mark.rule("3.1")
@threads_only
def test_an_owner_that_was_kept_from_running_since_the_verdict_gets_no_lease_that_has_ended(
    connect3: MakeClient, monkeypatch: pytest.MonkeyPatch
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
    lock = connect3(0.25).lock("x")
    assert lock.acquire(timeout=5)
    assert lock.remaining() > 0
    assert len(rounds) == 2


def test_a_kept_exception_does_not_keep_a_dead_threads_lock(connect3: MakeClient) -> None:
    client, other = connect3(ttl=0.6), connect3()
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
    connect3: MakeClient, caplog: pytest.LogCaptureFixture
) -> None:
    client = connect3()
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


PAUSE_S = 0.8  # a pause that is longer than the request time-out of a lease of 10 s
DELAY_MS = 100  # how long the masters keep their replies back


def test_an_extension_that_keeps_all_threads_from_running_costs_no_call(masters3: Fleet) -> None:
    """It holds the interpreter's lock: no thread can read until the time of every call is over."""

    def work(name: str) -> None:
        assert client.lock(name).acquire(blocking=False)

    with rlock.Client(masters3.urls, ttl=10.0) as client:
        client.lock("first").acquire()
        for attempt in range(3):
            for master in masters3:
                raw(master.url).client_pause(DELAY_MS)
            with running(*(partial(work, f"{attempt}-{i}") for i in range(3))):
                time.sleep(DELAY_MS / 4000)
                ctypes.PyDLL(None).usleep(round(PAUSE_S * 1e6))
