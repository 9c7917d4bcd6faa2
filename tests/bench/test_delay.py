"""The proxy that makes masters far: late, and nothing else."""

from __future__ import annotations

import os
import socket
import statistics
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.harness.contestant import Failed
from bench.harness.delay import Delay, compiler, round_trip_us
from tests.servers import AnyMaster, Fleet, raw

#: What is due within 20 us goes along, each way.
EARLY_S = 0.00005


@pytest.fixture(scope="module", autouse=True)
def _compiler() -> None:
    try:
        compiler()
    except Failed as why:
        pytest.skip(str(why))


@pytest.fixture
def echo() -> Iterator[str]:
    """A server that says what it hears."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    def answer(connection: socket.socket) -> None:
        with connection:
            while data := connection.recv(65536):
                connection.sendall(data)

    threading.Thread(target=serve, daemon=True).start()
    yield f"redis://127.0.0.1:{listening.getsockname()[1]}"
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()


def connected(url: str, buffer: int = 0) -> socket.socket:
    connection = socket.socket()
    if buffer:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    connection.settimeout(10.0)
    connection.connect(("127.0.0.1", int(url.rpartition(":")[2])))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def received(connection: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        read = connection.recv(count - len(data))
        assert read, "it has ended"
        data += read
    return bytes(data)


def fastest_s(url: str) -> float:
    """Of some round trips the shortest: a machine that is busy adds to them, and takes nothing away."""
    return min(round_trip_us(url, 1) for _ in range(15)) / 1e6


@pytest.mark.parametrize("rtt_ms", [1, 2, 20, 80])
def test_a_round_trip_takes_what_was_ordered(real_masters: Fleet, rtt_ms: int) -> None:
    with Delay(real_masters.urls[:1]) as delay:
        delay.set(rtt_ms)
        found = fastest_s(delay.urls[0])
    assert rtt_ms / 1e3 - EARLY_S <= found <= rtt_ms / 1e3 + 0.001


@pytest.mark.timing
def test_each_master_has_its_own_distance_and_it_can_change(real_masters: Fleet) -> None:
    with Delay(real_masters.urls[:3]) as delay:
        assert max(fastest_s(url) for url in delay.urls) < 0.001
        delay.set(1, 10, 30)
        found = [fastest_s(url) for url in delay.urls]
        assert found == sorted(found)
        assert [round(seconds * 1e3) // 5 * 5 for seconds in found] == [0, 10, 30]
        delay.set(5)
        assert all(0.0049 < fastest_s(url) < 0.009 for url in delay.urls)
        with pytest.raises(ValueError, match="3 masters"):
            delay.set(1, 2)


@pytest.mark.timing
def test_what_is_under_way_at_the_same_time_is_delayed_at_the_same_time(echo: str) -> None:
    """A proxy that waits for one thing before it takes the next would need two seconds for these."""
    sent: list[float] = []
    came: list[float] = []
    with Delay([echo]) as delay, connected(delay.urls[0]) as connection:
        delay.set(50)
        connection.sendall(b"*")  # the handshake has its own round trip
        received(connection, 1)

        def listen() -> None:
            for _ in range(40):
                received(connection, 1)
                came.append(time.monotonic())

        listener = threading.Thread(target=listen)
        listener.start()
        for _ in range(40):
            sent.append(time.monotonic())
            connection.sendall(b"x")
            time.sleep(0.001)
        listener.join(10.0)
    took = [b - a for a, b in zip(sent, came, strict=True)]
    assert min(took) >= 0.05 - EARLY_S
    assert statistics.median(took) < 0.06
    assert came[-1] - sent[0] < 0.5


def test_bytes_come_out_as_they_went_in_however_many(echo: str) -> None:
    data = os.urandom(16_000_000)  # more than the buffers of all sockets
    with Delay([echo]) as delay, connected(delay.urls[0], 65536) as connection:
        delay.set(10)
        sender = threading.Thread(target=connection.sendall, args=(data,))
        sender.start()
        time.sleep(0.2)  # nobody reads: the proxy has to keep what it cannot pass on
        assert received(connection, len(data)) == data
        sender.join(10.0)
        delay.set(200)
        connection.sendall(b"far ")
        delay.set(0)
        connection.sendall(b"near")
        assert received(connection, 8) == b"far near"


def test_a_new_connection_pays_for_its_handshake(echo: str) -> None:
    with Delay([echo]) as delay:
        delay.set(40)
        began = time.monotonic()
        with connected(delay.urls[0]) as connection:
            connection.sendall(b"x")
            received(connection, 1)
            assert time.monotonic() - began >= 0.08 - 2 * EARLY_S
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(1) == b"", "the end goes through, too"


def test_a_command_of_a_client_that_is_gone_still_arrives(master: AnyMaster) -> None:
    with Delay([master.url]) as delay:
        delay.set(200)
        connection = connected(delay.urls[0])
        connection.sendall(b"SET late 1\r\n")
        time.sleep(0.05)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()  # with a RST
        assert not raw(master.url).exists("late")
        until = time.monotonic() + 5.0
        while not raw(master.url).exists("late"):
            assert time.monotonic() < until, "it was lost with its client"
            time.sleep(0.01)
        # And the proxy has not suffered.
        assert round_trip_us(delay.urls[0], 1) >= 199_000


def test_a_master_that_does_not_listen_is_one_that_ends_the_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with Delay([f"redis://127.0.0.1:{port}"]) as delay, pytest.raises((Failed, ConnectionError)):
        round_trip_us(delay.urls[0], 1)


def test_nothing_is_left_of_it() -> None:
    with Delay(["redis://127.0.0.1:1"]) as delay:
        pid = delay.pid
        assert Path(f"/proc/{pid}").exists()
    assert not Path(f"/proc/{pid}").exists()


def test_addresses_that_it_cannot_stand_for_are_refused() -> None:
    for url in ("redis://10.0.0.1:6379", "unix:///run/redis.sock", "rediss://127.0.0.1:6379"):
        with pytest.raises(Failed, match="not for"):
            Delay([url])
