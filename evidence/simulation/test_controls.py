"""Negative controls: with a rule of safety broken the random schedules go red, or they would prove nothing.

The other rules take a coincidence that random schedules do not bring about in a reasonable time;
`test_directed.py` has a scenario for each.
"""

from __future__ import annotations

import pytest

from ..sabotage import SABOTAGES, sabotage
from .masters import broken
from .schedules import play
from .test_directed import SCENARIOS

#: Seeds that were seen to go red, tried first. Every change of rlock/ deals the cards anew; then the seeds
#: from 0 on are tried.
KNOWN = {
    "guard off": (0, 43, 44),
    "guard too short": (88, 153, 269),
    "note not read": (153, 169, 242),
    "no note is old": (43, 53, 60),
    "young says free": (176, 242, 269),
    "validity from the end": (2, 371, 465),
    "quorum N/2": (7, 9, 12),
    "increment": (2, 9, 47),
    "INCR + max tokens": (0, 6, 15),
    "release without owner check": (2, 4, 7),
    "wake-up by messages only": (7, 80, 137),
    "replicas ignored": (63, 595, 746),
}
#: A part of the verdict of the referee, for some rules.
SHOWN = {
    "increment": "after its release",
    "wake-up by messages only": "still waiting",
    "INCR + max tokens": "fencing token",
}
#: So many seeds at the most. The rarest goes red with one seed in fifty.
LIMIT = 1000


@pytest.mark.parametrize("rule", KNOWN)
def test_random_schedules_go_red_without_the_rule(rule: str) -> None:
    for seed in (*KNOWN[rule], *range(LIMIT)):
        with sabotage(rule), broken(rule):
            found = play(seed).violations
        if found:
            assert SHOWN.get(rule, "") in str(found[0])
            assert play(seed).violations == [], "the rule was not what made the difference"
            return
    pytest.fail(f"{LIMIT} schedules without the rule {rule!r}, and nobody noticed")


def test_no_rule_is_without_a_control() -> None:
    assert set(KNOWN) | set(SCENARIOS) == set(SABOTAGES)
