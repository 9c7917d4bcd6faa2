"""Wake-ups: who waits with whom, what counts, and the floors."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import redis

from bench.harness.contestant import Contestant
from bench.scenarios.wake_up import Floor, Pair

from ..servers import Fleet


class Late:
    """A process that takes part in wake-ups, and answers what it was told to."""

    key = "late"

    def __init__(self, asked: int) -> None:
        self._asked = asked

    def start(self) -> Any:
        return self

    def opening(self, masters: Sequence[str], ttl_ms: int) -> dict[str, object]:
        return {}

    def send(self, verb: str, **request: Any) -> None:
        pass

    def ask(self, verb: str, timeout: float, **request: Any) -> dict[str, Any]:
        return self.answer(timeout)

    def answer(self, timeout: float) -> dict[str, Any]:
        return {"acquired": True, "asked": self._asked, "entered": 5_100, "began": 100, "ended": 200}

    def close(self) -> None:
        pass


def test_only_a_waiter_that_began_before_the_release_is_a_sample() -> None:
    assert Pair(Late(asked=99)).wake() == 5_000
    assert Pair(Late(asked=100)).wake() is None


@pytest.fixture
def both() -> Iterator[list[Contestant]]:
    pair = [Floor("floor-hand-off").start() for _ in range(2)]
    yield pair
    for contestant in pair:
        contestant.close()


def opened(both: Sequence[Contestant], urls: Sequence[str]) -> None:
    for contestant in both:
        contestant.ask("open", 10.0, masters=list(urls))


def test_the_floor_of_a_hand_off_has_a_message_and_a_claim_on_each_master(
    both: list[Contestant], masters3: Fleet
) -> None:
    opened(both, masters3.urls)
    admins = [redis.Redis.from_url(url) for url in masters3.urls]
    for admin in admins:
        admin.config_resetstat()
    for holder, waiter in (both, both[::-1], both):
        waiter.send("acquire", lock="a", wait_ms=5000)
        time.sleep(0.05)
        released = holder.ask("release", 5.0, lock="a")
        woken = waiter.answer(5.0)
        assert woken["acquired"]
        assert woken["asked"] < released["began"] < woken["entered"]
    time.sleep(0.05)  # the last one went on at the majority
    for admin in admins:
        calls = {name: told["calls"] for name, told in admin.info("commandstats").items()}
        assert [calls.get(f"cmdstat_{name}") for name in ("blpop", "rpush", "set")] == [3, 3, 3]
