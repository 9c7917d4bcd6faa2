"""The note of a master's memory, on every server found: what reads it, and raises the longest lease."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ..scripted import ANNA, BEN, CHANNEL, HEIR, LEASE_MS, LIFE, LOCK, NOTE, THEIRS, Box, Ears, owner_of
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


def test_only_a_renewal_by_the_holder_raises_the_longest_lease_in_the_note(short: Box) -> None:
    """An acquire may fail on the other masters. It would stop a fleet with shorter leases for as long."""
    short.granted(lease_ms=60_000)
    assert short.renew(THEIRS, 70_000) == [-1]
    assert longest(short) == 10_000
    assert short.renew(lease_ms=60_000) == short.renew(lease_ms=5_000) == [1]
    assert longest(short) == 60_000


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
