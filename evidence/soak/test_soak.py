"""The soak can fail: rules that are broken, and histories that it must not accept.

With all rules: ``python -m evidence.soak``.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rlock.testing.local.embedded import ServerBinary
from tests.histories import ask, end, got, history, hold, look, ms

from .run import Plan, figures, judge_ends, judge_progress, run


@pytest.fixture
def plan(server: ServerBinary, tmp_path: Path) -> Plan:
    """The journals of a run that fails stay in pytest's folder for it."""
    return Plan(10.0, seed=1, processes=4, keep=tmp_path, server=server)


#: Broken rules that a nemesis brings to light on real masters: the check that notices it, and the plan. The
#: others take a coincidence that it hardly ever causes; the search in virtual time does (evidence/bugs).
BREACHES: dict[str, tuple[str, dict[str, Any]]] = {
    # All leases are forgotten at once, and the masters are back before their holders can heal them.
    "guard off": ("overlap", {"faults": ("all",), "holds": "fixed", "sabotage": "guard off"}),
    "quorum N/2": ("overlap", {"faults": ("disconnect",), "sabotage": "quorum N/2"}),
    # A release that is delivered late, and undos: they meet somebody else's lock.
    "release without owner check": (
        "overlap",
        {"faults": ("stop", "cut", "slow"), "masters": 5, "sabotage": "release without owner check"},
    ),
    # Users who ask for the fair order get the default one.
    "fair order": ("overtaken", {"faults": ("murder", "freeze"), "order": "unfair"}),
    # A holder whose clock runs 3 % too slow believes in a lease that has ended.
    "rates of clocks": ("overlap", {"faults": ("disconnect",), "holds": "fixed", "rate": 0.03}),
}


@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", BREACHES)
def test_a_breach_is_noticed(plan: Plan, name: str) -> None:
    check, changes = BREACHES[name]
    broken = replace(plan, seconds=25.0, processes=6, names=("a", "b"), until_red=True, **changes)
    assert any(check in run(replace(broken, seed=seed)).failed for seed in (1, 2))


def test_an_attempt_that_waits_beyond_the_bound_is_found() -> None:
    made = history(a=[ask(0)], b=[ask(0, timeout=0.5)], c=[ask(0)], d=hold(900, 910, 1, asked=0))
    found = judge_progress(made, {"c"}, ms(500), ms(3000), 2.0)
    assert [finding.check for finding in found] == ["progress"]
    assert "a#1" in str(found[0])


def test_an_attempt_without_an_end_is_found_unless_its_process_was_killed() -> None:
    made = history(a=[ask(0, timeout=0.1), end(50)], b=[ask(0, timeout=0.1)])
    assert [finding.check for finding in judge_ends(made, ())] == ["unfinished"]
    assert not judge_ends(made, ("a",))


def test_a_hold_that_was_lost_with_validity_left_is_counted() -> None:
    lost = [ask(0), got(1, 1), look(300, 2001), look(320, 0)]
    late = [ask(0), got(1, 1), look(2002, 0)]
    slow = [ask(0), got(1, 1), {**look(1990, 0), "by": ms(2002)}]
    assert figures(history(a=lost, b=late, c=slow))["lost_before_their_time"] == 1
