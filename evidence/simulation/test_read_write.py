"""Readers and writers in random schedules of faults: one writer, or many readers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from rlock.rules.keys import READERS, readers
from rlock.rules.options import LockOptions
from rlock.testing.memory.masters import Master
from tests.seeds import first_seed

from .client import Client
from .play import Outcome, Play
from .schedules import drawn

BLOCKS, SEEDS = 4, 40


class ReadWrite(Play):
    """Most owners are readers."""

    def options(
        self, client: Client, name: str, dice: Random, *, fair: bool, renew: bool = True
    ) -> LockOptions:
        options = super().options(client, name, dice, fair=fair, renew=renew)
        shared = dice.random() < 0.6
        return replace(options, shared=shared, fair=fair or shared, hold_at_least=0.0)


def played(seed: int) -> Outcome:
    schedule = drawn(seed)
    return ReadWrite(replace(schedule, setup=replace(schedule.setup, keeps=0.0))).play()


@pytest.mark.parametrize("block", range(BLOCKS))
def test_no_writer_is_beside_anybody_whatever_goes_wrong(block: int) -> None:
    first = first_seed() + block * SEEDS
    for seed in range(first, first + SEEDS):
        assert played(seed).violations == [], f"seed {seed}"


def one_expiry(genuine: Any, master: Master, among: str, owner: str, lease_ms: str) -> None:
    """Each reader sets the deadline of all."""
    genuine(master, among, owner, lease_ms)
    entry = master.keys[among]
    entry.scores = dict.fromkeys(entry.scores, entry.scores[owner])


def beside_one_reader(genuine: Any, master: Master, keys: Sequence[str], *words: str) -> list[Any]:
    """A writer takes a lock that only one reader has on this master."""
    entry = master.find(keys[0])
    reading = "shared" not in words and entry is not None and READERS in entry.fields
    if reading and len(master.line(readers(keys[0]))) == 1:
        master.keys.pop(keys[0])
    return genuine(master, keys, *words)  # type: ignore[no-any-return]


def stale_token(genuine: Any, master: Master, keys: Sequence[str], *words: str) -> list[Any]:
    """A reader gets a token that is older than the last writer's."""
    reply = genuine(master, keys, *words)
    if "shared" in words and reply[0] == 1:
        reply[6] -= 5_000_000
    return reply  # type: ignore[no-any-return]


#: Each rule is broken in the masters, and must be found in so many schedules. A key that is put back over a
#: writer's is found by evidence/spec/ReadWrite.tla only.
CONTROLS = [
    ("_add_reader", one_expiry, 300),
    ("_acquire", beside_one_reader, 60),
    ("_acquire", stale_token, 20),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "broken", "within"), CONTROLS, ids=lambda each: getattr(each, "__name__", "")
)
def test_a_broken_rule_is_found(method: str, broken: Callable[..., Any], within: int) -> None:
    genuine = getattr(Master, method)
    with patch.object(Master, method, lambda self, *words: broken(genuine, self, *words)):
        assert any(played(seed).violations for seed in range(within)), broken.__doc__
