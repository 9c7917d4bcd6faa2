"""Readers that were invited, and end their wait or stand in the queue again: no writer waits for them."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from rlock.rules import commands
from rlock.rules.command_templates import Command
from rlock.rules.keys import OWN, READERS, evicted, fence, readers
from rlock.rules.tickets import Place

from ..scripted import CLAIM_MS, LEASE_MS, LOCK, MINE, QUEUE, THEIRS, TICKET, TOKEN, Box
from ..servers import acl_user

READER = "anna+shared:"
#: A reader's place; the token with which it asks is another one.
PLACES = [Place(LOCK, "", "s1") for _ in range(3)]
for number, each in enumerate(PLACES):
    each.owner = f"{READER}{number}"
    each.waiter, each.ticket, each.drawn = f"{each.owner}|s1", TICKET + number, True


def run(box: Box, command: Command) -> Any:
    return box.client.execute_command(*command.by_source())


def join(box: Box, place: Place) -> Any:
    return run(box, commands.acquire(LOCK, f"{READER}9{place.ticket}", LEASE_MS, place=place))


def end(box: Box, place: Place) -> None:
    run(box, commands.free(OWN, LOCK, f"{READER}9{place.ticket}", place.waiter))


def leave(box: Box, place: Place) -> None:
    run(box, commands.leave_queue(OWN, LOCK, place.waiter))


@pytest.fixture
def invited(box: Box) -> Box:
    """A writer has ended; nobody of the three that it kept waiting has come yet."""
    box.acquire(MINE)
    for place in PLACES:
        assert join(box, place)[0] == -1
    box.listen(PLACES[0].waiter)
    box.hand_on(MINE)
    assert box.content() == ("hash", {READERS: "0"})
    return box


@pytest.mark.parametrize("owner", [MINE, f"{READER}1"])
@pytest.mark.parametrize("command", [commands.renew, commands.heal])
@pytest.mark.parametrize("key", [LOCK, fence(LOCK), evicted(LOCK, MINE), readers(LOCK)])
def test_a_key_of_another_type_costs_no_other_lease_a_vote(
    box: Box, owner: str, command: Any, key: str
) -> None:
    """Behind a refusal of the whole script a client would lose all leases that it renews together."""
    leases = [(name, owner, 1, TOKEN) for name in (LOCK, "other")]
    for name, *_ in leases:
        assert run(box, commands.acquire(name, owner, LEASE_MS))[0] == 1
    box.client.delete(key)
    box.client.xadd(key, {"stranger": "1"})
    assert run(box, command(LEASE_MS, leases))[1][1] == 1


@pytest.mark.parametrize("denied", ["-time", "-pexpire"])
def test_a_release_that_must_not_do_a_part_leaves_no_key_without_an_end(box: Box, denied: str) -> None:
    box.acquire(MINE)
    join(box, PLACES[0])
    box.listen(PLACES[0].waiter)
    with closing(Box(acl_user(box.url, "joe", "~*", "&*", "+@all", denied))) as user:
        assert user.hand_on(MINE)[0] == 1
    assert box.client.ttl(readers(LOCK)) != -1
    assert box.client.ttl(LOCK) != -1


@pytest.mark.parametrize(("gone", "again"), [(1, 0), (3, 0), (0, 2)])
def test_readers_that_were_invited_keep_no_writer_out(invited: Box, gone: int, again: int) -> None:
    """``gone``: so many of them give up; ``again``: the places of so many are put back."""
    if again:
        run(invited, commands.wait(*PLACES[:again]))
    for place in PLACES[gone:]:
        assert join(invited, place)[0] == 1
    for place in PLACES[:gone]:
        leave(invited, place)
    for place in PLACES[gone:]:
        end(invited, place)
    assert invited.content() is None


def test_a_writer_that_came_since_is_not_ahead_of_an_invited_reader(invited: Box) -> None:
    invited.client.zadd(QUEUE, {"writer:1|s1": TICKET - 1})
    assert run(invited, commands.wait(PLACES[0]))[0] == 0, "it may ask"
    for place in PLACES:
        assert join(invited, place)[0] == 1
    late = Place(LOCK, f"{READER}7", "s1")
    late.waiter, late.ticket, late.drawn = f"{READER}7|s1", TICKET + 7, True
    assert join(invited, late)[0] == -1
    leave(invited, late)
    for place in PLACES:
        end(invited, place)
    assert invited.content() == ("hash", {"writer:1": "1"})


def test_readers_that_give_up_behind_a_writer_prolong_nothing(invited: Box) -> None:
    for place in PLACES[:2]:
        leave(invited, place)
    seconds, micros = invited.client.time()
    invited.client.zadd(readers(LOCK), {PLACES[2].owner: seconds * 1000 + micros // 1000 + CLAIM_MS // 4})
    invited.client.pexpire(LOCK, CLAIM_MS // 4)
    invited.enqueue("writer:1|s1")
    late = Place(LOCK, "", "s1")
    late.owner, late.waiter = f"{READER}7", f"{READER}7|s1"
    for _ in range(3):
        run(invited, commands.acquire(LOCK, f"{READER}8", LEASE_MS, place=late))
        leave(invited, late)
        assert invited.pttl() <= CLAIM_MS // 4


def test_a_reader_that_was_healed_here_leaves_no_invitation(invited: Box) -> None:
    """Other masters let it in, and this one invited it only then."""
    owner = f"{READER}9{PLACES[0].ticket}"
    run(invited, commands.heal(LEASE_MS, [(LOCK, owner, 1, TOKEN)]))
    for place in PLACES[1:]:
        leave(invited, place)
    end(invited, PLACES[0])
    assert invited.content() is None


def test_the_last_reader_leaves_a_claim_to_those_who_have_not_come(invited: Box) -> None:
    assert join(invited, PLACES[0])[0] == 1
    end(invited, PLACES[0])
    assert invited.content() == ("hash", {READERS: "0"})
    assert invited.pttl() <= CLAIM_MS
    assert invited.acquire(THEIRS)[0] == -1
    invited.client.zadd(QUEUE, {"writer:1|s1": TICKET - 1})  # it came since
    assert run(invited, commands.wait(PLACES[1]))[0] == 0, "it may ask"
    assert join(invited, PLACES[1])[0] == 1
    end(invited, PLACES[1])
    leave(invited, PLACES[2])
    assert invited.content() == ("hash", {"writer:1": "1"})


@pytest.mark.parametrize("score", ["inf", "1e300", "9007199254740992"])
def test_a_strangers_member_among_the_readers_keeps_no_writer_out(box: Box, score: str) -> None:
    box.client.zadd(readers(LOCK), {"x": score})
    assert join(box, PLACES[0])[0] == 1
    assert box.pttl() <= LEASE_MS
    end(box, PLACES[0])
    assert box.granted(THEIRS)
