"""Wake-ups: who waits with whom, what counts, and the floors."""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Iterator, Sequence
from typing import Any

import hiredis
import pytest
import redis

from bench.harness.contestant import Contestant, Failed
from bench.harness.field import field
from bench.harness.handover import Line
from bench.harness.lineup import TTL_MS, Clock
from bench.harness.results import Row
from bench.scenarios.wake_up import FLOORS, PATIENCE_S, Crowd, Floor, Group, Pair, apart, measure

from ..conftest import FreshMasters
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


def measured(late: Late) -> Row:
    crowd = Crowd()
    crowd.enter([late], [])
    measure(crowd, [Group(["late"], 1)], Clock(0.0), random.Random(1), 2)
    return crowd.told()["late"]


def test_one_that_never_waited_is_shown_as_failing() -> None:
    assert measured(Late(asked=99)).figures["p50_us"] == 5
    assert measured(Late(asked=99)).figures["count"] == 2, "the first one, to connect, does not count"
    assert str(measured(Late(asked=100)).error).startswith("Failed: it never waited")


class Noted(Pair):
    """A pair without processes, that notes what it is asked."""

    def __init__(self, key: str, notes: list[str], fails_at: int = 0) -> None:
        self.key, self.notes, self.fails_at = key, notes, fails_at
        self.due = 0.0

    def hold(self) -> None:
        self.notes.append(f"{self.key} holds")

    def wait(self, seconds: float) -> None:
        self.notes.append(f"{self.key} waits")
        self.due = time.monotonic() + seconds

    def wake(self) -> int:
        assert time.monotonic() >= self.due, "it has not waited for long enough"
        self.notes.append(f"{self.key} wakes")
        self.fails_at -= 1
        if not self.fails_at:
            raise Failed("TimeoutError: not acquired")
        return 1000

    def let_go(self) -> None:
        self.notes.append(f"{self.key} lets go")

    def close(self) -> None:
        self.notes.append(f"{self.key} is closed")


def crowd_of(*pairs: Noted) -> Crowd:
    crowd = Crowd()
    for pair in pairs:
        crowd.pairs[pair.key], crowd.rows[pair.key], crowd.took[pair.key] = pair, Row(), []
    return crowd


def test_a_group_waits_at_the_same_time_and_is_woken_one_after_another() -> None:
    notes: list[str] = []
    crowd = crowd_of(*(Noted(key, notes) for key in "abcd"))
    dice = random.Random(3)
    began = time.monotonic()
    crowd.round(["a", "b", "c"], lambda: dice.uniform(0.05, 0.15), Clock(0.6))
    took = time.monotonic() - began
    assert sorted(notes[:6]) == [f"{key} {word}" for key in "abc" for word in ("holds", "waits")]
    assert not [note for note in notes if note.startswith("d")]
    for key in "abc":
        ((*samples,),) = crowd.took[key]
        assert len(samples) == notes.count(f"{key} wakes") == notes.count(f"{key} waits") >= 3
        assert notes.count(f"{key} lets go") == 1
    # One after another they would have waited for longer than there was time.
    assert sum(note.endswith("wakes") for note in notes) * 0.1 > took


def test_one_that_fails_is_out_and_the_others_go_on() -> None:
    notes: list[str] = []
    crowd = crowd_of(Noted("a", notes), Noted("b", notes, fails_at=2))
    crowd.round(["a", "b"], lambda: 0.0, Clock(0.3))
    crowd.round(["a", "b"], lambda: 0.0, Clock(0.0))
    rows = crowd.told()
    assert rows["b"].error == "TimeoutError: not acquired"
    assert rows["b"].figures["count"] == 1, "what it did well counts"
    assert notes.count("b is closed") == 1
    assert rows["a"].error is None
    assert rows["a"].figures["count"] > 5
    assert len(crowd.took["a"]) == 2


def test_each_has_a_turn_whatever_the_clock_says() -> None:
    notes: list[str] = []
    crowd = crowd_of(*(Noted(key, notes) for key in "abc"))
    measure(crowd, [Group(["a", "b"], 2), Group(["c"], 1)], Clock(0.0), random.Random(1), 3)
    assert {key: len(rounds) for key, rounds in crowd.took.items()} == {"a": 3, "b": 3, "c": 3}


def test_who_polls_does_not_wait_while_one_that_sleeps_is_woken() -> None:
    entries = field(["rlock", "python-redis-lock", "redisson-redlock", "pottery", "pottery-tuned", "redsync"])
    told, looking, often = apart(entries)
    assert set(told.keys) == {*FLOORS, "rlock", "python-redis-lock", "redisson-redlock"}
    assert set(looking.keys) == {"pottery", "redsync"}
    assert list(often.keys) == ["pottery-tuned"]
    assert (told.share, looking.share, often.share) == (10, 6, 2)
    assert [set(group.keys) for group in apart(field(["rlock"]))] == [{*FLOORS, "rlock"}]


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


def test_the_floor_of_a_hand_off_goes_on_at_the_majority(
    both: list[Contestant], fresh_masters: FreshMasters
) -> None:
    masters = fresh_masters(3)
    opened(both, masters.urls)
    holder, waiter = both
    masters[2].pause()
    waiter.send("acquire", lock="a", wait_ms=5000)
    holder.ask("release", 5.0, lock="a")
    assert waiter.answer(5.0)["acquired"]
    masters[2].resume()
    waiter.send("acquire", lock="a", wait_ms=1000)
    time.sleep(0.3)
    with pytest.raises(Failed, match=r"no answer within 0\.3 s"):
        waiter.answer(0.3)
    assert not waiter.answer(5.0)["acquired"], "nobody told"
    masters[1].kill()
    masters[2].kill()
    with pytest.raises(Failed, match=r"ConnectionError|ResetError|BrokenPipe"):
        holder.ask("release", 5.0, lock="a")


def test_what_is_late_is_not_taken_for_an_answer_to_what_was_asked_later() -> None:
    ours, master = socket.socketpair()
    with ours, master:
        line = Line(ours)
        line.send(b"first")
        line.send(b"second")
        master.sendall(b"+LATE\r\n+NO")
        assert line.read() == []
        master.sendall(b"W\r\n")
        assert line.read() == [b"NOW"]
        line.send(b"third")
        master.sendall(b"-ERR no such thing\r\n")
        with pytest.raises(hiredis.HiredisError, match="no such thing"):
            line.read()


@pytest.mark.parametrize("key", FLOORS)
def test_nobody_is_woken_before_somebody_tells(key: str, masters1: Fleet) -> None:
    with Floor(key).start() as floor:
        floor.ask("open", 10.0, masters=masters1.urls)
        asked = floor.ask("acquire", 5.0, lock="never told", wait_ms=200)
        assert not asked["acquired"]
        assert asked["entered"] - asked["asked"] > 150_000_000
        floor.ask("release", 5.0, lock="b")
        assert floor.ask("acquire", 5.0, lock="b", wait_ms=200)["acquired"]


def test_a_lease_outlives_the_wait_of_another_one() -> None:
    assert PATIENCE_S + 3.0 < TTL_MS / 1000
