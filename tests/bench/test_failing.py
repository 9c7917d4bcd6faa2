"""What a contestant that fails looks like: an error with the reason, and nothing left behind."""

from __future__ import annotations

import pytest

from bench.harness.contestants import ALL, select
from bench.harness.worker import Failed

from ..servers import Fleet
from .contestants import opened


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
