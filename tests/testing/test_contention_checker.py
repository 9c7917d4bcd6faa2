"""The checker of the contention kit: each rule goes red on a history that breaks it, and only then."""

from __future__ import annotations

import pytest

from rlock.testing.contention.checker import (
    Eviction,
    falling_tokens,
    judge_safety,
    overlaps,
    shared_tokens,
    wrong_nesting,
)
from rlock.testing.contention.history import History

from ..histories import ask, got, history, hold, look, ms, nested, release


def checks(made: History, evictions: list[Eviction] | None = None) -> set[str]:
    return {finding.check for finding in judge_safety(made, evictions or [])}


def test_holds_one_after_another_are_accepted() -> None:
    assert not checks(history(a=hold(0, 10, 1), b=hold(10, 20, 2), c=hold(21, 30, 3)))


def test_a_hold_that_begins_inside_another_is_refused() -> None:
    made = history(a=hold(0, 10, 1), b=hold(9, 20, 2))
    assert checks(made) == {"overlap"}
    assert "1.000 ms" in str(judge_safety(made)[0])


def test_holds_of_two_locks_do_not_overlap() -> None:
    assert not checks(history(a=hold(0, 10, 1), b=hold(5, 20, 2, lock="y")))


def test_a_killed_holder_is_valid_to_the_end_that_it_knew() -> None:
    dead = [ask(0), got(1, 1), look(500, 2400)]
    assert overlaps(history(a=dead, b=hold(2399, 2410, 2)).holds)
    assert not overlaps(history(a=dead, b=hold(2400, 2410, 2)).holds)


def test_a_hold_that_was_lost_early_counts_to_the_last_look_that_saw_it_valid() -> None:
    lost = [ask(0), got(1, 1), look(300, 2001), look(320, 0)]
    assert not overlaps(history(a=lost, b=hold(301, 400, 2)).holds)
    assert overlaps(history(a=lost, b=hold(300, 400, 2)).holds)


def test_two_that_see_a_validity_at_one_instant_overlap_however_short_it_is() -> None:
    short = [ask(0), got(50, 2), look(60, 0)]
    assert overlaps(history(a=hold(0, 100, 1), b=short).holds)


def test_only_the_outermost_release_ends_a_hold() -> None:
    inner = {"event": "release", "at": ms(3), "hold_count": 2, "valid_until": ms(2000)}
    nesting = [ask(0), got(1, 1), nested(2, 1, 2), inner, *release(10, 2001)]
    assert overlaps(history(a=nesting, b=hold(9, 20, 2)).holds)
    assert not overlaps(history(a=nesting, b=hold(10, 20, 2)).holds)


def test_an_evicted_holder_counts_to_the_eviction() -> None:
    evicted = [ask(0), got(1, 1, owner="vm:1"), look(400, 0)]
    made = history(a=evicted, b=hold(300, 350, 2))
    assert not checks(made, [Eviction(ms(299), "x", {"vm:1"})])
    still = history(a=[*evicted[:2], look(380, 2001)], b=hold(300, 350, 2))
    lookalike = [Eviction(ms(299), "x", {"vm:2"}), Eviction(ms(299), "y", {"vm:1"})]
    assert checks(still, lookalike) == {"overlap"}
    assert not checks(still, [Eviction(ms(299), "x", {"vm:1"})])


def test_a_holder_without_a_validity_counts_from_grant_to_release() -> None:
    """Redisson tells no validity; a killed holder of its lock counts as an instant."""
    grant = {"event": "acquired", "at": ms(1)}
    java = [ask(0), grant, {"event": "release", "at": ms(50)}]
    assert overlaps(history(java=java, b=hold(49, 60, 2)).holds)
    assert not overlaps(history(java=java, b=hold(50, 60, 2)).holds)
    assert not overlaps(history(java=java[:2], b=hold(2, 60, 2)).holds)


def test_a_token_that_falls_is_refused() -> None:
    assert checks(history(a=hold(2000, 2010, 6), b=hold(4020, 4030, 5))) == {"token falls"}


def test_a_token_that_two_holds_share_is_refused() -> None:
    made = history(a=hold(2000, 2010, 6), b=hold(4020, 4030, 6))
    assert shared_tokens(made.holds)
    assert checks(made) == {"token falls", "token shared"}


def test_the_validity_tells_when_a_round_was_sent() -> None:
    # Both had waited since the beginning; the second one's round was sent when the first one was inside.
    made = history(a=hold(100, 110, 7, asked=0), b=hold(2200, 2210, 6, asked=0, until=4200))
    assert falling_tokens(made.holds)
    # A round that was sent before the first one's return may have any token.
    sent_before = hold(120, 130, 6, asked=0, until=2090)
    assert not falling_tokens(history(a=hold(100, 110, 7, asked=0), b=sent_before).holds)


@pytest.mark.parametrize(
    ("inner", "wrong"),
    [
        ([(7, 2)], False),
        ([(7, 2), (7, 3)], False),
        ([(8, 2)], True),
        ([(7, 3)], True),
        ([(7, 1)], True),
        ([(7, 2), (7, 2)], True),
    ],
)
def test_nested_acquires_have_the_outer_token_and_count_up(inner: list[tuple[int, int]], wrong: bool) -> None:
    lines = [ask(0), got(1, 7), *(nested(2, token, count) for token, count in inner)]
    assert checks(history(a=lines)) == ({"nesting"} if wrong else set())


def test_a_hold_without_a_token_is_refused() -> None:
    assert wrong_nesting(history(a=hold(0, 10, 0)).holds)
