"""The verdict of the demo on histories made by hand: it reports each problem, and nothing else."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from rlock.cli.demo.phases import Kill, Marks
from rlock.cli.demo.verdict import Evidence, judge
from rlock.testing.contention.counter import Count

from ..histories import Line, ask, got, history, look, ms, nested, release

TTL_S = 2.0
WORKERS = ("worker-1", "worker-2", "worker-3")
KILL = Kill("worker-2", ms(3400))


def section(begin: float, token: int) -> list[Line]:
    """A section of 1 ms with one nested acquire, asked for 20 ms before."""
    until = begin + 1000 * TTL_S
    return [ask(begin - 20), got(begin, token, until), nested(begin, token, 2), *release(begin + 1, until)]


def turns(begin: float, count: int, workers: tuple[str, ...] = WORKERS) -> dict[str, list[Line]]:
    """Sections of the workers in turn, 1 ms long and 1 ms apart."""
    lines: dict[str, list[Line]] = {name: [] for name in WORKERS}
    for i in range(count):
        at = begin + 2 * i
        lines[workers[i % len(workers)]] += section(at, int(10 * at))
    return lines


def lines_of_a_run(*, owner_at: float = 4900, renewed_to: float = 4900) -> dict[str, list[Line]]:
    """Contention, hand-offs, contention, a holder that is killed 2.5 s after its grant, five sections."""
    parts = [turns(100, 90), turns(500, 31, WORKERS[:2]), turns(700, 90)]
    held = {"worker-2": [ask(890), got(900, 9000), look(2000, renewed_to)]}
    parts += [held, turns(owner_at, 5, WORKERS[:1])]
    return {name: [line for part in parts for line in part.get(name, [])] for name in WORKERS}


def evidence(lines: dict[str, list[Line]] | None = None, **changed: Any) -> Evidence:
    """A run in which everything went as it should, with these changes."""
    good = Evidence(
        history=history(**(lines or lines_of_a_run())),
        unlocked=Count(value=40, acknowledged=60, highest_token=0),
        counter=Count(value=216, acknowledged=216, highest_token=0),
        marks=Marks((0, ms(300)), (ms(480), ms(600)), (ms(700), ms(900)), KILL),
        workers=WORKERS,
        masters=5,
        ttl=TTL_S,
    )
    return dataclasses.replace(good, **changed)


def test_a_control_that_loses_nothing_proves_nothing() -> None:
    assert judge(evidence()).proven
    verdict = judge(evidence(unlocked=Count(60, 60, 0)))
    assert not verdict.proven
    assert verdict.sentence.startswith("NOTHING PROVEN: 60 updates without the lock, and none was lost")


def overlapping() -> Evidence:
    lines = lines_of_a_run()
    lines["worker-3"] += section(1500, 14_000)
    return evidence(lines, counter=Count(217, 217, 0))


def no_owner() -> Evidence:
    lines = lines_of_a_run()
    lines["worker-1"] = [line for line in lines["worker-1"] if line["at"] < ms(3000)]
    return evidence(lines, counter=Count(211, 211, 0))


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        (overlapping(), "overlap, 1 times, the first: two valid leases of 'x' for 1.000 ms (worker-2#76, "),
        (no_owner(), "nobody got the lock after its holder was killed"),
        (evidence(counter=Count(215, 216, 0)), "1 of 216 updates were lost"),
        (evidence(ttl=0.9), "the next owner came 1.50 s after the kill: over ttl + 0.5 s"),
        (evidence(ttl=3.7), "was not renewed while it held"),
        (evidence(marks=Marks(kill=KILL)), "no section was completed after 2 masters were killed"),
        (evidence(workers=(*WORKERS, "worker-4")), "worker-4 never completed a section"),
    ],
)
def test_one_problem_and_nothing_is_proven(broken: Evidence, problem: str) -> None:
    verdict = judge(broken)
    assert verdict.sentence.startswith("VIOLATION: ")
    assert any(problem in text for text in verdict.problems), verdict.problems
