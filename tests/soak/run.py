"""A run of the soak: workers under a nemesis for some time, then quiet, then the verdict."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from rlock.rules import scripts
from rlock.rules.timing import QUEUE_TTL_S
from rlock.testing.local.embedded import ServerBinary

from . import nemesis
from .checker import (
    Finding,
    judge_ends,
    judge_progress,
    judge_safety,
    judge_stalls,
    longest_gaps,
    lost_early,
)
from .crew import Crew
from .fleet import Fleet
from .journal import Records, now_ns
from .nemesis import Field
from .resource import CELLS, Resource, Tally
from .worker import Setup

MASTERS = (
    "kill",
    "rolling",
    "all",
    "stop",
    "disconnect",
    "pause",
    "scripts",
    "sleep",
    "flush",
    "disk",
    "ghosts",
    "clock",
)
NETWORK = ("cut", "hold", "slow", "lose", "reset")
PROCESSES = ("murder", "freeze", "interrupt", "evict")
#: What ``all`` means; the others are for the profiles of the negative controls.
ALL = MASTERS + NETWORK + PROCESSES
FAULTS = {
    "kill": nemesis.kill,
    "rolling": nemesis.rolling,
    "all": nemesis.everything,
    "stop": nemesis.stop,
    "rotate": nemesis.rotate,
    "disconnect": nemesis.disconnect,
    "pause": nemesis.client_pause,
    "scripts": nemesis.script_flush,
    "sleep": nemesis.debug_sleep,
    "flush": nemesis.flush,
    "disk": nemesis.disk,
    "ghosts": nemesis.ghosts,
    "clock": nemesis.clock,
    "cut": nemesis.cut,
    "hold": nemesis.hold,
    "slow": nemesis.slow,
    "crawl": nemesis.crawl,
    "lose": nemesis.lose,
    "lost-replies": nemesis.lost_replies,
    "reset": nemesis.reset,
    "murder": nemesis.murder,
    "freeze": nemesis.freeze,
    "freeze-half": nemesis.freeze_half,
    "behead": nemesis.behead,
    "interrupt": nemesis.interrupt,
    "evict": nemesis.evict,
}
NAMES = ("a", "b", "{c}", "d:4")
#: Beyond the restart guard: so long may a waiter wait when all is well again. Queues of all threads, with
#: long holds among them, on a machine that does other things, too.
PROGRESS_S = 30.0


@dataclass(frozen=True)
class Plan:
    """What a run is to be."""

    seconds: float
    seed: int
    masters: int = 3
    ttl: float = 2.0
    faults: tuple[str, ...] = ALL
    processes: int = 6
    sabotage: str = ""
    names: tuple[str, ...] = NAMES
    holds: str = "mixed"
    request_timeout: float | None = None
    contenders: int = 2
    #: Who goes through the proxies: ``some`` (every second worker), ``all``; ``some/short``: as some, and
    #: those who do not only hold for a moment.
    proxied: str = "some"
    #: A free lock must be had within so many seconds; None: the faults of this run may explain worse.
    stall_s: float | None = None
    progress_s: float = PROGRESS_S
    #: Stop at the first finding. Else a run goes on: one violation must not hide another.
    until_red: bool = False
    #: Wait until what killed processes left has gone; else it is enough that it will go.
    until_gone: bool = True
    keep: Path | None = None
    #: Which server; None: the best that is found.
    server: ServerBinary | None = None


@dataclass
class Result:
    """What a run came to."""

    plan: Plan
    server: str = ""
    findings: list[Finding] = field(default_factory=list)
    red_after_s: float | None = None
    faults: dict[str, int] = field(default_factory=dict)
    attempts: int = 0
    holds: int = 0
    longer_than_ttl: int = 0
    tokens: int = 0
    nested: int = 0
    lost: int = 0
    lost_early: int = 0
    workers: int = 0
    ended: int = 0
    gaps: dict[str, float] = field(default_factory=dict)
    gone_after_s: float | None = None
    left: list[str] = field(default_factory=list)
    tallies: dict[str, Tally] = field(default_factory=dict)
    kept: Path | None = None

    @property
    def red(self) -> bool:
        """Whether a check failed."""
        return bool(self.findings)

    @property
    def failed(self) -> list[str]:
        """The checks that did, in the order of the findings."""
        return list(dict.fromkeys(finding.check for finding in self.findings))


def run(plan: Plan) -> Result:
    """Do it."""
    result = Result(plan)
    worn = _scripts(plan.sabotage)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rlock-soak-")))
        Resource(folder / "resource.db").create().close()
        fleet = stack.enter_context(_fleet(plan, folder))
        result.server = fleet.server
        crew = Crew(plan.processes, folder, lambda number: _setup(plan, folder, fleet, number))
        stack.callback(crew.abolish)
        _Run(plan, result, folder, fleet, crew, worn).go()
        if result.red and plan.keep is not None:
            result.kept = plan.keep / f"seed-{plan.seed}-{int(time.time())}"
            shutil.copytree(folder, result.kept)
    return result


def _fleet(plan: Plan, folder: Path) -> Fleet:
    return Fleet(plan.masters, plan.ttl, folder, plan.server, clocks="clock" in plan.faults)


def _scripts(sabotage: str) -> dict[str, scripts.Script]:
    """The scripts as workers have them in whom this rule is broken; "": none."""
    with ExitStack() as stack:
        if sabotage:
            from ..sabotage import sabotage as broken

            stack.enter_context(broken(sabotage))
        return {script.name: scripts.Script(script.name, script.source) for script in scripts.ALL}


def _setup(plan: Plan, folder: Path, fleet: Fleet, number: int) -> Setup:
    through = plan.proxied == "all" or number % 2 == 0
    return Setup(
        folder=str(folder),
        worker=f"w{number}",
        seed=str(plan.seed),
        urls=fleet.proxied if through else fleet.urls,
        names=list(plan.names),
        ttl=plan.ttl,
        holds=plan.holds if through or plan.proxied != "some/short" else "short",
        request_timeout=plan.request_timeout,
        contenders=plan.contenders,
        sabotage=plan.sabotage,
        tasks=number // 2 % 2 == 1,
    )


class _Run:
    def __init__(
        self,
        plan: Plan,
        result: Result,
        folder: Path,
        fleet: Fleet,
        crew: Crew,
        worn: dict[str, scripts.Script],
    ) -> None:
        self._plan, self._result, self._folder, self._fleet, self._crew = plan, result, folder, fleet, crew
        self._records = Records()
        self._on = Field(fleet, crew, plan.names, worn)
        self._began = time.monotonic()

    def go(self) -> None:
        plan, crew = self._plan, self._crew
        self._await_ready()
        self._began = time.monotonic()
        hands = [
            threading.Thread(target=self._harm, args=(faults, pace, number))
            for number, (faults, pace) in enumerate(self._shares())
        ]
        for hand in hands:
            hand.start()
        self._watch(plan.seconds)
        self._on.over.set()
        for hand in hands:
            hand.join()
        if not (plan.until_red and self._result.red):
            self._fleet.mend()
            crew.wake()
            self._quiet()
        if not (plan.until_red and self._result.red):
            wrong = crew.end()
            self._result.ended = crew.count - len(wrong)
            self._found([Finding("did not end", told) for told in wrong])
            self._records.take(self._folder)
            self._found(judge_ends(self._records, crew.killed))
            self._judge_left()
        else:
            crew.abolish()
        self._sum_up()

    # -- the faults --------------------------------------------------------------------------------

    def _shares(self) -> Iterable[tuple[list[str], float]]:
        """Who does what: two hands for masters and network, so that pairs come up, one for processes."""
        wanted = self._plan.faults
        there = [fault for fault in wanted if fault not in PROCESSES]
        if there:
            yield there, 0.5
        if len(there) > 1:
            yield there, 1.5
        here = [fault for fault in wanted if fault in PROCESSES]
        if here:
            yield here, 0.7

    def _harm(self, faults: list[str], pace: float, number: int) -> None:
        dice = Random(f"{self._plan.seed}/{number}")
        on = self._on
        while not on.over.is_set():
            on.rest(dice.expovariate(1 / pace))
            if on.over.is_set():
                return
            if faults[0] not in PROCESSES and dice.random() < 0.8:
                # Else nobody would get in any more, and nothing could go wrong.
                self._let_live(dice)
            try:
                FAULTS[dice.choice(faults)](on, dice)
            except Exception as error:
                on.log.append(f"the nemesis itself failed: {error!r}")
                on.done["failed"] += 1

    def _let_live(self, dice: Random) -> None:
        wait = self._fleet.quorum_at() - time.monotonic()
        if 0 < wait < 3600:
            self._on.rest(wait + dice.uniform(0.1, 1.0) * self._plan.ttl)

    # -- the watch ---------------------------------------------------------------------------------

    def _await_ready(self) -> None:
        until = time.monotonic() + 30
        while len(self._records.take(self._folder).ready) < self._plan.processes:
            if time.monotonic() > until:
                raise RuntimeError(f"the workers do not start: {self._logs()}")
            time.sleep(0.1)

    def _logs(self) -> str:
        return "\n".join(path.read_text()[-2000:] for path in self._folder.glob("*.log"))

    def _watch(self, seconds: float) -> None:
        """Let them work; with ``until_red`` look at the journals as they grow."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 0.5))
            if self._plan.until_red and self._look():
                return

    def _look(self) -> bool:
        """Whether something is wrong already."""
        self._records.take(self._folder)
        self._found(judge_safety(self._records, self._on.evictions))
        if self._plan.stall_s is not None:
            self._found(judge_stalls(self._records, self._crew.killed, now_ns(), self._plan.stall_s))
        return self._result.red

    def _quiet(self) -> None:
        """All is well again: everybody who waits must get what he waits for."""
        plan = self._plan
        # Those who waited are behind those with long holds, and all behind the guard.
        grown = max(0.0, self._fleet.quorum_at() - time.monotonic())
        began_at = now_ns()
        bound = grown + plan.progress_s
        least = grown + min(2 * plan.ttl, 5.0)
        started = time.monotonic()
        while (spent := time.monotonic() - started) < bound + 1.0:
            time.sleep(0.3)
            self._records.take(self._folder)
            waiting = [
                attempt
                for attempt in self._records.attempts
                if attempt.done_at is None
                and attempt.got_at is None
                and attempt.asked_at < began_at
                and attempt.worker not in self._crew.killed
            ]
            if spent > least and not waiting:
                break
        self._found(judge_progress(self._records, self._crew.killed, began_at, now_ns(), bound))
        self._look()

    def _judge_left(self) -> None:
        began = time.monotonic()
        # A lock goes with its lease, a queue with its last visitor, the note of an eviction with both.
        longest = max(QUEUE_TTL_S, 2 * self._plan.ttl) + 1.0
        while True:
            left = self._fleet.left()
            spent = time.monotonic() - began
            bad = [what for what, seconds in left if seconds > longest]
            if not left or (not bad and not self._plan.until_gone) or spent > longest + 9.0:
                break
            time.sleep(0.2)
        self._result.left = sorted(what for what, _ in left)
        self._result.gone_after_s = None if left else spent
        wrong = self._result.left if self._plan.until_gone else bad
        if wrong:
            self._found([Finding("left behind", f"after {spent:.0f} s: {', '.join(sorted(set(wrong)))}")])

    def _found(self, findings: Iterable[Finding]) -> None:
        known = {finding.key for finding in self._result.findings}
        fresh = [finding for finding in findings if finding.key not in known]
        if fresh and self._result.red_after_s is None:
            self._result.red_after_s = time.monotonic() - self._began
        self._result.findings += fresh

    def _sum_up(self) -> None:
        result, plan = self._result, self._plan
        records = self._records.take(self._folder)
        records.horizon = now_ns()  # all processes have ended: there is no more to come
        self._found(judge_safety(records, self._on.evictions))
        holds = records.holds
        self._found([Finding("nothing happened", f"{len(holds)} holds")] if len(holds) < 10 else [])
        result.faults = dict(sorted(self._on.done.items()))
        result.attempts, result.holds = len(records.attempts), len(holds)
        ttl = plan.ttl * 1e9
        result.longer_than_ttl = sum(1 for hold in holds if hold.valid_to - (hold.got_at or 0) > ttl)
        result.tokens = len({(hold.name, hold.token) for hold in holds})
        result.nested = sum(len(hold.nested) for hold in holds)
        result.lost = sum(1 for hold in holds if hold.lost)
        result.lost_early = len(lost_early(holds, self._on.evictions))
        result.workers = plan.processes + len(self._crew.killed)
        result.gaps = longest_gaps(holds)
        resource = Resource(self._folder / "resource.db")
        result.tallies = {cell: resource.tally(cell) for cell in CELLS}
        resource.close()
        if result.tallies["fenced"].lost:
            self._found([Finding("fenced updates lost", str(result.tallies["fenced"]))])
        for log in sorted(self._folder.glob("*.log")):
            # Also of threads that rlock started, and that it kept alive after it: what was it?
            if "Traceback" in (text := log.read_text(errors="replace")):
                self._found([Finding("exception", f"{log.name}: {text[text.index('Traceback') :][-3000:]}")])
        (self._folder / "nemesis.log").write_text("\n".join(self._on.log) + "\n")
        (self._folder / "findings.txt").write_text("\n".join(map(str, result.findings)) + "\n")
