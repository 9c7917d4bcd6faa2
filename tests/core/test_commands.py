"""The commands: their bytes are those of their words."""

from __future__ import annotations

import itertools
import uuid

import hiredis
import pytest

from rlock.procedures.port import new_owner
from rlock.rules import commands
from rlock.rules.command_templates import Command, encode
from rlock.rules.keys import OWN, REDISSON
from rlock.rules.tickets import Place

TOKEN = 1_763_000_000_000_000
NAMES = ("x", "Größe {7} ✓", "", "with spaces\r\n$3\r\n", "\x01" * 60, "1763000000000000", "100% %b of %%b")
OWNERS = ("host/1/MainThread:" + "0" * 32, "höst/1/Köln:" + "a" * 32)


def check(command: Command, *, whole: bool = False) -> None:
    """A server reads its words, and nothing behind them. ``whole``: it must not come late, by NOSCRIPT."""
    reader = hiredis.Reader(encoding="utf-8")
    reader.feed(command.packed)
    words = command.by_source() if whole else command.by_sha()
    assert tuple(reader.gets()) == words
    assert reader.gets() is False
    assert command.packed == encode(words)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("owner", OWNERS)
def test_each_command_is_sent_as_its_words(name: str, owner: str) -> None:
    where = Place(name, owner.rpartition(":")[0], "client_id")
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
        check(commands.downgrade(wire, name, owner, where.waiter, owner, 9_000, token=7), whole=True)
    check(commands.wait(where), whole=True)
    check(commands.confirm(name, owner, 9_000, 7), whole=True)
    check(commands.heal(9_000, [(name, owner, 1, 7)]), whole=True)
    check(commands.heal(9_000, [(name, f"a+shared:{32 * '0'}", 1, 7)]), whole=True)
    check(commands.renew(9_000, [(name, owner, 1, 7), ("y", owner, 2, 7)]))
    check(commands.status(name, guarded=True))


def test_an_owner_token_ends_with_a_uuid_of_version_7() -> None:
    tokens = {new_owner("host/1/main") for _ in range(200)}
    assert len(tokens) == 200
    for token in tokens:
        client, _, text = token.rpartition(":")
        assert client == "host/1/main"
        made = uuid.UUID(text)
        assert (made.hex, made.version, made.variant) == (text, 7, uuid.RFC_4122)
