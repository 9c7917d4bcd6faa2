"""Readers and writers in random schedules of faults: one writer, or many readers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.seeds import first_seed

from .play import Outcome, play
from .schedules import drawn

BLOCKS, SEEDS = 4, 40


def played(seed: int) -> Outcome:
    schedule = drawn(seed)
    return play(replace(schedule, setup=replace(schedule.setup, keeps=0.0, readers=0.6)))


@pytest.mark.parametrize("block", range(BLOCKS))
def test_no_writer_is_beside_anybody_whatever_goes_wrong(block: int) -> None:
    first = first_seed() + block * SEEDS
    for seed in range(first, first + SEEDS):
        assert played(seed).violations == [], f"seed {seed}"
