"""Each bad neighbour once. `python -m evidence.neighbours` has all clients, orders and numbers of masters."""

from __future__ import annotations

import pytest

from .__main__ import main
from .faults import FIRST, LATER


@pytest.mark.slow
@pytest.mark.parametrize("name", [*LATER, *FIRST])
def test_a_bad_neighbour_costs_its_vote_and_nothing_else(name: str) -> None:
    # Beside other tests the speed tells only whether waiters stand still: a lost claim takes a second.
    assert not main(["--quick", "--only", name, "--seconds", "1.5", "--slower", "4"])
