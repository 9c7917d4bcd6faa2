"""Porcupine, a checker that is not ours, judges histories made by hand; the soak has real ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rlock.testing.contention import edn
from rlock.testing.contention.checker import Eviction
from rlock.testing.contention.history import History
from tests.histories import ask, got, history, hold, look, ms, shared

from . import MissingError, Porcupine

Legal = Callable[..., bool]


@pytest.fixture(scope="module")
def porcupine(tmp_path_factory: pytest.TempPathFactory) -> Porcupine:
    try:
        return Porcupine(tmp_path_factory.mktemp("porcupine"))
    except MissingError as error:
        pytest.skip(str(error))


@pytest.fixture
def legal(porcupine: Porcupine, tmp_path: Path) -> Legal:
    """``legal(history, *evictions)``: whether it accepts the history."""

    def judged(made: History, *evictions: Eviction) -> bool:
        edn.write(tmp_path / "history.edn", made, evictions)
        return porcupine.judge(tmp_path / "history.edn").legal

    return judged


@pytest.mark.parametrize(("begin", "expected"), [(90, False), (101, True)])
def test_the_next_owner_gets_in_when_a_validity_ended(legal: Legal, begin: float, expected: bool) -> None:
    killed = [ask(0), got(1, 1, until=100), look(50, 100)]
    made = history(a=killed, b=hold(begin, begin + 9, 2))
    assert legal(made) is expected


def test_the_next_owner_gets_in_after_an_eviction(legal: Legal) -> None:
    made = history(a=[ask(0), got(9, 1, until=100, owner="o")], b=hold(50, 60, 2))
    assert not legal(made)
    for at in (5, 40):  # before its acquire returned, and later
        assert legal(made, Eviction(ms(at), "x", ["o"]))


def test_readers_hold_together_and_no_writer_beside_them(legal: Legal) -> None:
    readers = {name: shared(hold(begin, 50, 1)) for name, begin in (("a", 10), ("b", 20))}
    for begin, after in ((40, False), (52, True)):
        assert legal(history(**readers, c=hold(begin, begin + 9, 2))) is after
    assert not legal(history(c=hold(5, 30, 1), **readers))
    assert not legal(history(**readers, c=hold(60, 70, 1))), "its token is not above theirs"


@pytest.mark.parametrize(("within", "expected"), [(1, True), (0, False)])
def test_only_the_owner_of_the_writer_reads_beside_it(legal: Legal, within: int, expected: bool) -> None:
    made = history(a=[*hold(10, 30, 1), *shared(hold(20, 50, 1), within)], b=shared(hold(40, 60, 1)))
    assert legal(made) is expected


def test_a_process_with_two_operations_at_once_is_no_history(porcupine: Porcupine, tmp_path: Path) -> None:
    line = '{:index 0, :process 0, :type :invoke, :f :acquire, :time 1, :value ["x" {:owner "a"}]}\n'
    path = tmp_path / "history.edn"
    path.write_text(line * 2)
    with pytest.raises(RuntimeError, match="process 0 has an operation under way"):
        porcupine.judge(path)


def test_a_later_hold_needs_a_greater_token(legal: Legal) -> None:
    for token in (2, 1):
        made = history(a=hold(1, 9, 1), b=[ask(10), got(11, token, owner="another")])
        assert legal(made) == (token > 1)
