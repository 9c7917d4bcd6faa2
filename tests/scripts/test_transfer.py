"""lua/transfer.lua: another owner token in the place of the present one."""

from __future__ import annotations

import pytest
import redis

from ..scripted import ANNA, FENCE, LEASE_MS, LOCK, MINE, OLDER, THEIRS, TICKET, TOKEN, Box


def test_the_other_owner_has_the_lease_and_the_count(box: Box) -> None:
    box.hold(lease_ms=1_000)
    assert box.transfer() == [1, THEIRS, 2, LEASE_MS, 0, 0, TOKEN]
    assert box.content() == ("hash", {THEIRS: "2"})
    assert LEASE_MS - 500 < box.pttl() <= LEASE_MS
    assert box.fenced() == (TOKEN, MINE)


def test_the_rest_of_the_lease_stays_for_an_adopter_and_for_its_undo(box: Box) -> None:
    box.hold(lease_ms=9_000)
    for token, owner, present in ((TOKEN, THEIRS, MINE), ("", MINE, THEIRS)):
        code, _, _, ttl_ms, *_ = box.transfer(owner, present, 0, token=token)
        assert code == 1
        assert 8_000 < ttl_ms <= 9_000
        assert 8_000 < box.pttl() <= 9_000


def test_a_second_delivery_finds_the_owner(box: Box) -> None:
    box.hold()
    assert box.transfer() == box.transfer()
    assert box.content() == ("hash", {THEIRS: "2"})


def test_only_the_owner_that_is_named_is_replaced(box: Box) -> None:
    with box.nothing_written():
        assert box.transfer() == [0, "", 0, -2, 0, 0, 0]
    box.acquire(OLDER)
    with box.nothing_written():
        code, holder, count, ttl_ms, *_ = box.transfer()
    assert (code, holder, count) == (-1, OLDER, 1)
    assert 0 < ttl_ms <= LEASE_MS


@pytest.mark.rule("3.12")
def test_a_master_that_gave_a_greater_token_refuses(box: Box) -> None:
    box.hold()
    box.fence(THEIRS, TOKEN + 1)
    with box.nothing_written():
        assert box.transfer()[:3] == [-1, MINE, 2]
    assert box.transfer(token="")[0] == 1
    box.client.delete(FENCE)
    assert box.transfer(MINE, THEIRS)[0] == 1


def test_it_tells_the_last_token_that_was_given_here(box: Box) -> None:
    box.hold()
    box.fence(THEIRS, TOKEN + 5)
    assert box.transfer(token="")[6] == TOKEN + 5
    assert box.transfer(token=TOKEN + 5)[6] == TOKEN + 5


def test_the_place_in_the_queue_goes(box: Box) -> None:
    box.hold()
    box.acquire(THEIRS, waiter=ANNA, ticket=TICKET)
    assert box.waiters() == [ANNA]
    box.transfer(waiter=ANNA)
    assert box.waiters() == []


@pytest.mark.parametrize("fields", [{"a": "b"}, {"a": "1", "b": "1"}])
def test_a_hash_of_another_program_is_no_lock(box: Box, fields: dict[str, str]) -> None:
    for field, value in fields.items():
        box.client.hset(LOCK, field, value)
    assert box.transfer()[0] == -2


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
