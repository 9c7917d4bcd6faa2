"""The journals of the contention kit: written by the recorder, read as they grow."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from rlock.testing import memory_client
from rlock.testing.contention.checker import judge_safety
from rlock.testing.contention.history import History
from rlock.testing.contention.journal import Journal
from rlock.testing.contention.recorder import LOOK_S, Hold, Recorder

from ..histories import ask, got, history, hold, ms


def test_half_a_line_waits_for_its_end(tmp_path: Path) -> None:
    path, made = tmp_path / "w1.jsonl", History()
    lines = [{**line, "attempt": 1} for line in (ask(1), got(2, 7, owner="vm:1"))]
    data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    for begin, end in pairwise([0, *range(1, len(data), 7), len(data) - 1]):
        with path.open("ab") as file:
            file.write(data[begin:end])
        assert not made.take(tmp_path).holds
    with path.open("ab") as file:
        file.write(data[-1:])
    (found,) = made.take(tmp_path).holds
    assert (found.grant.token, found.asked_at, found.process) == (7, ms(1), "w1")


def test_a_hold_is_judged_when_every_journal_has_been_read_up_to_it() -> None:
    made = history(a=hold(0, 100, 1), b=hold(50, 60, 2))
    made.horizon = ms(40)
    assert not judge_safety(made)
    made.horizon = ms(50)
    assert judge_safety(made)


def test_an_attempt_that_ctrl_c_ended_before_its_first_line_is_none() -> None:
    made = History().add("w", [{"event": "done", "attempt": 1, "outcome": "interrupted", "at": 1}])
    assert not made.attempts
    assert not made.open


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


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError()])
def test_after_an_exception_nothing_is_held_and_the_journal_says_so(
    tmp_path: Path, error: BaseException
) -> None:
    def work(held: Hold) -> None:
        raise error

    with memory_client(3) as client:
        lock = client.lock("x")
        with pytest.raises(type(error)):
            Recorder(Journal(tmp_path, "w1"), client.ttl).attempt(lock, work)
        assert not lock.locked()
    (attempt,) = History().take(tmp_path).attempts
    assert (attempt.outcome, attempt.left_at is None) == ("interrupted", False)
