"""compose.yaml, and masters as containers of the image that it names.

The tests that need containers are left out where no engine answers or the image is absent.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from ..scripted import LEASE_MS, MINE, THEIRS, Box
from .containers import ContainerMaster, why_not

COMPOSE = (Path(__file__).parents[2] / "compose.yaml").read_text(encoding="utf-8")
PLAIN = "\n".join(line for line in COMPOSE.splitlines() if not line.lstrip().startswith("#"))
DURABLE = ("--appendonly", "yes", "--appendfsync", "always")


@pytest.fixture(scope="module")
def containers() -> Iterator[list[ContainerMaster]]:
    if why_not():
        pytest.skip(why_not())
    made: list[ContainerMaster] = []
    try:
        for _ in range(3):
            made.append(ContainerMaster(DURABLE))
            made[-1].start()
        yield made
    finally:
        for master in made:
            master.close()


def test_compose_publishes_five_masters_on_the_loopback_address_only() -> None:
    published = re.findall(r'ports: \["(.*?)"\]', PLAIN)
    assert len(published) == 5
    assert all(re.fullmatch(r"127\.0\.0\.1:\d+:6379", port) for port in published)
    assert PLAIN.count("ports:") == 5, "a port in another notation would escape the check above"


def test_compose_masters_are_durable_so_that_a_restart_forgets_no_vote() -> None:
    settings = re.findall(r'- "?([^"\n]*)"?$', PLAIN, re.MULTILINE)
    pairs = dict(pairwise(settings))
    assert pairs["--appendonly"] == "yes"
    assert pairs["--appendfsync"] == "always"
    assert pairs["--maxmemory-policy"] == "noeviction"
    assert "replicaof" not in PLAIN


def test_a_durable_container_that_was_killed_still_knows_whom_it_voted_for(
    containers: list[ContainerMaster],
) -> None:
    master = containers[0]
    with contextlib.closing(Box(master.url)) as box:
        box.granted(MINE, guarded=False)
    master.kill()
    assert not master.running
    master.start()
    with contextlib.closing(Box(master.url)) as box:
        code, holder, _, ttl_ms, *_ = box.acquire(THEIRS, guarded=False)
        assert (code, holder) == (-1, MINE)
        assert 0 < ttl_ms < LEASE_MS
    master.restart(empty=True)
    with contextlib.closing(Box(master.url)) as box:
        box.granted(THEIRS, guarded=False)
