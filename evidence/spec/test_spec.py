"""The TLA+ specifications find what they must: a rule of each kind, each module, and complete searches."""

from __future__ import annotations

import pytest

from evidence.spec.cases import ROWS, Case
from evidence.spec.tlc import MissingError, result_of


@pytest.mark.parametrize("case", [case for case in ROWS if case.quick], ids=lambda case: case.name)
def test_tlc_finds_what_the_case_says(case: Case) -> None:
    try:
        result = case.search()
    except MissingError as error:
        pytest.skip(str(error))
    assert case.expects(result), f"{result.violated} in {result.steps} steps"


def test_a_search_that_was_stopped_is_not_called_safe() -> None:
    progress = "Progress(9): 8,123 states generated, 1,204 distinct states found, 96 states left on queue."
    with pytest.raises(RuntimeError, match="did not finish"):
        result_of(progress, 1.0)
    assert result_of(f"{progress}\nModel checking completed. No error has been found.", 1.0).violated is None
