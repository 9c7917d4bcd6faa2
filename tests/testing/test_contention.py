"""The contention kit: each check goes red on a history that breaks it and only then; journals; counters."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlock.rules.keys import READERS
from rlock.testing import memory_client
from rlock.testing.contention.checker import Eviction, falling_tokens, judge_safety, wrong_nesting
from rlock.testing.contention.counter import Counter
from rlock.testing.contention.history import History
from rlock.testing.contention.journal import Journal
from rlock.testing.contention.order import SETTLE_S, Harm, judge_order
from rlock.testing.contention.recorder import LOOK_S, Hold, Recorder

from ..histories import Line, ask, got, history, hold, look, ms, nested, release, shared


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
        (history(a=shared(hold(0, 10, 1)), b=shared(hold(5, 20, 1))), set()),
        (history(a=shared(hold(0, 10, 1)), b=hold(9, 20, 2)), OVERLAP),
        (history(a=hold(0, 10, 1), b=shared(hold(9, 20, 1))), OVERLAP),
        # The reader that ends last keeps a writer out, and a reader behind the writer does not hide it.
        (history(a=shared(hold(0, 90, 1)), b=shared(hold(5, 9, 1)), c=hold(50, 60, 2)), OVERLAP),
        (history(a=[*hold(0, 10, 1), *shared(hold(5, 30, 1), 1)], b=shared(hold(20, 40, 1))), set()),
        (history(a=[*hold(0, 10, 1), *shared(hold(5, 30, 1), 1)], b=hold(20, 40, 2)), OVERLAP),
        (history(a=[*hold(0, 10, 1), *shared(hold(5, 30, 1))]), OVERLAP),
        (history(a=shared(hold(2000, 2010, 6)), b=hold(4020, 4030, 6)), {"token falls"}),
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
    everybody = history(a=shared(evicted), b=hold(300, 350, 2), c=shared(hold(320, 330, 1)))
    found = judge_safety(everybody, [Eviction(ms(200), "x", {READERS}, ms(310))])
    assert [each.about for each in found] == [("b#1", "c#1")], "the later reader was not evicted"
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


def test_a_hold_is_judged_when_every_journal_has_been_read_up_to_it() -> None:
    made = history(a=hold(0, 100, 1), b=hold(50, 60, 2))
    made.horizon = ms(40)
    assert not judge_safety(made)
    made.horizon = ms(50)
    assert judge_safety(made)


def test_each_operation_is_noted_with_its_return(tmp_path: Path) -> None:
    with memory_client(3) as client:
        lock = client.lock("x")

        def work(held: Hold) -> None:
            with held.nested(lock):
                held.keep(2.5 * LOOK_S, lambda: True)

        assert Recorder(Journal(tmp_path, "w1"), client.ttl).attempt(lock, work)
        assert not lock.hold_count
    lines = [json.loads(line) for line in (tmp_path / "w1.jsonl").read_text().splitlines()]
    assert [line["event"] for line in lines] == [
        *("acquire", "acquired", "acquire", "acquired", "valid", "valid"),
        *("release", "released", "release", "released", "done"),
    ]
    assert [line["hold_count"] for line in lines if "hold_count" in line] == [1, 2, 2, 1, 1, 0]
    made = History().take(tmp_path)
    made.horizon = 1 << 63
    (found,) = made.holds
    assert (found.lock, found.outcome, len(found.nested), found.lost) == ("x", "got", 1, False)
    assert not judge_safety(made)
    assert not made.open


SETTLE_MS = SETTLE_S * 1000
LONG_MS = 3 * SETTLE_MS  # it waited for the longest time of all


def waits(asked: float, arrived: float, begin: float, token: int) -> list[Line]:
    """A hold of 10 ms, and since when it had its place."""
    there = {"event": "arrived", "at": ms(arrived)}
    return [ask(asked), there, got(begin, token), *release(begin + 10, begin)]


WAITER = waits(LONG_MS, LONG_MS + 5, LONG_MS + 100, 2)  # a waiter that another waiter overtook
OTHER = hold(LONG_MS + 50, LONG_MS + 60, 1, asked=LONG_MS + 6)


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
def test_a_waiter_that_a_later_one_overtakes_is_found(token: int, asked: float, checks: list[str]) -> None:
    assert found(history(a=waits(0, 5, 100, token), b=hold(50, 60, 1, asked=asked))) == checks


def test_a_process_that_did_not_run_may_lose_its_turn_and_no_later_one() -> None:
    long_enough = stalled(LONG_MS + 40, LONG_MS + 90)
    assert not found(history(a=[*WAITER, long_enough], b=OTHER))
    assert found(history(a=[*WAITER, stalled(0, 1)], b=OTHER)) == ["overtaken"]
    assert found(history(a=WAITER, b=[*OTHER, long_enough])) == ["overtaken"]


def test_faults_excuse_it_if_more_than_a_minority_felt_them_within_a_short_time() -> None:
    made = history(a=WAITER, b=OTHER)
    just_before = Harm(ms(LONG_MS - 100), ms(LONG_MS - 50), 1)
    assert found(made, just_before) == ["overtaken"]
    assert not found(made, just_before, just_before._replace(begin=ms(LONG_MS - 500)))
    assert not found(made, just_before._replace(masters=3))
    assert found(made, Harm(0, 1, 3)) == ["overtaken"]


def test_the_token_is_checked_at_the_read_too(tmp_path: Path) -> None:
    counter = Counter(tmp_path / "counter")
    counter.read(1)
    value = counter.read(2)
    # The holder of token 1 was paused. Its write would be lost, although no write with token 2 came before.
    assert not counter.write(1, 1)
    assert counter.write((value or 0) + 1, 2)
    assert counter.read(1) is None
    assert counter.count().lost == 0
