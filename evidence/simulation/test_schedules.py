"""Random schedules: what was promised is kept in each of them, and the fair order in those without faults."""

from __future__ import annotations

import os
import sys
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from rlock.procedures.contender import Contender
from rlock.rules.waiting import Step
from tests.cli.shell import done
from tests.docs.pages import TOP
from tests.seeds import first_seed

from .faults import ACTS
from .play import Play, play
from .schedules import Setup, drawn

#: A block is a test, so that a slow machine does not run into the time-out of one.
BLOCKS, READING_BLOCKS, SEEDS = 15, 4, 40
ORDERED = 150  # the schedules without faults


def seeds(block: int) -> range:
    first = first_seed() + block * SEEDS
    return range(first, first + SEEDS)


@pytest.mark.parametrize("block", range(BLOCKS))
def test_every_promise_is_kept_whatever_goes_wrong(block: int) -> None:
    for seed in seeds(block):
        outcome = play(drawn(seed))
        assert outcome.violations == [], f"python -m evidence.hunt --seed {seed}: {outcome}"


@pytest.mark.parametrize("block", range(READING_BLOCKS))
def test_no_writer_is_beside_anybody_whatever_goes_wrong(block: int) -> None:
    for seed in seeds(block):
        schedule = drawn(seed)
        reading = replace(schedule, setup=replace(schedule.setup, keeps=0.0, readers=0.6))
        assert play(reading).violations == [], f"seed {seed}"


def test_each_kind_of_fault_happens_in_some_schedule() -> None:
    faults = {step.what for seed in range(2000) for step in drawn(seed).steps}
    assert faults == {"take", *ACTS}, "a kind of fault that never happens tests nothing"


def test_a_seed_has_the_same_history_in_another_process() -> None:
    """Neither addresses nor the order of a set of strings may have a say in it."""

    def replay(hash_seed: str) -> str:
        command = [sys.executable, "-m", "evidence.hunt", "--seed", "5"]
        return done(command, cwd=TOP, env={**os.environ, "PYTHONHASHSEED": hash_seed}).out

    assert replay("1") == replay("2")
    assert "\n".join(play(drawn(5), history=True).history) in replay("3")


@pytest.mark.rule("4.5")
def test_without_faults_no_fair_waiter_is_overtaken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor after a claim that took too long."""
    found = Counter[str]()
    first = first_seed()
    for seed in range(first, first + ORDERED):
        with monkeypatch.context() as patch:
            found += played(seed, patch)
    assert found["waits"] > 3 * ORDERED
    assert not found["overtaken"], f"RLOCK_SEED={first}: {found}"


def played(seed: int, patch: pytest.MonkeyPatch) -> Counter[str]:
    """How many owners of one schedule waited, and how many of them were overtaken."""
    schedule = drawn(seed, setup=Setup(clients=4, jitter=0.005, locks=2))
    schedule = replace(schedule, setup=replace(schedule.setup, readers=0.0))  # which pass waiting writers
    takes = tuple(step for step in schedule.steps if step.what == "take")
    init, step, options = Contender.__init__, Contender.step, Play.options
    patch.setattr(Play, "options", lambda *args, **how: options(*args, **{**how, "fair": True}))
    play = Play(replace(schedule, steps=takes))
    events = play.world.events
    asked, arrived = dict[Contender, float](), dict[Contender, float]()
    served: dict[str, list[float]] = {}  # by lock: when each owner so far began to ask
    found = Counter[str]()

    def begin(self: Contender, *args: Any) -> None:
        init(self, *args)
        asked[self] = events.now

    def note(self: Contender, what: Step) -> None:
        step(self, what)
        if what is Step.TICKET:
            arrived[self] = events.now
        elif what is Step.GRANT:
            before = served.setdefault(self.name, [])
            # Not one whose time was over: it has left the queue, and may still get the lock (`settle`).
            waited = self in arrived and self.place is not None
            found["waits"] += waited
            found["overtaken"] += waited and any(at > arrived[self] for at in before)
            before.append(asked[self])

    patch.setattr(Contender, "__init__", begin)
    patch.setattr(Contender, "step", note)
    assert play.play().violations == []
    return found
