"""The rules of safety against every course that events can take, in a small scope: docs/model.md."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .cases import ALIVE, BROKEN, DESIGN, LOOSER, TOKENS, UNEQUAL, UNGUARDED, Case
from .checker import FENCE, LOCK, check, compiler, discard, in_words

pytestmark = pytest.mark.skipif(
    compiler() is None, reason="the model needs a C++ compiler: no c++, g++ or clang++ on the path"
)


@pytest.fixture(scope="module", autouse=True)
def _binaries() -> Iterator[None]:
    yield
    discard()


SAFE = tuple(case for case in (*DESIGN, *LOOSER, *UNEQUAL, *TOKENS) if not case.reached)
VIOLATED = tuple(case for case in (*UNGUARDED, *UNEQUAL, *BROKEN, *TOKENS) if case.reached)


def quick(*cases: Case) -> list[object]:
    return [pytest.param(case, id=case.name) for case in cases if not case.full]


@pytest.mark.parametrize("case", quick(*SAFE))
def test_nothing_bad_in_the_whole_space(case: Case) -> None:
    result = check(case.program, case.rules)
    assert result.verdict == "never", "\n".join(in_words(case.program, result.trace))


@pytest.mark.parametrize("case", quick(*VIOLATED))
def test_each_rule_is_needed(case: Case) -> None:
    result = check(case.program, case.rules)
    assert (result.verdict, result.steps) == ("reached", case.steps)
    assert len(in_words(case.program, result.trace)) == case.steps


@pytest.mark.parametrize("case", quick(*ALIVE))
def test_the_models_can_do_what_they_are_about(case: Case) -> None:
    assert check(case.program, case.rules).verdict == "reached"


#: Of `UNGUARDED` and `BROKEN`, those whose counter-example takes the plain space less than a few seconds.
IN_PLAIN_SIGHT = ("quorum", "guard=0", "from_end", "look", "none_is_old", "naive")


@pytest.mark.parametrize("case", quick(*(case for case in VIOLATED if case.rules.startswith(IN_PLAIN_SIGHT))))
def test_what_the_reduced_space_finds_the_plain_one_finds(case: Case) -> None:
    result = check(LOCK, f"{case.rules} plain=1 losses=2")
    # Replies and beginnings are steps of their own there.
    assert (result.verdict, result.steps > case.steps) == ("reached", True)


def test_a_counter_example_reads_as_sentences() -> None:
    told = in_words(LOCK, check(LOCK, "naive=1 late=0").trace)
    assert any("is flushed" in line for line in told)
    assert any("the key is put back" in line for line in told)
    assert told[-1].endswith("(A valid for 1, B valid for 2)")
    told = in_words(FENCE, check(FENCE, "incr_max=1 in_turn=1 late=0 give_up=0").trace)
    assert [line.partition(". ")[2] for line in told if "token" in line] == [
        "A takes the token 1",
        "B takes the token 2",
        "C takes the token 2",
    ]


def test_a_search_that_was_given_up_is_not_called_safe() -> None:
    assert check(LOCK, "limit=1000").verdict == "unfinished"
