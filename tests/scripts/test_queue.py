"""The queue, on every server found: who gets a place, and to whom the lock is handed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from ..scripted import (
    ANNA,
    BEN,
    CARA,
    CHANNEL,
    HEIR,
    LEASE_MS,
    MINE,
    QUEUE,
    QUEUE_MS,
    THEIRS,
    TICKET,
    TOKEN,
    Box,
    Ear,
    Ears,
    owner_of,
)


def test_a_refused_waiter_gets_a_place_with_the_ticket_it_asked_for(box: Box) -> None:
    box.hold(THEIRS, count=2)
    before = box.time_us()
    code, holder, count, ttl_ms, ticket, time_us, *_ = box.acquire(waiter=ANNA, ticket=TICKET)
    assert (code, holder, count, ticket) == (-1, THEIRS, 2, TICKET)
    assert 0 < ttl_ms <= LEASE_MS
    assert before <= time_us <= box.time_us()
    assert box.line() == {ANNA: TICKET}
    assert box.content() == ("hash", {THEIRS: "2"})


@pytest.mark.parametrize("ticket", [TICKET + 10, TICKET, 1])
def test_a_ticket_that_is_not_later_than_the_last_one_is_put_behind_it(box: Box, ticket: int) -> None:
    box.acquire(THEIRS)
    box.enqueue(BEN, CARA)
    last = box.line()[CARA]
    assert box.acquire(waiter=ANNA, ticket=ticket)[4] == last + 1
    assert [*box.line().items()][1:] == [(CARA, last), (ANNA, last + 1)]


@pytest.mark.parametrize("order", ["barging", "fair"])
@pytest.mark.parametrize("free", [False, True])
def test_a_second_delivery_leaves_the_place_where_it_is(box: Box, order: str, free: bool) -> None:
    """Free: it is another one's turn, which a fair one is told each time."""
    box.acquire(THEIRS)
    box.enqueue(BEN)
    first = box.acquire(waiter=ANNA, ticket=TICKET + 7, order=order)
    box.enqueue(CARA)
    if free:
        order = "fair"
        box.release(THEIRS)
    for ticket in (TICKET + 7, 0, TICKET + 100):
        line = box.line()
        assert box.acquire(waiter=ANNA, ticket=ticket, order=order)[4] == first[4] == TICKET + 7
        assert box.line() == line


def test_a_place_has_an_expiry_and_every_visit_refreshes_it(box: Box) -> None:
    box.acquire(THEIRS)
    visits: list[Callable[[int], Any]] = [
        lambda queue_ms: box.acquire(waiter=ANNA, ticket=TICKET, queue_ms=queue_ms),
        lambda queue_ms: box.acquire(waiter=ANNA, ticket=TICKET, queue_ms=queue_ms),  # it stands already
        lambda queue_ms: box.wait(ANNA, TICKET, queue_ms),
        lambda queue_ms: box.wait(BEN, TICKET + 1, queue_ms),
    ]
    for i, visit in enumerate(visits):
        queue_ms = QUEUE_MS + 10_000 * i
        visit(queue_ms)
        assert queue_ms - 5_000 < box.pttl(QUEUE) <= queue_ms


def test_one_who_was_handed_the_lock_takes_it_with_a_token_of_its_own(box: Box) -> None:
    """The token of a place is never an owner: what is taken back for the one cannot hurt the other."""
    box.enqueue(ANNA, BEN)
    box.acquire(owner_of(ANNA), lease_ms=5_000)  # as a release does it
    assert box.acquire("anna:9", waiter=ANNA, ticket=TICKET)[:5] == [1, "anna:9", 1, LEASE_MS, 0]
    assert box.content() == ("hash", {"anna:9": "1"})
    assert 5_000 < box.pttl() <= LEASE_MS
    assert box.waiters() == [BEN], "a place now would be handed the lock once more"
    assert box.acquire("ben:9", waiter=BEN, ticket=TICKET)[:2] == [-1, "anna:9"]


def test_one_who_had_a_place_gets_it_back_exactly(box: Box) -> None:
    """Behind the others it would come first on some masters: on each another one, none on a quorum."""
    box.enqueue(ANNA, BEN)
    before = box.line()
    box.client.zrem(QUEUE, ANNA)
    box.acquire(THEIRS)
    ticket = box.acquire(waiter=ANNA, ticket=int(before[ANNA]), rank="kept")[4]
    assert ticket == before[ANNA]
    assert box.line() == before


@pytest.mark.parametrize("held", [True, False])
def test_wait_takes_exactly_the_place_that_it_names_and_a_second_delivery_the_same(
    box: Box, held: bool
) -> None:
    if held:
        box.acquire(THEIRS)
    box.enqueue(BEN, CARA)
    for ticket in (TICKET + 5, TICKET + 5, TICKET - 5):
        assert box.wait(ANNA, ticket)[0] == (1 if held else 0)
        assert box.line() == {BEN: TICKET, CARA: TICKET + 10, ANNA: ticket}


def test_one_call_keeps_the_places_of_many_waiters_except_one_that_was_handed_the_lock(box: Box) -> None:
    box.acquire(owner_of(BEN))
    reply = box.wait(ANNA, TICKET, QUEUE_MS, BEN, TICKET + 1, CARA, TICKET + 2)
    assert reply[:2] == [1, owner_of(BEN)]
    assert box.line() == {ANNA: TICKET, CARA: TICKET + 2}


def test_wait_of_one_who_was_handed_the_lock_takes_no_place(box: Box) -> None:
    """It would be handed the lock once more; the place of another one of its process is no such thing."""
    box.acquire(owner_of(ANNA))
    with box.nothing_written():
        assert box.wait(ANNA)[:2] == [1, owner_of(ANNA)]
    box.wait(HEIR)
    box.wait(ANNA.replace("|", "1|"))
    assert box.waiters() == ["anna:11|s1", HEIR]


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


def test_what_nobody_claims_is_free_after_the_time_of_a_claim(box: Box, ears: Ears) -> None:
    ears.listen(ANNA, BEN)
    box.acquire()
    box.enqueue(ANNA, BEN)
    box.hand_on(claim_ms=15)
    time.sleep(0.03)
    assert box.content() is None
    assert box.waiters() == [BEN]
    assert box.acquire(owner_of(ANNA), order="fair")[:2] == [-3, BEN], "too late"


def test_if_all_who_waited_are_dead_the_lock_is_free_and_everybody_is_told(box: Box, ear: Ear) -> None:
    box.acquire()
    box.enqueue(ANNA, BEN)
    assert box.hand_on(message="free") == [1, MINE, 1, 0, 0]
    assert (box.content(), box.content(QUEUE)) == (None, None)
    assert ear.heard() == ["free"]


def test_an_undo_hands_on_and_tells_nobody_else(box: Box, ear: Ear, ears: Ears) -> None:
    ears.listen(BEN)
    box.acquire()
    box.enqueue(ANNA, BEN)
    assert box.hand_on(message="") == [1, MINE, 1, 0, 0]
    assert box.handed_to(BEN)
    assert box.hand_on(owner_of(BEN), message="") == [1, owner_of(BEN), 0, 0, 0]
    assert box.content() is None
    assert (ears.heard(), ear.heard()) == ({BEN: [owner_of(BEN)]}, [])


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


@pytest.mark.parametrize("held", ["by the caller", "by a stranger", "by nobody"])
def test_a_release_leaves_the_place_of_the_waiter_it_names(box: Box, held: str) -> None:
    owner = owner_of(ANNA)
    if held != "by nobody":
        box.acquire(owner if held == "by the caller" else THEIRS)
    box.enqueue(ANNA, BEN)
    code = {"by the caller": 1, "by a stranger": -1, "by nobody": 0}[held]
    assert box.release(owner, waiter=ANNA)[0] == code
    assert box.waiters() == [BEN]
    assert box.content() == (("hash", {THEIRS: "1"}) if held == "by a stranger" else None)


def test_who_leaves_gives_up_what_was_handed_to_its_place(box: Box, ears: Ears) -> None:
    """It got the lock under the token of an attempt, on other masters."""
    ears.listen(ANNA, BEN)
    box.acquire(owner_of(ANNA))
    box.enqueue(BEN)
    assert box.hand_on(MINE, waiter=ANNA) == [1, MINE, 1, 0, 0]
    assert box.handed_to(BEN)
    with box.nothing_written():
        assert box.hand_on(MINE, waiter=ANNA)[:2] == [-1, owner_of(BEN)]
    assert ears.heard() == {BEN: [owner_of(BEN)]}


def test_barging_a_next_waiter_goes_before_all(box: Box, ear: Ear, ears: Ears) -> None:
    ears.listen(ANNA, BEN)
    box.acquire()
    box.enqueue(BEN, HEIR, CARA)
    reply = box.hand_on(next_waiter=HEIR, next_lease_ms=9_000, order="barging")
    assert reply == [1, MINE, 1, 9_000, TOKEN + 1]
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
