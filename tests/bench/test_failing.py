"""What a contestant that fails looks like: an error with the reason, and nothing left behind."""

from __future__ import annotations

import sys

import pytest

from bench.harness.contestant import Contestant, Failed
from bench.harness.field import ALL, field

from ..servers import Fleet
from .contestants import TTL_MS, entry


def script(text: str) -> Contestant:
    return Contestant([sys.executable, "-c", text])


def test_a_worker_that_dies_is_told_with_its_last_words() -> None:
    with script("import sys; input(); sys.exit('RuntimeError: out of luck')") as contestant:
        with pytest.raises(Failed, match="it has ended: RuntimeError: out of luck"):
            contestant.ask("pairs", lock="a", count=1)
        with pytest.raises(Failed, match="it has ended: RuntimeError: out of luck"):
            contestant.ask("usage")


@pytest.mark.parametrize("line", ["hello", "[1]", "{}"])
def test_what_is_no_reply_is_a_failure_that_shows_it(line: str) -> None:
    with (
        script(f"input(); print({line!r}, flush=True); input()") as contestant,
        pytest.raises(Failed, match="no reply of the protocol: "),
    ):
        contestant.ask("usage", 5)


@pytest.mark.parametrize("key", ["rlock", "rlock-asyncio", "redis-py"])
def test_an_error_of_the_library_is_an_error_of_the_row_and_the_worker_goes_on(
    masters1: Fleet, key: str
) -> None:
    with entry(key).open(masters1.urls, TTL_MS) as contestant:
        with pytest.raises(Failed, match=r"^\w+Error: "):
            contestant.ask("release", lock="never acquired")
        assert len(contestant.ask("pairs", lock="a", count=2)["ns"]) == 2


def test_every_contestant_has_a_key_and_a_title_of_its_own() -> None:
    assert len({found.key for found in ALL}) == len({found.title for found in ALL}) == len(ALL)
    assert field() == list(ALL)
    assert [found.key for found in field(["redis-py", "rlock"])] == ["rlock", "redis-py"]
    for found in ALL:
        assert (found.poll_ms is not None) == found.tuned == found.key.endswith("-tuned")
