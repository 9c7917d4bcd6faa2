"""Masters that are far away: a process in front of each master delays every byte, in both directions.

    python -m bench.harness.delay PORT

The round trips can be changed while connections are open, so that one client meets near and far masters.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import socket
import statistics
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from .worker import ROOT, Failed


class Delay:
    """A proxy in front of each of some masters; `urls` stand for theirs. Without delay until `set`."""

    def __init__(self, urls: Sequence[str]) -> None:
        self._processes: list[subprocess.Popen[bytes]] = []
        try:
            places = [re.fullmatch(r"(redis://(?:.*@)?127\.0\.0\.1:)(\d+)", url) for url in urls]
            for found in places:
                if found is None:
                    raise Failed("the delay proxy is for masters on ports of 127.0.0.1")
                self._start(found[2])
            ports = [self._line(process) for process in self._processes]
            self.urls = [f"{found[1]}{port}" for found, port in zip(places, ports, strict=True) if found]
        except BaseException:
            self.close()
            raise

    def _start(self, port: str) -> None:
        self._processes.append(
            subprocess.Popen(
                [sys.executable, "-m", "bench.harness.delay", port],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                cwd=ROOT,
                start_new_session=True,  # Ctrl-C ends it when its clients have gone, not before
            )
        )

    def set(self, *rtt_ms: float) -> None:
        """From now on the masters are so far away: one round trip for each, or one for all."""
        each = rtt_ms * len(self.urls) if len(rtt_ms) == 1 else rtt_ms
        if len(each) != len(self.urls) or min(each) < 0:
            raise ValueError(f"{len(self.urls)} masters cannot be {rtt_ms} ms away")
        for process, ms in zip(self._processes, each, strict=True):
            assert process.stdin is not None
            process.stdin.write(f"{ms / 2000}\n".encode())
            process.stdin.flush()
        for process in self._processes:
            self._line(process)

    def _line(self, process: subprocess.Popen[bytes]) -> str:
        assert process.stdout is not None
        line = process.stdout.readline().decode().strip()
        if not line:
            raise Failed("the delay proxy has ended")
        return line

    def close(self) -> None:
        """End it. A second call does nothing."""
        for process in self._processes:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    # Ctrl-C may have come between writing an order and flushing it.
                    with contextlib.suppress(BrokenPipeError):
                        stream.close()

    def __enter__(self) -> Delay:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def round_trip_us(url: str, count: int = 20) -> float:
    """The time of a PING: the median of some, one after another, on a connection that is open already."""
    host, port = url.removeprefix("redis://").split(":")
    took = []
    with socket.create_connection((host, int(port)), timeout=10.0) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(count + 1):
            began = time.monotonic_ns()
            connection.sendall(b"PING\r\n")
            answer = b""
            while not answer.endswith(b"\r\n"):
                read = connection.recv(64)
                if not read:
                    raise Failed(f"{url} has closed the connection")
                answer += read
            took.append(time.monotonic_ns() - began)
    return statistics.median(took[1:]) / 1e3


# -- the process --------------------------------------------------------------------------------------------


@dataclass(eq=False)
class _Way:
    """One direction of one connection: bytes, and the instants from which they may go on."""

    source: socket.socket
    target: socket.socket
    queue: deque[tuple[float, bytes]] = field(default_factory=deque)
    #: The target's buffer is full.
    blocked: bool = False

    def read(self, delay_s: float) -> bool:
        """Take the bytes that have come; False: this was the end of them."""
        try:
            data = self.source.recv(1 << 18)
        except BlockingIOError:
            return True
        except OSError:
            data = b""
        self.queue.append((time.monotonic() + delay_s, data))
        return bool(data)

    def write(self) -> None:
        """Pass on the bytes that are due, in their order even if the delay has become shorter."""
        self.blocked = False
        try:
            while self.queue and self.queue[0][0] <= time.monotonic():
                due, data = self.queue.popleft()
                if not data:
                    self.target.shutdown(socket.SHUT_WR)
                elif rest := data[self.target.send(data) :]:
                    self.queue.appendleft((due, rest))
        except BlockingIOError:
            self.queue.appendleft((due, data))
            self.blocked = True
        except OSError:
            self.queue.clear()


def serve(port: int) -> None:
    """Delay the bytes of all connections to this port until stdin ends. `select` waits in microseconds."""
    listening = socket.create_server(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)
    delay_s = 0.0
    open_ways: dict[socket.socket, _Way] = {}
    active: set[_Way] = set()
    while True:
        due = [way.queue[0][0] for way in active if not way.blocked]
        wait_s = max(0.0, min(due) - time.monotonic()) if due else None
        blocked = {way.target: way for way in active if way.blocked}
        sources: list[socket.socket | int] = [0, listening, *open_ways]
        readable, writable, _ = select.select(sources, [*blocked], [], wait_s)
        for source in readable:
            if isinstance(source, int):
                order = os.read(source, 4096)
                if not order:
                    return
                delay_s = float(order)
                print("ok", flush=True)
            elif source is listening:
                near, far = listening.accept()[0], socket.create_connection(("127.0.0.1", port))
                for one, other in ((near, far), (far, near)):
                    one.setblocking(False)
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    open_ways[one] = _Way(one, other)
            else:
                way = open_ways[source]
                if not way.read(delay_s):
                    del open_ways[source]
                active.add(way)
        now = time.monotonic()
        for target in writable:
            blocked[target].blocked = False
        for way in [way for way in active if not way.blocked and way.queue[0][0] <= now]:
            way.write()
            if not way.queue:
                active.discard(way)


if __name__ == "__main__":
    serve(int(sys.argv[1]))
