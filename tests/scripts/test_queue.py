"""The queue, on every server found: who gets a place, and to whom the lock is handed."""

from __future__ import annotations

import pytest

from ..scripted import ANNA, BEN, CARA, HEIR, MINE, QUEUE, THEIRS, TICKET, Box, Ear, Ears, owner_of


@pytest.mark.parametrize("ticket", [TICKET + 10, TICKET, 1])
def test_a_ticket_that_is_not_later_than_the_last_one_is_put_behind_it(box: Box, ticket: int) -> None:
    box.acquire(THEIRS)
    box.enqueue(BEN, CARA)
    last = box.line()[CARA]
    assert box.acquire(waiter=ANNA, ticket=ticket)[4] == last + 1
    assert [*box.line().items()][1:] == [(CARA, last), (ANNA, last + 1)]


def test_if_all_who_waited_are_dead_the_lock_is_free_and_everybody_is_told(box: Box, ear: Ear) -> None:
    box.acquire()
    box.enqueue(ANNA, BEN)
    assert box.hand_on(message="free") == [1, MINE, 1, 0, 0]
    assert (box.content(), box.content(QUEUE)) == (None, None)
    assert ear.heard() == ["free"]


def test_fair_a_next_waiter_does_not_get_it_before_its_turn(box: Box, ears: Ears) -> None:
    ears.listen(BEN, HEIR)
    box.acquire()
    box.enqueue(BEN, HEIR)
    assert box.hand_on(next_waiter=HEIR, next_lease_ms=9_000) == [1, MINE, 1, 0, 0]
    assert box.handed_to(BEN)
    assert box.waiters() == [HEIR]
    assert ears.heard() == {BEN: [owner_of(BEN)]}
