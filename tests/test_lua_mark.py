"""mark, on every server found: what is noted of a master's memory; and that the note alone never ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis

from rlock.rules.guard import Marker

from .scripted import (
    ANNA,
    BEN,
    HEIR,
    LIFE,
    LOCK,
    MARKER,
    THEIRS,
    Box,
    Ears,
    owner_of,
)

OTHER = "a9b8" * 10
HOUR_US = 3_600_000_000


@pytest.fixture
def blank(box: Box) -> Box:
    """A master without a note, as one is that has just lost its memory."""
    box.client.delete(MARKER)
    return box


def note(box: Box) -> Marker:
    """What stands there, as the client reads it."""
    kind, text = box.content(MARKER)
    assert kind == "string"
    marker = Marker.parse(text)
    assert marker is not None, f"{text!r} cannot be read"
    return marker


def marked(box: Box, life: str = LIFE, age_us: int | str = "", max_ttl_ms: int = 10_000) -> Marker:
    """Call it; the answer has to be what stands there."""
    code, text, count, ttl_ms = box.mark(life, age_us, max_ttl_ms)
    assert (code, count, ttl_ms) == (1, 0, 0)
    assert ("string", text) == box.content(MARKER)
    assert box.pttl(MARKER) == -1
    return note(box)


@pytest.mark.parametrize("age_us", [0, 1, HOUR_US])
def test_the_first_note_tells_since_when_by_the_master_s_own_time(blank: Box, age_us: int) -> None:
    before = blank.time_us()
    life, since_us, max_ttl_ms = marked(blank, LIFE, age_us, 30_000)
    assert (life, max_ttl_ms) == (LIFE, 30_000)
    assert before <= since_us + age_us <= blank.time_us()


def test_a_life_that_lasts_for_ever_is_noted_as_old_and_not_as_the_operator_s_word(blank: Box) -> None:
    """A master that forgets nothing: its age is told as a century, which is before the year 1970."""
    assert marked(blank, LIFE, 100 * 365 * 24 * HOUR_US) == (LIFE, 1, 10_000)


@pytest.mark.parametrize("age_us", [0, HOUR_US, 2 * HOUR_US])
def test_a_second_note_of_the_same_life_leaves_since_when(blank: Box, age_us: int) -> None:
    first = marked(blank, LIFE, HOUR_US)
    assert marked(blank, LIFE, age_us) == first


def test_a_note_of_another_life_is_written_over(blank: Box) -> None:
    """It came out of a snapshot, or from a master whose replica this was."""
    marked(blank, OTHER, HOUR_US, 60_000)
    before = blank.time_us()
    life, since_us, max_ttl_ms = marked(blank, LIFE, 5, 10_000)
    assert (life, max_ttl_ms) == (LIFE, 10_000)
    assert before <= since_us + 5 <= blank.time_us()


def test_the_operator_s_word_stands_whatever_is_noted_later(blank: Box) -> None:
    assert marked(blank, LIFE, "") == (LIFE, 0, 10_000)
    assert marked(blank, LIFE, 5) == (LIFE, 0, 10_000)
    assert marked(blank, LIFE, 0, 20_000) == (LIFE, 0, 20_000)


def test_the_operator_s_word_is_for_one_life(blank: Box) -> None:
    marked(blank, OTHER, "")
    assert marked(blank, LIFE, 5).since_us > 0


@pytest.mark.parametrize("life", [LIFE, OTHER])
def test_the_operator_s_word_is_written_over_any_note(blank: Box, life: str) -> None:
    marked(blank, life, 5, 60_000)
    assert marked(blank, LIFE, "", 10_000) == (LIFE, 0, 10_000), "the longest lease, too"


def test_the_longest_lease_only_grows(blank: Box) -> None:
    told = [marked(blank, LIFE, 5, ms).max_ttl_ms for ms in (10_000, 60_000, 9_000, 61_000, 1)]
    assert told == [10_000, 60_000, 60_000, 61_000, 61_000]


def test_the_longest_lease_is_compared_as_a_number(blank: Box) -> None:
    marked(blank, LIFE, 5, 9_000)
    assert marked(blank, LIFE, 5, 10_000).max_ttl_ms == 10_000


def test_a_server_that_does_not_tell_its_life_is_noted_all_the_same(blank: Box) -> None:
    first = marked(blank, "", 5)
    assert first.life == ""
    assert marked(blank, "", HOUR_US) == first
    assert marked(blank, "", "") == ("", 0, 10_000)
    assert marked(blank, LIFE, 5).since_us > 0


@pytest.mark.parametrize(
    "garbage", ["", "hello", LIFE, f"{LIFE} 5", f"{LIFE} x 5", f"{LIFE} -5 10000", f"x {LIFE} 5 60000"]
)
def test_a_text_that_is_no_note_is_written_over(blank: Box, garbage: str) -> None:
    blank.client.set(MARKER, garbage)
    assert marked(blank, LIFE, 5, 7_000).max_ttl_ms == 7_000


def test_a_note_has_no_expiry_even_where_one_stood_that_had(blank: Box) -> None:
    blank.client.set(MARKER, f"{LIFE} 5 10000", px=60_000)
    assert marked(blank, LIFE, 5) == (LIFE, 5, 10_000)


def test_a_key_of_another_type_is_an_error_and_stays(blank: Box) -> None:
    blank.client.rpush(MARKER, "somebody's")
    for call in (blank.mark, blank.acquire):
        with blank.nothing_written(), pytest.raises(redis.ResponseError, match="WRONGTYPE"):
            call()
    assert blank.content(MARKER) == ("list", ["somebody's"])


def test_out_of_memory_or_without_leave_nothing_is_noted(blank: Box) -> None:
    for rule in ("-set", "-get", "-time"):
        with pytest.raises(redis.ResponseError, match=r"can't run this command|ACL failure"):
            blank.restricted(rule).mark(LIFE, 5)
    blank.fill()
    with pytest.raises(redis.ResponseError, match="used memory > 'maxmemory'"):
        blank.mark(LIFE, 5)
    assert blank.content(MARKER) is None


def test_no_script_but_this_one_brings_the_note_back(blank: Box) -> None:
    """Its absence tells of a loss of memory, until somebody has understood that."""
    assert blank.acquire()[7] == ""
    assert blank.call("renew", [LOCK, MARKER], 5_000, "me:3", 1) == ["me:3", [1], ""]
    blank.heal()
    blank.hand_on(ban_ms=5_000)
    assert blank.content(MARKER) is None


def test_the_note_is_the_only_key_that_never_ends(blank: Box, ears: Ears) -> None:
    """However many names there are, nothing leaks; one key for each master is by design."""
    ears.listen(ANNA)
    steps: list[Callable[[], Any]] = [
        lambda: blank.mark(LIFE, 5),
        lambda: blank.acquire(),
        lambda: blank.acquire(THEIRS, waiter=ANNA),
        lambda: blank.acquire(THEIRS, waiter=BEN, order="fair"),
        lambda: blank.wait(BEN),
        lambda: blank.renew(count=2),
        lambda: blank.fence(THEIRS, 2**53 - 1),
        lambda: blank.hand_on(ban_ms=60_000),
        lambda: blank.acquire(owner_of(ANNA)),
        lambda: blank.heal(owner_of(ANNA)),
        lambda: blank.mark(LIFE, "", 20_000),
        lambda: blank.hand_on(owner_of(ANNA), heir=HEIR, order="barging"),
        lambda: blank.client.delete(LOCK),
        lambda: blank.heal(owner_of(HEIR)),
        lambda: blank.status(),
    ]
    seen: set[str] = set()
    for step in steps:
        step()
        found = {str(key) for key in blank.client.keys()}  # noqa: SIM118
        assert {key for key in found if blank.pttl(key) == -1} == {MARKER}
        seen |= found
    assert len(seen) == 5, "a key of each kind has been there"
