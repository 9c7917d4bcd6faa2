"""The demonstration's checker on fabricated records: whatever is wrong in them it says, and nothing else."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from rlock.cli.demo import checker
from rlock.cli.demo.acts import Marks
from rlock.cli.demo.checker import Kill
from rlock.cli.demo.journal import Reader, Section
from rlock.cli.demo.ledger import EMPTY, Ledger, State
from rlock.cli.demo.verdict import Evidence, judge
from rlock.cli.demo.worker import CONTROL, HANDOFF, HOLD, TURNS

MS = 1_000_000
TTL_S = 2.0
TTL = 2000 * MS


def history(
    count: int, *, phase: str = TURNS, begin_at: int = MS, state: State = EMPTY, workers: int = 3
) -> tuple[list[Section], State]:
    """Sections of three workers in turn, 1 ms long and 1 ms apart, each built on the one before."""
    sections = []
    for i in range(count):
        worker, serial, entered_at = 1 + i % workers, begin_at + i, begin_at + 2 * i * MS
        new = state.after(worker, serial)
        sections.append(
            Section(
                worker,
                phase,
                asked_at=entered_at - 20 * MS,
                entered_at=entered_at,
                valid_until=entered_at + TTL,
                serial=serial,
                left_at=entered_at + MS,
                count=new.count,
                parent=state.chain,
                chain=new.chain,
                depth=2,
            )
        )
        state = new
    return sections, state


# -- the record of the lock ------------------------------------------------------------------------------


def test_a_clean_record_has_no_violation() -> None:
    sections, final = history(30)
    assert checker.violations(sections, final) == []


def test_an_overlap_is_found_however_short() -> None:
    sections, final = history(30)
    sections[7].entered_at = (sections[6].left_at or 0) - 1
    (violation,) = checker.violations(sections, final)
    assert violation.startswith("1 overlap, the first: worker 2 entered 0.000 ms before worker 1's")


def test_an_overlap_with_a_long_section_is_found_behind_shorter_ones() -> None:
    sections, _ = history(10)
    sections[0].left_at = sections[9].entered_at + 1
    assert len(checker.overlaps(sections)) == 9


def test_a_lost_update_is_found_and_counted() -> None:
    sections, state = history(10)
    lost, _ = history(1, begin_at=50 * MS, state=state)
    after, final = history(5, begin_at=60 * MS, state=state)  # built on the entry before the lost one
    found = checker.violations([*sections, *lost, *after], final)
    assert "1 of 16 updates were lost" in found
    assert "the ledger counts 15 sections, the workers completed 16" in found


def test_a_torn_ledger_is_found_in_the_end_and_in_between() -> None:
    sections, final = history(10)
    assert checker.violations(sections, None) == ["the ledger is torn"]
    sections[4].found_torn = True
    assert checker.violations(sections, final) == ["1 section found the ledger torn: of worker 2"]


def test_a_section_that_outlived_its_lease_is_found() -> None:
    sections, final = history(10)
    sections[3].valid_until = sections[3].left_at
    (violation,) = checker.violations(sections, final)
    assert violation.startswith("1 section left after the lease had ended")


# -- a holder that was killed ----------------------------------------------------------------------------


def killed(heir_at: int) -> tuple[list[Section], State, Kill]:
    """Ten sections, one that was killed 2.5 s after it began (lease to 4 s), five more from ``heir_at``."""
    before, state = history(10)
    begin_at = 100 * MS
    held = Section(2, HOLD, begin_at, begin_at, valid_until=begin_at + 2 * TTL, serial=999)
    after, final = history(5, begin_at=heir_at, state=state, workers=1)
    after[0].found_torn = True
    return [*before, held, *after], final, Kill(2, begin_at + 5 * TTL // 4)


def test_a_kill_in_the_middle_of_a_rewrite_is_no_violation_of_the_lock() -> None:
    sections, final, kill = killed(heir_at=100 * MS + 2 * TTL)
    assert checker.violations(sections, final, kill) == []
    next_waiter = checker.next_owner(sections, kill)
    assert next_waiter is not None
    assert next_waiter.worker == 1


def test_a_next_owner_before_the_end_of_the_killed_lease_is_found() -> None:
    sections, final, kill = killed(heir_at=100 * MS + 2 * TTL - 1)
    (violation,) = checker.violations(sections, final, kill)
    assert violation.startswith("1 overlap")


# -- figures ---------------------------------------------------------------------------------------------


# -- the verdict -----------------------------------------------------------------------------------------


def evidence() -> Evidence:
    """A run in which everything went as it should."""
    control, state = history(20, phase=CONTROL)
    for section in control:
        section.valid_until = None
    also, control_final = history(20, phase=CONTROL, begin_at=2, state=state)
    twice, _ = history(20, phase=CONTROL, begin_at=3, state=state)
    turns, state = history(90)
    hands, state = history(31, phase=HANDOFF, begin_at=500 * MS, state=state)
    degraded, state = history(90, begin_at=700 * MS, state=state)
    held = Section(2, HOLD, 900 * MS, 900 * MS, valid_until=900 * MS + 2 * TTL, serial=999)
    next_waiter, state = history(5, begin_at=900 * MS + 2 * TTL, state=state, workers=1)
    next_waiter[0].found_torn = True
    return Evidence(
        sections=[*control, *also, *twice, *turns, *hands, *degraded, held, *next_waiter],
        control_ledger=control_final,
        ledger=state,
        marks=Marks((0, 200 * MS), (700 * MS, 900 * MS), Kill(2, 900 * MS + 5 * TTL // 4)),
        faults=[],
        workers=3,
        masters=5,
        masters_killed=2,
        ttl=TTL_S,
    )


def test_the_sentence_says_what_the_record_holds() -> None:
    verdict = judge(evidence())
    assert verdict.proven
    for figures in (
        "216 critical sections of 3 processes on 5 masters, 0 overlaps, 0 lost updates",
        "(without the lock: 20 of 60 lost, 0 torn reads)",
        "2 masters killed: 450 sections/s before, 450/s after",
        "holder killed -9 after 2.5 s: next owner after 1.50 s (ttl 2 s), which put the half-written",
        "wake-up median 1.00 ms, max 1.00 ms (30 hand-offs).",
    ):
        assert figures in verdict.sentence


def test_a_control_that_does_not_break_proves_nothing() -> None:
    good = evidence()
    control, final = history(40, phase=CONTROL)
    guarded = [section for section in good.sections if section.phase != CONTROL]
    verdict = judge(dataclasses.replace(good, sections=[*control, *guarded], control_ledger=final))
    assert not verdict.proven
    assert verdict.sentence.startswith("NOTHING PROVEN")


def ledger_of(sections: Sequence[Section]) -> State:
    done = [s for s in sections if s.phase != CONTROL and s.left_at is not None]
    return State(len(done), done[-1].chain, Counter(section.worker for section in done))


def changed(what: str) -> Evidence:
    good = evidence()
    if what == "a fault":
        return dataclasses.replace(good, faults=["worker 1: the lease was lost"])
    if what == "torn":
        return dataclasses.replace(good, ledger=None)
    if what == "late":
        return dataclasses.replace(good, ttl=0.9)
    if what == "not renewed":
        return dataclasses.replace(good, ttl=3.7)
    if what == "interrupted":
        good.sections[100].entered_at = (good.sections[99].left_at or 0) - 1
        return dataclasses.replace(good, interruption="worker 3 ended with status 1: MemoryError")
    if what == "stand-still":
        return dataclasses.replace(good, marks=dataclasses.replace(good.marks, degraded=(20, 30)))
    if what == "no heir":
        return dataclasses.replace(good, sections=good.sections[:-5], ledger=ledger_of(good.sections[:-5]))
    if what == "no kill":
        return dataclasses.replace(good, marks=dataclasses.replace(good.marks, kill=None))
    assert what == "a worker that starved"
    return dataclasses.replace(good, workers=4)


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("a fault", "the lease was lost"),
        ("torn", "the ledger is torn"),
        ("late", "the next owner came 1.50 s after the kill: over ttl + 0.5 s"),
        ("not renewed", "was not renewed while it held"),
        ("interrupted", "1 overlap"),
        ("stand-still", "no section was completed after 2 masters were killed"),
        ("no heir", "nobody got the lock after its holder was killed"),
        ("no kill", "1 section entered and never left: of worker 2"),
        ("a worker that starved", "worker 4 never completed a section"),
    ],
)
def test_one_thing_wrong_and_nothing_is_proven(what: str, said: str) -> None:
    verdict = judge(changed(what))
    assert verdict.sentence.startswith("VIOLATION: ")
    assert any(said in problem for problem in verdict.problems), verdict.problems


# -- the ledger ------------------------------------------------------------------------------------------


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    ledger = Ledger(tmp_path / "ledger")
    ledger.create()
    return ledger


def test_after_a_crash_in_the_middle_of_a_rewrite_it_says_what_it_said_before(ledger: Ledger) -> None:
    before = EMPTY.after(1, 1)
    ledger.rewrite(EMPTY, before)
    ledger.rewrite(before, before.after(2, 2), half=True)
    assert ledger.final() is None
    assert ledger.read() == (before, True)
    ledger.rewrite(before, before.after(3, 3))
    assert ledger.read() == (before.after(3, 3), False)


# -- the journal -----------------------------------------------------------------------------------------


def test_a_line_that_is_still_being_written_waits(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    reader = Reader(4, path)
    reader.read()  # not there yet
    lines = [
        {"kind": "mode", "mode": TURNS},
        {"kind": "enter", "phase": TURNS, "asked_at": 1, "entered_at": 2, "valid_until": 9, "serial": 1},
        {"kind": "leave", "left_at": 5, "valid_until": 9, "count": 1, "parent": "a", "chain": "b"},
    ]
    data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    for a, b in pairwise([0, *range(1, len(data), 7), len(data)]):
        with path.open("ab") as file:
            file.write(data[a:b])
        reader.read()
    (section,) = reader.sections
    assert (section.worker, section.left_at, section.chain, reader.mode) == (4, 5, "b", TURNS)
    assert reader.inside is None
