"""For the tests of `rlock dashboard`: snapshots that stand still, a server around them, and plain HTTP."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rlock.cli.dashboard.answers import Answers
from rlock.cli.dashboard.hosts import AllowedHosts
from rlock.cli.dashboard.poller import Sight
from rlock.cli.dashboard.server import Server
from rlock.cli.scan.snapshot import MasterHealth, Snapshot
from rlock.model import LockStatus, MasterStatus, Waiter

from .shell import begin

MASTERS = tuple(f"redis://10.0.0.{i}:6379" for i in (1, 2, 3))
HOLDER = "web-1/4711/MainThread:0198f3a2b4c57def8123456789abcdef"
#: Names that have broken pages, paths and terminals.
NASTY = (
    '<script>document.title = "owned"</script>',
    "<img src=x onerror='document.title=1'>",
    "\"'`--></title></style></script>",
    "javascript:alert(1)",
    "a/b//../%2F%25%?x=1&y#z+ +",
    "{brace}:{tag}}",
    "{{7*7}}${7*7}",
    "\u05e9\u05dc\u05d5\u05dd \u202etxt.exe",
    "\U0001f512 \U0001f468\u200d\U0001f469\u200d\U0001f467 e\u0301",
    "..",
    ".",
    "  in spaces\t",
    "line\nfeed\r\nSet-Cookie: a=b",
    "nul\x00\x1b[31m",
    "w" * 1024,
)


def lock(name: str, holder: str | None = HOLDER, waiters: int = 0, **more: Any) -> LockStatus:
    views = tuple(MasterStatus(m, holder, 1 if holder else 0, 7.5 if holder else None) for m in MASTERS)
    queue = tuple(Waiter(f"job-{i}/{i}/MainThread:{i:032x}", 1_700_000_000.0 + i) for i in range(waiters))
    given = {"since": 1_700_000_000.0 if holder else None, "remaining": 7.5 if holder else None, **more}
    return LockStatus(
        name, holder, hold_count=1, quorum=2, masters=views, queue_length=waiters, waiters=queue, **given
    )


def snapshot(*locks: LockStatus, **more: Any) -> Snapshot:
    masters = (
        MasterHealth(MASTERS[0], None, 0.0004, "Valkey", "9.1.0", guarded=0.0, clock_offset=0.0, locks=2),
        MasterHealth(MASTERS[1], None, 0.25, "Redis", "6.2.7", guarded=4.1, clock_offset=-0.3, locks=1),
        MasterHealth(MASTERS[2], "Connection refused"),
    )
    given: dict[str, Any] = {"masters": masters, **more}
    return Snapshot(time.time(), 2, locks=locks, **given)


class Still:
    """A poller that always sees the same."""

    def __init__(self, sight: Sight) -> None:
        self.now = sight

    def sight(self) -> Sight:
        return self.now


@dataclass
class Site:
    """A server that runs in this process."""

    server: Server
    poller: Still

    def get(
        self, path: str = "/", method: str = "GET", **headers: str
    ) -> tuple[http.client.HTTPResponse, bytes]:
        return get(self.server.port, path, method, **headers)

    def raw(self, data: bytes) -> bytes:
        """Send bytes and read until the other side ends."""
        with socket.create_connection(("127.0.0.1", self.server.port), 10.0) as connection:
            connection.sendall(data)
            received = b""
            while piece := connection.recv(65536):
                received += piece
            return received


@contextmanager
def site(
    sight: Sight | None = None,
    status: Callable[[str], LockStatus] = lock,
    hosts: AllowedHosts | None = None,
    **options: Any,
) -> Iterator[Site]:
    poller = Still(sight or Sight(snapshot(lock("orders:42", waiters=2), lock("free", None, 1))))
    answers = Answers(poller.sight, status)
    with Server(
        ("127.0.0.1", 0), socket.AF_INET, answers.answer, hosts or AllowedHosts(), **options
    ) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield Site(server, poller)
        finally:
            server.shutdown()
            thread.join()


def get(
    port: int, path: str = "/", method: str = "GET", **headers: str
) -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=15)
    try:
        connection.request(method, path, headers={k.replace("_", "-"): v for k, v in headers.items()})
        answer = connection.getresponse()
        return answer, answer.read()
    finally:
        connection.close()


class Dashboard:
    """`rlock dashboard` in a process of its own."""

    def __init__(self, urls: list[str], *words: str, port: int = 0, **extra: str) -> None:
        command = ["dashboard", "--json", "--port", str(port), *words]
        self.process = begin(*command, masters=urls, **extra)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.communicate()
        self.said: dict[str, Any] = json.loads(line)
        self.url: str = self.said["url"]
        self.port = int(self.url.rstrip("/").rpartition(":")[2])

    def snapshot(self) -> dict[str, Any]:
        answer, body = get(self.port, "/api/snapshot")
        assert answer.status == 200, body
        found: dict[str, Any] = json.loads(body)
        return found

    def end(self, number: int) -> tuple[int, str, float]:
        """Its exit status, what it said on stderr, and the seconds that it took to end."""
        began = time.monotonic()
        self.process.send_signal(number)
        _, err = self.process.communicate(timeout=20)
        return self.process.returncode, err, time.monotonic() - began

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
