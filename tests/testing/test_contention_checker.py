"""The checker of the contention kit: each rule goes red on a history that breaks it, and only then."""

from __future__ import annotations

import pytest

from rlock.testing.contention.checker import Eviction, falling_tokens, judge_safety, wrong_nesting
from rlock.testing.contention.history import History

from ..histories import ask, got, history, hold, look, ms, nested, release


def checks(made: History, evictions: list[Eviction] | None = None) -> set[str]:
    return {finding.check for finding in judge_safety(made, evictions or [])}


DEAD = [ask(0), got(1, 1), look(500, 2400)]
LOST = [ask(0), got(1, 1), look(300, 2001), look(320, 0)]
INNER = {"event": "release", "at": ms(3), "hold_count": 2, "valid_until": ms(2000)}
NESTING = [ask(0), got(1, 1), nested(2, 1, 2), INNER, *release(10, 2001)]
#: Redisson tells no validity; a killed holder of its lock counts as an instant.
JAVA = [ask(0), {"event": "acquired", "at": ms(1)}, {"event": "release", "at": ms(50)}]
OVERLAP = {"overlap"}


@pytest.mark.parametrize(
    ("made", "found"),
    [
        (history(a=hold(0, 10, 1), b=hold(10, 20, 2), c=hold(21, 30, 3)), set()),
        (history(a=hold(0, 10, 1), b=hold(9, 20, 2)), OVERLAP),
        (history(a=hold(0, 10, 1), b=hold(5, 20, 2, lock="y")), set()),
        # A killed holder is valid to the end that it knew.
        (history(a=DEAD, b=hold(2399, 2410, 2)), OVERLAP),
        (history(a=DEAD, b=hold(2400, 2410, 2)), set()),
        # A hold that was lost early counts to the last look that saw it valid.
        (history(a=LOST, b=hold(301, 400, 2)), set()),
        (history(a=LOST, b=hold(300, 400, 2)), OVERLAP),
        # Two that see a validity at one instant overlap, however short it is.
        (history(a=hold(0, 100, 1), b=[ask(0), got(50, 2), look(60, 0)]), OVERLAP),
        # Only the outermost release ends a hold.
        (history(a=NESTING, b=hold(9, 20, 2)), OVERLAP),
        (history(a=NESTING, b=hold(10, 20, 2)), set()),
        (history(java=JAVA, b=hold(49, 60, 2)), OVERLAP),
        (history(java=JAVA, b=hold(50, 60, 2)), set()),
        (history(java=JAVA[:2], b=hold(2, 60, 2)), set()),
        (history(a=hold(2000, 2010, 6), b=hold(4020, 4030, 5)), {"token falls"}),
        (history(a=hold(2000, 2010, 6), b=hold(4020, 4030, 6)), {"token falls", "token shared"}),
    ],
)
def test_a_history_is_judged(made: History, found: set[str]) -> None:
    # Of a holder without a validity there is no token either.
    assert checks(made) - ({"nesting"} if made.holds[0].process == "java" else set()) == found


def test_an_evicted_holder_counts_to_the_eviction() -> None:
    evicted = [ask(0), got(1, 1, owner="vm:1"), look(400, 0)]
    made = history(a=evicted, b=hold(300, 350, 2))
    assert not checks(made, [Eviction(ms(299), "x", {"vm:1"})])
    still = history(a=[*evicted[:2], look(380, 2001)], b=hold(300, 350, 2))
    lookalike = [Eviction(ms(299), "x", {"vm:2"}), Eviction(ms(299), "y", {"vm:1"})]
    assert checks(still, lookalike) == {"overlap"}
    assert not checks(still, [Eviction(ms(299), "x", {"vm:1"})])


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
    assert wrong_nesting(history(a=hold(0, 10, 0)).holds), "a hold without a token is refused"
