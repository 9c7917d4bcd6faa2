"""Fleets of leaders on local masters under a nemesis: `python -m evidence.soak.leaders --takeovers 1000`.

Workers tick every few milliseconds in two ways: *asked* ticks ask ``is_leader()`` first, and *told* ticks run
from ``on_started`` until ``on_stopped`` has returned, which takes a while. The nemesis ends, kills, stops or
cuts off the leader of each fleet again and again. A tick of one term after the begin of a later one is an
overlap. A stopped process is told nothing, so the told ticks of its term do not count.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import rlock
from rlock.recipes import leader
from rlock.testing.local.embedded import Masters
from tests.faults.proxy import Proxy

TICK_S, WORKERS = 0.004, 3
#: The part of a lease for which ``on_stopped`` still ticks.
STOPPING = 1 / 8
SIGNALS = {"term": signal.SIGTERM, "kill": signal.SIGKILL, "stop": signal.SIGSTOP}
FAULTS = (*SIGNALS, "cut")
#: Rules that can be left out: the margin before the end of a lease, and the clock in `is_leader`.
MARGIN, CLOCK = "margin", "clock"


def work(urls: Sequence[str], name: str, ttl: float, journal: Path, without: str) -> None:
    """One worker: writes `kind instant token` to its journal until SIGTERM."""
    if without == MARGIN:
        vars(leader)["step_down_margin"] = lambda ttl: 0.0
    if without == CLOCK:
        leader.Leader.is_leader = lambda self: self._leads.is_set()  # type: ignore[method-assign]
    ending = list[int]()  # no event: a handler inside its wait() would wait for ever
    signal.signal(signal.SIGTERM, lambda number, _: ending.append(number))
    file = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    term = [0]

    def note(kind: str, token: int, at: float) -> None:
        os.write(file, f"{kind} {at:.6f} {token}\n".encode())

    def on_started(token: int) -> None:
        note("began", token, time.monotonic())
        term[0] = token

    def on_stopped() -> None:
        time.sleep(ttl * STOPPING)
        token, term[0] = term[0], 0
        note("ended", token, time.monotonic())

    with rlock.Client(urls, ttl=ttl) as client, client.leader(name, on_started, on_stopped) as beat:
        while not ending:
            time.sleep(TICK_S)
            at, told = time.monotonic(), term[0]
            if told:
                note("told", told, at)
            # A stop between these lines is that of a paused holder: the instant is that of the question.
            if beat.is_leader():
                note("asked", told, at)


class Fleet:
    """The workers of one name; the first one reaches the masters by proxies."""

    def __init__(
        self, name: str, urls: Sequence[str], folder: Path, without: str, faults: Sequence[str]
    ) -> None:
        self._faults = faults
        self.name, self.ttl = name, random.uniform(1.0, 2.0)
        self._urls, self._without = urls, without
        self.proxies = [Proxy(url) for url in urls]
        self.journal = folder / name
        self.workers: dict[int, int] = {}
        self._at = 0
        self.leader, self.token = 0, 0
        self.took: dict[str, list[float]] = defaultdict(list)
        #: Terms whose process was stopped.
        self.stopped: set[int] = set()

    def spawn(self, slot: int) -> None:
        """Start the worker of a slot, in a fork of this process."""
        pid = os.fork()
        if not pid:
            try:
                urls = [proxy.url for proxy in self.proxies] if slot == 0 else self._urls
                work(urls, self.name, self.ttl, Path(f"{self.journal}.{os.getpid()}"), self._without)
            finally:
                os._exit(0)  # nobody asks for the status
        self.workers[slot] = pid

    def began(self) -> float | None:
        """The instant at which a later term began, if one has."""
        for slot, pid in self.workers.items():
            journal = Path(f"{self.journal}.{pid}")
            if (slot == self.leader and self.token) or not journal.exists():
                continue
            lines = [line.split() for line in journal.read_text().splitlines() if line.startswith("began")]
            if lines and int(lines[-1][2]) > self.token:
                self.leader, self.token = slot, int(lines[-1][2])
                return float(lines[-1][1])
        return None

    def next_leader(self, since: float) -> float:
        """Seconds until another worker leads."""
        while (at := self.began()) is None:
            assert time.monotonic() < since + 20, f"nobody leads {self.name}"
            time.sleep(0.01)
        return at - since

    def run(self, takeovers: int) -> None:
        """Have so many leaders replaced, one after another."""
        for slot in range(WORKERS):
            self.spawn(slot)
        self.next_leader(time.monotonic())
        for _ in range(takeovers):
            time.sleep(random.uniform(0.2, 0.5))  # the others stand by again
            self.replace(random.choice(self.faults_of(self.leader)))
        for pid in self.workers.values():
            os.kill(pid, signal.SIGTERM)
            os.waitpid(pid, 0)
        for proxy in self.proxies:
            proxy.close()

    def faults_of(self, slot: int) -> Sequence[str]:
        """The faults of one worker: only the first can be cut off, and it is, more often than not."""
        return self._faults if slot == 0 else [fault for fault in self._faults if fault != "cut"] or ["term"]

    def replace(self, fault: str) -> None:
        """Do this to the leader, and wait for the next one."""
        slot, pid = self.leader, self.workers[self.leader]
        began = time.monotonic()
        if fault == "stop":
            self.stopped.add(self.token)
        for proxy in self.proxies if fault == "cut" else ():
            proxy.cut()
        if fault in SIGNALS:
            os.kill(pid, SIGNALS[fault])
        if fault in ("term", "kill"):
            os.waitpid(pid, 0)
        if fault == "term":
            began = float(Path(f"{self.journal}.{pid}").read_text().split()[-2])
        self.took[fault].append(self.next_leader(began))
        if fault in ("term", "kill"):
            self.spawn(slot)
        elif fault == "stop":
            os.kill(pid, signal.SIGCONT)
        for proxy in self.proxies if fault == "cut" else ():
            proxy.mend()

    def overlaps(self) -> Counter[str]:
        """Ticks of a term after the begin of a later one, by kind."""
        lines = [
            line.split()
            for journal in self.journal.parent.glob(f"{self.name}.*")
            for line in journal.read_text().splitlines()
        ]
        begins = sorted((int(token), float(at)) for kind, at, token in lines if kind == "began")
        until = {token: following[1] for (token, _), following in itertools.pairwise(begins)}
        found = Counter(kind for kind, _, _ in lines)
        for kind, at, token in lines:
            counts = kind != "told" or int(token) not in self.stopped
            if counts and float(at) > until.get(int(token), float("inf")):
                found[f"{kind} overlaps"] += 1
        return found


def soak(
    takeovers: int, fleets: int = 6, without: str = "", faults: Sequence[str] = FAULTS
) -> dict[str, Any]:
    """Run the fleets side by side; the figures."""
    folder = Path(tempfile.mkdtemp(prefix="rlock-leaders-"))
    with Masters(3) as masters:
        made = [Fleet(f"beat{i}", masters.urls, folder, without, faults) for i in range(fleets)]
        with ThreadPoolExecutor(fleets) as threads:
            list(threads.map(lambda fleet: fleet.run(-(-takeovers // fleets)), made))
    counts = sum((fleet.overlaps() for fleet in made), Counter[str]())
    takeovers = sum(len(each) for fleet in made for each in fleet.took.values())
    figures: dict[str, Any] = {"takeovers": takeovers}
    for fault in FAULTS:
        # Beyond the ttl, unless it is a clean end.
        took = sorted(
            seconds - (0 if fault == "term" else fleet.ttl) for fleet in made for seconds in fleet.took[fault]
        )
        if took:
            median, p99 = took[len(took) // 2], took[int(len(took) * 0.99)]
            figures[fault] = f"{len(took)}, median {median:.4f} s, p99 {p99:.4f} s, most {took[-1]:.4f} s"
    kinds = ("began", "ended", "asked", "told", "asked overlaps", "told overlaps")
    return figures | {kind: counts[kind] for kind in kinds}


def main() -> int:
    """Run, print the figures; 1: an overlap."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--takeovers", type=int, default=60)
    figures = soak(parser.parse_args().takeovers)
    print(*(f"{name}: {figure}" for name, figure in figures.items()), sep="\n")
    return 1 if figures["asked overlaps"] or figures["told overlaps"] else 0


if __name__ == "__main__":
    sys.exit(main())
