"""confirm, on every server found: it prolongs the very grant that it names, and never makes one."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import redis

from ..scripted import (
    ANNA,
    CHANNEL,
    CLAIM_MS,
    FENCE,
    LEASE_MS,
    LOCK,
    MINE,
    THEIRS,
    TOKEN,
    Box,
    Ears,
    owner_of,
)

OWNER = owner_of(ANNA)


@pytest.fixture
def handed(box: Box, ears: Ears) -> Box:
    """The lock was handed to a waiter with the token TOKEN."""
    ears.listen(ANNA)
    assert hand(box)
    assert box.fenced() == (TOKEN, OWNER)
    return box


def hand(box: Box) -> Any:
    box.enqueue(ANNA)
    assert box.hand_on("", token=TOKEN)[0] == 0
    return box.handed_to(ANNA)


def test_it_prolongs_the_grant_each_time_and_changes_nothing_else(handed: Box) -> None:
    for _ in range(2):
        cost = handed.cost(lambda box: box.confirm(OWNER))
        assert cost == {"hget": 1, "get": 3, "pexpire": 1}, "one of them by the test"
        assert LEASE_MS - 500 < handed.pttl() <= LEASE_MS
        time.sleep(0.02)
    assert handed.confirm(OWNER) == [1]
    assert (handed.content(), handed.fenced()) == (("hash", {OWNER: "1"}), (TOKEN, OWNER))


def another_grant(box: Box) -> Any:
    box.release(OWNER)
    return hand(box)


#: What has come in between, and the answer.
BETWEEN: dict[str, tuple[Callable[[Box], Any], int]] = {
    "the end of the claim": (lambda box: box.client.delete(LOCK), 0),
    "an eviction": (lambda box: box.release(OWNER, CHANNEL, ban_ms=20_000), 0),
    "an eviction and healing": (lambda box: (box.release(OWNER, ban_ms=20_000), box.heal(OWNER)), 0),
    "another owner who has released": (
        lambda box: (box.client.delete(LOCK), box.acquire(THEIRS), box.release(THEIRS)),
        0,
    ),
    "another owner": (lambda box: (box.client.delete(LOCK), box.acquire(THEIRS)), -1),
    "an attempt of the same waiter": (lambda box: box.acquire(MINE, waiter=ANNA), -1),
    "another hand-off to the same place": (another_grant, -1),
    "an acquire of the same owner": (lambda box: (another_grant(box), box.acquire(OWNER)), -1),
    "a fence that was lost": (lambda box: box.client.delete(FENCE), -1),
    "a foreign hash": (lambda box: (box.client.delete(LOCK), box.client.hset(LOCK, "a", "b")), -1),
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


def test_the_same_token_of_another_owner_is_another_grant(handed: Box) -> None:
    handed.client.set(FENCE, f"{TOKEN} {THEIRS}", px=60_000)
    with handed.nothing_written():
        assert handed.confirm(OWNER) == [-1]
        assert handed.confirm(THEIRS) == [-1]


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
