"""compose.yaml, and masters as containers of the image that it names.

The tests that need containers are left out where no engine answers or the image is absent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import rlock
from rlock.rules.scripts import ACQUIRE, RELEASE, Script

from .containers import ContainerMaster, why_not
from .servers import raw

COMPOSE = (Path(__file__).parents[1] / "compose.yaml").read_text(encoding="utf-8")
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


def call(master: ContainerMaster, script: Script, *words: str | int) -> Any:
    with raw(master.url) as client:
        return client.eval(script.source, 1, *words)


def test_compose_publishes_five_masters_on_the_loopback_address_only() -> None:
    published = re.findall(r'ports: \["(.*?)"\]', PLAIN)
    assert len(published) == 5
    assert all(re.fullmatch(r"127\.0\.0\.1:\d+:6379", port) for port in published)
    assert PLAIN.count("ports:") == 5, "a port in another notation would escape the check above"


def test_the_line_that_compose_tells_people_to_export_names_the_published_ports() -> None:
    line = re.search(r"RLOCK_MASTERS=(\S+)", COMPOSE)
    assert line is not None
    told = [url.rpartition(":")[2] for url in line[1].split(",")]
    assert told == re.findall(r"127\.0\.0\.1:(\d+):6379", PLAIN)


def test_compose_gives_each_master_its_own_volume() -> None:
    mounted = re.findall(r'volumes: \["(\w+):/data"\]', PLAIN)
    assert len(set(mounted)) == len(mounted) == 5, "two masters on one append-only file are one master"


def test_compose_masters_are_durable_so_that_a_restart_forgets_no_vote() -> None:
    settings = re.findall(r'- "?([^"\n]*)"?$', PLAIN, re.MULTILINE)
    pairs = dict(pairwise(settings))
    assert pairs["--appendonly"] == "yes"
    assert pairs["--appendfsync"] == "always"
    assert pairs["--maxmemory-policy"] == "noeviction"
    assert "replicaof" not in PLAIN


def test_the_health_check_of_compose_succeeds_in_a_container(containers: list[ContainerMaster]) -> None:
    words = re.search(r'test: \["CMD", (.*?)\]', PLAIN)
    assert words is not None
    status, output = containers[0].run(re.findall(r'"(.*?)"', words[1]))
    assert (status, output.strip()) == (0, "PONG")


def test_every_container_grants_refuses_and_releases(containers: list[ContainerMaster]) -> None:
    for master in containers:
        assert call(master, ACQUIRE, "job", "a:1", 30_000, 1) == [1, "a:1", 1, 30_000]
        assert call(master, ACQUIRE, "job", "b:2", 30_000, 1)[:3] == [-1, "a:1", 1]
        assert call(master, RELEASE, "job", "a:1", "channel", "0") == [1, "a:1", 0, 0]
        assert call(master, ACQUIRE, "job", "b:2", 30_000, 1)[0] == 1
        assert call(master, RELEASE, "job", "b:2", "", "")[0] == 1


def test_a_durable_container_that_was_killed_still_knows_whom_it_voted_for(
    containers: list[ContainerMaster],
) -> None:
    master = containers[0]
    assert call(master, ACQUIRE, "kept", "a:1", 60_000, 1)[0] == 1
    master.kill()
    assert not master.running
    master.start()
    code, holder, _, ttl_ms = call(master, ACQUIRE, "kept", "b:2", 60_000, 1)
    assert (code, holder) == (-1, "a:1")
    assert 0 < ttl_ms < 60_000
    master.restart(empty=True)
    assert call(master, ACQUIRE, "kept", "b:2", 60_000, 1)[0] == 1


def test_a_lock_is_taken_and_given_back_on_a_fleet_of_containers(containers: list[ContainerMaster]) -> None:
    urls = [master.url for master in containers]
    with rlock.Client(urls) as mine, rlock.Client(urls) as other, mine.lock("fleet"):
        assert not other.lock("fleet").acquire(blocking=False)
    with rlock.Client(urls) as other:
        assert other.lock("fleet").acquire(blocking=False)
        other.lock("fleet").release()
