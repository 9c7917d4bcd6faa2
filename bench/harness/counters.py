"""Counters of the masters (INFO, MONITOR), and of the kernel for processes (Linux's /proc)."""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import time
from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar
from urllib.parse import urlsplit

import redis

_PAGE = os.sysconf("SC_PAGE_SIZE")


Key = TypeVar("Key", bound=Hashable)


class Counts(NamedTuple):
    """The work of some masters so far, or in an interval.

    `requests` are reads from a socket: a client that pipelines needs fewer than it has commands.
    `scripts` are EVAL and EVALSHA, `script_us` is the time that they ran.
    """

    requests: int
    scripts: int
    script_us: int


class Counters:
    def __init__(self, urls: Sequence[str]) -> None:
        self._masters = [redis.Redis.from_url(url) for url in urls]
        self._before = Counts(0, 0, 0)
        self.start()  # connects, so that no handshake is counted

    def start(self) -> None:
        self._before = self._now()

    def stop(self) -> Counts:
        """The work since `start`, without reading the counters: one request to each master."""
        now, before = self._now(), self._before
        requests, scripts, script_us = (after - first for after, first in zip(now, before, strict=True))
        return Counts(requests - len(self._masters), scripts, script_us)

    def _now(self) -> Counts:
        requests = scripts = script_us = 0
        for master in self._masters:
            # One packet: its two commands are the same number of reads every time.
            packet = master.pipeline(transaction=False)
            packet.info("stats")
            packet.info("commandstats")
            stats, calls = packet.execute()
            requests += stats["total_reads_processed"]
            for found in (calls[key] for key in ("cmdstat_eval", "cmdstat_evalsha") if key in calls):
                scripts += found["calls"]
                script_us += found["usec"]
        return Counts(requests, scripts, script_us)

    def sum(self, section: str, name: str) -> int:
        """One number of INFO, of all masters together."""
        return sum(int(master.info(section).get(name, 0)) for master in self._masters)

    def keys(self) -> int:
        spaces = [space for master in self._masters for space in master.info("keyspace").values()]
        return sum(int(space["keys"]) for space in spaces)

    def close(self) -> None:
        for master in self._masters:
            master.close()

    def __enter__(self) -> Counters:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def requests_in(fleets: Mapping[Key, Sequence[str]], seconds: float, slices: int) -> dict[Key, list[float]]:
    """Commands a second from clients to each set of masters, in each slice of the next seconds (MONITOR).

    Commands of a pipeline count one by one, and commands that a script executes do not. MONITOR costs a
    master a line for each command, so this is for masters that receive few.
    """
    counts = {fleet: [0] * slices for fleet in fleets}
    with contextlib.ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        rests: dict[socket.socket, bytes] = {}
        for fleet, url in [(fleet, url) for fleet, urls in fleets.items() for url in urls]:
            where = urlsplit(url)
            connection = stack.enter_context(
                socket.create_connection((str(where.hostname), where.port or 6379))
            )
            connection.sendall(b"MONITOR\r\n")
            if connection.recv(5) != b"+OK\r\n":
                raise RuntimeError(f"{url} does not let one MONITOR")
            selector.register(connection, selectors.EVENT_READ, fleet)
            rests[connection] = b""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                connection = key.fileobj  # type: ignore[assignment]
                *lines, rests[connection] = (rests[connection] + connection.recv(1 << 20)).split(b"\r\n")
                slice_ = min(slices - 1, int(slices * (1 - left / seconds)))
                counts[key.data][slice_] += sum(b" lua] " not in line.partition(b'"')[0] for line in lines)
    return {fleet: [count * slices / seconds for count in found] for fleet, found in counts.items()}


def family(leader: int) -> list[int]:
    """The processes of a worker: it leads a session of its own, and its runtime may have a launcher."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int(_stat(int(path.name))[3]) == leader:
                found.append(int(path.name))
    return found


def cpu_ns(pids: Iterable[int]) -> int:
    """User and system time of these processes so far, by their clocks (clock_getcpuclockid)."""
    return sum(time.clock_gettime_ns(~pid << 3 | 2) for pid in pids)


def size(pids: Iterable[int]) -> dict[str, int]:
    """How many threads they have, and bytes in memory."""
    stats = [_stat(pid) for pid in pids]
    return {
        "threads": sum(int(fields[17]) for fields in stats),
        "rss_bytes": sum(int(fields[21]) for fields in stats) * _PAGE,
    }


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat behind the name, which may hold blanks: the first one is the state."""
    stats = Path(f"/proc/{pid}/stat").read_text()
    return stats.rpartition(")")[2].split()


def sleep_until(instant_ns: int) -> None:
    time.sleep(max(0.0, (instant_ns - time.monotonic_ns()) / 1e9))
