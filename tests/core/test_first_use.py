"""The first use of a fleet: when a master may be as old as its server, and not only as its note."""

from __future__ import annotations

import math

import pytest

from rlock.rules.restart_guard import NEW, Guard

from .test_restart_guard import DAY, FULL, NAMES, met, note, told


def fleet(*notes: str) -> Guard:
    """A client that has met the first of its three masters, with these notes."""
    guard = Guard(NAMES, 10.0)
    for i, text in enumerate(notes):
        guard.judge(i, told(text, run_id="abc"[i] + "1"), 100.0)
    return guard


YOUNG = [note(0.0, f"{name}1", 0) for name in "abc"]


def test_at_first_use_each_master_that_does_not_count_is_asked_with_the_note_that_is_known() -> None:
    assert fleet(*YOUNG).first_use(100.0) == list(enumerate(YOUNG))


def test_a_note_that_was_read_a_while_ago_does_not_tell_that_no_lease_was_granted_since() -> None:
    """Otherwise the last master, replaced by an old server meanwhile, would be believed beside a holder."""
    guard = fleet(*YOUNG[:2])
    guard.judge(2, told(YOUNG[2]), 101.1)
    assert guard.first_use(101.1) == []


@pytest.mark.parametrize("granted", [0, 1, 2])
@pytest.mark.parametrize("max_ttl_ms", [1, 10_000])
def test_where_one_master_has_granted_a_lease_there_is_no_first_use(max_ttl_ms: int, granted: int) -> None:
    """One without grants may have lost its memory, or be another server than it was."""
    notes = [*YOUNG]
    notes[granted] = note(DAY, f"{'abc'[granted]}1", max_ttl_ms)
    guard = fleet(*notes)
    assert guard.first_use(100.0) == []
    guard.judge(granted, told(note(None, f"{'abc'[granted]}1", 0), 101.0), 101.0)
    assert guard.first_use(101.0) == [], "nor afterwards: it was in use"


def test_a_lease_that_was_granted_while_the_last_master_was_out_of_reach_is_one() -> None:
    guard = fleet(*YOUNG[:2])
    guard.check_note(0, note(0.0, "a1", 10_000), 100.0)
    guard.judge(2, told(YOUNG[2]), 100.0)
    assert guard.first_use(100.0) == []


def test_a_master_that_has_no_note_makes_it_no_first_use() -> None:
    """It was refused: what was granted there is not known."""
    assert fleet(*YOUNG[:2], "").first_use(100.0) == []


def test_first_use_is_asked_for_once() -> None:
    """Later this client's own grants, which notes need not tell of any more, would be forgotten."""
    guard = fleet(*YOUNG)
    guard.first_use(100.0)
    assert guard.first_use(100.0) == []
    guard.judge(0, told(note(-3.0, "a2", 0), 104.0), 104.0, last_reply_at=103.0)
    assert guard.first_use(104.0) == []


@pytest.mark.parametrize("new_connection", [False, True])
@pytest.mark.parametrize("before", [-7.0, 0.0, 3.0])
@pytest.mark.parametrize("age", [10.05, FULL + 1.0, DAY])
@pytest.mark.parametrize("last_reply_at", [-math.inf, 100.0, 106.0])
def test_an_earlier_since_of_the_same_life_corrects_the_one_before(
    last_reply_at: float, age: float, before: float, *, new_connection: bool
) -> None:
    """At first use the master found that its memory is as old as its life, for this client or for another."""
    guard = met(note(before))
    text = note(age - 7.0)
    assert not guard.check_note(0, text, 106.5), "an answer that is no handshake's does not tell the age"
    guard.judge(0, told(text, 107.0), 107.0, last_reply_at=last_reply_at, new_connection=new_connection)
    assert guard.wait(0, 107.0) == pytest.approx(max(0.0, FULL - age))
    assert guard.counts(0, text, 107.0) == (age >= FULL)
    assert guard.fault(0, 107.0).startswith(NEW)
