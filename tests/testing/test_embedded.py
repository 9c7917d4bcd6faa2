"""Local masters, as child processes and in the containers of compose.yaml; none outlives its program."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest
import redis

import rlock
from rlock.testing.local.embedded import Master, ServerBinary, find_server
from rlock.testing.local.spawn import free_port

from ..servers import gone, label, raw, servers_found

EVERY_SERVER = pytest.mark.parametrize("binary", servers_found(), ids=label)


@EVERY_SERVER
def test_a_master_answers_as_soon_as_start_returns_and_is_gone_after_close(binary: ServerBinary) -> None:
    with Master(binary) as master:
        pid, directory = master.pid, master.directory
        with raw(master.url) as client:
            assert client.ping()
            assert client.info("server")["process_id"] == pid
            assert client.config_get("save")["save"] == ""
            assert client.config_get("appendonly")["appendonly"] == "no"
    assert pid is not None
    assert gone(pid)
    assert not directory.exists()
    assert not master.running
    assert master.pid is None
    master.close()


@EVERY_SERVER
def test_a_password_of_any_characters_works_and_stands_in_no_command_line(binary: ServerBinary) -> None:
    password = "a b\"\\'é,@/:%\n#"
    with Master(binary, password=password) as master:
        with raw(master.url) as client:
            assert client.ping()
        with raw(f"redis://127.0.0.1:{master.port}") as client, pytest.raises(redis.AuthenticationError):
            client.ping()
        assert "requirepass" not in Path(f"/proc/{master.pid}/cmdline").read_text()
        mode = (master.directory / "server.conf").stat().st_mode
        assert stat.S_IMODE(mode) == 0o600


@EVERY_SERVER
def test_a_durable_master_keeps_its_data_through_a_crash_unless_told_otherwise(binary: ServerBinary) -> None:
    with Master(binary, args=("--appendonly", "yes", "--appendfsync", "always")) as master:
        with raw(master.url) as client:
            client.set("key", 1)
        master.kill()
        assert not master.running
        master.restart(empty=False)
        with raw(master.url) as client:
            assert client.get("key") == "1"
        master.restart(empty=True)
        with raw(master.url) as client:
            assert client.get("key") is None


def executable(path: Path, text: str) -> Path:
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return path


def test_a_server_that_does_not_run_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executable(tmp_path / "valkey-server", "exit 127")
    executable(tmp_path / "redis-server", "echo 'Redis server v=7.4.1 sha=0 build=1'")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_server() == ServerBinary(tmp_path / "redis-server", "redis", "7.4.1")


FILE = Path(__file__).parents[2] / "compose.yaml"
PLAIN = re.sub(r"^\s*#.*\n", "", FILE.read_text(encoding="utf-8"), flags=re.MULTILINE)
PORTS = re.findall(r'ports: \["(.*?)"\]', PLAIN)


def test_compose_publishes_five_durable_masters_on_the_loopback_address_only() -> None:
    assert len(PORTS) == 5
    assert all(re.fullmatch(r"127\.0\.0\.1:\d+:6379", port) for port in PORTS)
    assert PLAIN.count("ports:") == 5, "a port in another notation would escape the check above"
    settings = re.findall(r'- "?([^"\n]*)"?$', PLAIN, re.MULTILINE)
    pairs = dict(pairwise(settings))
    assert pairs["--appendonly"] == "yes"
    assert pairs["--appendfsync"] == "always"
    assert pairs["--maxmemory-policy"] == "noeviction"
    assert "replicaof" not in PLAIN


@pytest.mark.slow
def test_a_client_gets_a_lock_on_masters_in_containers_and_one_may_die() -> None:
    docker = pytest.importorskip("docker", reason="testcontainers is in the group test-all")
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


PROGRAM = """
import os, sys, time
from rlock.testing.local.embedded import Masters
masters = Masters(2)
print(*(master.pid for master in masters), *(master.directory for master in masters), flush=True)
"""


@contextlib.contextmanager
def run(ending: str) -> Iterator[tuple[subprocess.Popen[str], list[int], list[Path]]]:
    """PROGRAM with an ending: the process, and the pids and directories of its masters."""
    # In a session of its own, so that a test that fails ends the forked children, too.
    command = [sys.executable, "-c", PROGRAM + ending]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as program:
        assert program.stdout is not None
        words = program.stdout.readline().split()
        try:
            yield program, [int(word) for word in words[:2]], [Path(word) for word in words[2:]]
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)
            for directory in words[2:]:
                shutil.rmtree(directory, ignore_errors=True)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the death signal is Linux's")
@pytest.mark.parametrize("freeze", [False, True], ids=["running", "paused"])
def test_a_killed_parent_takes_its_servers_with_it(freeze: bool) -> None:
    with run(f"{freeze} and masters[0].pause(); time.sleep(60)") as (program, pids, _):
        time.sleep(0.1)
        program.kill()
        assert all(gone(pid) for pid in pids)


@pytest.mark.slow
@pytest.mark.parametrize(
    "ending", ["", "raise SystemExit(3)", "raise RuntimeError", "del masters; time.sleep(1)"]
)
def test_a_program_that_forgets_to_close_leaves_neither_server_nor_directory(ending: str) -> None:
    with run("sys.stderr.close()\n" + ending) as (program, pids, directories):
        program.wait(20)
        assert all(gone(pid) for pid in pids)
        assert not any(directory.exists() for directory in directories)
