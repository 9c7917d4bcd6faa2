"""`rlock doctor` and what lies between it and the masters; what it prints, and how it exits."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from rlock.testing.local.spawn import free_port

from ..servers import Fleet, raw
from .doctoring import doctor
from .doctoring import good as good  # a fixture
from .shell import Done, inside

#: The bytes of a server before it ends the connection, the finding of doctor, and its advice.
BROKEN = {
    "http": (b"HTTP/1.1 400 Bad Request\r\n\r\n", "another protocol", "correct the port"),
    "silent": (b"", "no answer in time", "firewall"),
}


@contextmanager
def serving(answer: bytes) -> Iterator[str]:
    """The URL of a server that gives every connection this answer."""

    class Connection(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            while self.request.recv(65536) and not answer:
                pass
            self.request.sendall(answer)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Connection) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"redis://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.mark.parametrize("kind", BROKEN)
def test_what_is_no_master_is_told_by_what_it_does(good: Fleet, kind: str) -> None:
    answer, what, action = BROKEN[kind]
    with serving(answer) as url:
        seen = doctor([good.urls[0], url, good.urls[2]], request_timeout="0.5")
    found = seen.one("reachable")
    assert (found["severity"], found["master"]) == ("error", url)
    assert what in found["what"]
    assert action in found["action"]
    assert seen.code == 1
    assert seen.masters[1]["fault"]


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
