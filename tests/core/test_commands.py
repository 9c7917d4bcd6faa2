"""The commands: each argument stands where its script's header says, and the bytes are those of the words."""

from __future__ import annotations

import itertools
import uuid
from typing import Any

import hiredis
import pytest

from rlock.procedures.port import new_owner
from rlock.rules import commands, replies
from rlock.rules.command_templates import Command, encode, end_of_acquire
from rlock.rules.keys import OWN, REDISSON
from rlock.rules.tickets import Place

OWNER, TOKEN = "host/1/MainThread:" + "0" * 32, 1_763_000_000_000_000


def waiting(drawn: bool = False) -> Place:
    place = Place("x", "host/1/Thread-1", "client_id", 9_000, fair=False)
    place.ticket, place.drawn = 42, drawn
    return place


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


def check(command: Command) -> None:
    """A server reads its words, and nothing behind them."""
    reader = hiredis.Reader(encoding="utf-8")
    reader.feed(command.packed)
    assert tuple(reader.gets()) == command.by_sha()
    assert reader.gets() is False
    assert command.by_source()[2:] == command.by_sha()[2:]
    assert command.packed == encode(command.by_sha())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("owner", OWNERS)
def test_each_command_is_sent_as_its_words(name: str, owner: str) -> None:
    where = Place(name, owner.rpartition(":")[0], "client_id", 10_000, fair=False)
    for fair, flag, token in itertools.product((False, True), (False, True), (0, TOKEN, 1, 10_000)):
        check(commands.acquire(name, owner, 10_000, fair=fair, token=token, guarded=flag))
        where.drawn = flag
        check(commands.acquire(name, owner, 10_000, place=where, fair=fair, token=token))
    for wire in (OWN, REDISSON):
        check(commands.free(wire, name, owner))
        check(commands.free(wire, name, owner, where.waiter))
        check(commands.undo(wire, name, owner))
        check(commands.undo(wire, name, owner, hand_on=False))
        check(commands.leave_queue(wire, name, where.waiter))
        check(commands.nudge(wire, name))
        check(commands.evict(wire, name, owner, 20.0))
        check(commands.hand_over(wire, owner, "", where, owner, barging=True, token=7))
    check(commands.wait(where))
    check(commands.renew(9_000, [(name, owner, 1, 7), ("y", owner, 2, 7)]))
    check(commands.status(name))


NOTE = b"d0e1 0 1000"
GRANTED = [1, OWNER.encode(), 1, 9_000, 0, 0, TOKEN, NOTE, 0]


def expected_reply(command: Command, note: bytes = NOTE) -> Any:
    reader = hiredis.Reader()
    start, _, noted = command.expected_reply
    reader.feed(start + (end_of_acquire(note.decode()) if noted else b""))
    return reader.gets()


@pytest.mark.parametrize(
    ("command", "reply"),
    [
        (commands.acquire("x", OWNER, 9_000, token=TOKEN), GRANTED),
        (commands.acquire("x", OWNER, 9_000, place=waiting(drawn=True), token=TOKEN), GRANTED),
        (commands.free(OWN, "x", OWNER), [1, OWNER.encode(), 0, 0, 0]),
        (commands.free(REDISSON, "x", OWNER), [1, OWNER.encode(), 0, 0, 0]),
    ],
)
def test_the_usual_reply_is_expected_and_is_decoded_as_any_other(command: Command, reply: list[Any]) -> None:
    whole = replies.decode_one(reply)
    note = reply[7] if len(reply) == 9 else b""
    assert expected_reply(command, note) == reply
    # the note of one master is not expected from another
    vote = command.expected_reply[1]
    assert vote._replace(holder=vote.holder or OWNER) == whole._replace(
        note=None, holder=whole.holder or OWNER
    )


def test_an_owner_token_ends_with_a_uuid_of_version_7() -> None:
    tokens = {new_owner("host/1/main") for _ in range(200)}
    assert len(tokens) == 200
    for token in tokens:
        client, _, text = token.rpartition(":")
        assert client == "host/1/main"
        made = uuid.UUID(text)
        assert (made.hex, made.version, made.variant) == (text, 7, uuid.RFC_4122)
