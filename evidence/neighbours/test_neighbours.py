"""Bad neighbours. `python -m evidence.neighbours`: each, with all clients, orders and numbers of masters."""

from __future__ import annotations

import pytest

from .__main__ import main
from .faults import FIRST, LATER

#: Left to `python -m evidence.neighbours`: each is like another one that the tests run.
LEFT_OUT = {f"answers {lie}" for lie in ("an array of 4 * 10^9", "an array of 10^8", "10,000 levels")}


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in (*LATER, *FIRST) if name not in LEFT_OUT])
def test_a_bad_neighbour_costs_its_vote_and_nothing_else(name: str) -> None:
    # Beside other tests the speed tells only whether waiters stand still: a lost claim takes a second.
    assert not main(["--quick", "--only", name, "--seconds", "1", "--slower", "4"])
