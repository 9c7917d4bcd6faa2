"""Random schedules: what was promised is kept in each of them."""

from __future__ import annotations

import os
import sys
from dataclasses import replace

import pytest

from tests.cli.shell import done
from tests.docs.pages import TOP
from tests.seeds import first_seed

from .faults import ACTS
from .play import play
from .schedules import drawn

#: A block is a test, so that a slow machine does not run into the time-out of one.
BLOCKS, READING_BLOCKS, SEEDS = 15, 4, 40


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
