"""Every rule of docs/contributing/safety.md has tests in the quick set."""

from __future__ import annotations

import pytest
import site_rules

from evidence.bugs import BUGS

from .. import quick


@pytest.mark.parametrize("rule", site_rules.rules())
def test_each_rule_has_a_test_in_the_quick_set(rule: str) -> None:
    tests = [test for test in site_rules.marked_tests() if rule in test.rules]
    assert [test for test in tests if not quick.is_slow(test.path) and not test.markers & {"slow", "timing"}]


def test_each_mark_names_a_rule_of_the_page() -> None:
    named = {rule for test in site_rules.marked_tests() for rule in test.rules}
    assert named <= {*site_rules.rules()}


def test_each_bug_says_which_rule_it_breaks_and_what_it_was() -> None:
    assert {bug.rule for bug in BUGS.values()} <= {*site_rules.rules()}
    assert {name for names in site_rules.bugs().values() for name in names} == BUGS.keys()
    assert all(bug.sentence.endswith(".") for bug in BUGS.values())
