"""One bad neighbour: what the client does about it, and what it says."""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

import rlock
import rlock.asyncio
from evidence.neighbours.faults import server
from rlock._async.connections import Endpoint as AsyncEndpoint
from rlock._async.runtime import run as async_run
from rlock._client import sentinel
from rlock._client.handshake import ConnectError, ConnectOptions, connect
from rlock._sync.connections import Endpoint
from rlock._sync.engine import Engine
from rlock._sync.runtime import run

from ..lock.conftest import eventually
from ..servers import Fleet
from .conftest import within


def test_a_client_that_is_collected_while_it_holds_is_told_once(
    masters3: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
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
        with pytest.raises(redis_error(), match=r"hangs.test:26379: no answer within 0.3 s; .*refused"):
            service.get_master_address()
    assert time.monotonic() - began < 3.0
    mended.set()
    assert len(asked) == 1


@pytest.mark.parametrize("login", ["", ":secret@"], ids=["own", "the library's"])
@pytest.mark.parametrize("tasks", [False, True], ids=["threads", "tasks"])
def test_a_master_that_trickles_its_first_reply_costs_an_attempt_a_bounded_time(
    tasks: bool, login: str
) -> None:
    def answer(_command: str) -> Iterator[bytes]:
        yield b"+"
        for _ in range(100):
            time.sleep(0.1)
            yield b"x"

    with server(answer) as place, within(5.0):
        urls = [f"redis://{login}{place}"]
        options = ConnectOptions(0.4, 0.4)

        async def dial() -> None:
            await async_run(connect(AsyncEndpoint(urls[0]), options))

        with pytest.raises(ConnectError, match="Timeout reading from"):
            if tasks:
                asyncio.run(dial())
            else:
                run(connect(Endpoint(urls[0]), options))


def redis_error() -> type[Exception]:
    error: type[Exception] = Endpoint("redis://x").library.ConnectionError
    return error


@pytest.mark.parametrize("tasks", [False, True], ids=["threads", "tasks"])
@pytest.mark.parametrize("refusal", [b"-NOAUTH Authentication required.\r\n", b"-WRONGPASS invalid pair\r\n"])
def test_a_password_that_the_sentinels_refuse_is_raised_at_once(refusal: bytes, tasks: bool) -> None:
    async def acquire(urls: list[str]) -> None:
        async with rlock.asyncio.Client(urls) as client:
            await client.lock("x").acquire(timeout=30)

    login = "" if b"NOAUTH" in refusal else "&sentinel_password=secret-7"
    with server(lambda _: refusal) as place, within(5.0):
        url = f"redis+sentinel://{place}/m?replicas=1{login}"
        with pytest.raises(rlock.OptionsError, match="Sentinels refuse the password") as raised:
            if tasks:
                asyncio.run(acquire([url]))
            else:
                with rlock.Client([url]) as client:
                    client.lock("x").acquire(timeout=30)
    assert "secret-7" not in str(raised.value)
