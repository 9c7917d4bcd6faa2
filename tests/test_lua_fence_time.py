"""Fencing tokens and a master's clock: which proposals it takes, and how long it remembers what it gave."""

from __future__ import annotations

import pytest

from .scripted import FENCE, FENCE_MS, HEIR, LOCK, MINE, THEIRS, TOKEN, Box

DAY_US = 86_400_000_000


@pytest.mark.parametrize("age_us", [0, FENCE_MS * 1000 - DAY_US, FENCE_MS * 1000 + DAY_US])
@pytest.mark.parametrize("way", ["acquire", "next waiter"])
def test_a_proposal_that_is_older_than_the_memory_may_be_below_a_forgotten_token(
    box: Box, way: str, age_us: int
) -> None:
    before = box.time_us()
    if way == "acquire":
        given = box.granted(token=before - age_us)
    else:
        box.client.hset(LOCK, MINE, 1)
        given = box.hand_on(next_waiter=HEIR, token=before - age_us)[4]
    if age_us > FENCE_MS * 1000:
        assert before <= given <= box.time_us()
    else:
        assert given == before - age_us


@pytest.mark.parametrize("way", ["acquire", "next to a higher one", "next waiter", "fence", "heal"])
def test_a_token_that_is_ahead_of_the_time_is_remembered_until_its_own_time_is_over(
    box: Box, way: str
) -> None:
    """A master that forgot it earlier could give its own time, which is lower."""
    token = box.time_us() + DAY_US
    if way == "acquire":
        box.granted(token=token)
    elif way == "next to a higher one":
        box.granted(THEIRS, token=token)
        box.release(THEIRS)
        box.granted(token=TOKEN)
    elif way == "next waiter":
        box.client.hset(LOCK, MINE, 1)
        box.hand_on(next_waiter=HEIR, token=token)
    elif way == "fence":
        box.fence(token=token)
    else:
        box.heal(token=token)
    ahead_ms = DAY_US // 1000
    assert FENCE_MS + ahead_ms - 5_000 < box.pttl(FENCE) <= FENCE_MS + ahead_ms


@pytest.mark.parametrize(("ahead_us", "far"), [(0, False), (-DAY_US, True), (DAY_US, True), (None, True)])
def test_a_grant_tells_the_time_where_the_proposal_is_far_from_it(
    box: Box, ahead_us: int | None, far: bool
) -> None:
    before = box.time_us()
    time_us = box.acquire(token=0 if ahead_us is None else before + ahead_us)[5]
    assert before <= time_us <= box.time_us() if far else time_us == 0
    assert box.acquire(token=0)[5] == 0, "a second delivery takes no notice of it"
