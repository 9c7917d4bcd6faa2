"""The soak's check of fair order: red on a history that breaks it, and only then."""

from __future__ import annotations

import pytest

from rlock.testing.contention.history import History
from rlock.testing.contention.order import SETTLE_S, Harm, judge_order

from ..histories import Line, ask, got, history, hold, ms, release

SETTLE_MS = SETTLE_S * 1000
#: It waited for the longest time of all.
LONG_MS = 3 * SETTLE_MS


def waits(asked: float, arrived: float, begin: float, token: int) -> list[Line]:
    """A hold of 10 ms, and since when it had its place."""
    return [
        ask(asked),
        {"event": "arrived", "at": ms(arrived)},
        got(begin, token),
        *release(begin + 10, begin),
    ]


def stalled(begin: float, end: float) -> Line:
    return {"event": "stalled", "at": ms(end), "since": ms(begin)}


def found(made: History, *harms: Harm) -> list[str]:
    return [finding.check for finding in judge_order(made, harms, masters=3).findings]


@pytest.mark.parametrize(
    ("token", "asked", "checks"),
    [
        (2, 6, ["overtaken"]),
        (2, 4, []),  # the other one asked before the waiter had its place
        (0, 6, []),  # the waiter was first, and returns late from its acquire
    ],
)
def test_a_waiter_that_is_overtaken_by_a_later_one_is_found(
    token: int, asked: float, checks: list[str]
) -> None:
    assert found(history(a=waits(0, 5, 100, token), b=hold(50, 60, 1, asked=asked))) == checks


def test_a_process_that_did_not_run_may_lose_its_turn_and_no_later_one() -> None:
    other = hold(LONG_MS + 50, LONG_MS + 60, 1, asked=LONG_MS + 6)
    waiter = waits(LONG_MS, LONG_MS + 5, LONG_MS + 100, 2)
    assert not found(history(a=[*waiter, stalled(LONG_MS + 40, LONG_MS + 90)], b=other))
    assert found(history(a=[*waiter, stalled(0, 1)], b=other)) == ["overtaken"]
    assert found(history(a=waiter, b=[*other, stalled(LONG_MS + 40, LONG_MS + 90)])) == ["overtaken"]


def test_faults_excuse_it_if_more_than_a_minority_felt_them_within_a_short_time() -> None:
    made = history(
        a=waits(LONG_MS, LONG_MS + 5, LONG_MS + 100, 2),
        b=hold(LONG_MS + 50, LONG_MS + 60, 1, asked=LONG_MS + 6),
    )
    just_before = Harm(ms(LONG_MS - 100), ms(LONG_MS - 50), 1)
    assert found(made, just_before) == ["overtaken"]
    assert not found(made, just_before, just_before._replace(begin=ms(LONG_MS - 500)))
    assert not found(made, just_before._replace(masters=3))
    assert found(made, Harm(0, 1, 3)) == ["overtaken"]
