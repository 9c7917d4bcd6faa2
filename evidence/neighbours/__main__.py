"""Run the bad neighbours and print a table: what the others saw, and what the log said.

For each fault there are two sides at the same time: the clients of one have the bad neighbour among their
masters; for those of the other that master is down, which costs its vote and nothing else. Each side has a
client that is alone with its lock, and two that contend for one. The rule for all faults, two request
time-outs after it began: a pair of acquire and release takes at most 1.5 times as long as on the other side
(medians), no lost message keeps the contenders waiting for a second, no acquire raises, a lock that is held
throughout stays held, a client grows by less than 20 MB, and each client writes one to six warnings,
which name the master. The table has the worst of all runs. A red one is repeated: the machine may be busy.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import logging
import math
import mmap
import re
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import rlock
import rlock.asyncio
from rlock.testing.local.binaries import find_servers
from rlock.testing.local.embedded import Masters
from rlock.testing.local.spawn import free_port
from tests.faults.proxy import Proxy
from tests.lock.conftest import eventually

from ..interrupts.scene import drive, within
from .faults import FIRST, LATER, Neighbour, replies

TIMEOUT_S, TTL = 0.3, 3.0
OPTIONS: dict[str, Any] = {"ttl": TTL, "request_timeout": TIMEOUT_S, "restart_guard": 0}
SETTLE_S = 2 * TIMEOUT_S + 1.2  # a claim is lost once, if its message vanished
PAUSE_S = 1.0
GROWTH_MB, WARNINGS = 20.0, 6
CLIENTS = 3
HEAD = ["fault", "slower", "pause", "MB", "noticed", "warnings", "log"]
LONGEST = 70


@dataclass
class Side:
    """A client that is alone with its lock, and two that contend; each holds another lock all the time."""

    name: str
    urls: Sequence[str]
    fair: bool
    tasks: bool
    ended: threading.Event = field(default_factory=threading.Event)
    at: list[float] = field(default_factory=list)  # when the contenders got the lock
    took: list[tuple[float, float]] = field(default_factory=list)  # when a pair began, and its duration
    errors: list[str] = field(default_factory=list)
    threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        for number in range(CLIENTS):
            thread = threading.Thread(target=self._run, args=(number,), daemon=True)
            self.threads.append(thread)
            thread.start()

    def _run(self, number: int) -> None:
        held, name = f"{self.name}-held-{number}", f"{self.name}-alone" if number == 0 else self.name
        try:
            (asyncio.run if self.tasks else drive)(self._work(held, name))
        except BaseException as error:
            self.errors.append(f"{type(error).__name__}: {error}")

    async def _work(self, held: str, name: str) -> None:
        """With a blocking client it awaits nothing."""
        kind: Any = rlock.asyncio.Client if self.tasks else rlock.Client
        client = kind(self.urls, **OPTIONS)
        async with within(client), within(client.lock(held)):
            lock = client.lock(name, fair=self.fair)
            while not self.ended.is_set():
                began = time.monotonic()
                async with within(lock):
                    got = time.monotonic()
                if name == self.name:
                    self.at.append(got)
                else:
                    self.took.append((began, time.monotonic() - began))
                time.sleep(0.001)  # the sides share the processor
            client.lock(held).check()

    def pair(self, since: float) -> float:
        return statistics.median([took for began, took in list(self.took) if began >= since] or [math.inf])

    def pause(self, since: float, until: float) -> float:
        """The longest time in which no contender got the lock."""
        at = [since, *sorted(at for at in list(self.at) if since <= at < until), until]
        return max(later - earlier for earlier, later in itertools.pairwise(at))

    def stop(self) -> None:
        self.ended.set()
        for thread in self.threads:
            thread.join(20.0)
            if thread.is_alive():
                self.errors.append("it does not end")


def resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * mmap.PAGESIZE / 1e6


LONGER = {"messages vanish": 7.0}  # a connection for messages is asked whether it lives every five seconds


@dataclass(frozen=True)
class Row:
    fault: str
    slower: float
    pause: float
    grew_mb: float
    noticed: float  # seconds after it began; -1: no line of the log is due
    warnings: int
    log: str

    def worse(self, other: Row) -> Row:
        figures = ("slower", "pause", "grew_mb", "noticed", "warnings")
        return replace(self, **{name: max(getattr(self, name), getattr(other, name)) for name in figures})

    @property
    def cells(self) -> list[str]:
        noticed = f"{self.noticed:.1f} s" if self.noticed >= 0 else "-"
        figures = [f"{self.slower:.2f}", f"{self.pause:.2f} s", f"{self.grew_mb:.1f}", noticed]
        return [self.fault, *figures, str(self.warnings), _short(self.log)]


def _short(text: str) -> str:
    """The begin of a text, without the addresses of this run."""
    text = re.sub(r"(127\.0\.0\.1|localhost):\d+", "HOST:PORT", text)
    text = re.sub(r"\b[0-9a-f]{12,}\b", "…", text).replace("|", "/").replace("`", "'")
    return f"`{text[:LONGEST]}`" if text else "-"


class Log(logging.Handler):
    """The warnings that name a master, with their instants, until it is closed."""

    def __init__(self, label: str) -> None:
        super().__init__(logging.WARNING)
        self.label, self.lines = label, list[tuple[float, str]]()
        logging.getLogger("rlock").addHandler(self)

    def close(self) -> None:
        logging.getLogger("rlock").removeHandler(self)
        super().close()

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if self.label and self.label in text:
            self.lines.append((time.monotonic(), text))


@dataclass(frozen=True)
class Case:
    fault: str
    masters: int
    tasks: bool
    fair: bool

    def run(self, urls: Sequence[str], seconds: float, seed: int, slower: float) -> tuple[Row, list[str]]:
        bad = Neighbour(urls[0], seed)
        seconds += LONGER.get(self.fault, 0.0)
        proxy = None
        if self.fault in FIRST:
            FIRST[self.fault](bad)
        else:
            proxy = bad.behind_proxy()
        log = bad.open.enter_context(closing(Log(bad.label)))
        sides = [
            Side(f"{name}-{seed}", [url, *urls[1:]], self.fair, self.tasks)
            for name, url in (("bad", bad.url), ("down", f"redis://127.0.0.1:{free_port()}"))
        ]
        with bad.open:
            for side in sides:
                bad.open.callback(side.ended.set)
                side.start()
            if proxy is not None:
                eventually(lambda: min(len(some) for side in sides for some in (side.at, side.took)) > 20, 9)
            before, began = resident_mb(), time.monotonic()
            if proxy is not None:
                LATER[self.fault](bad, proxy)
            peak = before
            while (now := time.monotonic()) < began + SETTLE_S + seconds:
                time.sleep(0.05)
                peak = max(peak, resident_mb())
            grew = (peak - before) / CLIENTS
            ratio = sides[0].pair(began + SETTLE_S) / sides[1].pair(began + SETTLE_S)
            pause, usual = (side.pause(began + SETTLE_S, now) for side in sides)
            for side in sides:
                side.stop()
        named = [line for line in log.lines if line[0] < now and bad.label]
        each = -(-len(named) // CLIENTS)
        red = [f"{error}" for side in sides for error in side.errors]
        red += [f"{ratio:.2f} times slower"] if ratio > slower else []
        red += [f"a pause of {pause:.2f} s"] if pause > usual + PAUSE_S else []
        red += [f"it grew by {grew:.0f} MB"] if grew > GROWTH_MB else []
        red += [f"{each} warnings of each client"] if bad.label and not 1 <= each <= WARNINGS else []
        noticed = max(0.0, named[0][0] - began) if named else -1.0
        said = named[0][1].partition(bad.label)[2].lstrip(" :") if named else ""
        return Row(self.fault, ratio, pause, grew, noticed, each, said), red

    @property
    def words(self) -> list[str]:
        return [str(self.masters), "tasks" if self.tasks else "threads", "fair" if self.fair else "default"]


CROWD_HEAD = "one master of three", "clients", "connections a second", "log lines a minute", "of each client"
CROWD_FAULTS: dict[str, Callable[[Neighbour, Proxy], object]] = {
    "flapping: all connections are reset twice a second": lambda bad, proxy: bad.again_and_again(
        proxy.reset, 0.5
    ),
    "silent: it swallows all": LATER["swallows all"],
    "hostile: it answers anything": LATER["answers anything"],
}


def measure_crowd(fault: str, clients: int, seconds: float) -> list[str]:
    """How often clients connect to one bad master of three, and how many lines they log.

    Each takes and releases a lock of its own twice a second, and holds another one all the time.
    """
    ended = threading.Event()
    with ExitStack() as stack:
        urls = stack.enter_context(Masters(3, next(iter(find_servers())))).urls
        bad = Neighbour(urls[0], 1)
        stack.enter_context(bad.open)
        proxy = bad.behind_proxy()
        urls[0] = proxy.url

        def run(number: int) -> None:
            # A long lease: so many threads may keep a renewal from running for seconds.
            client = rlock.Client(urls, 60.0, max_ttl=60.0, request_timeout=0.5, restart_guard=0)
            with client, client.lock(f"held-{number}") as held:
                while not ended.wait(0.5):
                    with client.lock(f"own-{number}"):
                        pass
                held.check()

        pool = stack.enter_context(ThreadPoolExecutor(clients))
        stack.callback(ended.set)
        runs = []
        for number in range(clients):
            runs.append(pool.submit(run, number))
            time.sleep(0.01)
        time.sleep(2.0)
        log = Log(proxy.url)
        before, began = proxy.accepted, time.monotonic()
        CROWD_FAULTS[fault](bad, proxy)
        time.sleep(seconds)
        took, connections, count = time.monotonic() - began, proxy.accepted - before, len(log.lines)
        log.close()
        ended.set()
        for each in runs:
            each.result(30.0)
    minute = count * 60 / took
    return [fault, str(clients), f"{connections / took:.0f}", f"{minute:.0f}", f"{minute / clients:.1f}"]


def show(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m evidence.neighbours", description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="how long to measure")
    parser.add_argument("--slower", type=float, default=1.5, help="how much slower the clients may get")
    parser.add_argument("--only", action="append", metavar="FAULT", help="faults whose name has this text")
    parser.add_argument("--quick", action="store_true", help="each fault once")
    parser.add_argument("--crowd", type=int, metavar="N", help="N clients: connections and log lines")
    options = parser.parse_args(words)
    if options.crowd:
        seconds = 60.0 if options.seconds == 2.0 else options.seconds
        replies()  # first: it takes seconds
        show(CROWD_HEAD, (measure_crowd(fault, options.crowd, seconds) for fault in CROWD_FAULTS))
        return 0
    every = list(itertools.product((3, 5), (False, True), (False, True)))
    names = [name for name in (*LATER, *FIRST) if any(each in name for each in options.only or [""])]
    cases = [
        Case(name, *how)
        for number, name in enumerate(names)
        for how in (every[number % 4 : number % 4 + 1] if options.quick else every)
    ]
    failed = []
    rows: dict[str, Row] = {}
    replies()  # first: it takes seconds
    with Masters(5, next(iter(find_servers()))) as fleet:
        for number, case in enumerate(cases):
            urls = fleet.urls[: case.masters]
            row, red = case.run(urls, options.seconds, number, options.slower)
            if red:
                print(*case.words, *row.cells, f"red: {'; '.join(red)}; once more", sep="; ", flush=True)
                row, red = case.run(urls, options.seconds, number, options.slower)
            print(*case.words, *row.cells, "red" if red else "green", sep="; ", flush=True)
            rows[case.fault] = rows.get(case.fault, row).worse(row)
            if red:
                failed.append(f"{case.fault} ({', '.join(case.words)}): {'; '.join(red)}")
    show(HEAD, (row.cells for row in rows.values()))
    print(*(f"RED {line}" for line in failed), sep="\n")
    print(f"{len(cases)} neighbours, {len(failed)} red")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
