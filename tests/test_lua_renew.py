"""renew, on every server found: one lock, and many in one call."""

from __future__ import annotations

import time

import pytest

from .scripted import LEASE_MS, LOCK, MINE, NOTE, OLDER, THEIRS, Box


def test_renew_assigns_the_hold_count(box: Box) -> None:
    box.acquire()
    assert box.renew(count=3) == [1]
    assert box.content() == ("hash", {MINE: "3"})
    assert box.renew(count=2) == [1]
    assert box.content() == ("hash", {MINE: "2"})


@pytest.mark.rule("3.3")
def test_renew_delivered_twice_leaves_the_same_count_and_the_same_lease(box: Box) -> None:
    box.acquire()
    box.renew(count=2)
    time.sleep(0.2)
    assert box.renew(count=2) == [1]
    assert box.content() == ("hash", {MINE: "2"})
    assert LEASE_MS - 150 <= box.pttl() <= LEASE_MS, "counted from its own arrival, and not added up"


def test_renew_of_an_absent_lock_does_not_put_it_back(box: Box) -> None:
    with box.nothing_written():
        assert box.renew() == [0]
    assert box.content() is None


@pytest.mark.parametrize("holder", [OLDER, THEIRS])
def test_a_late_renewal_does_not_prolong_the_lease_of_the_next_owner(box: Box, holder: str) -> None:
    box.acquire(holder, lease_ms=5_000)
    with box.nothing_written():
        assert box.renew(lease_ms=LEASE_MS, count=7) == [-1]
    assert 0 < box.pttl() <= 5_000


def test_three_hundred_locks_are_answered_in_the_order_of_their_keys(box: Box) -> None:
    """The limit of Lua's stack and of unpack() lies near 8000 values; one code for each key is no problem."""
    keys, words, expected = [], [], []
    pipe = box.client.pipeline(transaction=False)
    for i in range(300):
        key, owner = f"{LOCK}:{i}", f"me:{i}"
        keys.append(key)
        words += [owner, str(i % 3 + 1)]
        if i % 5 == 0:
            expected.append(0)
        elif i % 5 == 1:
            pipe.hset(key, THEIRS, 1)
            expected.append(-1)
        elif i % 5 == 2:
            pipe.set(key, "1")
            expected.append(-1)
        else:
            pipe.hset(key, owner, 1)
            pipe.pexpire(key, 5_000)
            expected.append(1)
    pipe.execute()
    assert box.call("renew", keys, LEASE_MS, *words) == [words[0], expected, ""]
    for i, key in enumerate(keys):
        if expected[i] == 1:
            assert box.content(key) == ("hash", {f"me:{i}": str(i % 3 + 1)})
            assert 5_000 < box.pttl(key) <= LEASE_MS
        else:
            assert box.pttl(key) == (-2 if expected[i] == 0 else -1)
    assert box.client.dbsize() == 240 + 1, "and the note"


def test_renew_tells_the_note_as_long_as_it_is_there(box: Box) -> None:
    box.acquire()
    note = box.content(NOTE)[1]
    for owner, code in ((MINE, 1), (THEIRS, -1)):
        assert box.call("renew", [LOCK, NOTE], LEASE_MS, owner, 1) == [owner, [code], note]
    assert box.call("renew", [LOCK], LEASE_MS, MINE, 1) == [MINE, [1], ""], "without a restart guard"
    box.client.delete(NOTE)
    assert box.call("renew", [LOCK, NOTE], LEASE_MS, MINE, 1) == [MINE, [1], ""]
