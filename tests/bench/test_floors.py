"""The floors: that they send what the lock sends, and are no cheaper than they may be."""

from __future__ import annotations

import re

import pytest
import redis

from bench.harness.contestants import ALL
from bench.harness.worker import Failed, Worker

from ..servers import Fleet
from .contestants import opened

FLOORS = [found.key for found in ALL if found.family == "floor"]


def sent(worker: Worker, url: str) -> list[str]:
    """All commands that one pair makes a master run, those inside of scripts too, whoever asks and when."""
    worker.ask("pairs", lock="a", count=3)
    client = redis.Redis.from_url(url)
    seen: list[str] = []
    with client.monitor() as monitor:
        worker.ask("pairs", lock="a", count=1)
        client.echo("that is all")
        for command in monitor.listen():
            text = command["command"]
            if "that is all" in text:
                return seen
            if "HELLO" not in text and "CLIENT" not in text:
                seen.append(re.sub(r"\b\d{16}\b", "TOKEN", re.sub(r"\S+:[0-9a-f]{32}\b", "OWNER", text)))
    raise AssertionError("the monitor ended")


def failing_pair(floor: Worker) -> str:
    """The error of a pair that must fail: of the pair with Python, of the request with C."""
    try:
        reply = floor.ask("pairs", lock="a", count=1)
    except Failed as why:
        return str(why)
    assert reply["ns"] == []
    return str(reply["errors"][0])


@pytest.mark.parametrize("key", FLOORS)
def test_a_floor_has_a_master_do_what_a_pair_of_the_lock_does(masters1: Fleet, key: str) -> None:
    with (
        opened("rlock", masters1.urls) as ours,
        opened(key, masters1.urls) as floor,
    ):
        commands = sent(ours, masters1.urls[0])
        assert len([text for text in commands if text.startswith("EVALSHA")]) == 2
        assert sent(floor, masters1.urls[0]) == commands


@pytest.mark.parametrize("key", FLOORS)
def test_a_floor_that_does_not_get_the_lock_has_no_time(masters3: Fleet, key: str) -> None:
    with opened(key, masters3.urls) as floor:
        assert len(floor.ask("pairs", lock="a", count=5)["ns"]) == 5
    with (
        opened("rlock", masters3.urls) as ours,
        opened(key, masters3.urls) as floor,
    ):
        ours.ask("acquire", lock="a", wait_ms=1000)
        assert "refused" in failing_pair(floor)
