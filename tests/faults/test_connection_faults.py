"""Connections that servers close or hold up, names that hang or move; requests and replies that are lost."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

import rlock
from evidence.neighbours.faults import server
from rlock._async.connections import Endpoint as AsyncEndpoint
from rlock._async.runtime import run as async_run
from rlock._client import sentinel
from rlock._client.handshake import ConnectError, ConnectOptions, connect
from rlock._sync.connections import Endpoint
from rlock._sync.engine import Engine
from rlock._sync.runtime import run
from rlock.events import MasterAnswers, MasterFailed
from rlock.rules import scripts

from ..lock import tasks
from ..lock.conftest import eventually
from ..servers import Fleet, name_of, raw, tell
from ..telemetry.happenings import Ledger
from .checks import everywhere, excluded, holders, usable, waiting, within
from .conftest import FreshMasters, Scene, Scenes, Waiter
from .proxy import Then

#: How a request or a reply is lost, and what comes after it on that connection.
LOSSES: list[tuple[str, Then]] = [
    ("request", "silence"),
    ("request", "reset"),
    ("request", "torn"),
    ("reply", "silence"),
    ("reply", "reset"),
]


def test_a_master_that_flaps_is_told_once_and_then_not_until_it_is_steady(
    scene: Scene, ledger: Ledger, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = scene.client(urls=scene.proxied(1))
    (bad,) = scene.proxies
    label = name_of(bad.url)
    with caplog.at_level(logging.INFO, "rlock"):
        while len(told := [e for e in ledger.of(MasterFailed, MasterAnswers) if e.master == label]) < 16:
            usable(client)
            if any(isinstance(event, MasterAnswers) for event in told[-2:]):  # no attempt is under way
                bad.reset()
        lines = [record.getMessage() for record in caplog.records if label in record.getMessage()]
        assert ["flapping" in line for line in lines] == [False] * (len(lines) - 1) + [True]
        assert len(lines) < 10
        caplog.clear()
        monkeypatch.setattr("rlock._client.connections.FLAPS_S", 0.5)
        until = time.monotonic() + 10.0
        while not (said := f"{label} answers again" in caplog.messages) and time.monotonic() < until:
            usable(client)
        assert said


@pytest.mark.parametrize("what", ["ALL", "WRITE"])
def test_a_pause_of_all_masters_shorter_than_the_lease_delays_and_hurts_nobody(
    what: str, scene: Scene
) -> None:
    lock, other = scene.held(1.8)
    tell(scene.urls, "CLIENT", "PAUSE", "900", what)  # the first renewal fails
    with within(2.0), pytest.raises(rlock.QuorumUnreachableError, match="no answer"):
        other.lock("x").acquire(blocking=False)
    time.sleep(1.7)  # past the end of the first lease
    lock.check()
    excluded(other)
    lock.release()
    tell(scene.urls, "CLIENT", "PAUSE", "600", what)
    with within(4.0):
        usable(other)  # waits for the masters


def test_scripts_that_all_masters_forgot_are_sent_again_within_the_call(scene: Scene) -> None:
    holder, other = scene.clients(1.5)
    tell(scene.urls, "SCRIPT", "FLUSH")
    lock = holder.lock("x")
    assert lock.acquire(blocking=False)
    waiter = Waiter(other)
    waiting(holder)
    tell(scene.urls, "SCRIPT", "FLUSH")
    time.sleep(1.7)  # renewed, and looked at
    lock.check()
    tell(scene.urls, "SCRIPT", "FLUSH")
    with within(1.0):
        lock.release()
        assert waiter.got()


def test_a_name_that_moves_to_another_address_is_looked_up_again(
    fresh_masters: FreshMasters, scenes: Scenes, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = fresh_masters(2)
    look_up, now = socket.getaddrinfo, [fleet.urls[0]]

    def moving(host: Any, port: Any, *args: Any, **options: Any) -> Any:
        if host == "moves.test":
            host, port = "127.0.0.1", int(now[0].rpartition(":")[2])
        return look_up(host, port, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", moving)
    client = scenes(fleet).client(urls=[f"{now[0].rpartition('@')[0]}@moves.test:6379"])
    usable(client)
    now[0] = fleet.urls[1]
    fleet[0].kill()
    usable(client)
    with raw(now[0]) as known:
        assert known.exists("rlock:fleet")


def lossy(scene: Scene, ttl: float = 10.0) -> tuple[rlock.Client, rlock.Client]:
    """A client behind proxies to a majority, of which both have to lose a thing; and one without."""
    client, other = scene.client(ttl, scene.proxied(2)), scene.client(10.0)
    usable(client)
    usable(other)
    return client, other


def lose(scene: Scene, script: scripts.Script, what: str, then: Then) -> None:
    for proxy in scene.proxies:
        (proxy.lose_request if what == "request" else proxy.lose_reply)(script, then)


def losses(scene: Scene) -> list[int]:
    return [proxy.losses for proxy in scene.proxies]


def counts(scene: Scene) -> list[str]:
    """The hold counts that the masters know."""
    return [str(count) for url in scene.urls for count in raw(url).hvals("x")]


@pytest.mark.parametrize(("what", "then"), LOSSES)
def test_an_acquire_of_which_the_request_or_the_reply_is_lost_leaves_no_vote_behind(
    what: str, then: Then, scene: Scene
) -> None:
    client, other = lossy(scene)
    lock = client.lock("x")
    lose(scene, scripts.ACQUIRE, what, then)
    if then != "silence":
        # Noticed at once, and asked again under the same token: a second delivery counts once.
        assert lock.acquire(blocking=False)
        assert everywhere(scene.urls)
        assert counts(scene) == ["1"] * 3
        lock.release()
    else:
        with within(2.0), pytest.raises(rlock.QuorumUnreachableError, match=r"no answer within 0\.5 s"):
            lock.acquire(blocking=False)
        # Far under the lease of 10 s: undone, on the masters that had carried it out, too.
        with within(2.0):
            usable(other, 2.0)
    assert losses(scene) == [1, 1]
    lose(scene, scripts.ACQUIRE, what, then)
    with within(3.0):
        usable(client)  # with time to wait it is only slower
    assert losses(scene) == [2, 2]
    assert eventually(lambda: holders(scene.urls) == [None] * 3, 2.0)


def test_renewals_of_which_the_request_or_the_reply_is_lost_are_tried_again_in_time(scene: Scene) -> None:
    client, other = lossy(scene, 1.5)
    lock = client.lock("x")
    lock.acquire()
    lock.acquire()
    for times, (what, then) in enumerate(LOSSES, 1):
        lose(scene, scripts.RENEW, what, then)
        until = time.monotonic() + 2.0
        while losses(scene) != [times, times]:
            assert time.monotonic() < until, "it is not renewed"
            time.sleep(0.02)
        assert eventually(lambda: lock.remaining() > 1.2, 2.0), (what, then)
        lock.check()
        excluded(other)
    assert set(counts(scene)) == {"2"}
    lock.release()
    lock.release()
    with within(1.0):
        usable(other)


@pytest.mark.parametrize(("what", "then"), LOSSES)
def test_a_release_of_which_the_request_or_the_reply_is_lost_is_no_error_and_frees_the_lock(
    what: str, then: Then, scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    client, other = lossy(scene)
    lock = client.lock("x")
    lock.acquire()
    lose(scene, scripts.RELEASE, what, then)
    with within(2.0), caplog.at_level(logging.WARNING, "rlock"):
        lock.release()
    assert losses(scene) == [1, 1]
    assert ("fewer than a quorum confirmed" in caplog.text) == (then == "silence")
    assert lock.hold_count == 0
    usable(client, name="y")
    # Far under the lease of 10 s: what was lost is delivered with the next connection.
    with within(2.5):
        usable(other, 2.5)
    usable(client)


def test_a_release_that_was_lost_in_a_short_partition_is_delivered_although_its_client_is_idle(
    scene: Scene,
) -> None:
    client, other = lossy(scene)
    lock = client.lock("x")
    lock.acquire()
    for proxy in scene.proxies:
        proxy.cut()
    lock.release()
    for proxy in scene.proxies:
        proxy.mend()
    usable(other, 2.5)


def test_a_collected_holder_is_told_once(masters3: Fleet, caplog: pytest.LogCaptureFixture) -> None:
    client = rlock.Client(masters3.urls, 3.0, restart_guard=0)
    engine = client._engine()
    for name in ("a", "b"):
        client.lock(name).acquire()
    del client
    gc.collect()
    try:
        assert eventually(lambda: "was collected" in caplog.text)
        assert engine in Engine.holding
        time.sleep(1.5)  # two renewals
        assert caplog.text.count("was collected") == 1
    finally:
        engine.close()


def test_a_sentinel_whose_name_hangs_costs_an_attempt_a_bounded_time_and_one_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    look_up, mended, asked = socket.getaddrinfo, threading.Event(), list[str]()

    def slow(host: Any, *args: Any, **options: Any) -> Any:
        if host != "hangs.test":
            return look_up(host, *args, **options)
        asked.append(host)
        mended.wait(20)
        raise socket.gaierror(socket.EAI_AGAIN, "it took too long")

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    monkeypatch.setattr(sentinel, "DEADLINE_S", 0.3)
    monkeypatch.setattr(sentinel, "LATE", "no answer within 0.3 s")
    endpoint = Endpoint("redis+sentinel://hangs.test,127.0.0.1:1/m?replicas=1")
    service = endpoint.service
    assert service is not None
    began = time.monotonic()
    for _ in range(3):
        with pytest.raises(
            endpoint.library.ConnectionError, match=r"hangs.test:26379: no answer within 0.3 s; .*refused"
        ):
            service.get_master_address()
    assert time.monotonic() - began < 3.0
    mended.set()
    assert len(asked) == 1


@pytest.mark.parametrize("login", ["", ":secret@"], ids=["own", "the library's"])
@pytest.mark.parametrize("on_loop", [False, True], ids=["threads", "tasks"])
def test_a_master_that_trickles_its_first_reply_costs_an_attempt_a_bounded_time(
    on_loop: bool, login: str
) -> None:
    def answer(_command: str) -> Iterator[bytes]:
        yield b"+"
        for _ in range(100):
            time.sleep(0.1)
            yield b"x"

    with server(answer) as place, within(5.0):
        url, options = f"redis://{login}{place}", ConnectOptions(0.4, 0.4)

        async def dial() -> None:
            await async_run(connect(AsyncEndpoint(url), options))

        with pytest.raises(ConnectError, match="Timeout reading from"):
            if on_loop:
                asyncio.run(dial())
            else:
                run(connect(Endpoint(url), options))


@pytest.mark.parametrize("kind", [rlock.Client, tasks.Client], ids=["threads", "tasks"])
@pytest.mark.parametrize("refusal", [b"-NOAUTH Authentication required.\r\n", b"-WRONGPASS invalid pair\r\n"])
def test_a_password_that_the_sentinels_refuse_is_raised_at_once(refusal: bytes, kind: Any) -> None:
    login = "" if b"NOAUTH" in refusal else "&sentinel_password=secret-7"
    with (
        server(lambda _: refusal) as place,
        within(5.0),
        kind([f"redis+sentinel://{place}/m?replicas=1{login}"]) as client,
        pytest.raises(rlock.OptionsError, match="Sentinels refuse the password") as raised,
    ):
        client.lock("x").acquire(timeout=30)
    assert "secret-7" not in str(raised.value)
