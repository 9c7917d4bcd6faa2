"""What a contestant that fails looks like: an error with the reason, and nothing left behind."""

from __future__ import annotations

import sys

import pytest

from bench.harness.contestants import ALL, select
from bench.harness.worker import Failed, Worker

from ..servers import Fleet
from .contestants import opened


def script(text: str) -> Worker:
    return Worker([sys.executable, "-c", text])


def test_a_worker_that_dies_is_told_with_its_last_words() -> None:
    with script("import sys; input(); sys.exit('RuntimeError: out of luck')") as worker:
        with pytest.raises(Failed, match="it has ended: RuntimeError: out of luck"):
            worker.ask("pairs", lock="a", count=1)
        with pytest.raises(Failed, match="it has ended: RuntimeError: out of luck"):
            worker.ask("usage")


@pytest.mark.parametrize("line", ["hello", "[1]", "{}"])
def test_what_is_no_reply_is_a_failure_that_shows_it(line: str) -> None:
    with (
        script(f"input(); print({line!r}, flush=True); input()") as worker,
        pytest.raises(Failed, match="no reply of the protocol: "),
    ):
        worker.ask("usage", 5)


@pytest.mark.parametrize("key", ["rlock", "rlock-asyncio", "redis-py"])
def test_an_error_of_the_library_is_an_error_of_the_row_and_the_worker_goes_on(
    masters1: Fleet, key: str
) -> None:
    with opened(key, masters1.urls) as worker:
        with pytest.raises(Failed, match=r"^\w+Error: "):
            worker.ask("release", lock="never acquired")
        assert len(worker.ask("pairs", lock="a", count=2)["ns"]) == 2


def test_every_contestant_has_a_key_and_a_title_of_its_own() -> None:
    assert len({found.key for found in ALL}) == len({found.title for found in ALL}) == len(ALL)
    assert select() == list(ALL)
    assert [found.key for found in select(["redis-py", "rlock"])] == ["rlock", "redis-py"]
    for found in ALL:
        assert (found.poll_ms is not None) == found.tuned == found.key.endswith("-tuned")
