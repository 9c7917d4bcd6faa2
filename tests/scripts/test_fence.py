"""Fencing tokens, on every server found: each owner has one, above all before; confirm and transfer name it.

What the scripts do else is compared with the model, by evidence/simulation/test_model.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis

from ..scripted import ANNA, CLAIM_MS, FENCE, LEASE_MS, LOCK, MINE, READER, THEIRS, TOKEN, Box, owner_of


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
def test_without_leave_for_tokens_acquire_fails_and_takes_nothing(box: Box, rule: str, waiter: str) -> None:
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
    assert box.hand_on(reader=READER)[4] == TOKEN
    assert box.pttl(FENCE) > 0


# -- confirm: it prolongs the very grant that it names, and never makes one

OWNER = owner_of(ANNA)


@pytest.fixture
def handed(box: Box) -> Box:
    """The lock was handed to a waiter with the token TOKEN."""
    box.listen(ANNA)
    assert another_grant(box) == (TOKEN, OWNER)
    assert box.handed_to(ANNA)
    return box


def another_grant(box: Box) -> Any:
    box.release(OWNER)
    box.enqueue(ANNA)
    assert box.hand_on("", token=TOKEN)[0] == 0
    return box.fenced()


#: What has come in between, and the answer.
BETWEEN: dict[str, tuple[Callable[[Box], Any], int]] = {
    "the end of the claim": (lambda box: box.client.delete(LOCK), 0),
    "an eviction and healing": (lambda box: (box.release(OWNER, ban_ms=20_000), box.heal(OWNER)), 0),
    "another owner": (lambda box: (box.client.delete(LOCK), box.acquire(THEIRS)), -1),
    "an attempt of the same waiter": (lambda box: box.acquire(MINE, waiter=ANNA), -1),
    "another hand-off to the same place": (another_grant, -1),
    "that token of another owner": (lambda box: box.client.set(FENCE, f"{TOKEN} {THEIRS}", px=60_000), -1),
    "a fence that was lost": (lambda box: box.client.delete(FENCE), -1),
    "a foreign list": (lambda box: (box.client.delete(LOCK), box.client.lpush(LOCK, OWNER)), -1),
}


@pytest.mark.rule("3.5")
@pytest.mark.parametrize("what", BETWEEN)
def test_behind_anything_else_it_writes_nothing(handed: Box, what: str) -> None:
    """A waiter that was stopped would take its own late confirmation for a lease that never lapsed."""
    happens, code = BETWEEN[what]
    happens(handed)
    before = handed.fenced(), handed.pttl() > CLAIM_MS
    with handed.nothing_written():
        assert handed.confirm(OWNER) == [code]
    assert (handed.fenced(), handed.pttl() > CLAIM_MS) == before


def test_out_of_memory_the_grant_is_prolonged(handed: Box) -> None:
    handed.fill()
    assert handed.confirm(OWNER) == [1]
    assert handed.pttl() > CLAIM_MS


@pytest.mark.parametrize("rule", ["-hget", "-get", "-pexpire", "-exists", "a list"])
def test_a_grant_that_cannot_be_read_or_prolonged_is_an_error(handed: Box, rule: str) -> None:
    user = handed
    if rule == "a list":
        handed.client.delete(FENCE)
        handed.client.lpush(FENCE, f"{TOKEN} {OWNER}")
    else:
        user = handed.restricted(rule)
    if rule == "-exists":
        handed.client.delete(LOCK)
    with handed.nothing_written(), pytest.raises(redis.ResponseError):
        user.call("confirm", [LOCK, FENCE], LEASE_MS, TOKEN, OWNER)


# -- transfer: another owner token in the place of the present one


def test_a_server_without_memory_lets_it_change_hands(box: Box) -> None:
    box.hold()
    box.fill()
    assert box.transfer()[0] == 1
    assert box.content() == ("hash", {THEIRS: "2"})


@pytest.mark.parametrize("command", ["hset", "pexpire"])
def test_without_leave_to_write_it_is_an_error(box: Box, command: str) -> None:
    box.hold()
    with pytest.raises(redis.ResponseError):
        box.restricted(f"-{command}").transfer()
    assert box.pttl() > 0
