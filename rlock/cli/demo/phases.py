"""The phases of the demo: control, load, hand-offs, faults. Each notes its instants for the verdict."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from rlock.testing.contention.checker import overlaps
from rlock.testing.contention.counter import Counter
from rlock.testing.contention.figures import completed, delays, hand_offs, longest_gap, rate
from rlock.testing.contention.history import Attempt
from rlock.testing.contention.journal import SECOND, now_ns
from rlock.testing.contention.processes import WorkerError, WorkerProcesses
from rlock.testing.contention.worker import Load
from rlock.testing.local.embedded import Master

LOCK = "rlock-demo:counter"  # the lock that all workers contend for
UNLOCKED_S = 1.5
CONTEND_S = 3.5
DEGRADED_S = 3.5
HANDOFFS = 30
HANDOFFS_S = 5.0  # at most
AFTER_KILL_S = 1.0
#: The time between the grant and the kill, in leases. Over 1: the holder lives by its renewals. A range of
#: one renewal period: the rest of the lease is not the same in every run.
HELD_LEASES = (1.2, 1.53)
NEXT_OWNER_SLACK_S = 0.5  # over the ttl
ORDER_S = 5.0  # for a worker to obey an order on a busy machine
TICK_S = 0.03
#: A waiter that asked later than this before the release may not have been parked yet.
PARKED_NS = 10_000_000
MASTERS_KILLED = 2
#: Seconds between the read and the write of the counter, and between two sections.
UPDATE_S, THINK_S = (0.001, 0.003), (0.0005, 0.002)
#: A waiter needs about 5 ms to ask, subscribe and park. The pause lets the other worker enter.
HANDOFF_HOLD_S, HANDOFF_THINK_S = (0.025, 0.035), (0.01, 0.01)


@dataclass(frozen=True)
class Kill:
    """A worker that was killed while it held the lock."""

    worker: str
    at: int


@dataclass
class Marks:
    """The instants of the phases, on the journals' clock."""

    contend: tuple[int, int] = (0, 0)
    handoffs: tuple[int, int] = (0, 0)
    degraded: tuple[int, int] = (0, 0)
    kill: Kill | None = None


class PhaseFailed(Exception):  # noqa: N818
    """It did not show what it was to show; the text are its figures."""


class Stage:
    """Masters, workers and the output, as the phases use them."""

    def __init__(
        self, masters: Sequence[Master], workers: WorkerProcesses, stream: TextIO, folder: Path, ttl: float
    ) -> None:
        self.masters, self.workers, self.ttl = masters, workers, ttl
        self._stream, self._began = stream, time.monotonic()
        self.marks = Marks()
        self.unlocked = Counter(folder / "counter-without-lock")
        self.counter = Counter(folder / "counter")
        plain, guarded = str(folder / "counter-without-lock"), str(folder / "counter")
        self.without_lock = Load(LOCK, UPDATE_S, THINK_S, counter=plain, unlocked=True)
        self.contend = Load(LOCK, UPDATE_S, THINK_S, counter=guarded, nesting=3)
        self.hand_off = Load(LOCK, HANDOFF_HOLD_S, HANDOFF_THINK_S, counter=guarded)
        self.hold = Load(LOCK, (3600.0, 3600.0), counter=guarded)

    def say(self, text: str) -> None:
        """Print a line."""
        # Without the flush a person at `rlock demo | tee log` sees nothing for 20 s.
        print(f"[{time.monotonic() - self._began:5.1f} s] {text}", file=self._stream, flush=True)

    @property
    def holds(self) -> list[Attempt]:
        """Holds so far."""
        return self.workers.history.holds

    def order(self, load: Load | None) -> None:
        """Give all workers another load."""
        for worker in self.workers.alive:
            worker.order(load)

    def watch(self, seconds: float, until: Callable[[], bool] = lambda: False) -> bool:
        """Let them work for a time, or until a condition holds; whether it holds."""
        deadline = time.monotonic() + seconds
        while True:
            self.workers.read()
            if until():
                return True
            if time.monotonic() >= deadline:
                return False
            time.sleep(TICK_S)

    def need(self, until: Callable[[], bool], timeout: float, failure: str) -> None:
        """Wait for a condition that must come true."""
        if not self.watch(timeout, until):
            raise WorkerError(f"{failure} within {timeout:g} s")

    def rest(self) -> None:
        """Let all workers end their loads."""
        self.order(None)
        self.need(lambda: self.workers.idle, ORDER_S + self.ttl, "the workers did not end their work")


def run(stage: Stage) -> None:
    """Run all phases, up to the first that fails. Raises WorkerError when they cannot go on."""
    stage.need(lambda: stage.workers.idle, 2 * ORDER_S, "the workers did not start")
    for title, perform in PHASES.items():
        try:
            figures = perform(stage)
            if overlaps(stage.holds):
                raise PhaseFailed(figures)
        except (PhaseFailed, WorkerError) as error:
            stage.say(f"{title}: {error} [failed]")
            if isinstance(error, WorkerError):
                raise
            return
        stage.say(f"{title}: {figures} [done]")


def without_the_lock(stage: Stage) -> str:
    """The control: the same processes, the same counter, no lock."""
    stage.say(f"control: {len(stage.workers.alive)} processes raise one counter without the lock")
    stage.order(stage.without_lock)
    stage.watch(UNLOCKED_S)
    stage.rest()
    count = stage.unlocked.count()
    return f"{count.lost:,} of {count.acknowledged:,} updates lost"


def under_the_lock(stage: Stage) -> str:
    """The same under the lock."""
    stage.say("now under the lock, on a second counter; each section nests 1 to 3 more acquires")
    begin_at = now_ns()
    stage.order(stage.contend)
    stage.watch(CONTEND_S)
    stage.marks.contend = begin_at, now_ns()
    stage.rest()
    return f"{len(completed(stage.holds)):,} sections, {rate(stage.holds, *stage.marks.contend):,.0f}/s"


def wake_up(stage: Stage) -> str:
    """Two workers hand the lock to each other."""
    pair = random.sample(stage.workers.alive, 2)
    stage.say(f"{pair[0].name} and {pair[1].name} hand the lock to each other")
    begin_at = now_ns()
    for worker in pair:
        worker.order(stage.hand_off)
    stage.watch(HANDOFFS_S, lambda: len(wake_ups(stage.holds, (begin_at, now_ns()))) >= HANDOFFS)
    stage.rest()
    stage.marks.handoffs = begin_at, now_ns()
    return spread_ms(wake_ups(stage.holds, stage.marks.handoffs))


def masters_killed(stage: Stage) -> str:
    """Two of the masters die while the workers contend."""
    stage.order(stage.contend)
    stage.watch(0.5)
    victims = random.sample(list(stage.masters), MASTERS_KILLED)
    killed_at = now_ns()
    for master in victims:
        master.kill()
    stage.say("SIGKILL to masters " + " and ".join(f":{master.port}" for master in victims))
    stage.watch(DEGRADED_S)
    stage.marks.degraded = since = killed_at, now_ns()
    return (
        f"{rate(stage.holds, *stage.marks.contend):,.0f}/s before, {rate(stage.holds, *since):,.0f}/s since; "
        f"longest pause {longest_pause(stage.holds, since) * 1000:,.0f} ms"
    )


def holder_killed(stage: Stage) -> str:
    """A worker stops in the middle of an update, holds on by its renewals, and is killed."""
    workers = stage.workers
    victim = random.choice(workers.alive)
    victim.order(stage.hold)
    previous = victim.ordered - 1
    stage.need(
        lambda: workers.history.idle[victim.name] == previous and workers.inside(victim),
        2 * ORDER_S,
        f"{victim.name} did not get the lock",
    )
    stage.say(f"{victim.name} stops in the middle of an update; the others wait")
    stage.watch(random.uniform(*HELD_LEASES) * stage.ttl)
    kill = stage.marks.kill = Kill(victim.name, victim.kill())
    stage.say(f"kill -9 {victim.pid} ({victim.name}); the lease (ttl {stage.ttl:g} s) has to end")
    # One second over the bound: a late owner is reported with its figure.
    allowed = stage.ttl + NEXT_OWNER_SLACK_S + 1.0
    stage.watch(allowed, lambda: next_owner(stage.holds, kill) is not None)
    owner = next_owner(stage.holds, kill)
    if owner is None:
        # The workers would wait for the lock without an end, so they cannot be told to rest.
        raise PhaseFailed(f"nobody got the lock within {allowed:g} s")
    took_s = (owner.grant.at - kill.at) / SECOND
    stage.say(f"{owner.process} got it {took_s:.2f} s after the kill, and goes on from there")
    stage.watch(AFTER_KILL_S)
    stage.rest()
    return f"next owner after {took_s:.2f} s (ttl {stage.ttl:g} s)"


def next_owner(holds: list[Attempt], kill: Kill) -> Attempt | None:
    """The first hold after the kill."""
    return next((hold for hold in holds if hold.grant.at > kill.at and hold.process != kill.worker), None)


def wake_ups(holds: list[Attempt], span: tuple[int, int]) -> list[float]:
    """Seconds from each release of the hand-off phase to the next owner's return of acquire."""
    inside = [hold for hold in holds if span[0] <= hold.grant.at <= span[1]]
    return delays(hand_offs(inside, PARKED_NS))


def longest_pause(holds: list[Attempt], span: tuple[int, int]) -> float:
    """The longest time in a span, in seconds, in which nobody got the lock."""
    begin_at, end_at = span
    return longest_gap([begin_at, *(h.grant.at for h in holds if begin_at <= h.grant.at < end_at), end_at])


def spread_ms(times: list[float]) -> str:
    """Median and maximum of wake-ups."""
    if not times:
        return "no hand-off yet"
    median = sorted(times)[len(times) // 2]
    return f"median {median * 1e3:.2f} ms, max {max(times) * 1e3:.2f} ms ({len(times)} hand-offs)"


PHASES: dict[str, Callable[[Stage], str]] = {
    "without the lock": without_the_lock,
    "under the lock": under_the_lock,
    "wake-up": wake_up,
    f"{MASTERS_KILLED} masters killed": masters_killed,
    "holder killed -9": holder_killed,
}
