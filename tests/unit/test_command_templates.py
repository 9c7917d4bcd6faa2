"""Forms: what is filled in is, byte for byte, what would have been put together."""

from __future__ import annotations

import hiredis
import pytest

from rlock.model import Code, Vote
from rlock.rules import command_templates, commands
from rlock.rules.commands import Command
from rlock.rules.keys import owner_token
from rlock.rules.tickets import Place
from rlock.rules.wire import OWN, REDISSON

NAMES = (
    "x",
    "orders:{7}",
    "Größe ✓",
    "",
    "with spaces\r\n$3\r\n",
    "\x01" * 60,
    "\x02" * 16,
    "1763000000000000",
    "100%",
    "%b of %s, %%b",
)
OWNERS = ("host/1/MainThread:" + "0" * 32, "höst/1/Köln:" + "a" * 32)
TOKENS = (1_763_000_000_000_000, 1, 10_000)


def same(filled: Command, whole: Command) -> None:
    packed = hiredis.pack_command(whole.by_sha())  # type: ignore[arg-type]
    assert (filled.packed or packed) == packed
    assert filled.by_sha() == whole.by_sha()
    assert filled.by_source() == whole.by_source()
    assert (filled.script, filled.echo, filled.noted) == (whole.script, whole.echo, whole.noted)
    assert (filled.expected_reply, filled.decode) == (whole.expected_reply, whole.decode)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("owner", OWNERS)
@pytest.mark.parametrize("token", TOKENS)
def test_an_acquire_that_is_filled_in_is_the_one_that_is_put_together(
    name: str, owner: str, token: int
) -> None:
    for fair in (False, True):
        for guarded in (False, True):
            filled = command_templates.acquire(
                name, owner, 10_000, place=None, fair=fair, token=token, guarded=guarded
            )
            whole = commands.acquire(name, owner, 10_000, fair=fair, token=token, guarded=guarded)
            same(filled, whole)
            assert filled.yes == whole.yes


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("owner", OWNERS)
def test_a_release_that_is_filled_in_is_the_one_that_is_put_together(name: str, owner: str) -> None:
    for wire in (OWN, REDISSON):
        filled, whole = command_templates.release(name, owner, wire), commands.release(name, owner, wire=wire)
        same(filled, whole)
        assert filled.yes == whole.yes == Vote(Code.YES, owner, 0, 0)


def test_most_are_filled_in_and_one_with_a_place_is_not() -> None:
    owner = OWNERS[0]
    place = Place("x", "host/1/MainThread", "client_id", 10_000, fair=False)
    assert command_templates.release("x", owner, OWN).packed
    assert command_templates.acquire("x", owner, 9_000, place=None, fair=False, token=5, guarded=True).packed
    queued = command_templates.acquire("x", owner, 9_000, place=place, fair=False, token=5, guarded=True)
    assert (queued.packed, queued.by_sha()) == (
        b"",
        commands.acquire("x", owner, 9_000, place=place, token=5).by_sha(),
    )


def test_two_commands_of_one_form_have_nothing_of_each_other() -> None:
    first, second = (owner_token("host/1/MainThread") for _ in range(2))
    commands = [command_templates.release("x", owner, OWN) for owner in (first, second)]
    assert first.encode() in commands[0].packed
    assert second.encode() not in commands[0].packed
    assert first.encode() not in commands[1].packed
