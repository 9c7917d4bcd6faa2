"""A release in favour of a waiter of the same process, and by nobody at all, on every server found."""

from __future__ import annotations

import pytest

from .scripted import ANNA, BEN, CARA, CHANNEL, HEIR, MINE, THEIRS, TOKEN, Box, Ear, Ears, owner_of

# -- release: a next waiter, of the caller's own process --------------------------------------------------


def test_barging_a_next_waiter_goes_before_all(box: Box, ear: Ear, ears: Ears) -> None:
    ears.listen(ANNA, BEN)
    box.acquire()
    box.enqueue(BEN, HEIR, CARA)
    assert box.hand_on(next_waiter=HEIR, next_lease_ms=9_000, order="barging") == [
        1,
        MINE,
        1,
        9_000,
        TOKEN + 1,
    ]
    assert box.handed_to(HEIR, within_ms=9_000)
    assert box.waiters() == [BEN, CARA]
    assert (ears.heard(), ear.heard()) == ({}, []), "its process knows"


@pytest.mark.parametrize("behind", [(), (HEIR,), (HEIR, BEN)])
def test_fair_a_next_waiter_gets_it_if_it_is_the_first(box: Box, ears: Ears, behind: tuple[str, ...]) -> None:
    ears.listen(BEN, HEIR)
    box.acquire()
    if behind:
        box.enqueue(*behind)
    assert box.hand_on(next_waiter=HEIR, next_lease_ms=9_000) == [1, MINE, 1, 9_000, TOKEN + 1]
    assert box.handed_to(HEIR, within_ms=9_000)
    assert box.waiters() == [*behind[1:]]
    assert ears.heard() == {}


def test_fair_a_next_waiter_does_not_get_it_before_its_turn(box: Box, ears: Ears) -> None:
    ears.listen(BEN, HEIR)
    box.acquire()
    box.enqueue(BEN, HEIR)
    assert box.hand_on(next_waiter=HEIR, next_lease_ms=9_000) == [1, MINE, 1, 0, 0]
    assert box.handed_to(BEN)
    assert box.waiters() == [HEIR]
    assert ears.heard() == {BEN: [owner_of(BEN)]}


def test_fair_a_next_waiter_behind_the_dead_is_told_like_anybody(box: Box, ears: Ears) -> None:
    ears.listen(HEIR)
    box.acquire()
    box.enqueue(BEN, HEIR)
    assert box.hand_on(next_waiter=HEIR, next_lease_ms=9_000) == [1, MINE, 1, 0, 0]
    assert box.handed_to(HEIR)
    assert ears.heard() == {HEIR: [owner_of(HEIR)]}


# -- release by nobody: a free lock is handed on -----------------------------------------------------------


def test_a_release_by_nobody_hands_on_a_free_lock(box: Box, ear: Ear, ears: Ears) -> None:
    ears.listen(BEN)
    box.enqueue(ANNA, BEN, CARA)
    assert box.release("", CHANNEL) == [0, "", 1, 0, 0]
    assert box.handed_to(BEN)
    assert box.waiters() == [CARA]
    assert (ears.heard(), ear.heard()) == ({BEN: [owner_of(BEN)]}, [])


def test_a_release_by_nobody_takes_a_held_lock_from_nobody(box: Box, ear: Ear, ears: Ears) -> None:
    ears.listen(ANNA)
    box.acquire(THEIRS)
    box.enqueue(ANNA)
    with box.nothing_written():
        assert box.release("", CHANNEL, next_waiter=HEIR, order="barging")[:2] == [-1, THEIRS]
    assert (ears.heard(), ear.heard()) == ({}, [])
