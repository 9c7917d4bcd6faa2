"""Masters that are far away: a process in front of each master delays every byte, in both directions.

    python -m bench.harness.delay PORT

The round trips can be changed while connections are open, so that one client meets near and far masters.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import selectors
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence

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


async def serve(port: int) -> None:
    """Delay the bytes of all connections to this port until stdin ends."""
    delay_s = 0.0
    ended = asyncio.Event()

    def obey() -> None:
        nonlocal delay_s
        if order := os.read(0, 4096):
            delay_s = float(order)
            print("ok", flush=True)
        else:
            ended.set()

    async def pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        """One direction: the bytes keep their order even if the delay becomes shorter."""
        queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        writing = asyncio.create_task(write(queue, target))
        with contextlib.suppress(OSError):
            while data := await source.read(1 << 18):
                queue.put_nowait((time.monotonic() + delay_s, data))
        queue.put_nowait((time.monotonic() + delay_s, b""))
        await writing

    async def write(queue: asyncio.Queue[tuple[float, bytes]], target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while True:
                due, data = await queue.get()
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                if not data:
                    break
                target.write(data)
                await target.drain()
            target.write_eof()

    async def accept(near: asyncio.StreamReader, to_near: asyncio.StreamWriter) -> None:
        far, to_far = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(pass_on(near, to_far), pass_on(far, to_near))
        to_near.close()
        to_far.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    asyncio.get_running_loop().add_reader(0, obey)
    print(server.sockets[0].getsockname()[1], flush=True)
    await ended.wait()
    os._exit(0)  # whatever the connections do


if __name__ == "__main__":
    # `select` waits in microseconds, where `epoll` rounds up to milliseconds.
    asyncio.SelectorEventLoop(selectors.SelectSelector()).run_until_complete(serve(int(sys.argv[1])))
