"""The soak's checks of progress: each goes red on a history that breaks it, and only then."""

from __future__ import annotations

from tests.histories import ask, end, got, history, hold, look, ms

from .progress import judge_ends, judge_progress, judge_stalls, lost_early


def test_an_attempt_that_waits_beyond_the_bound_is_found() -> None:
    made = history(a=[ask(0)], b=[ask(0, timeout=0.5)], c=[ask(0)], d=hold(900, 910, 1, asked=0))
    found = judge_progress(made, {"c"}, ms(500), ms(3000), 2.0)
    assert [finding.check for finding in found] == ["progress"]
    assert "a#1" in str(found[0])


def test_an_attempt_without_an_end_is_found_unless_its_process_was_killed() -> None:
    made = history(a=[ask(0, timeout=0.1), end(50)], b=[ask(0, timeout=0.1)])
    assert [finding.check for finding in judge_ends(made, ())] == ["unfinished"]
    assert not judge_ends(made, ("a",))


def test_a_free_lock_that_a_waiter_does_not_get_is_found_once() -> None:
    made = history(a=hold(0, 10, 1), b=hold(5011, 5020, 2, asked=0), c=[ask(1)])
    assert [finding.check for finding in judge_stalls(made, (), ms(5030), 4.0)] == ["free and not had"]
    assert not judge_stalls(made, (), ms(5030), 5.5)
    assert not judge_stalls(made, ("b", "c"), ms(5030), 4.0)


def test_a_dead_holders_lock_is_free_when_its_validity_ends() -> None:
    made = history(a=[ask(0), got(1, 1)], b=[ask(5)])
    assert not judge_stalls(made, ("a",), ms(5900), 4.0)
    assert judge_stalls(made, ("a",), ms(6100), 4.0)


def test_a_hold_that_was_lost_with_validity_left_is_counted() -> None:
    lost = [ask(0), got(1, 1), look(300, 2001), look(320, 0)]
    late = [ask(0), got(1, 1), look(2002, 0)]
    slow = [ask(0), got(1, 1), {**look(1990, 0), "by": ms(2002)}]
    assert [attempt.process for attempt in lost_early(history(a=lost, b=late, c=slow).holds)] == ["a"]
