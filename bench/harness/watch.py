"""What masters count, and what the kernel knows of processes (Linux's /proc)."""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import time
from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, TypeVar
from urllib.parse import urlsplit

import redis

_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


Key = TypeVar("Key", bound=Hashable)


class Counts(NamedTuple):
    """What some masters have done so far, or between two looks.

    `commands` are those that were executed, those in scripts included; `requests` are reads from a socket,
    of which a client that pipelines needs fewer than it has commands; `scripts` are EVAL and EVALSHA.
    """

    commands: int
    requests: int
    scripts: int

    def since(self, before: Counts, masters: int) -> Counts:
        """Without what the looks themselves were: two commands in one request to each master."""
        return Counts(
            self.commands - before.commands - 2 * masters,
            self.requests - before.requests - masters,
            self.scripts - before.scripts,
        )


class Counters:
    """Connections to masters on which they are asked for their counts."""

    def __init__(self, urls: Sequence[str]) -> None:
        self._masters = [redis.Redis.from_url(url) for url in urls]
        self._before = Counts(0, 0, 0)
        self.start()  # connects, so that no handshake is counted

    def start(self) -> None:
        """Count from now on."""
        self._before = self._now()

    def stop(self) -> Counts:
        """What was done since `start`."""
        return self._now().since(self._before, len(self._masters))

    def _now(self) -> Counts:
        commands = requests = scripts = 0
        for master in self._masters:
            # One packet: its two commands are the same number of reads every time.
            packet = master.pipeline(transaction=False)
            packet.info("stats")
            packet.info("commandstats")
            stats, calls = packet.execute()
            commands += stats["total_commands_processed"]
            requests += stats["total_reads_processed"]
            scripts += sum(calls.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("eval", "evalsha"))
        return Counts(commands, requests, scripts)

    def sum(self, section: str, name: str) -> int:
        """One number of INFO, of all masters together."""
        return sum(int(master.info(section).get(name, 0)) for master in self._masters)

    def keys(self) -> tuple[int, int]:
        """How many keys all masters have, and how many of them never go by themselves."""
        spaces = [space for master in self._masters for space in master.info("keyspace").values()]
        keys = sum(space["keys"] for space in spaces)
        return keys, keys - sum(space["expires"] for space in spaces)

    def close(self) -> None:
        for master in self._masters:
            master.close()

    def __enter__(self) -> Counters:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def requests_in(fleets: Mapping[Key, Sequence[str]], seconds: float) -> dict[Key, int]:
    """How many commands clients send to the masters of each fleet in the next seconds, exactly: MONITOR.

    Those that a script executes are not in it, and none of a pipeline is forgotten. It costs the masters a
    line for each command, so it is for where there are few.
    """
    counts = dict.fromkeys(fleets, 0)
    with contextlib.ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        rests: dict[socket.socket, bytes] = {}
        for fleet, url in [(fleet, url) for fleet, urls in fleets.items() for url in urls]:
            where = urlsplit(url)
            ear = stack.enter_context(socket.create_connection((str(where.hostname), where.port or 6379)))
            ear.sendall(b"MONITOR\r\n")
            if ear.recv(5) != b"+OK\r\n":
                raise RuntimeError(f"{url} does not let one MONITOR")
            selector.register(ear, selectors.EVENT_READ, fleet)
            rests[ear] = b""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                ear = key.fileobj  # type: ignore[assignment]
                *lines, rests[ear] = (rests[ear] + ear.recv(1 << 20)).split(b"\r\n")
                counts[key.data] += sum(b" lua] " not in line.partition(b'"')[0] for line in lines)
    return counts


def family(leader: int) -> list[int]:
    """A contestant's processes: it leads a session of its own, and its runtime may have a launcher."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int(_stat(int(path.name))[3]) == leader:
                found.append(int(path.name))
    return found


def cpu_ns(pids: Iterable[int]) -> int:
    """User and system time of these processes so far, in steps of the kernel's clock (10 ms)."""
    ticks = 0
    for pid in pids:
        fields = _stat(pid)
        ticks += int(fields[11]) + int(fields[12])
    return ticks * _TICK_NS


def size(pids: Iterable[int]) -> dict[str, int]:
    """How many threads they have, and bytes in memory."""
    told = [_stat(pid) for pid in pids]
    return {
        "threads": sum(int(fields[17]) for fields in told),
        "rss_bytes": sum(int(fields[21]) for fields in told) * _PAGE,
    }


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat behind the name, which may hold blanks: the first one is the state."""
    told = Path(f"/proc/{pid}/stat").read_text()
    return told.rpartition(")")[2].split()


def sleep_until(instant_ns: int) -> None:
    time.sleep(max(0.0, (instant_ns - time.monotonic_ns()) / 1e9))
