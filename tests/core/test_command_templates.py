"""Templates: the bytes are those of the words, whatever the names; the expected reply is the usual one."""

from __future__ import annotations

import hiredis
import pytest

from rlock.model import Code
from rlock.rules import commands, keys, replies
from rlock.rules.command_templates import Command, encode, end_of_acquire
from rlock.rules.keys import OWN, REDISSON
from rlock.rules.tickets import Place

NAMES = (
    "x",
    "orders:{7}",
    "Größe ✓",
    "",
    "with spaces\r\n$3\r\n",
    "\x01" * 60,
    "1763000000000000",
    "100%",
    "%b of %s, %%b",
)
OWNERS = ("host/1/MainThread:" + "0" * 32, "höst/1/Köln:" + "a" * 32)
TOKENS = (1_763_000_000_000_000, 1, 10_000)
NOTE = "d0e1 0 1000"


def words_of(packed: bytes) -> list[str]:
    """The words that a server reads, and nothing behind them."""
    reader = hiredis.Reader(encoding="utf-8")
    reader.feed(packed)
    words: list[str] = reader.gets()
    assert reader.gets() is False
    return words


def check(command: Command) -> None:
    assert tuple(words_of(command.packed)) == command.by_sha()
    assert command.by_source()[2:] == command.by_sha()[2:]
    assert command.packed == encode(command.by_sha())


def place(name: str, owner: str, *, drawn: bool = False) -> Place:
    made = Place(name, owner.rpartition(":")[0], "client_id", 10_000, fair=False)
    made.drawn = drawn
    return made


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("owner", OWNERS)
@pytest.mark.parametrize("fair", [False, True])
def test_an_acquire_is_sent_as_its_words(name: str, owner: str, fair: bool) -> None:
    for token in (0, *TOKENS):
        for guarded in (False, True):
            check(commands.acquire(name, owner, 10_000, fair=fair, token=token, guarded=guarded))
        for drawn in (False, True):
            where = place(name, owner, drawn=drawn)
            check(commands.acquire(name, owner, 10_000, place=where, fair=fair, token=token))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("owner", OWNERS)
@pytest.mark.parametrize("wire", [OWN, REDISSON])
def test_a_release_and_the_others_are_sent_as_their_words(name: str, owner: str, wire: keys.Wire) -> None:
    where = place(name, owner)
    check(commands.free(wire, name, owner))
    check(commands.free(wire, name, owner, where.waiter))
    check(commands.undo(wire, name, owner))
    check(commands.undo(wire, name, owner, hand_on=False))
    check(commands.leave_queue(wire, name, where.waiter))
    check(commands.nudge(wire, name))
    check(commands.evict(wire, name, owner, 20.0))
    check(commands.hand_over(wire, name, owner, "", where, owner, barging=True, token=7))
    check(commands.wait(where))
    check(commands.renew(9_000, [(name, owner, 1, 7), ("y", owner, 2, 7)]))
    check(commands.status(name))


@pytest.mark.parametrize("owner", OWNERS)
@pytest.mark.parametrize("token", TOKENS)
def test_the_expected_reply_to_an_acquire_is_the_grant_with_the_proposal(owner: str, token: int) -> None:
    grant = [1, owner.encode(), 1, 10_000, 0, 0, token, NOTE.encode(), 0]
    drawn = commands.acquire("x", owner, 10_000, place=place("x", owner, drawn=True), token=token)
    for command in (commands.acquire("x", owner, 10_000, token=token), drawn):
        start, vote, noted = command.expected_reply
        reader = hiredis.Reader()
        reader.feed(start + end_of_acquire(NOTE))
        assert reader.gets() == grant
        assert (vote, noted) == (replies.decode_one(grant)._replace(note=None), True)


@pytest.mark.parametrize("owner", OWNERS)
def test_the_expected_reply_to_a_release_is_that_nobody_was_told(owner: str) -> None:
    for wire in (OWN, REDISSON):
        start, vote, noted = commands.free(wire, "x", owner).expected_reply
        reader = hiredis.Reader()
        reader.feed(start)
        reply = reader.gets()
        assert reply == [1, owner.encode(), 0, 0, 0]
        decoded = replies.decode_one(reply)
        assert (vote._replace(holder=owner), noted) == (decoded, False)
        assert vote.code == Code.YES
