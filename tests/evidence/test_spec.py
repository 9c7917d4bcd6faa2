"""The TLA+ specifications and Porcupine find what they must, in scopes of some seconds each."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from rlock.testing.contention import edn
from rlock.testing.contention.checker import Eviction
from rlock.testing.contention.history import History
from spec.__main__ import as_expected, searched
from spec.cases import EVERY
from spec.scopes import Case
from spec.tlc import MissingError, result_of

from ..histories import ask, got, history, hold, look, ms

#: Some seconds each: a rule of each kind, the two modules, and a scope that is searched to its end.
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
)


@pytest.mark.parametrize("case", [case for case in EVERY if case.name in QUICK], ids=lambda case: case.name)
def test_tlc_finds_what_the_case_says(case: Case) -> None:
    try:
        result = searched(case)
    except MissingError as error:
        pytest.skip(str(error))
    assert as_expected(case, result), f"{result.violated} in {result.steps} steps"


def test_every_quick_case_exists() -> None:
    assert {case.name for case in EVERY} >= set(QUICK)


def test_a_search_that_was_stopped_is_not_called_safe() -> None:
    progress = "Progress(9): 8,123 states generated, 1,204 distinct states found, 96 states left on queue."
    with pytest.raises(RuntimeError, match="did not finish"):
        result_of(progress, 1.0)
    assert result_of(f"{progress}\nModel checking completed. No error has been found.", 1.0).violated is None


# -- Porcupine -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def porcupine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if go is None:
        pytest.skip("no Go on the path: Porcupine is not run")
    binary = tmp_path_factory.mktemp("porcupine") / "porcupine"
    folder = Path(__file__).parents[2] / "spec" / "porcupine"
    built = subprocess.run([go, "build", "-o", binary, "."], cwd=folder, capture_output=True, text=True)
    if built.returncode:
        pytest.skip(f"Porcupine cannot be built: {built.stderr[-300:]}")
    return binary


def verdict(porcupine: Path, path: Path, made: History, *evictions: Eviction) -> str:
    edn.write(path / "history.edn", made, evictions)
    done = subprocess.run([porcupine, path / "history.edn"], capture_output=True, text=True)
    found = done.stdout.split()[1].rstrip(",")
    assert done.returncode == {"Ok": 0, "Illegal": 1}[found]
    return found


def test_porcupine_accepts_holds_one_after_another(porcupine: Path, tmp_path: Path) -> None:
    made = history(a=hold(1, 10, 1) + hold(30, 40, 3), b=hold(12, 20, 2), c=hold(5, 8, 1, lock='"y"'))
    assert verdict(porcupine, tmp_path, made) == "Ok"


def test_porcupine_refuses_a_hold_inside_another(porcupine: Path, tmp_path: Path) -> None:
    assert verdict(porcupine, tmp_path, history(a=hold(1, 10, 1), b=hold(8, 20, 2))) == "Illegal"


def test_porcupine_refuses_a_token_that_falls(porcupine: Path, tmp_path: Path) -> None:
    assert verdict(porcupine, tmp_path, history(a=hold(1, 10, 2), b=hold(12, 20, 1))) == "Illegal"


@pytest.mark.parametrize(("begin", "expected"), [(90, "Illegal"), (101, "Ok")])
def test_porcupine_lets_the_next_owner_in_when_a_validity_ended(
    porcupine: Path, tmp_path: Path, begin: float, expected: str
) -> None:
    killed = [ask(0), got(1, 1, until=100), look(50, 100)]
    made = history(a=killed, b=hold(begin, begin + 9, 2))
    assert verdict(porcupine, tmp_path, made) == expected


def test_porcupine_accepts_the_next_owner_after_an_eviction(porcupine: Path, tmp_path: Path) -> None:
    made = history(a=[ask(0), got(1, 1, until=100, owner="o")], b=hold(50, 60, 2))
    assert verdict(porcupine, tmp_path, made) == "Illegal"
    assert verdict(porcupine, tmp_path, made, Eviction(ms(40), "x", ["o"])) == "Ok"


def test_porcupine_accepts_a_hold_that_was_evicted_before_its_acquire_returned(
    porcupine: Path, tmp_path: Path
) -> None:
    made = history(a=[ask(0), got(9, 1, until=100, owner="o")], b=hold(30, 40, 2))
    assert verdict(porcupine, tmp_path, made, Eviction(ms(5), "x", ["o"])) == "Ok"
