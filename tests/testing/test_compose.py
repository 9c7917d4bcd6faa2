"""compose.yaml: five durable masters on one machine, for one machine only."""

from __future__ import annotations

import re
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

import rlock

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


def test_a_client_gets_a_lock_on_the_masters_that_compose_starts() -> None:
    if not shutil.which("docker") or not shutil.which("docker-compose"):
        pytest.skip("docker or docker-compose is not on this machine")
    (image,) = re.findall(r"image: (\S+)", PLAIN)
    # Nothing is pulled: the image must be there.
    if subprocess.run(["docker", "image", "inspect", image], capture_output=True).returncode:
        pytest.skip(f"no Docker engine with the image {image} answers")
    compose = ["docker-compose", "--file", str(FILE), "--project-name", "rlock-test"]
    try:
        subprocess.run([*compose, "up", "--detach"], check=True)
        urls = [f"redis://{port.removesuffix(':6379')}" for port in PORTS]
        with rlock.Client(urls, restart_guard=0) as client:
            assert client.lock("job").acquire(timeout=20)
    finally:
        subprocess.run([*compose, "down", "--volumes"], check=True)
