"""Contestants that take turns, also where some of them fail."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path

import pytest

from bench.harness import lineup
from bench.harness.field import Entry
from bench.harness.lineup import Clock, Lineup, Runner, a_few, gather, meeting, without_twins

from .broken import broken


def entry(key: str, language: str = "Python", masters: str = "many") -> Entry:
    family = "rlock" if key.startswith("rlock") else "peer"
    return Entry(key, key, family, language, masters, key.endswith("-tuned"), "none", "")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ("cannot start", "Failed: pip failed: no such package"),
        ("ends", "Failed: it has ended: it had enough"),
        ("hangs", "Failed: no answer within 0.5 s"),
        ("prints", "Failed: no reply of the protocol: warming up"),
        ("raises", "LockError: no such lock"),
        ("sometimes", "LockError: not this time"),
    ],
)
def test_a_contestant_that_fails_has_its_error_and_the_others_go_on(how: str, error: str) -> None:
    with Lineup([(broken(how), []), (broken("well"), [])]) as both:
        bad, well = both.runners
        for runner in both.turns(random.Random(1), Clock(1.0)):
            runner.batch("pairs", "x", 0.5)
    row = bad.row({})
    assert row.error is not None
    assert row.error.startswith(error)
    assert "\n" not in row.error
    assert well.error is None
    assert well.row({}).error is None
    assert len(well.rounds) > 10
    if how == "sometimes":
        assert row.figures["failed"] == bad.failed > 10
        assert bad.rounds, "what it did well counts"
    else:
        assert not bad.rounds


def test_a_contestant_that_failed_is_no_process_any_more() -> None:
    with Lineup([(broken("hangs"), [])]) as one:
        (runner,) = one.runners
        assert runner.contestant is not None
        pid = runner.contestant.pid
        runner.batch("pairs", "x", 0.3)
        assert not Path(f"/proc/{pid}").exists()


def test_all_have_ended_with_the_block_also_by_an_exception() -> None:
    pids: list[int] = []
    with pytest.raises(KeyboardInterrupt), Lineup([(broken("well"), [])] * 3) as three:
        pids += [runner.contestant.pid for runner in three.runners if runner.contestant]
        raise KeyboardInterrupt
    assert len(pids) == 3
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def test_turns_are_fair_and_their_order_is_drawn_anew() -> None:
    crowd = Lineup([])
    crowd.runners = [Runner(entry(name), [], contestant=object()) for name in "abcd"]  # type: ignore[arg-type]
    taken = []
    turns = crowd.turns(random.Random(7), Clock(10.0))
    for _ in range(40):
        taken.append(next(turns).key)
    rounds = ["".join(taken[i : i + 4]) for i in range(0, 40, 4)]
    assert all(sorted(one) == list("abcd") for one in rounds)
    assert len(set(rounds)) > 3
    assert set(Counter(taken).values()) == {10}


def test_one_whole_round_is_run_whatever_the_clock_says() -> None:
    crowd = Lineup([])
    crowd.runners = [Runner(entry(name), [], contestant=object()) for name in "abcd"]  # type: ignore[arg-type]
    assert sorted(one.key for one in crowd.turns(random.Random(7), Clock(0.0))) == list("abcd")


def test_a_batch_takes_about_the_same_time_for_all_and_its_first_pairs_do_not_count() -> None:
    asked: list[int] = []

    class Counting(Runner):
        def ask(self, verb: str, timeout: float = 1.0, **request: object) -> dict[str, object]:
            assert isinstance(request["count"], int)
            asked.append(request["count"])
            return {"ns": [self.ns] * request["count"], "errors": []}

        ns = 1_000_000

    quick, slow = Counting(entry("quick"), []), Counting(entry("slow"), [])
    slow.ns = 10_000_000
    for runner in (quick, quick, slow, slow):
        runner.batch("pairs", "x")
    assert asked == [1, lineup.MAX_BATCH + lineup.UNCOUNTED, 1, 2]
    assert [len(batch) for batch in quick.rounds] == [1, lineup.MAX_BATCH]
    assert [len(batch) for batch in slow.rounds] == [1, 2]


def test_the_warm_up_leaves_nothing_that_counts() -> None:
    with Lineup([(broken("well"), []), (broken("sometimes"), [])]) as both:
        both.warm_up("pairs", lambda runner: "x", random.Random(1), Clock(0.3))
        for runner in both.runners:
            assert (runner.rounds, runner.failed, runner.error) == ([], 0, None)
            assert runner.pair_s > 0


@pytest.mark.timing
def test_those_that_are_asked_at_the_same_time_have_the_same_time_to_answer() -> None:
    with Lineup([(broken(how), []) for how in ("hangs", "hangs", "well", "cannot start")]) as four:
        for runner in four.runners:
            runner.send("pairs", lock="x", count=1)
        began = time.monotonic()
        answers = [answer for _, answer in gather(four.runners, 0.7)]
        assert time.monotonic() - began < 1.2
        assert [answer is not None for answer in answers] == [False, False, True, False]
        told = [runner.error for runner in four.runners]
    assert told == [*["Failed: no answer within 0.7 s"] * 2, None, "Failed: pip failed: no such package"]


@pytest.mark.timing
def test_one_that_stalls_has_no_turn_that_would_go_beyond_the_end() -> None:
    crowd = Lineup([])
    crowd.runners = [Runner(entry(name), [], contestant=object()) for name in "ab"]  # type: ignore[arg-type]
    crowd.runners[0].longest_s = 60.0
    taken = []
    for runner in crowd.turns(random.Random(7), Clock(0.05)):
        taken.append(runner.key)
        time.sleep(0.005)
    assert taken.count("a") == 1
    assert taken.count("b") > 3
    crowd.runners[1].longest_s = 60.0
    began = time.monotonic()
    assert len(list(crowd.turns(random.Random(7), Clock(5.0)))) == 2
    assert time.monotonic() - began < 1.0, "it waits for nobody"


def test_who_takes_part() -> None:
    pottery, tuned, alone = entry("pottery"), entry("pottery-tuned"), entry("redis-py", masters="one")
    assert without_twins([pottery, tuned]) == [pottery]
    assert without_twins([tuned]) == [tuned]
    assert meeting([pottery, alone], 1) == [pottery, alone]
    assert meeting([pottery, alone], 5) == [pottery]
    node, ours = entry("node-redlock", "JavaScript"), entry("rlock")
    java = entry("redisson-rlock", "Java")
    assert a_few([ours, pottery, alone, node, java]) == [ours, pottery, node]
