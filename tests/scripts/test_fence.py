"""Fencing tokens, on every server found: each master gives each owner one, above all that it gave before."""

from __future__ import annotations

import pytest
import redis

from ..scripted import (
    ANNA,
    FENCE,
    FENCE_MS,
    HEIR,
    LEASE_MS,
    LOCK,
    MINE,
    OLDER,
    THEIRS,
    TOKEN,
    Box,
    Ears,
    owner_of,
)

#: The last second of the year 2200; the largest whole number that every Lua and every client has exactly.
FAR, LARGEST = 7_289_654_399_999_999, 2**53 - 1


@pytest.mark.parametrize("order", ["barging", "fair"])
def test_a_grant_has_the_token_that_was_proposed(box: Box, order: str) -> None:
    assert box.granted(order=order, token=TOKEN) == TOKEN
    assert box.fenced() == (TOKEN, MINE)


@pytest.mark.rule("3.8")
@pytest.mark.parametrize(
    ("proposal", "given"),
    [
        (TOKEN + 500, TOKEN + 500),
        (TOKEN + 1, TOKEN + 1),
        (TOKEN, TOKEN + 1),
        (TOKEN - 500, TOKEN + 1),
    ],
)
def test_another_owner_has_a_higher_token_whatever_is_proposed(box: Box, proposal: int, given: int) -> None:
    box.granted(THEIRS, token=TOKEN)
    box.release(THEIRS)
    assert box.granted(token=proposal) == given
    assert box.fenced() == (given, MINE)


@pytest.mark.parametrize("proposal", [0, 1, TOKEN, TOKEN + 500])
def test_a_second_delivery_has_the_same_token(box: Box, proposal: int) -> None:
    assert box.granted(token=TOKEN) == TOKEN
    for _ in range(2):
        assert box.granted(token=proposal) == TOKEN
    assert box.fenced() == (TOKEN, MINE)


def test_an_owner_that_gave_the_lock_up_and_comes_again_has_the_same_token(box: Box) -> None:
    """A round that failed is undone; the owner's next one may be won, and nobody was in between."""
    box.granted(token=TOKEN)
    box.release()
    assert box.granted(token=TOKEN + 500) == TOKEN


def test_an_owner_that_comes_again_after_another_one_has_a_higher_token(box: Box) -> None:
    box.granted(OLDER, token=TOKEN)
    box.release(OLDER)
    box.granted(token=TOKEN)
    box.release()
    assert box.granted(OLDER, token=TOKEN) == TOKEN + 2, "delivered late, after the next one has released"


@pytest.mark.parametrize("proposal", [0, 1, TOKEN, FAR, LARGEST])
def test_a_token_of_16_digits_comes_back_exactly(box: Box, proposal: int) -> None:
    given = box.granted(token=proposal)
    assert given == proposal or proposal < TOKEN
    assert box.fenced() == (given, MINE)
    assert box.granted() == given


def test_a_proposal_of_0_takes_the_master_s_time(box: Box) -> None:
    before = box.time_us()
    given = box.granted(token=0)
    assert before <= given <= box.time_us()
    box.release()
    assert given < box.granted(THEIRS, token=0) <= box.time_us()


def test_a_proposal_of_0_is_above_a_token_that_is_ahead_of_the_time(box: Box) -> None:
    box.granted(THEIRS, token=FAR)
    box.release(THEIRS)
    assert box.granted(token=0) == FAR + 1


def test_one_who_was_handed_the_lock_gets_its_token_with_the_claim(box: Box, ears: Ears) -> None:
    """The release proposes it, so that the tokens of all masters are equal."""
    ears.listen(ANNA)
    box.granted(token=TOKEN)
    box.enqueue(ANNA)
    box.hand_on(token=TOKEN + 1)
    assert box.fenced() == (TOKEN + 1, owner_of(ANNA))
    assert box.granted(owner_of(ANNA), waiter=ANNA, token=TOKEN) == TOKEN + 1, "its confirmation"
    assert box.granted("anna:9", waiter=ANNA, token=TOKEN) == TOKEN + 2, "under another owner token"


def test_an_acquire_tells_the_note_with_every_answer(box: Box) -> None:
    note = box.handshake()[1]
    answers = [box.acquire(), box.acquire(), box.acquire(THEIRS), box.acquire(THEIRS, waiter=ANNA)]
    box.client.delete(LOCK)
    answers.append(box.acquire(order="fair"))
    box.put("list")
    answers.append(box.acquire())
    assert [reply[0] for reply in answers] == [1, 1, -1, -1, -3, -2]
    assert {reply[7] for reply in answers} == {note}
    assert box.acquire(guarded=False)[7] == ""


@pytest.mark.parametrize("owner", [MINE, THEIRS])
def test_a_higher_token_is_remembered_as_the_owner_s(box: Box, owner: str) -> None:
    box.client.set(FENCE, f"{TOKEN} {MINE}", px=5_000)
    assert box.fence(owner, TOKEN + 7) == [1, owner, 0, 0, TOKEN + 7]
    assert box.fenced() == (TOKEN + 7, owner)
    assert FENCE_MS - 5_000 < box.pttl(FENCE) <= FENCE_MS


def test_the_same_token_is_the_owner_s_and_nobody_else_s(box: Box) -> None:
    box.granted(token=TOKEN)
    with box.nothing_written():
        assert box.fence(MINE, TOKEN) == [1, MINE, 0, 0, TOKEN]
        assert box.fence(THEIRS, TOKEN) == [-1, THEIRS, 0, 0, TOKEN]
    assert box.fenced() == (TOKEN, MINE)


@pytest.mark.parametrize("owner", [MINE, THEIRS])
def test_a_lower_token_is_refused_with_the_last_one(box: Box, owner: str) -> None:
    box.granted(token=TOKEN)
    with box.nothing_written():
        assert box.fence(owner, TOKEN - 1) == [-1, owner, 0, 0, TOKEN]
        assert box.fence(owner, 1) == [-1, owner, 0, 0, TOKEN]
    assert box.fenced() == (TOKEN, MINE)


@pytest.mark.parametrize(
    ("proposal", "given"), [(TOKEN + 500, TOKEN + 500), (TOKEN, TOKEN + 1), (TOKEN - 500, TOKEN + 1)]
)
def test_a_next_waiter_gets_a_higher_token_with_the_lock(box: Box, proposal: int, given: int) -> None:
    box.granted(token=TOKEN)
    reply = box.hand_on(next_waiter=HEIR, next_owner="anna:77", token=proposal)
    assert reply == [1, MINE, 1, LEASE_MS, given]
    assert box.fenced() == (given, "anna:77")
    assert FENCE_MS - 5_000 < box.pttl(FENCE) <= FENCE_MS
    assert box.granted("anna:77", token=TOKEN + 900) == given, "it is the next waiter's from then on"


def test_out_of_memory_there_is_neither_a_token_nor_a_lock(box: Box) -> None:
    box.fill()
    for proposal in (0, TOKEN):
        with pytest.raises(redis.ResponseError, match="used memory > 'maxmemory'"):
            box.acquire(token=proposal)
    with pytest.raises(redis.ResponseError, match="used memory > 'maxmemory'"):
        box.fence()
    assert (box.content(), box.fenced()) == (None, None)


@pytest.mark.parametrize("rule", ["-set", "-get"])
@pytest.mark.parametrize("waiter", ["", ANNA])
def test_without_leave_for_the_token_an_acquire_is_an_error_and_takes_nothing(
    box: Box, rule: str, waiter: str
) -> None:
    if waiter:
        box.acquire(owner_of(ANNA))  # as a release hands it over
        box.client.delete(FENCE)
    before = box.content()
    user = box.restricted(rule)
    with pytest.raises(redis.ResponseError, match=r"can't run this command|ACL failure"):
        user.acquire(waiter=waiter, guarded=False)
    assert (box.content(), box.fenced()) == (before, None)
    with pytest.raises(redis.ResponseError):
        user.fence()


@pytest.mark.parametrize("garbage", ["", "{0}", "-{0} me:3", "{0}.5 me:3"])
def test_a_text_that_no_script_wrote_is_no_token(box: Box, garbage: str) -> None:
    garbage = garbage.format(TOKEN + 500)
    box.client.set(FENCE, garbage)
    assert box.granted(token=TOKEN) == TOKEN
    assert box.fenced() == (TOKEN, MINE)
    box.client.set(FENCE, garbage)
    assert box.fence(THEIRS, 7) == [1, THEIRS, 0, 0, 7]
    box.client.set(FENCE, garbage)
    assert box.hand_on(next_waiter=HEIR)[4] == TOKEN
    assert box.pttl(FENCE) > 0


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
