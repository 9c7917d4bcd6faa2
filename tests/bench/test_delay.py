"""The proxy that makes masters far: late, and nothing else."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from bench.harness.delay import Delay, round_trip_us
from tests.servers import Fleet

#: The clock is read twice, a moment apart.
EARLY_S = 0.00005


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


@pytest.mark.parametrize("rtt_ms", [1, 20])
def test_a_round_trip_takes_what_was_ordered(real_masters: Fleet, rtt_ms: int) -> None:
    with Delay(real_masters.urls[:1]) as delay:
        delay.set(rtt_ms)
        found = fastest_s(delay.urls[0])
    assert rtt_ms / 1e3 - EARLY_S <= found <= rtt_ms / 1e3 + 0.002


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
