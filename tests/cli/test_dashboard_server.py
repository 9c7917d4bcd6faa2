"""The server of `rlock dashboard` under clients that are slow, gone, or talk nonsense."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import ExitStack

import pytest

from ..lock.conftest import eventually
from .dashboards import Site, lock, site

ASK = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
GARBAGE = (
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # the beginning of TLS
    b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 3000 + b"\r\n",
    b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
)


def connected(page: Site, stack: ExitStack, first: bytes = b"") -> socket.socket:
    connection = stack.enter_context(socket.create_connection(("127.0.0.1", page.server.port), 15))
    connection.sendall(first)
    return connection


@pytest.mark.parametrize("garbage", GARBAGE, ids=lambda garbage: ascii(garbage[:20]))
def test_nonsense_gets_an_error_or_an_end_and_the_next_one_an_answer(
    garbage: bytes, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with site(head_s=0.3) as page:
        told = page.raw(garbage)
        assert told == b"" or told.startswith((b"HTTP/1.1 4", b"HTTP/1.1 505 ")), told
        assert page.raw(ASK).endswith(b"\r\n\r\nok\n")
    assert not caplog.records
    assert capfd.readouterr().err == ""


def test_a_request_that_drips_is_ended_in_time() -> None:
    with site(head_s=1.0) as page, ExitStack() as stack:
        slow = connected(page, stack, b"GET / HTTP/1.1\r\n")
        began = time.monotonic()
        with pytest.raises(OSError):  # reset, or broken pipe
            while time.monotonic() - began < 10:
                slow.sendall(b"a")
                time.sleep(0.1)
        assert time.monotonic() - began < 5, "each byte gave it more time"


def test_when_all_threads_answer_others_are_told_to_come_again() -> None:
    free = threading.Event()

    def status(name: str) -> object:
        free.wait(20)
        return lock(name)

    with site(status=status, threads=2) as page, ExitStack() as stack:  # type: ignore[arg-type]
        for i in range(2):
            connected(page, stack, f"GET /api/lock/{i} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert eventually(lambda: page.raw(ASK).startswith(b"HTTP/1.1 503 "))
        free.set()
        assert eventually(lambda: page.raw(ASK).endswith(b"ok\n"))
