"""Masters that are far away: each byte of theirs is delayed by a process of its own (``delay.c``).

The round trips can be changed while connections are open, so that one client meets near and far masters.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import statistics
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from .building import run
from .contestant import Failed
from .environments import cached

SOURCE = Path(__file__).with_name("delay.c")


def compiler() -> str:
    """The C compiler of this machine. `Failed`: it has none."""
    for name in (os.environ.get("CC"), "cc", "gcc", "clang"):
        if name and (found := shutil.which(name)):
            return found
    raise Failed("the delay proxy needs a C compiler: no cc, gcc or clang on the path")


def program() -> Path:
    """The compiled proxy, built if this source was not built before. `Failed`: why it cannot be."""
    cc = compiler()

    def build(folder: Path) -> None:
        run([cc, "-O2", "-Wall", "-Werror", "-o", str(folder / "delay"), str(SOURCE)])

    return cached("delay", [SOURCE.read_bytes(), os.uname().machine.encode()], build) / "delay"


class Delay:
    """A proxy in front of some masters; `urls` stand for theirs. Without delay until `set`."""

    def __init__(self, urls: Sequence[str]) -> None:
        ports = []
        for url in urls:
            found = re.fullmatch(r"redis://127\.0\.0\.1:(\d+)", url)
            if found is None:
                raise Failed(f"the delay proxy is for masters on ports of 127.0.0.1, not for {url}")
            ports.append(found[1])
        self._process = subprocess.Popen(
            [str(program()), *ports],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C ends it when its clients have gone, not before
        )
        try:
            own = self._line().split()
        except Failed:
            self.close()
            raise
        self.urls = [f"redis://127.0.0.1:{port}" for port in own]

    @property
    def pid(self) -> int:
        return self._process.pid

    def set(self, *rtt_ms: float) -> None:
        """From now on the masters are so far away: one round trip for each, or one for all."""
        each = rtt_ms * len(self.urls) if len(rtt_ms) == 1 else rtt_ms
        if len(each) != len(self.urls) or min(each) < 0:
            raise ValueError(f"{len(self.urls)} masters cannot be {rtt_ms} ms away")
        assert self._process.stdin is not None
        self._process.stdin.write((" ".join(str(round(ms * 1000)) for ms in each) + "\n").encode())
        self._process.stdin.flush()
        if self._line() != "ok":
            raise Failed("the delay proxy does not obey")

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().decode().strip()
        if not line:
            raise Failed("the delay proxy has ended")
        return line

    def close(self) -> None:
        """End it. Twice is once."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None and not stream.closed:
                stream.close()

    def __enter__(self) -> Delay:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def round_trip_us(url: str, count: int = 20) -> float:
    """What a PING takes: the median of some, one after another, from a connection that is open already."""
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
