"""Fencing tokens, on every server found: each master gives each owner one, above all that it gave before."""

from __future__ import annotations

import pytest
import redis

from ..scripted import ANNA, FENCE, FENCE_MS, HEIR, LOCK, MINE, THEIRS, TOKEN, Box, Ears, owner_of

#: The last second of the year 2200; the largest whole number that every Lua and every client has exactly.
FAR, LARGEST = 7_289_654_399_999_999, 2**53 - 1


def test_out_of_memory_there_is_neither_a_token_nor_a_lock(box: Box) -> None:
    box.fill()
    for proposal in (0, TOKEN):
        with pytest.raises(redis.ResponseError, match="used memory > 'maxmemory'"):
            box.acquire(token=proposal)
    with pytest.raises(redis.ResponseError, match="used memory > 'maxmemory'"):
        box.fence()
    assert (box.content(), box.fenced()) == (None, None)


@pytest.mark.parametrize("next_waiter", ["", ANNA])
def test_each_hand_off_gives_a_token_of_its_own(box: Box, ears: Ears, next_waiter: str) -> None:
    """Otherwise a late confirmation of an earlier hand-off to this place would confirm this one."""
    ears.listen(ANNA)
    given = []
    for _ in range(2):
        box.enqueue(ANNA)
        box.hand_on("", next_waiter=next_waiter, order="barging", token=TOKEN)
        given.append(box.fenced())
        assert box.release(owner_of(ANNA))[0] == 1
    assert given == [(TOKEN, owner_of(ANNA)), (TOKEN + 1, owner_of(ANNA))]


@pytest.mark.rule("3.8")
def test_only_where_the_owner_has_the_lock_a_stored_token_is_a_vote(box: Box) -> None:
    """Another owner may have got a lower token there, in a reply that is late, and win with it later."""
    assert box.granted(token=TOKEN) == TOKEN
    assert box.fence(MINE, TOKEN + 5) == [1, MINE, 0, 0, TOKEN + 5]
    assert box.fence(THEIRS, TOKEN + 9) == [0, THEIRS, 0, 0, TOKEN + 9]
    assert box.fence(MINE, TOKEN + 6) == [-1, MINE, 0, 0, TOKEN + 9]


@pytest.mark.rule("3.10")
def test_an_eviction_does_not_hand_the_lock_to_the_place_of_the_evicted_owner(box: Box, ears: Ears) -> None:
    """A late command may have brought the place back."""
    ears.listen(ANNA)
    box.granted(owner=owner_of(ANNA))
    box.enqueue(ANNA)
    assert box.hand_on(owner_of(ANNA), ban_ms=60_000)[0] == 1
    assert (box.content(), box.line()) == (None, {})


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
    assert box.fence(THEIRS, 7) == [0, THEIRS, 0, 0, 7], "stored, and no vote"
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
