"""The note of a master's memory, on every server found: what reads it, and raises the longest lease."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis

from ..scripted import (
    ANNA,
    BEN,
    CHANNEL,
    FENCE,
    FENCE_MS,
    HEIR,
    LEASE_MS,
    LIFE,
    LOCK,
    MINE,
    NOTE,
    QUEUE,
    THEIRS,
    TOKEN,
    Box,
    Ears,
    owner_of,
)
from .test_handshake import OTHER, noted


@pytest.fixture
def short(box: Box) -> Box:
    """A master on which no lease was longer than 10 s."""
    box.client.set(NOTE, f"{LIFE} 5 10000")
    return box


def longest(box: Box) -> int:
    """The longest lease that the note tells of; the rest of it stays as it was."""
    note = noted(box)
    assert (note.run_id, note.since_us, box.pttl(NOTE)) == (LIFE, 5, -1)
    return note.max_ttl_ms


def test_a_grant_of_a_longer_lease_raises_the_longest_lease_in_the_note(short: Box) -> None:
    assert short.acquire(lease_ms=10_001)[7] == f"{LIFE} 5 10001", "it comes back with the same answer"
    assert longest(short) == 10_001
    assert short.acquire(lease_ms=60_000)[0] == 1, "the same owner again"
    assert longest(short) == 60_000


def test_the_longest_lease_is_compared_as_a_number(short: Box) -> None:
    short.client.set(NOTE, f"{LIFE} 5 9000")
    short.acquire(lease_ms=10_000)
    assert longest(short) == 10_000


def test_a_refusal_raises_nothing(short: Box) -> None:
    short.acquire(THEIRS, lease_ms=5_000)
    for options in ({}, {"waiter": ANNA}, {"waiter": BEN, "order": "fair"}, {"brief": True, "waiter": ANNA}):
        assert short.acquire(lease_ms=60_000, **options)[:2] == [-1, THEIRS]
    short.client.delete(LOCK)
    assert short.acquire(lease_ms=60_000, order="fair")[0] == -3
    short.put("list")
    assert short.acquire(lease_ms=60_000)[0] == -2
    assert longest(short) == 10_000


def test_a_healing_of_a_longer_lease_raises_it_and_a_renewal_does_not(short: Box) -> None:
    """What stands there was granted or healed there, and raised it then."""
    short.acquire(lease_ms=5_000)
    assert short.renew(lease_ms=60_000) == [1]
    assert short.heal(lease_ms=60_000) == [1]
    assert short.heal(THEIRS, lease_ms=60_000) == [-1]
    assert longest(short) == 10_000
    short.client.delete(LOCK)
    keys = [LOCK, FENCE, "none", NOTE]
    assert short.call("heal", keys, 60_000, FENCE_MS, MINE, 1, TOKEN) == [MINE, [2], f"{LIFE} 5 60000"]
    assert longest(short) == 60_000


def test_without_memory_for_a_longer_lease_in_the_note_there_is_no_grant(short: Box) -> None:
    """Otherwise a lease would stand there of which nobody knows how long it may be."""
    short.fill()
    with pytest.raises(redis.ResponseError, match="used memory > 'maxmemory'"):
        short.acquire(lease_ms=60_000)
    assert short.content() is None
    assert longest(short) == 10_000


def test_no_script_but_the_handshake_brings_the_note_back(box: Box) -> None:
    """Its absence tells of a loss of memory, until a handshake has noted that."""
    box.client.delete(NOTE)
    assert box.acquire()[7] == ""
    assert box.call("renew", [LOCK, NOTE], 5_000, MINE, 1) == [MINE, [1], ""]
    assert box.call("status", [LOCK, QUEUE, NOTE], 0)[6] == ""
    box.client.delete(LOCK)
    box.heal()
    box.hand_on(ban_ms=5_000)
    assert box.content(NOTE) is None


@pytest.mark.rule("2.1")
def test_the_note_is_the_only_key_that_never_ends(box: Box, ears: Ears) -> None:
    """However many names there are, nothing leaks; one key for each master is by design."""
    ears.listen(ANNA)
    steps: list[Callable[[], Any]] = [
        lambda: box.handshake(),
        lambda: box.acquire(),
        lambda: box.acquire(THEIRS, waiter=ANNA),
        lambda: box.acquire(THEIRS, waiter=BEN, order="fair"),
        lambda: box.wait(BEN),
        lambda: box.renew(count=2),
        lambda: box.renew(THEIRS),
        lambda: box.heal(THEIRS),
        lambda: box.release("", CHANNEL),
        lambda: box.fence(THEIRS, 2**53 - 1),
        lambda: box.hand_on(ban_ms=60_000),
        lambda: box.acquire(owner_of(ANNA), lease_ms=2 * LEASE_MS),
        lambda: box.heal(owner_of(ANNA)),
        lambda: box.handshake(OTHER),
        lambda: box.hand_on(owner_of(ANNA), next_waiter=HEIR, order="barging"),
        lambda: box.client.delete(LOCK),
        lambda: box.heal(owner_of(HEIR), lease_ms=3 * LEASE_MS),
        lambda: box.handshake(OTHER, "vouched"),
        lambda: box.status(),
    ]
    seen: set[str] = set()
    for step in steps:
        step()
        found = {str(key) for key in box.client.keys()}  # noqa: SIM118
        assert {key for key in found if box.pttl(key) == -1} == {NOTE}
        seen |= found
    assert len(seen) == 5, "a key of each kind has been there"
