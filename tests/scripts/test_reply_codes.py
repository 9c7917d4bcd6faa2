"""acquire, release and renew, on every server found: second deliveries and late commands.

evidence/simulation/test_model.py compares all other replies, keys and messages with those of the model.
"""

from __future__ import annotations

import time

import pytest

from ..scripted import CHANNEL, LEASE_MS, MINE, OLDER, THEIRS, TOKEN, Box, Ear


@pytest.mark.rule("3.3")
@pytest.mark.parametrize("order", ["barging", "fair"])
def test_acquire_delivered_twice_leaves_the_count_and_counts_the_lease_from_its_own_arrival(
    box: Box, order: str
) -> None:
    box.hold(count=2)
    time.sleep(0.02)
    reply = box.acquire(order=order, token=TOKEN + 9)[:7]
    assert reply == [1, MINE, 2, LEASE_MS, 0, 0, TOKEN], "the stored count, which a renewal may have set"
    assert box.content() == ("hash", {MINE: "2"})
    assert LEASE_MS - 15 <= box.pttl() <= LEASE_MS, "not added up"


@pytest.mark.rule("3.4")
def test_a_late_acquire_of_an_earlier_owner_does_not_touch_the_newer_one(box: Box) -> None:
    box.acquire(OLDER)
    box.release(OLDER)
    box.acquire(MINE)
    with box.nothing_written():
        assert box.acquire(OLDER)[:2] == [-1, MINE]


@pytest.mark.parametrize("owner", ["", "ü:1", "a b:1", "x" * 2000, "{}:%d\n"])
def test_an_owner_of_any_characters_comes_back_as_it_was(box: Box, owner: str) -> None:
    assert box.acquire(owner)[:2] == [1, owner]
    assert box.acquire(THEIRS)[:2] == [-1, owner]
    assert box.release(owner)[:2] == [1, owner]
    assert box.content() is None


@pytest.mark.rule("3.3")
def test_release_delivered_twice_writes_and_publishes_once(box: Box, ear: Ear) -> None:
    box.acquire()
    box.release(channel=CHANNEL)
    with box.nothing_written():
        assert box.release(channel=CHANNEL) == [0, "", 0, -2, 0]
    assert ear.heard() == ["0"]


@pytest.mark.rule("3.4")
def test_a_late_release_of_an_earlier_owner_does_not_free_the_newer_one(box: Box, ear: Ear) -> None:
    box.acquire(OLDER)
    box.release(OLDER)
    box.acquire(MINE)
    before = box.pttl()
    with box.nothing_written():
        assert box.release(OLDER, channel=CHANNEL)[:2] == [-1, MINE]
    assert 0 < box.pttl() <= before
    assert ear.heard() == []


@pytest.mark.rule("3.3")
def test_renew_delivered_twice_leaves_the_same_count_and_the_same_lease(box: Box) -> None:
    box.acquire()
    box.renew(count=2)
    time.sleep(0.2)
    assert box.renew(count=2) == [1]
    assert box.content() == ("hash", {MINE: "2"})
    assert LEASE_MS - 150 <= box.pttl() <= LEASE_MS, "counted from its own arrival, and not added up"


@pytest.mark.parametrize("holder", [OLDER, THEIRS])
def test_a_late_renewal_does_not_prolong_the_lease_of_the_next_owner(box: Box, holder: str) -> None:
    box.acquire(holder, lease_ms=5_000)
    with box.nothing_written():
        assert box.renew(lease_ms=LEASE_MS, count=7) == [-1]
    assert 0 < box.pttl() <= 5_000
