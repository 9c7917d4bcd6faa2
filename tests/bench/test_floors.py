"""The floors: that they send what the lock sends, and are no cheaper than they may be."""

from __future__ import annotations

import re

import pytest
import redis

from bench.harness.contestants import ALL
from bench.harness.worker import Worker

from ..servers import Fleet
from .contestants import opened

FLOORS = [found.key for found in ALL if found.family == "floor" and found.key != "floor-message"]


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


@pytest.mark.parametrize("key", FLOORS)
def test_a_floor_has_a_master_do_what_a_pair_of_the_lock_does(masters1: Fleet, key: str) -> None:
    with opened("rlock", masters1.urls) as ours, opened(key, masters1.urls) as floor:
        commands = sent(ours, masters1.urls[0])
        assert len([text for text in commands if text.startswith("EVALSHA")]) == 2
        assert sent(floor, masters1.urls[0]) == commands
