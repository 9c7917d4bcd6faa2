"""`rlock doctor` and what lies between it and the masters; what it prints, and how it exits."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Sequence

import pytest

from rlock.testing.local.spawn import free_port

from ..servers import Fleet, raw
from .doctoring import doctor
from .doctoring import good as good  # a fixture
from .shell import Done, inside

Serve = Callable[[Callable[[socket.socket], None]], str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """``serve(what)``: a server that does so with each connection; its URL."""
    listening: list[socket.socket] = []

    def start(handle: Callable[[socket.socket], None]) -> str:
        server = socket.create_server(("127.0.0.1", 0))
        listening.append(server)

        def run() -> None:
            while True:
                try:
                    accepted, _ = server.accept()
                except OSError:
                    return
                threading.Thread(target=handle, args=(accepted,), daemon=True).start()

        threading.Thread(target=run, daemon=True).start()
        return f"redis://127.0.0.1:{server.getsockname()[1]}"

    yield start
    for server in listening:
        server.shutdown(socket.SHUT_RDWR)
        server.close()


def http(accepted: socket.socket) -> None:
    with accepted:
        accepted.recv(65536)
        accepted.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def silent(accepted: socket.socket) -> None:
    with accepted:
        while accepted.recv(65536):
            pass


BROKEN = {
    "http": (http, "another protocol", "correct the port"),
    "silent": (silent, "no answer in time", "firewall"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_what_is_no_master_is_told_by_what_it_does(good: Fleet, serve: Serve, kind: str) -> None:
    handle, what, action = BROKEN[kind]
    url = serve(handle)
    seen = doctor([good.urls[0], url, good.urls[2]], request_timeout="0.5")
    found = seen.one("reachable")
    assert (found["severity"], found["master"]) == ("error", url)
    assert what in found["what"]
    assert action in found["action"]
    assert seen.code == 1
    assert seen.masters[1]["fault"]


# -- as a user in a shell sees it ----------------------------------------------------------------------------


def shell(urls: Sequence[str], *words: str) -> Done:
    return inside("doctor", "--measure", "0", *words, masters=urls, RLOCK_REQUEST_TIMEOUT="1")


def test_warnings_pass_unless_strict(good: Fleet) -> None:
    assert shell(good.urls, "--strict")[0] == 0
    with raw(good.urls[1]) as admin:
        admin.config_set("tcp-keepalive", "0")
    assert shell(good.urls)[0] == 0
    assert shell(good.urls, "--strict")[0] == 1


def test_fewer_than_a_quorum_is_exit_status_69(good: Fleet) -> None:
    gone = [f"redis://127.0.0.1:{free_port()}" for _ in range(2)]
    code, out, _ = shell([good.urls[0], *gone])
    assert code == 69
    assert "1 of 3 masters can be reached, 2 are needed" in out
    assert out.splitlines()[-1].startswith("1 of 3 masters answered, quorum 2: 3 errors")
