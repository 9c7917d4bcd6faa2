"""Uncontended acquire + release: rlock against the floor and against redis-py's Lock, on N masters.

    python bench/pair.py [--seconds 20] [--json FILE] [--loop uvloop]

Everything runs interleaved in one process on the same embedded masters: one pair of each contestant in
turn, so that noise of the machine hits all alike. What to read are the ratios, not the milliseconds.

- floor, all: both scripts packed once, written to all N redis-py connections, then all N replies read.
- floor, majority: the same over raw sockets, going on at the q-th reply (stragglers are read later).
- rlock: ``lock.acquire(); lock.release()``.
- rlock.asyncio: the same, awaited, in the event loop in which everything here runs.
- redis-py Lock: on the first master alone (it knows no others).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import select
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import hiredis
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

import rlock
import rlock.asyncio
from rlock.program.local.embedded import Masters
from rlock.rules import scripts
from rlock.rules.quorum import quorum

OWNER = "bench/1/MainThread:" + "0" * 32
TTL = 10.0


def commands(name: str) -> tuple[tuple[str | int, ...], tuple[str | int, ...]]:
    """What one pair sends, the same scripts with the same arguments as the lock's."""
    return (
        scripts.acquire(name, OWNER, 10_000).by_sha(),
        scripts.release(name, OWNER, publish=True).by_sha(),
    )


def connections(urls: list[str]) -> list[Any]:
    opened: list[Any] = []
    for url in urls:
        pool = redis.ConnectionPool.from_url(url, protocol=2, retry=Retry(NoBackoff(), 0))
        connection = pool.make_connection()
        connection.connect()
        for script in (scripts.ACQUIRE, scripts.RELEASE):
            connection.send_command("SCRIPT", "LOAD", script.source)
            connection.read_response()
        opened.append(connection)
    return opened


def floor_all(urls: list[str]) -> Callable[[], None]:
    """The packed fan-out over redis-py's connections, all replies."""
    opened = connections(urls)

    def pair() -> None:
        for command in commands("floor-all"):
            packed = opened[0].pack_command(*command)
            for connection in opened:
                connection.send_packed_command(packed)
            for connection in opened:
                if connection.read_response()[0] != 1:
                    raise RuntimeError("the floor did not get its lock")

    return pair


def floor_majority(urls: list[str]) -> Callable[[], None]:
    """The packed fan-out over bare sockets, going on at the q-th reply."""
    opened = connections(urls)
    poll = select.poll()
    by_fd = {}
    for connection in opened:
        bare = connection._sock
        bare.setblocking(False)
        poll.register(bare.fileno(), select.POLLIN)
        by_fd[bare.fileno()] = (bare, hiredis.Reader(), connection)  # kept, or its socket closes
    sockets = [bare for bare, _, _ in by_fd.values()]
    needed, owed = quorum(len(urls)), [0]

    def pair() -> None:
        for command in commands("floor-majority"):
            packed: Any = hiredis.pack_command(command)  # type: ignore[arg-type]
            for bare in sockets:
                bare.send(packed)
            owed[0] += len(sockets)
            while owed[0] > len(sockets) - needed:
                for fd, _ in poll.poll():
                    bare, reader, _ = by_fd[fd]
                    reader.feed(bare.recv(65536))
                    while reader.gets() is not False:
                        owed[0] -= 1

    return pair


def ours(urls: list[str]) -> Callable[[], None]:
    lock = rlock.Client(urls, TTL).lock("ours")

    def pair() -> None:
        lock.acquire()
        lock.release()

    return pair


def ours_asyncio(urls: list[str]) -> Callable[[], Awaitable[None]]:
    lock = rlock.asyncio.Client(urls, TTL).lock("ours-asyncio")

    async def pair() -> None:
        await lock.acquire()
        await lock.release()

    return pair


def redis_py(urls: list[str]) -> Callable[[], None]:
    lock = redis.Redis.from_url(urls[0]).lock("redis-py", timeout=TTL)

    def pair() -> None:
        lock.acquire()
        lock.release()

    return pair


CONTESTANTS: dict[str, Callable[[list[str]], Callable[[], Awaitable[None] | None]]] = {
    "floor, all": floor_all,
    "floor, majority": floor_majority,
    "rlock": ours,
    "rlock.asyncio": ours_asyncio,
    "redis-py Lock": redis_py,
}


async def measure(urls: list[str], seconds: float) -> dict[str, list[float]]:
    pairs = {name: make(urls) for name, make in CONTESTANTS.items()}
    times: dict[str, list[float]] = {name: [] for name in pairs}
    for pair in pairs.values():
        for _ in range(50):
            if (awaited := pair()) is not None:
                await awaited
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        for name, pair in pairs.items():
            began = time.perf_counter()
            if (awaited := pair()) is not None:
                await awaited
            times[name].append(time.perf_counter() - began)
    return times


def report(count: int, times: dict[str, list[float]]) -> dict[str, Any]:
    medians = {name: statistics.median(values) for name, values in times.items()}
    print(f"\nN = {count}, {len(times['rlock']):,} pairs each, interleaved")
    print(f"  {'':<16} {'p50 ms':>8} {'p99 ms':>8} {'rlock is':>9}")
    rows = {}
    for name, values in times.items():
        p99 = statistics.quantiles(values, n=100)[98]
        ratio = medians["rlock"] / medians[name]
        rows[name] = {"p50_ms": medians[name] * 1e3, "p99_ms": p99 * 1e3, "rlock_ratio": ratio}
        told = "" if name == "rlock" else f"{ratio:7.2f} x"
        print(f"  {name:<16} {medians[name] * 1e3:8.3f} {p99 * 1e3:8.3f} {told:>9}")
    return {"masters": count, "pairs": len(times["rlock"]), "contestants": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20.0, help="for each N (default 20)")
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    parser.add_argument("--loop", choices=["asyncio", "uvloop"], default="asyncio", help="the event loop")
    options = parser.parse_args()
    if options.loop == "uvloop":
        import uvloop

        uvloop.install()
    results = []
    with Masters(5) as masters:
        machine = f"Python {platform.python_version()}, redis-py {redis.__version__}, {masters[0].binary}"
        print(f"{machine}, {platform.machine()}")
        for count in (1, 3, 5):
            results.append(report(count, asyncio.run(measure(masters.urls[:count], options.seconds))))
    if options.json:
        options.json.write_text(json.dumps({"machine": machine, "results": results}, indent=2) + "\n")
    # Budget of the design: at most 1.25 x the packed fan-out over the same connections.
    ratio = results[-1]["contestants"]["floor, all"]["rlock_ratio"]
    print(f"\nN = 5: rlock is {ratio:.2f} x the packed fan-out over redis-py's connections (budget 1.25 x)")
    tasks = max(
        result["contestants"]["rlock.asyncio"]["p50_ms"] / result["contestants"]["rlock"]["p50_ms"]
        for result in results
    )
    print(f"rlock.asyncio is at most {tasks:.2f} x the blocking lock ({options.loop}; budget 1.5 x)")
    sys.exit(0 if ratio <= 1.25 and tasks <= 1.5 else 1)


if __name__ == "__main__":
    main()
