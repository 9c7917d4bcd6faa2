"""Power cuts of masters while clients contend: ``python -m evidence.power_cuts [--cuts 500]``.

Each variant runs fleets of three masters on disks that keep only what was synced (disk.c). A cut kills one,
two or all masters of a fleet at a random instant and starts them again with what their disks kept. The
checker of rlock.testing.contention judges the holds. A control must show overlaps: it leaves out one
condition, and so shows that these cuts find its absence.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis

import rlock
from evidence import bugs
from rlock import events
from rlock.rules import scripts
from rlock.rules.timing import guard_time
from rlock.testing.contention.checker import judge_safety, overlaps
from rlock.testing.contention.history import History
from rlock.testing.contention.journal import Journal, now_ns
from rlock.testing.contention.recorder import Hold, Recorder
from rlock.testing.local.embedded import Master, ServerBinary
from tests.docs.pages import write_scripts
from tests.faults import clock
from tests.servers import raw, servers_found

SOURCE = Path(__file__).with_name("disk.c")
TTL = 3.0  # a busy machine must restart a master before the leases of a cut end
MASTERS, CLIENTS = 3, 3
DURABLE = ("--appendfsync", "always")
EVERY_SECOND = ("--appendfsync", "everysec")


@dataclass(frozen=True)
class Variant:
    """Masters with one configuration, and what the cuts must show."""

    name: str
    settings: Sequence[str]
    guard: bool = True
    #: The configuration of the start after a cut; a clean restart brings the usual one back.
    after_cut: Sequence[str] = ()
    #: A control leaves out a condition of the handshake, or has no guard: overlaps must be found.
    broken: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext
    red: bool = False

    @property
    def waits(self) -> bool:
        return self.guard and self.settings != DURABLE

    @property
    def fleets(self) -> int:
        """Masters that wait need long pauses between cuts, so more fleets make as many cuts."""
        return 10 if self.waits else 4

    @property
    def pause_s(self) -> tuple[float, float]:
        """Between two cuts of a fleet: long enough that a master mostly votes again."""
        if self.after_cut:
            return guard_time(TTL), 2 * guard_time(TTL)
        return (0.5, 5.0) if self.waits else (0.1, 0.8)


def _durability_is_not_remembered() -> contextlib.AbstractContextManager[Any]:
    patches = bugs.Patches()
    patches.script(scripts.HANDSHAKE, "~= 'durable' or not durable then", "~= 'durable' then")
    return patches


VARIANTS = (
    Variant("always", DURABLE),
    Variant("everysec", EVERY_SECOND),
    Variant("everysec, guard off", EVERY_SECOND, guard=False, red=True),
    Variant("everysec, then always", EVERY_SECOND, after_cut=DURABLE),
    Variant(
        "everysec, then always, not remembered",
        EVERY_SECOND,
        after_cut=DURABLE,
        broken=_durability_is_not_remembered,
        red=True,
    ),
)


class Disk:
    """The disk of one master, which loses unsynced bytes: ``folder / "data"`` is its directory."""

    def __init__(self, library: Path, folder: Path) -> None:
        self.data = folder / "data"
        self.data.mkdir(parents=True)
        self._library, self._folder = library, folder
        self._kept = folder / "kept"
        self._remember()

    def binary(self, server: ServerBinary) -> ServerBinary:
        preload = f'LD_PRELOAD="{self._library}" RLOCK_TEST_DISK="{self._kept}"'
        write_scripts(self._folder, {"on-this-disk": f'{preload} exec "{server.path}" "$@"'})
        return ServerBinary(self._folder / "on-this-disk", server.flavour, server.version)

    def cut(self, master: Master) -> int:
        """Kill the master, and drop all that it had not synced; how many bytes that were."""
        if master.pid is not None:
            os.killpg(master.pid, signal.SIGKILL)  # with the child that rewrites its file
        master.kill()
        lengths: dict[int, int] = {}
        for line in (self._kept / "log").read_text().splitlines():
            inode, length = map(int, line.split())
            lengths[inode] = max(length, lengths.get(inode, 0))
        dropped = 0
        for path in self.files():
            found = path.stat()
            durable = min(found.st_size, lengths.get(found.st_ino, 0))
            dropped += found.st_size - durable
            os.truncate(path, durable)
        self._remember()
        return dropped

    def files(self) -> Iterator[Path]:
        """The files that the server keeps its data in."""
        for path in sorted(self.data.rglob("*")):
            if path.is_file() and not path.name.startswith("server."):
                yield path

    def _remember(self) -> None:
        """The disk as it is now is what a power cut leaves."""
        shutil.rmtree(self._kept, ignore_errors=True)
        self._kept.mkdir()
        lines = []
        for path in self.files():
            found = path.stat()
            os.link(path, self._kept / str(found.st_ino))
            lines.append(f"{found.st_ino} {found.st_size}\n")
        (self._kept / "log").write_text("".join(lines))


class CutFleet:
    """Three masters, the clients that contend on them, and their power cuts."""

    def __init__(
        self, number: int, variant: Variant, server: ServerBinary, library: Path, folder: Path
    ) -> None:
        self._number, self._variant, self._dice = number, variant, random.Random()
        #: The instants of each cut and of the end of its restarts, and the bytes that were dropped.
        self.cuts: list[tuple[int, int, int]] = []
        self.disks = [Disk(library, folder / f"disk-{number}-{i}") for i in range(MASTERS)]
        self.masters = [Master(disk.binary(server), directory=disk.data) for disk in self.disks]
        for i in range(MASTERS):
            self._start(i, variant.settings)
        if variant.guard:
            with self._client() as client:
                client.init()
        self._journals = [Journal(folder, f"{number}-{i}") for i in range(CLIENTS)]
        self._granted, self._over = threading.Event(), threading.Event()

    def run(self, cuts: int, enough: threading.Event) -> None:
        pool = ThreadPoolExecutor(CLIENTS)
        contending = [pool.submit(self._contend, i > 0, journal) for i, journal in enumerate(self._journals)]
        try:
            while len(self.cuts) < cuts and not enough.is_set():
                time.sleep(self._dice.uniform(*self._variant.pause_s))
                if self._variant.after_cut or self._dice.random() < 0.5:
                    # Soon after a grant: then its votes are not synced yet.
                    self._granted.clear()
                    self._granted.wait(TTL)
                    time.sleep(self._dice.uniform(0.0, 0.2))
                self._cut()
            time.sleep(TTL)
        finally:
            self._over.set()
            pool.shutdown()
            for master in self.masters:
                master.close()
        for each in contending:
            each.result()

    def _cut(self) -> None:
        count = self._dice.choice((2, 3) if self._variant.after_cut else (1, 2, 3))
        chosen = self._dice.sample(range(MASTERS), count)
        if self._variant.settings == DURABLE and self._dice.random() < 0.5:
            # A cut at any point of a rewrite, which renames files, must lose nothing either.
            for master in (self.masters[i] for i in chosen):
                with contextlib.suppress(redis.RedisError), contextlib.closing(raw(master.url)) as server:
                    server.bgrewriteaof()
            time.sleep(self._dice.uniform(0.0, 0.05))
        at = now_ns()
        with ThreadPoolExecutor(count) as at_once:
            dropped = sum(at_once.map(lambda i: self.disks[i].cut(self.masters[i]), chosen))
            time.sleep(self._dice.choice((0.0, self._dice.uniform(0.0, 0.2))))
            settings = self._variant.after_cut or self._variant.settings
            list(at_once.map(lambda i: self._start(i, settings), chosen))
            back_at = now_ns()
            if self._variant.after_cut:
                time.sleep(self._dice.uniform(0.0, TTL / 2))
                list(at_once.map(lambda i: self.masters[i].stop(), chosen))
                list(at_once.map(lambda i: self._start(i, self._variant.settings), chosen))
        self.cuts.append((at, back_at, dropped))

    def _start(self, i: int, settings: Sequence[str]) -> None:
        self.masters[i].args = ("--appendonly", "yes", "--auto-aof-rewrite-percentage", "0", *settings)
        self.masters[i].start()

    def _client(self) -> rlock.Client:
        options: dict[str, Any] = {} if self._variant.guard else {"restart_guard": 0}
        return rlock.Client([master.url for master in self.masters], TTL, max_ttl=TTL, **options)

    def _contend(self, newcomer: bool, journal: Journal) -> None:
        """With one client, or as a newcomer, which has a client for each attempt.

        A newcomer meets a master in the first moment after its restart, an old client later.
        """
        recorder = Recorder(journal, TTL)
        while not self._over.is_set():
            with self._client() as client:
                self._attempt(client, recorder, 0.0)
                while not newcomer and not self._over.is_set():
                    self._attempt(client, recorder, random.choice((0.0, 0.2, 1.0)))

    def _attempt(self, client: rlock.Client, recorder: Recorder, timeout: float) -> None:
        lock = client.lock(f"{self._number}:x", renew=random.random() < 0.5)
        hold_s = random.uniform(0.0, 1.5 * TTL) if random.random() < 0.8 else 0.0

        def work(hold: Hold) -> None:
            self._granted.set()
            hold.keep(hold_s, lambda: not self._over.is_set())

        recorder.attempt(lock, work, timeout=timeout)
        time.sleep(random.uniform(0.0, 0.1))


def play(variant: Variant, cuts: int, servers: Sequence[ServerBinary]) -> tuple[str, bool]:
    """Make the cuts of one variant; the line that tells of them, and whether they show what they must."""
    seen: list[events.Event] = []
    began, history, enough = time.monotonic(), History(), threading.Event()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rlock-cuts-")))
        stack.enter_context(variant.broken())
        library, missing = clock.build(folder, SOURCE)
        if missing:
            raise SystemExit(missing)
        stack.callback(events.observe(seen.append))
        count = min(variant.fleets, cuts)
        fleets = [CutFleet(i, variant, servers[i % len(servers)], library, folder) for i in range(count)]
        at_once = stack.enter_context(ThreadPoolExecutor(count))
        each, more = divmod(cuts, count)
        runs = [at_once.submit(fleet.run, each + (i < more), enough) for i, fleet in enumerate(fleets)]
        while not all(run.done() for run in runs):
            time.sleep(0.5)
            if variant.red and overlaps(history.take(folder).holds):
                enough.set()
        for run in runs:
            run.result()
        history.take(folder)
    withheld = sum(event.event == "master_guarded" for event in seen)
    return _verdict(variant, fleets, history, withheld, time.monotonic() - began)


def _verdict(
    variant: Variant, fleets: Sequence[CutFleet], history: History, withheld: int, seconds: float
) -> tuple[str, bool]:
    found = Counter(finding.check for finding in judge_safety(history))
    cuts = [(number, *cut) for number, fleet in enumerate(fleets) for cut in fleet.cuts]
    during = sum(
        any(
            hold.lock.startswith(f"{number}:") and hold.grant.at <= at and back_at < hold.valid_to
            for hold in history.holds
        )
        for number, at, back_at, _ in cuts
    )
    dropped = sum(bytes_lost > 0 for *_, bytes_lost in cuts)
    tokens = found["token falls"] + found["token shared"]
    if variant.red:
        good = found["overlap"] > 0
    else:
        # A cut shows something if the masters are back while a hold from before it is valid.
        good = not found and during >= len(cuts) / 20
        # Guarded masters withhold dozens of votes for each cut.
        good = good and (dropped > 0 and withheld > 0 if variant.waits else withheld < len(cuts))
    line = (
        f"{variant.name}: {len(cuts)} cuts ({during} within a hold, {dropped} dropped bytes), "
        f"{len(history.holds)} holds, {found['overlap']} overlaps, {tokens} token regressions, "
        f"{withheld} votes withheld"
    )
    wanted = "red, as it must be" if variant.red else "green"
    return f"{line}; {seconds:.0f} s: {wanted if good else 'NOT AS EXPECTED'}", good


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m evidence.power_cuts", description=__doc__)
    parser.add_argument("--cuts", type=int, default=40, help="of each variant (default: %(default)s)")
    parser.add_argument("--control-cuts", type=int, default=500, help="at most, of a control")
    parser.add_argument("--variant", choices=[variant.name for variant in VARIANTS])
    options = parser.parse_args()
    servers = servers_found()
    logging.getLogger("rlock").setLevel(logging.CRITICAL)
    print(f"{options.cuts} cuts each, on {', '.join(map(str, servers))}")
    bad = 0
    for variant in VARIANTS:
        if options.variant in (None, variant.name):
            cuts = options.control_cuts if variant.red else options.cuts
            line, good = play(variant, cuts, servers)
            bad += not good
            print(line, flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
