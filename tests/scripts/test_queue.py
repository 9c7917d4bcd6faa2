"""The queue, on every server found: who gets a place, and to whom the lock is handed."""

from __future__ import annotations

import pytest

from ..scripted import (
    ANNA,
    BEN,
    CARA,
    CHANNEL,
    HEIR,
    MINE,
    QUEUE,
    QUEUE_MS,
    THEIRS,
    TICKET,
    Box,
    Ear,
    Ears,
    owner_of,
)


@pytest.mark.parametrize("ticket", [TICKET + 10, TICKET, 1])
def test_a_ticket_that_is_not_later_than_the_last_one_is_put_behind_it(box: Box, ticket: int) -> None:
    box.acquire(THEIRS)
    box.enqueue(BEN, CARA)
    last = box.line()[CARA]
    assert box.acquire(waiter=ANNA, ticket=ticket)[4] == last + 1
    assert [*box.line().items()][1:] == [(CARA, last), (ANNA, last + 1)]


def test_a_release_hands_the_lock_to_the_first_for_the_time_of_a_claim(
    box: Box, ear: Ear, ears: Ears
) -> None:
    ears.listen(ANNA, BEN)
    box.hold(count=3)
    box.enqueue(ANNA, BEN)
    assert box.hand_on(message="free") == [1, MINE, 1, 0, 0]
    assert box.handed_to(ANNA)
    assert box.waiters() == [BEN]
    assert QUEUE_MS - 5_000 < box.pttl(QUEUE) <= QUEUE_MS
    assert ears.heard() == {ANNA: [owner_of(ANNA)]}
    assert ear.heard() == []


def test_a_release_delivered_twice_hands_on_once(box: Box, ear: Ear, ears: Ears) -> None:
    ears.listen(ANNA, BEN)
    box.acquire()
    box.enqueue(ANNA, BEN)
    box.hand_on()
    with box.nothing_written():
        assert box.hand_on()[:3] == [-1, owner_of(ANNA), 1]
        assert box.release("", CHANNEL)[:3] == [-1, owner_of(ANNA), 1], "nor does one by nobody"
    assert ears.heard() == {ANNA: [owner_of(ANNA)]}
    assert ear.heard() == []


def test_if_all_who_waited_are_dead_the_lock_is_free_and_everybody_is_told(box: Box, ear: Ear) -> None:
    box.acquire()
    box.enqueue(ANNA, BEN)
    assert box.hand_on(message="free") == [1, MINE, 1, 0, 0]
    assert (box.content(), box.content(QUEUE)) == (None, None)
    assert ear.heard() == ["free"]


def test_the_order_is_that_of_the_tickets_and_then_of_the_names(box: Box, ears: Ears) -> None:
    last, eva = "dan:1|s4", "eva:1|s5"
    tickets = {CARA: TICKET, eva: TICKET + 1, ANNA: TICKET + 2, BEN: TICKET + 2, last: TICKET + 3}
    ears.listen(*tickets)
    for waiter in (last, BEN, eva, ANNA, CARA):
        box.wait(waiter, tickets[waiter])
    holder = MINE
    box.acquire(holder)
    for waiter in (CARA, eva, ANNA, BEN, last):
        box.hand_on(holder)
        assert ears.heard() == {waiter: [owner_of(waiter)]}
        assert box.handed_to(waiter)
        holder = owner_of(waiter)


def test_fair_a_next_waiter_does_not_get_it_before_its_turn(box: Box, ears: Ears) -> None:
    ears.listen(BEN, HEIR)
    box.acquire()
    box.enqueue(BEN, HEIR)
    assert box.hand_on(next_waiter=HEIR, next_lease_ms=9_000) == [1, MINE, 1, 0, 0]
    assert box.handed_to(BEN)
    assert box.waiters() == [HEIR]
    assert ears.heard() == {BEN: [owner_of(BEN)]}
