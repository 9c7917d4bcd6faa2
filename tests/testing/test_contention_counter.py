"""The counters of the contention kit: a lost update is seen, and a counter that checks tokens loses none."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlock.testing.contention.counter import Count, Counter
from rlock.testing.contention.figures import jain


@pytest.fixture
def counter(tmp_path: Path) -> Counter:
    return Counter(tmp_path / "counter")


def test_updates_one_upon_the_other_are_all_there(counter: Counter) -> None:
    for expected in range(3):
        assert counter.read() == expected
        assert counter.write(expected + 1)
    assert counter.count() == Count(value=3, acknowledged=3, highest_token=0)
    assert counter.count().lost == 0


def test_updates_that_were_overwritten_unseen_are_lost(counter: Counter) -> None:
    for value in (1, 2, 3):
        counter.write(value)
    counter.write(2)  # it read 1, before the second and the third write
    assert (counter.count().acknowledged, counter.count().lost) == (4, 2)


def test_the_token_is_checked_at_the_read_too(counter: Counter) -> None:
    counter.read(1)
    value = counter.read(2)
    # The holder of token 1 was paused. Its write would be lost, although no write with token 2 came before.
    assert not counter.write(1, 1)
    assert counter.write((value or 0) + 1, 2)
    assert counter.read(1) is None
    assert counter.count().lost == 0


def test_the_same_token_may_write_again(counter: Counter) -> None:
    counter.read(5)
    assert counter.write(1, 5)
    assert counter.write(2, 5)


def test_jains_index_is_one_for_equal_shares_and_one_of_k_for_a_monopoly() -> None:
    assert (jain([5, 5, 5, 5]), jain([20, 0, 0, 0]), jain([0, 0]), jain([])) == (1, 0.25, None, None)
