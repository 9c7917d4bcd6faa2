"""compose.yaml, and masters as containers of the image that it names.

The tests that need containers are left out where no engine answers or the image is absent.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
import redis

import rlock
from rlock.testing.local.spawn import free_port

from .containers import ContainerMaster, why_not
from .contract.conftest import eventually
from .scripted import LEASE_MS, MINE, THEIRS, Box
from .servers import raw

COMPOSE = (Path(__file__).parents[1] / "compose.yaml").read_text(encoding="utf-8")
PLAIN = "\n".join(line for line in COMPOSE.splitlines() if not line.lstrip().startswith("#"))
Compose = tuple[list[str], list[str]]
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


@pytest.fixture
def compose(tmp_path: Path) -> Iterator[Compose]:
    """The words that begin a compose command for compose.yaml on free ports, and its masters."""
    if why_not():
        pytest.skip(why_not())
    program = ["docker", "compose"]
    if subprocess.run([*program, "version"], capture_output=True).returncode != 0:
        if not shutil.which("docker-compose"):
            pytest.skip("no docker compose on this machine")
        program = ["docker-compose"]
    ports = [free_port() for _ in range(5)]
    text = COMPOSE
    for i, port in enumerate(ports, 1):
        text = text.replace(f"127.0.0.1:640{i}:6379", f"127.0.0.1:{port}:6379")
    file = tmp_path / "compose.yaml"
    file.write_text(text, encoding="utf-8")
    words = [*program, "-p", f"rlock{os.getpid()}", "-f", str(file)]
    try:
        yield words, [f"redis://127.0.0.1:{port}" for port in ports]
    finally:
        subprocess.run([*words, "down", "--volumes"], check=True, capture_output=True, timeout=60)


def answers(url: str) -> bool:
    with contextlib.suppress(redis.ConnectionError, redis.TimeoutError), raw(url, 1.0) as client:
        return bool(client.ping())
    return False


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


def test_the_masters_of_compose_keep_a_lock_through_a_restart_of_them_all(compose: Compose) -> None:
    words, urls = compose
    subprocess.run([*words, "up", "-d"], check=True, capture_output=True, timeout=60)
    assert eventually(lambda: all(map(answers, urls)), within=20)
    with rlock.Client(urls, 60.0, max_ttl=60.0) as client:
        client.init()
        assert client.lock("x", renew=False).acquire(blocking=False)
        subprocess.run([*words, "restart"], check=True, capture_output=True, timeout=60)
        assert eventually(lambda: all(map(answers, urls)), within=20)
        with rlock.Client(urls, 60.0, max_ttl=60.0) as other:
            assert [master.holder is not None for master in other.status("x").masters] == [True] * 5
            assert not other.lock("x").acquire(blocking=False)


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
