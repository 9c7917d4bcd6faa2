"""The acts of the demonstration, one after another; each leaves marks, and the figures are made of them."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rlock.testing.local.embedded import Master

from .board import OBSERVE_S, ActLine, Board, Progress
from .checker import (
    Kill,
    completed,
    longest_gap,
    lost_updates,
    median,
    next_owner,
    overlaps,
    rate,
    torn_reads,
    wake_ups,
)
from .crew import Crew, CrewError, Member
from .journal import Section, now_ns
from .ledger import Ledger
from .screen import Screen
from .worker import CONTROL, HANDOFF, HOLD, IDLE, TURNS, control_path

CONTROL_S = 1.5
TURNS_S = 3.5
DEGRADED_S = 3.5
HANDOFFS = 30
HANDOFFS_S = 5.0  # at the most
AFTERMATH_S = 1.0  # turns that are taken after the holder's death
#: How long the holder holds before it is killed, in leases: over 1, so that it lives by its renewals, and
#: anywhere in one renewal period, so that what is left of its lease is not the same in every run.
HELD_LEASES = (1.2, 1.53)
NEXT_OWNER_SLACK_S = 0.5  # over the ttl
ORDER_S = 5.0  # for a worker to do what it was told; the machine may be busy
TICK_S = 0.03
FIGURES_S = 0.25

MASTERS_KILLED = 2
TITLES = (
    "without the lock",
    "taking turns",
    "wake-up",
    f"{MASTERS_KILLED} masters killed",
    "holder killed -9",
)


@dataclass
class Marks:
    """When what was done; nanoseconds on the journals' clock."""

    turns: tuple[int, int] = (0, 0)
    degraded: tuple[int, int] = (0, 0)
    kill: Kill | None = None


class Stage:
    """Where the acts take place: masters, workers, and somebody who watches."""

    def __init__(self, board: Board, screen: Screen, directory: Path, ttl: float) -> None:
        self.board = board
        self.screen = screen
        self.directory = directory
        self.ttl = ttl
        self.marks = Marks()

    @property
    def crew(self) -> Crew:
        """The workers."""
        return self.board.crew

    @property
    def masters(self) -> Sequence[Master]:
        """The masters."""
        return self.board.masters

    def wait(
        self,
        until: Callable[[], bool],
        timeout: float,
        act: ActLine | None = None,
        figures: Callable[[], str] | None = None,
    ) -> bool:
        """Watch until something is so, or for a time; whether it is."""
        now = time.monotonic()
        deadline, figures_at = now + timeout, now + FIGURES_S
        while True:
            self.crew.read()
            if act is not None and figures is not None and time.monotonic() >= figures_at:
                act.figures = figures()
                # Not each time: on two cores the arithmetic would be seen in what it measures.
                figures_at = time.monotonic() + FIGURES_S
            while self.board.overheard:
                self.screen.event(self.board.overheard.popleft())
            self.screen.tick()
            if until():
                return True
            if time.monotonic() >= deadline:
                return False
            time.sleep(TICK_S)

    def watch(self, seconds: float, act: ActLine, figures: Callable[[], str]) -> None:
        """Watch for a time."""
        self.wait(lambda: False, seconds, act, figures)

    def rest(self) -> None:
        """Have all workers end what they do."""
        self.crew.order(IDLE)
        self.need(lambda: self.crew.ready, ORDER_S + self.ttl, "the workers did not come to rest")

    def need(self, until: Callable[[], bool], timeout: float, why: str) -> None:
        """Watch until something is so that must become so."""
        if not self.wait(until, timeout):
            raise CrewError(f"{why} within {timeout:g} s")

    def guarded(self) -> list[Section]:
        """The sections under the lock."""
        return [section for section in self.crew.sections if section.phase != CONTROL]


def play(stage: Stage) -> None:
    """All acts, or those up to the first that breaks. Raises `CrewError` when they cannot go on."""
    stage.need(lambda: stage.crew.ready, 2 * ORDER_S, "the workers did not start")
    for act, perform in zip(stage.board.acts, ACTS, strict=True):
        act.progress = Progress.RUNNING
        try:
            perform(stage, act)
        except CrewError:
            act.progress = Progress.FAILED
            raise
        if act.progress is Progress.RUNNING:
            act.progress = Progress.DONE
        if overlaps(stage.guarded()):
            act.progress = Progress.FAILED
        stage.screen.tick()
        if act.progress is Progress.FAILED:
            return


def without_the_lock(stage: Stage, act: ActLine) -> None:
    """The control: the same workers, the same section, no lock."""

    def figures() -> str:
        done = [section for section in stage.crew.sections if section.phase == CONTROL]
        lost = lost_updates(done, Ledger(control_path(stage.directory)).final())
        return f"{lost:,} of {len(completed(done)):,} updates lost, {len(torn_reads(done)):,} torn reads"

    stage.screen.event(f"control: {len(stage.crew)} processes rewrite one file without the lock")
    stage.crew.order(CONTROL)
    stage.watch(CONTROL_S, act, lambda: f"{len(stage.crew.sections):,} sections")
    stage.rest()
    act.figures = figures()


def taking_turns(stage: Stage, act: ActLine) -> None:
    """The same under the lock."""
    stage.screen.event("now under the lock, on a second file; each section nests 1 to 3 more acquires")
    begin_at = now_ns()

    def figures() -> str:
        done = completed(stage.guarded())
        return f"{len(done):,} sections, {rate(done, begin_at, now_ns()):,.0f}/s"

    stage.crew.order(TURNS)
    stage.watch(TURNS_S, act, figures)
    stage.marks.turns = begin_at, now_ns()
    stage.rest()


def wake_up(stage: Stage, act: ActLine) -> None:
    """Two workers hand the lock to each other."""
    pair = random.sample(list(stage.crew), 2)
    stage.screen.event(f"workers {pair[0].number} and {pair[1].number} hand the lock to each other")

    def figures() -> str:
        took = wake_ups(stage.guarded())
        if not took:
            return "no hand-off yet"
        return f"{len(took)} hand-offs, median {median(took):.2f} ms, max {max(took):.2f} ms"

    already = sum(len(member.reader.sections) for member in pair)

    def enough() -> bool:
        return sum(len(member.reader.sections) for member in pair) - already > HANDOFFS + 1

    for member in pair:
        member.order(HANDOFF)
    stage.wait(enough, HANDOFFS_S, act, figures)
    stage.rest()
    act.figures = figures()


def masters_killed(stage: Stage, act: ActLine) -> None:
    """Two of the masters die in the middle of the work."""
    stage.crew.order(TURNS)
    stage.wait(lambda: False, 0.5)
    victims = random.sample(list(stage.masters), MASTERS_KILLED)
    killed_at = now_ns()
    for master in victims:
        master.kill()
    stage.screen.event("SIGKILL to masters " + " and ".join(f":{master.port}" for master in victims))

    def figures() -> str:
        done, now = stage.guarded(), now_ns()
        return (
            f"{rate(done, *stage.marks.turns):,.0f}/s before, {rate(done, killed_at, now):,.0f}/s since; "
            f"longest pause {longest_gap(done, killed_at, now) * 1000:,.0f} ms"
        )

    stage.watch(DEGRADED_S, act, figures)
    stage.marks.degraded = killed_at, now_ns()


def holder_killed(stage: Stage, act: ActLine) -> None:
    """A worker stops in the middle of a rewrite, holds on by its renewals, and is killed."""
    victim = random.choice(list(stage.crew))
    act.figures = f"waiting for worker {victim.number} to get the lock"
    victim.order(HOLD)
    stage.need(
        lambda: victim.reader.half_at is not None, 2 * ORDER_S, "the holder-to-be did not get the lock"
    )
    stage.screen.event(f"worker {victim.number} stops in the middle of a rewrite; the others wait")
    held_s = random.uniform(*HELD_LEASES) * stage.ttl
    stage.watch(held_s, act, lambda: f"worker {victim.number} holds, {_held(victim):.1f} s of {held_s:.1f} s")
    kill = Kill(victim.number, victim.kill())
    stage.marks.kill = kill
    stage.screen.event(
        f"kill -9 {victim.pid} (worker {victim.number}); the lease (ttl {stage.ttl:g} s) has to end"
    )

    def figures() -> str:
        return f"no owner for {(now_ns() - kill.at) / 1e9:.1f} s"

    # One second over what is allowed, so that a lock that comes late is told as late, with its figure.
    allowed = stage.ttl + NEXT_OWNER_SLACK_S + 1.0
    stage.wait(lambda: next_owner(stage.guarded(), kill) is not None, allowed, act, figures)
    heir = next_owner(stage.guarded(), kill)
    if heir is None:
        # Nobody can come to rest any more; the verdict says what that means.
        act.figures = f"nobody got the lock within {allowed:g} s"
        act.progress = Progress.FAILED
        return
    took_s = (heir.entered_at - kill.at) / 1e9
    act.figures = f"next owner after {took_s:.2f} s (ttl {stage.ttl:g} s)"
    stage.screen.event(f"worker {heir.worker} got it {took_s:.2f} s after the kill, and goes on from there")
    stage.wait(lambda: False, AFTERMATH_S)
    stage.rest()
    stage.wait(lambda: False, 2 * OBSERVE_S)  # so that the last picture shows the lock free


def _held(member: Member) -> float:
    inside = member.reader.inside
    return 0.0 if inside is None else (now_ns() - inside.entered_at) / 1e9


ACTS = (without_the_lock, taking_turns, wake_up, masters_killed, holder_killed)
