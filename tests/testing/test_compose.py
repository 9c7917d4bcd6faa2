"""compose.yaml: five durable masters on one machine, for one machine only."""

from __future__ import annotations

import re
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest

import rlock
from rlock.testing.local.spawn import free_port

FILE = Path(__file__).parents[2] / "compose.yaml"
PLAIN = re.sub(r"^\s*#.*\n", "", FILE.read_text(encoding="utf-8"), flags=re.MULTILINE)
PORTS = re.findall(r'ports: \["(.*?)"\]', PLAIN)


def test_compose_publishes_five_masters_on_the_loopback_address_only() -> None:
    assert len(PORTS) == 5
    assert all(re.fullmatch(r"127\.0\.0\.1:\d+:6379", port) for port in PORTS)
    assert PLAIN.count("ports:") == 5, "a port in another notation would escape the check above"


def test_compose_masters_are_durable_so_that_a_restart_forgets_no_vote() -> None:
    settings = re.findall(r'- "?([^"\n]*)"?$', PLAIN, re.MULTILINE)
    pairs = dict(pairwise(settings))
    assert pairs["--appendonly"] == "yes"
    assert pairs["--appendfsync"] == "always"
    assert pairs["--maxmemory-policy"] == "noeviction"
    assert "replicaof" not in PLAIN


def test_a_client_gets_a_lock_on_masters_in_containers_and_one_may_die() -> None:
    docker = pytest.importorskip("docker", reason="testcontainers is in the extra test-all")
    from testcontainers.core.config import testcontainers_config
    from testcontainers.core.container import DockerContainer

    (image,) = re.findall(r"image: (\S+)", PLAIN)
    try:
        docker.from_env(timeout=5).images.get(image)
    except docker.errors.DockerException as error:
        pytest.skip(f"no Docker engine with the image {image} answers, and none is pulled: {error}")
    # The reaper is an image of its own, which would be pulled.
    testcontainers_config.ryuk_disabled = True
    ports = [free_port() for _ in range(3)]
    with ExitStack() as stack:
        masters = []
        for port in ports:
            # Protected mode refuses what comes from outside of the container.
            command = ["valkey-server", "--save", "", "--protected-mode", "no"]
            container = DockerContainer(image).with_command(command)
            cast(Any, container).ports["6379/tcp"] = ("127.0.0.1", port)
            masters.append(stack.enter_context(container))
        urls = [f"redis://127.0.0.1:{port}" for port in ports]
        with rlock.Client(urls, restart_guard=0) as client, client.lock("job") as lock:
            masters[0].get_wrapped_container().kill()
            lock.check()
            assert not rlock.Client(urls, restart_guard=0).lock("job").acquire(timeout=1)
