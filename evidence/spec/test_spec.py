"""The TLA+ specifications find what they must, in scopes of some seconds each."""

from __future__ import annotations

import pytest

from evidence.spec.cases import ROWS, Case
from evidence.spec.tlc import MissingError, result_of

#: Some seconds each: a rule of each kind, each module, and a scope that is searched to its end.
QUICK = (
    "three clients, one loss",
    "clocks of clients lose a tick, no loss",
    "without: 3.1 quorum",
    "without: 3.1 drift",
    "without: 3.4 release checks the owner",
    "without: 3.6 guard of a whole lease",
    "without: 3.8 INCR and the greatest answer",
    "reached: a renewal that needs healed votes",
    "reached: a token that is written back",
    "proof without: 3.4 release checks the owner",
    "proof without: 3.7 limit D",
    "queue: each waiter wins, one master down",
    "queue without: 3.1 undo",
    "queue without: 4 the place first",
    "max_ttl 3 and 2, each grant raises the note",
    "hand-off without: 3.10 claim time",
    "hand-off without: 3.8 stored where the lock is held",
    "hand-off as it was: an evicted hold comes back",
    "group without: 2.4 the note names the replication id, T=1",
    "group without: 2.4 a note of another term is young, T=1",
)


@pytest.mark.parametrize("case", [case for case in ROWS if case.name in QUICK], ids=lambda case: case.name)
def test_tlc_finds_what_the_case_says(case: Case) -> None:
    try:
        result = case.search()
    except MissingError as error:
        pytest.skip(str(error))
    assert case.expects(result), f"{result.violated} in {result.steps} steps"


def test_every_quick_case_exists() -> None:
    assert {case.name for case in ROWS} >= set(QUICK)


def test_a_search_that_was_stopped_is_not_called_safe() -> None:
    progress = "Progress(9): 8,123 states generated, 1,204 distinct states found, 96 states left on queue."
    with pytest.raises(RuntimeError, match="did not finish"):
        result_of(progress, 1.0)
    assert result_of(f"{progress}\nModel checking completed. No error has been found.", 1.0).violated is None
    with pytest.raises(RuntimeError, match="did not finish"):
        result_of("Progress: 8,123 states checked, 31 traces generated (trace length: mean=80)", 1.0)
    assert result_of("Progress: 8,123 states checked.\nFinished in 12s at (2026-11-24)", 1.0).states == 8123
