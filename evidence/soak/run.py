"""A run of the soak: its plan, workers under a nemesis for some time, then quiet, then the verdict."""

from __future__ import annotations

import re
import shutil
import tempfile
import threading
import time
from collections.abc import Collection, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

from rlock.rules import scripts
from rlock.rules.timing import QUEUE_TTL_S
from rlock.testing.contention import edn
from rlock.testing.contention.checker import Eviction, Finding, judge_safety
from rlock.testing.contention.counter import Count, Counter
from rlock.testing.contention.history import History, stamp
from rlock.testing.contention.journal import SECOND, now_ns
from rlock.testing.contention.order import Harm, judge_order
from rlock.testing.contention.pulse import feel_pulse
from rlock.testing.local.embedded import ServerBinary

from .faults import FAULTS
from .field import Crew, Field, Fleet
from .worker import COUNTERS, Setup

PROCESSES = ("murder", "freeze", "interrupt", "evict")
#: The faults of a run without ``--faults``. `freeze-half` is for `--counter`.
ALL = tuple(name for name in FAULTS if name != "freeze-half")
ONE_MASTER = ("kill", "disk")  # faults of a single master, by which the others lose nothing
CYCLE_S = 90.0  # from one calm to the next, see `Plan.calm_s`
NAMES = ("a", "b", "{c}", "d:4")
#: Beyond the restart guard: so long may a waiter wait when all is well again. Queues of all threads, with
#: long holds among them, on a machine that does other things, too.
PROGRESS_S = 30.0
EXPECTED = ("QuorumUnreachableError", "LeaseLostError")  # errors that a fault explains
#: Ctrl-C within a destructor of redis-py: Python reports and drops it.
DROPPED = re.compile(r"(?s)Exception ignored in: <function \w+Parser\.__del__ .*?\n\nKeyboardInterrupt: \n")


@dataclass(frozen=True)
class Plan:
    seconds: float
    seed: int
    server: ServerBinary
    masters: int = 3
    ttl: float = 2.0
    faults: tuple[str, ...] = ALL
    processes: int = 6
    sabotage: str = ""
    #: The users of the locks: ``fair``, ``default``, or ``mixed``; ``unfair``: default, and judged as fair.
    order: str = "mixed"
    #: The clocks of the clients run by so much too slow, too fast, or right. Rule 3.1 allows 0.01.
    rate: float = 0.009
    calm_s: float = 0.0  # in each minute and a half masters and network are left alone for so many seconds
    #: The share of attempts that ask for a reader; a fifth of the writers becomes one then.
    readers: float = 0.0
    names: tuple[str, ...] = NAMES
    holds: str = "mixed"
    #: Stop at the first finding. Else a run goes on: one violation must not hide another.
    until_red: bool = False
    keep: Path | None = None
    edn: Path | None = None  # write the history of the run to this file, in EDN


@dataclass
class Result:
    plan: Plan
    server: str = ""
    findings: list[Finding] = field(default_factory=list)
    red_after_s: float | None = None
    faults: dict[str, int] = field(default_factory=dict)
    figures: dict[str, Any] = field(default_factory=dict)
    counts: dict[str, Count] = field(default_factory=dict)
    kept: Path | None = None

    @property
    def red(self) -> bool:
        return bool(self.findings)

    @property
    def failed(self) -> list[str]:
        return list(dict.fromkeys(finding.check for finding in self.findings))


def run(plan: Plan) -> Result:
    result = Result(plan, str(plan.server))
    commands = _scripts(plan.sabotage)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rlock-soak-")))
        fleet = stack.enter_context(Fleet(plan.masters, plan.ttl, plan.server, places=plan.processes))
        crew = Crew(plan.processes, folder, partial(_setup, plan, folder, fleet))
        stack.callback(crew.abolish)
        _Run(plan, result, folder, crew, Field(fleet, crew, plan.names, commands)).go()
        if result.red and plan.keep is not None:
            result.kept = plan.keep / f"seed-{plan.seed}-{int(time.time())}"
            shutil.copytree(folder, result.kept)
    return result


def _scripts(sabotage: str) -> dict[str, scripts.Script]:
    with ExitStack() as stack:
        if sabotage:
            from ..bugs import broken

            stack.enter_context(broken(sabotage))
        return {script.name: scripts.Script(script.name, script.source) for script in scripts.ALL}


def _setup(plan: Plan, folder: Path, fleet: Fleet, number: int, place: int) -> Setup:
    same = ("names", "ttl", "holds", "sabotage", "order", "readers")
    return Setup(
        folder=str(folder),
        worker=f"w{number}",
        seed=str(plan.seed),
        place=place,
        urls=fleet.proxied(place),
        rate=1 + plan.rate * Random(f"{plan.seed}/clock {number}").choice((-1, 0, 1)),
        tasks=(place + 1) // 2 % 2 == 1,
        **{name: getattr(plan, name) for name in same},
    )


class _Run:
    def __init__(self, plan: Plan, result: Result, folder: Path, crew: Crew, on: Field) -> None:
        self._plan, self._result, self._folder, self._crew = plan, result, folder, crew
        self._fleet, self._on = on.fleet, on
        self._history = History()
        self._began = time.monotonic()

    def go(self) -> None:
        plan, crew = self._plan, self._crew
        self._await_ready()
        self._began = time.monotonic()
        hands = [
            threading.Thread(target=self._harm, args=(faults, pace, number))
            for number, (faults, pace) in enumerate(self._shares())
        ]
        hands.append(threading.Thread(target=feel_pulse, args=(self._stalled, self._on.over)))
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
            self._result.figures["ended_by_themselves"] = crew.count - len(wrong)
            self._found([Finding("did not end", told) for told in wrong])
            self._history.take(self._folder)
            self._found(judge_ends(self._history, crew.killed))
            self._judge_left()
        else:
            crew.abolish()
        self._sum_up()

    def _shares(self) -> Iterable[tuple[list[str], float]]:
        """The faults of each thread: two for masters and network, for pairs of faults; one for processes."""
        there = [fault for fault in self._plan.faults if fault not in PROCESSES]
        here = [fault for fault in self._plan.faults if fault in PROCESSES]
        for faults, pace, least in ((there, 0.5, 1), (there, 1.5, 2), (here, 0.7, 1)):
            if len(faults) >= least:
                yield faults, pace

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
            spent = time.monotonic() - self._began
            calm = spent % CYCLE_S - (CYCLE_S - self._plan.calm_s)
            if faults[0] not in PROCESSES and calm > 0:
                on.rest(self._plan.calm_s - calm)
                continue
            name, begin = dice.choice(faults), now_ns()
            try:
                FAULTS[name](on, dice)
            except Exception as error:
                on.log.append(f"the nemesis itself failed: {error!r}")
                on.done["failed"] += 1
            if name not in PROCESSES:
                masters = 1 if name in ONE_MASTER else len(self._fleet)
                on.harms.append(Harm(begin, now_ns(), masters))

    def _stalled(self, begin: int, end: int) -> None:
        """The masters and the proxies share the machine of this process."""
        self._on.harms.append(Harm(begin, end, len(self._fleet)))

    def _let_live(self, dice: Random) -> None:
        wait = self._fleet.quorum_at() - time.monotonic()
        if 0 < wait < 3600:
            self._on.rest(wait + dice.uniform(0.1, 1.0) * self._plan.ttl)

    def _await_ready(self) -> None:
        until = time.monotonic() + 30
        while len(self._history.take(self._folder).idle) < self._plan.processes:
            if time.monotonic() > until:
                logs = [path.read_text()[-2000:] for path in self._folder.glob("*.log")]
                raise RuntimeError(f"the workers do not start: {''.join(logs)}")
            time.sleep(0.1)

    def _watch(self, seconds: float) -> None:
        """Let them work; with ``until_red`` look at the journals as they grow."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 0.5))
            if self._plan.until_red and self._look():
                return

    def _look(self) -> bool:
        self._history.take(self._folder)
        self._found(judge_safety(self._history, self._on.evictions))
        return self._result.red

    def _quiet(self) -> None:
        """All is well again: everybody who waits must get what he waits for."""
        plan = self._plan
        self._history.take(self._folder)  # of half an hour: the reading itself takes long
        # A waiter may be behind long holds, and every acquire is behind the guard.
        grown = max(0.0, self._fleet.quorum_at() - time.monotonic())
        began_at = now_ns()
        bound = grown + PROGRESS_S
        least = grown + min(2 * plan.ttl, 5.0)
        started = time.monotonic()
        while (spent := time.monotonic() - started) < bound + 1.0:
            time.sleep(0.3)
            self._history.take(self._folder)
            waiting = [
                attempt
                for attempt in self._history.attempts
                if attempt.done_at is None
                and not attempt.held
                and attempt.asked_at < began_at
                and attempt.process not in self._crew.killed
            ]
            if spent > least and not waiting:
                break
        # Not until now: what was written behind the horizon may be unread.
        until = self._history.horizon
        self._found(judge_progress(self._history, self._crew.killed, began_at, until, bound))
        self._look()

    def _judge_left(self) -> None:
        # A lock goes with its lease, a queue with its last visitor, the note of an eviction with both.
        longest, until = max(QUEUE_TTL_S, 2 * self._plan.ttl) + 1.0, time.monotonic() + 9.0
        while (bad := self._fleet.left(longest)) and time.monotonic() < until:
            time.sleep(0.2)
        self._found([Finding("left behind", ", ".join(bad))] if bad else [])

    def _found(self, findings: Iterable[Finding]) -> None:
        known = {finding.key for finding in self._result.findings}
        fresh = [finding for finding in findings if finding.key not in known]
        if fresh and self._result.red_after_s is None:
            self._result.red_after_s = time.monotonic() - self._began
        self._result.findings += fresh

    def _sum_up(self) -> None:
        result, plan = self._result, self._plan
        history = self._history.take(self._folder)
        history.horizon = now_ns()  # all processes have ended: there is no more to come
        self._found(judge_safety(history, self._on.evictions))
        result.faults = dict(sorted(self._on.done.items()))
        result.figures |= figures(history, self._on.evictions)
        if plan.edn is not None:
            edn.write(plan.edn, history, self._on.evictions)
        result.figures["workers"] = plan.processes + len(self._crew.killed)
        if result.figures["holds"] < 10:
            self._found([Finding("nothing happened", f"{result.figures['holds']} holds")])
        result.counts = {name: Counter(self._folder / f"counter-{name}").count() for name in COUNTERS}
        if result.counts["fenced"].lost:
            self._found([Finding("fenced updates lost", str(result.counts["fenced"]))])
        if plan.order in ("fair", "unfair"):
            order = judge_order(history, self._on.harms, plan.masters)
            result.figures |= {"waits_in_order": order.judged, "overtaken_excused": order.overtaken}
            self._found(order.findings)
        for attempt in history.attempts:
            if attempt.outcome.endswith("Error") and attempt.outcome not in EXPECTED:
                self._found([Finding("error", str(attempt), (attempt.id,))])
        for log in sorted(self._folder.glob("*.log")):
            # Also of threads that rlock started, and that it kept alive after it: what was it?
            if "Traceback" in (text := DROPPED.sub("", log.read_text(errors="replace"))):
                self._found([Finding("exception", f"{log.name}: {text[text.index('Traceback') :][-3000:]}")])
        (self._folder / "nemesis.log").write_text("\n".join(self._on.log) + "\n")
        (self._folder / "findings.txt").write_text("\n".join(map(str, result.findings)) + "\n")


def figures(history: History, evictions: Iterable[Eviction] = ()) -> dict[str, int]:
    holds, evicted = history.holds, {owner for eviction in evictions for owner in eviction.owners}
    # Lost while validity was left: no overlap, but a promise less.
    early = sum(
        any(not b.valid and b.by < a.valid_until for a, b in pairwise(hold.looks) if a.valid)
        for hold in holds
        if hold.grant.owner not in evicted
    )
    lost = sum(hold.lost for hold in holds)
    attempts = len(history.attempts)
    return {"attempts": attempts, "holds": len(holds), "lost_holds": lost, "lost_before_their_time": early}


def judge_progress(
    history: History, killed: Collection[str], quiet_at: int, until: int, bound_s: float
) -> list[Finding]:
    """Attempts that waited for longer than the bound after the faults had ended."""
    found = []
    for attempt in history.attempts:
        ended_at = (attempt.grant.at if attempt.held else attempt.done_at) or until
        waited = (min(ended_at, until) - max(attempt.asked_at, quiet_at)) / SECOND
        if attempt.timeout < 0 and waited > bound_s and attempt.process not in killed:
            told = f"waited {waited:.1f} s after {stamp(quiet_at)}\n    {attempt}"
            found.append(Finding("progress", told, (attempt.id,)))
    return found


def judge_ends(history: History, killed: Collection[str]) -> list[Finding]:
    """A process that ends by itself brings its attempts to an end first."""
    return [
        Finding("unfinished", f"\n    {attempt}", (attempt.id,))
        for attempt in history.attempts
        if attempt.done_at is None and attempt.process in history.ended.difference(killed)
    ]
