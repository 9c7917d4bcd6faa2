"""The checker refuses what it must and accepts what it may: journals made by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .checker import (
    Eviction,
    falling_tokens,
    judge_ends,
    judge_progress,
    judge_safety,
    judge_stalls,
    lost_early,
    overlaps,
    shared_tokens,
    wrong_nesting,
)
from .journal import SECOND, Records

TTL = 2 * SECOND


def ms(value: float) -> int:
    return int(value * 1_000_000)


def got(at: float, until: float, token: int, owner: str = "") -> list[Any]:
    return ["got", ms(at), ms(until), token, TTL, owner]


def journals(**workers: list[list[Any]]) -> Records:
    """For each worker its lines; the attempt's number is put in behind the instant, and ``ask`` in front."""
    records = Records()
    for worker, lines in workers.items():
        number, told = 0, []
        for what, at, *more in lines:
            number += what == "ask"
            told.append([what, at, *([] if what in ("ready", "end") else [number]), *more])
        records.add(worker, told)
    return records


def ask(at: float, name: str = "x", timeout: float = -1.0) -> list[Any]:
    return ["ask", ms(at), name, False, timeout]


def hold(
    begin: float, end: float, token: int, name: str = "x", until: float = 0.0, asked: float = -1.0
) -> list[list[Any]]:
    """A hold that was released in time."""
    until = until or begin + 2000
    return [
        ask(begin - 1 if asked < 0 else asked, name),
        got(begin, until, token),
        ["leave", ms(end), ms(until)],
        ["left", ms(end + 1), "released"],
        ["done", ms(end + 1), "got"],
    ]


def checks(records: Records, evictions: list[Eviction] | None = None) -> set[str]:
    return {finding.check for finding in judge_safety(records, evictions or [])}


# -- overlaps ------------------------------------------------------------------------------------------


def test_holds_one_after_another_are_accepted() -> None:
    assert not checks(journals(a=hold(0, 10, 1), b=hold(10, 20, 2), c=hold(21, 30, 3)))


def test_a_hold_that_begins_inside_another_is_refused() -> None:
    records = journals(a=hold(0, 10, 1), b=hold(9, 20, 2))
    assert checks(records) == {"overlap"}
    assert "1.000 ms" in str(judge_safety(records)[0])


def test_a_long_hold_is_remembered_behind_short_ones() -> None:
    records = journals(a=hold(0, 100, 1), b=hold(10, 11, 2), c=hold(50, 51, 3))
    assert len(overlaps(records.holds)) == 2


def test_a_killed_holder_is_valid_to_the_end_that_it_knew() -> None:
    dead = [ask(0), got(1, 2001, 1), ["look", ms(500), ms(2400)]]
    assert overlaps(journals(a=dead, b=hold(2399, 2410, 2)).holds)
    assert not overlaps(journals(a=dead, b=hold(2400, 2410, 2)).holds)


def test_a_stopped_holder_is_valid_to_the_end_that_it_knew_and_no_longer() -> None:
    stopped = [
        ask(0),
        got(1, 2001, 1),
        ["leave", ms(5000), 0],
        ["left", ms(5000), "lost"],
        ["done", ms(5000), "got"],
    ]
    assert not overlaps(journals(a=stopped, b=hold(2001, 4000, 2)).holds)
    assert overlaps(journals(a=stopped, b=hold(2000, 4000, 2)).holds)


def test_a_hold_that_was_lost_early_counts_to_the_last_look_that_saw_it_valid() -> None:
    lost = [ask(0), got(1, 2001, 1), ["look", ms(300), ms(2001)], ["look", ms(320), 0]]
    assert not overlaps(journals(a=lost, b=hold(301, 400, 2)).holds)
    assert overlaps(journals(a=lost, b=hold(300, 400, 2)).holds)
    assert [attempt.worker for attempt in lost_early(journals(a=lost).holds)] == ["a"]


def test_two_that_see_a_validity_at_one_instant_overlap_however_short_it_is() -> None:
    short = [ask(0), got(50, 2050, 2), ["look", ms(60), 0]]
    assert overlaps(journals(a=hold(0, 100, 1), b=short).holds)


def test_a_release_counts_from_when_it_is_called() -> None:
    assert not overlaps(journals(a=hold(0, 10, 1), b=hold(10.5, 20, 2)).holds)


def test_an_evicted_holder_counts_to_the_eviction() -> None:
    evicted = [ask(0), got(1, 2001, 1, "vm:1"), ["look", ms(400), 0]]
    records = journals(a=evicted, b=hold(300, 350, 2))
    lookalike = [Eviction(ms(299), "x", {"vm:2"}), Eviction(ms(299), "y", {"vm:1"})]
    assert not checks(records, [Eviction(ms(299), "x", {"vm:1"})])
    still = journals(a=[*evicted[:2], ["look", ms(380), ms(2001)]], b=hold(300, 350, 2))
    assert checks(still, lookalike) == {"overlap"}
    assert not checks(still, [Eviction(ms(299), "x", {"vm:1"})])


# -- tokens --------------------------------------------------------------------------------------------


def test_tokens_that_rise_are_accepted() -> None:
    assert not falling_tokens(journals(a=hold(0, 10, 5), b=hold(20, 30, 6), c=hold(40, 50, 90)).holds)


def test_a_token_that_falls_is_refused() -> None:
    records = journals(a=hold(2000, 2010, 6), b=hold(4020, 4030, 5))
    assert checks(records) == {"token falls"}


def test_a_token_that_two_holds_share_is_refused() -> None:
    records = journals(a=hold(2000, 2010, 6), b=hold(4020, 4030, 6))
    assert shared_tokens(records.holds)
    assert checks(records) == {"token falls", "token shared"}


def test_when_a_round_was_sent_is_told_by_its_validity() -> None:
    # Both had waited since the beginning; the second one's round was sent when the first one was inside.
    records = journals(a=hold(100, 110, 7, asked=0), b=hold(2200, 2210, 6, asked=0, until=4200))
    assert falling_tokens(records.holds)


@pytest.mark.parametrize(
    ("token", "depth", "wrong"), [(7, 2, False), (8, 2, True), (7, 3, True), (7, 1, True)]
)
def test_a_nested_acquire_has_the_token_of_the_outer_one_and_counts_two(
    token: int, depth: int, wrong: bool
) -> None:
    lines = [ask(0), got(1, 2001, 7), ["nest", ms(2), token, depth]]
    assert bool(wrong_nesting(journals(a=lines).holds)) is wrong


# -- progress ------------------------------------------------------------------------------------------


def test_who_waits_beyond_the_bound_is_told() -> None:
    records = journals(a=[ask(0)], b=[ask(0, timeout=0.5)], c=[ask(0)], d=hold(900, 910, 1, asked=0))
    found = judge_progress(records, {"c"}, ms(500), ms(3000), 2.0)
    assert [finding.check for finding in found] == ["progress"]
    assert "a#1" in str(found[0])


def test_an_attempt_that_has_no_end_is_told_unless_its_process_was_killed() -> None:
    records = journals(a=[ask(0, timeout=0.1), ["end", ms(50)]], b=[ask(0, timeout=0.1)])
    assert [f.check for f in judge_ends(records, ())] == ["unfinished"]
    assert not judge_ends(records, ("a",))


def test_a_lock_that_is_free_and_not_had_by_one_who_waits_is_told_once() -> None:
    records = journals(a=hold(0, 10, 1), b=hold(5011, 5020, 2, asked=0), c=[ask(1)])
    assert [f.check for f in judge_stalls(records, (), ms(5030), 4.0)] == ["free and not had"]
    assert not judge_stalls(records, (), ms(5030), 5.5)
    assert not judge_stalls(records, ("b", "c"), ms(5030), 4.0)


def test_a_dead_holders_lock_is_free_when_its_validity_ends() -> None:
    records = journals(a=[ask(0), got(1, 2001, 1)], b=[ask(5)])
    assert not judge_stalls(records, ("a",), ms(5900), 4.0)
    assert judge_stalls(records, ("a",), ms(6100), 4.0)


# -- journals ------------------------------------------------------------------------------------------


def test_journals_are_read_as_they_grow_and_half_a_line_waits_for_its_end(tmp_path: Path) -> None:
    path, records = tmp_path / "w1.journal", Records()
    first = json.dumps(["ask", 1, 1, "x", False, -1.0]) + "\n"
    second = json.dumps(["got", 2, 1, 2_000_000_000, 7, TTL, "vm:1"]) + "\n"
    path.write_text(first + second[:9])
    assert not records.take(tmp_path).holds
    path.write_text(first + second)
    (found,) = records.take(tmp_path).holds
    assert (found.token, found.owner, found.asked_at) == (7, "vm:1", 1)


def test_a_hold_is_judged_when_every_journal_has_been_read_up_to_it() -> None:
    records = journals(a=hold(0, 100, 1), b=hold(50, 60, 2))
    records.horizon = ms(40)
    assert not checks(records)
    records.horizon = ms(50)
    assert checks(records) == {"overlap"}
