"""What contended sections say, on sections that are known."""

from __future__ import annotations

from typing import Any

import pytest

from bench.harness.sections import Section, Tally, Turn, longest_wait, overlaps, sections_of

MS = 1_000_000


def section(process: int, thread: int, asked: float, entered: float, left: float) -> Section:
    """Instants in milliseconds."""
    return Section(process, thread, *(round(at * MS) for at in (asked, entered, left)))


def turn(*sections: Section, **also: Any) -> Turn:
    """A window from 100 to 1100 ms, of two processes with one thread each, if nothing else is said."""
    settings: dict[str, Any] = {"processes": 2, "threads": 1, "began": 0, "opened": 100 * MS}
    return Turn(**{**settings, "closed": 1100 * MS, "sections": sections, **also})


def figures(*turns: Turn) -> dict[str, float]:
    tally = Tally()
    for one in turns:
        tally.add(one)
    return tally.figures()


def test_sections_that_follow_each_other_do_not_overlap() -> None:
    assert overlaps([section(0, 0, 0, 1, 2), section(1, 0, 0, 2, 3), section(0, 0, 2, 3, 4)]) == 0


def test_each_section_that_begins_in_another_one_is_an_overlap() -> None:
    # The third one begins after the second has ended, and in the first.
    long, inside, later = section(0, 0, 0, 1, 10), section(1, 0, 0, 2, 3), section(1, 0, 3, 9, 12)
    assert overlaps([later, long, inside]) == 2


def test_overlaps_of_the_lead_in_count() -> None:
    told = figures(turn(section(0, 0, 0, 10, 20), section(1, 0, 0, 19, 30)))
    assert told["overlaps"] == 1
    assert told["sections_per_s"] == 0


def test_only_sections_that_begin_in_the_window_count() -> None:
    told = figures(
        turn(
            section(0, 0, 0, 99, 101),
            section(0, 0, 101, 200, 201),
            section(0, 0, 201, 1099, 1101),
            section(0, 0, 1099, 1100, 1102),
        )
    )
    assert told["sections_per_s"] == 2
    assert figures(turn(section(0, 0, 0, 1099, 1101)))["sections_per_s"] == 1


def test_an_owner_that_takes_it_again_is_no_change() -> None:
    told = figures(turn(section(0, 0, 0, 200, 201), section(0, 0, 201, 202, 203), section(1, 0, 0, 204, 205)))
    assert told["sections_per_s"] == 3
    assert told["changes_per_s"] == 1


def test_another_thread_of_the_same_process_is_another_owner() -> None:
    told = figures(turn(section(0, 0, 0, 200, 201), section(0, 1, 0, 202, 203), threads=2))
    assert told["changes_per_s"] == 1


def test_the_first_change_may_be_from_the_lead_in() -> None:
    assert figures(turn(section(0, 0, 0, 98, 99), section(1, 0, 0, 101, 102)))["changes_per_s"] == 1


def test_a_hand_off_is_from_leaving_to_the_entry_of_one_that_waited() -> None:
    told = figures(turn(section(0, 0, 0, 200, 201), section(1, 0, 150, 203.5, 205)))
    assert (told["hand_offs"], told["hand_off_p50_us"]) == (1, 2500)


@pytest.mark.parametrize(
    ("what", "following"),
    [
        ("one that asked after the release waited for nothing", section(1, 0, 202, 203, 204)),
        ("a thread of the same process may have been told locally", section(0, 1, 150, 203, 204)),
        ("one that was let in beside the holder was handed nothing", section(1, 0, 150, 200.5, 204)),
    ],
)
def test_other_changes_are_no_hand_offs(what: str, following: Section) -> None:
    told = figures(turn(section(0, 0, 0, 200, 201), following, threads=2))
    assert told["changes_per_s"] == 1
    assert "hand_offs" not in told, what


def test_the_spread_of_hand_offs_is_that_of_the_turns_medians() -> None:
    fast = turn(section(0, 0, 0, 200, 201), section(1, 0, 0, 202, 203))
    slow = turn(section(0, 0, 0, 200, 201), section(1, 0, 0, 205, 206))
    told = figures(fast, slow)
    assert (told["hand_off_p50_low_us"], told["hand_off_p50_high_us"]) == (1000, 4000)
    assert told["hand_off_p99_us"] == 4000


def test_an_owner_without_a_section_in_the_window_is_starved_and_counts_for_fairness() -> None:
    told = figures(turn(section(0, 0, 0, 50, 51), section(1, 1, 0, 200, 201), threads=2))
    assert told["starved"] == 3
    assert told["jain"] == 0.25


def test_equal_shares_are_fair() -> None:
    told = figures(turn(section(0, 0, 0, 200, 201), section(1, 0, 0, 300, 301)))
    assert (told["jain"], told["starved"]) == (1, 0)


def test_fairness_and_starvation_are_of_each_turn_and_not_of_their_sum() -> None:
    one, other = turn(section(0, 0, 0, 200, 201)), turn(section(1, 0, 0, 200, 201))
    both = turn(section(0, 0, 0, 200, 201), section(1, 0, 0, 300, 301))
    told = figures(one, other)
    assert (told["jain"], told["starved"]) == (0.5, 1)
    told = figures(one, both)
    assert (told["jain"], told["starved"]) == (0.75, 0.5)


def test_the_longest_wait_is_cut_off_at_the_end_of_the_window() -> None:
    assert longest_wait(turn(section(0, 0, 100, 400, 401), section(1, 0, 600, 5000, 5001))) == 500 * MS


def test_waits_that_ended_before_the_window_or_began_behind_it_do_not_count() -> None:
    assert longest_wait(turn(section(0, 0, 0, 90, 91), section(1, 0, 1100, 1500, 1501))) == 0


def test_a_thread_that_failed_waited_since_it_last_left() -> None:
    left, other = section(0, 0, 0, 250, 300), section(1, 0, 1000, 1090, 1091)
    assert longest_wait(turn(left, other)) == 250 * MS
    assert longest_wait(turn(left, other, errors=[(0, "TimeoutError: no")])) == 800 * MS
    assert longest_wait(turn(section(1, 0, 90, 200, 201), errors=[(0, "TimeoutError: no")])) == 1100 * MS


def test_costs_are_for_a_section_in_the_window() -> None:
    in_window = [section(0, 0, 0, 200 + i, 200.5 + i) for i in range(4)]
    told = figures(turn(*in_window, cpu_ns=8 * MS, requests=40, commands=400, scripts=20))
    assert told["cpu_ms_per_section"] == 2
    assert (told["requests_per_section"], told["commands_per_section"]) == (10, 100)
    assert told["scripts_per_section"] == 5


def test_without_a_section_there_is_no_cost_for_one() -> None:
    told = figures(turn(cpu_ns=MS))
    assert "cpu_ms_per_section" not in told
    assert (told["jain"], told["starved"], told["sections_per_s"]) == (0, 2, 0)


def test_replies_become_sections_in_order_of_entry_with_their_process() -> None:
    sections, errors = sections_of(
        [
            {"sections": [[0, 1, 5, 6], [1, 2, 9, 10]], "errors": []},
            {"sections": [[0, 1, 7, 8]], "errors": ["ValueError: x"]},
        ]
    )
    assert [(one.owner, one.entered) for one in sections] == [((0, 0), 5), ((1, 0), 7), ((0, 1), 9)]
    assert errors == [(1, "ValueError: x")]
