"""What rlock.testing gives to tests: masters in memory, as processes and in containers; fixtures.

And the search for the password of the tests.
"""

from __future__ import annotations

import contextlib
import pickle
import re
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest
import redis

import rlock
from rlock.testing import lose
from rlock.testing.local.embedded import Master, ServerBinary, find_server
from rlock.testing.local.spawn import free_port

from .. import memory
from ..canary import leaks, look
from ..cli.shell import line
from ..docs.pages import PYTHON, TOP, starter, write_scripts
from ..lock.conftest import eventually
from ..servers import PASSWORD, Fleet, gone, label, raw, servers_found
from ..telemetry.happenings import Ledger


@pytest.fixture(params=["memory_masters", "masters3"], ids=["memory", "real"])
def any_client(request: pytest.FixtureRequest) -> Iterator[rlock.Client]:
    masters: Fleet = request.getfixturevalue(request.param)
    with memory.client(masters.urls, 10.0) as made:
        yield made


@pytest.mark.parametrize("renew", [True, False], ids=["renewed", "fixed"])
def test_a_hold_is_lost_at_once_and_everything_says_so(any_client: rlock.Client, renew: bool) -> None:
    told: list[rlock.LeaseLostError] = []
    lock = any_client.lock("x", renew=renew, on_lost=told.append)
    lock.acquire()
    lost, began = lock.lost, time.monotonic()
    with pytest.raises(TypeError, match="one of its locks"):
        lose(any_client.locks(["x"]))  # type: ignore[call-overload]
    lose(lock)
    # A third of the ttl is 3.3 s.
    assert time.monotonic() - began < 1.0
    assert lost.is_set()
    assert not lock.is_owned()
    assert eventually(lambda: told, within=1.0)
    with pytest.raises(rlock.LeaseLostError, match="evicted"):
        lock.check()
    with pytest.raises(rlock.LeaseLostError):
        lock.release()
    assert len(told) == 1
    assert lock.acquire(timeout=1)
    lock.release()


pytest_plugins = ["pytester"]

slow = pytest.mark.slow


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.delenv("RLOCK_TEST_MASTERS", raising=False)
    pytester.makeconftest('pytest_plugins = ["rlock.testing.plugin"]')
    return pytester


TESTS = """
    def test_three_masters(rlock_masters, rlock_client):
        assert len(rlock_masters) == len(rlock_client.masters) == {count}
        rlock_client.lock("left").acquire()
        other = __import__("rlock").Client(rlock_masters)
        other.lock("by another", renew=False).acquire()
        other._engine().abandon()

    def test_nothing_is_left(rlock_client):
        for name in ("left", "by another"):
            assert rlock_client.lock(name).acquire(blocking=False)

    def test_in_memory(rlock_memory_masters, rlock_memory_client):
        assert rlock_memory_client.masters[0].startswith("memory:")
        assert rlock_memory_client.lock("left").acquire()
        other = __import__("rlock.testing").testing.memory_client(masters=rlock_memory_masters)
        other.lock("x", renew=False).acquire()
        other._engine().abandon()

    def test_in_memory_too(rlock_memory_masters, rlock_memory_client):
        import asyncio, rlock.asyncio
        from rlock.testing import memory_client

        async def taken():
            async with memory_client(masters=rlock_memory_masters, kind=rlock.asyncio.Client) as client:
                return await client.lock("x").acquire(blocking=False)

        assert asyncio.run(taken()), "another test has left it"
        with rlock_memory_client.lock("x"):
            assert not asyncio.run(taken()), "they are on different masters"

    def test_recipes_in_memory(rlock_memory_client):
        with rlock_memory_client.leader("beat") as leader:
            assert leader.wait(timeout=20)
            with rlock_memory_client.semaphore("gpu", permits=1), rlock_memory_client.locks(["a", "b"]):
                assert leader.token
"""


@slow
@pytest.mark.parametrize(("ini", "count"), [("", 3), ("1", 1)])
def test_masters_are_started_and_empty_for_each_test(
    run: pytest.Pytester, ini: str, count: int, server: ServerBinary
) -> None:
    if ini:
        run.makeini(f"[pytest]\nrlock_test_masters = {ini}\n")
    run.makepyfile(TESTS.format(count=count))
    run.runpytest_subprocess("--strict-config", "-p", "no:cacheprovider").assert_outcomes(passed=5)


@slow
def test_masters_that_are_named_are_used_and_never_flushed(
    run: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, masters3: Fleet
) -> None:
    raw(masters3.urls[0]).set("somebody's", "data")
    monkeypatch.setenv("RLOCK_TEST_MASTERS", ",".join(masters3.urls))
    run.makeini("[pytest]\nrlock_test_masters = 5\n")
    run.makepyfile(f"""
        def test_it(rlock_masters, rlock_client):
            assert rlock_masters == {masters3.urls!r}
            assert rlock_client.lock("x").acquire()
    """)
    run.runpytest_subprocess().assert_outcomes(passed=1)
    assert raw(masters3.urls[0]).get("somebody's") == "data"
    with rlock.Client(masters3.urls) as client:
        assert client.lock("x").acquire(blocking=False), "the fixture's client was not closed"


SHOWING = """
    import asyncio, logging, subprocess, sys
    import pytest, rlock
    from tests.servers import PASSWORD
    PART = PASSWORD[:20]

    def test_print(): print(PART)
    def test_stderr(): print(PART, file=sys.stderr)
    def test_debug(): logging.getLogger("rlock").debug("", extra={"more": PASSWORD})
    def test_asyncio(): logging.getLogger("asyncio").warning("%s", PASSWORD.encode())
    def test_child(): subprocess.run([sys.executable, "-c", f"print({PART!r})"], stdout=subprocess.PIPE)
    def test_cause():
        with pytest.raises(ValueError):
            raise ValueError("x") from KeyError(PASSWORD[-20:])
    def test_swallowed():
        try:
            raise rlock.QuorumUnreachableError("x", 1, 1, {"m": PART})
        except rlock.RLockError:
            pass

    def test_nothing(): assert not logging.getLogger("other").debug(PASSWORD)
    def test_dropped(caplog): assert logging.getLogger("rlock").info("all is well") or not caplog.records
"""


@slow
def test_each_test_that_shows_a_part_of_the_password_fails(pytester: pytest.Pytester) -> None:
    pytester.makeconftest('pytest_plugins = ["tests.canary"]')
    pytester.makepyfile(SHOWING)
    found = pytester.runpytest_subprocess()
    found.assert_outcomes(passed=2, failed=7)
    assert PASSWORD not in found.stdout.str()


def texts(value: object) -> str:
    return f"{value} {value!r} {getattr(value, '__dict__', '')}"


def test_no_public_object_of_a_client_shows_the_password_in_its_text(masters3: Fleet, ledger: Ledger) -> None:
    """Nor in a pickle, but for that of a lock: docs/environments.md."""
    seen: list[Any] = []
    with rlock.Client(masters3.urls) as client, rlock.Client(masters3.urls) as other:
        lock = client.lock("x")
        calls: tuple[Callable[[], Any], ...] = (
            lambda: other.lock("x").acquire(timeout=0.1),
            lambda: rlock.Client(masters3.labels).lock("x").acquire(blocking=False),
            lambda: other.lock("x").release(),
            lambda: client.status("x"),
            lambda: client.evict("y"),
            client.init,
            lambda: client.masters,
            lambda: rlock.Client([masters3.urls[0]] * 2),
        )
        with lock:
            for call in calls:
                try:
                    seen.append(call())
                except rlock.RLockError as error:
                    seen.append(error)
        bare = (client, lock, lock.lost, client.semaphore("s", permits=2), client.locks(["a", "b"]))
        makers = redis.Redis.from_url, pytest.importorskip("valkey").Valkey.from_url
        groups = [rlock.Group(make(url), 1) for url in masters3.urls for make in makers]
        seen += ledger
        for each in (*seen, *bare, *groups):
            look(texts(each), f"the text of a {type(each).__name__}")
        for each in seen:
            look(pickle.dumps(each), f"the pickle of a {type(each).__name__}")
    assert leaks() == []
    assert any(isinstance(each, rlock.OptionsError) for each in seen)


@pytest.mark.parametrize("binary", servers_found(), ids=label)
def test_a_master_with_any_password_answers_after_start_and_is_gone_after_close(binary: ServerBinary) -> None:
    with Master(binary, password="a b\"\\'é,@/:%\n#") as master:
        pid, directory = master.pid, master.directory
        with raw(master.url) as client:
            assert client.info("server")["process_id"] == pid
            assert client.config_get("save")["save"] == ""
            assert client.config_get("appendonly")["appendonly"] == "no"
        with raw(f"redis://127.0.0.1:{master.port}") as client, pytest.raises(redis.AuthenticationError):
            client.ping()
        assert "requirepass" not in Path(f"/proc/{pid}/cmdline").read_text()
        assert stat.S_IMODE((directory / "server.conf").stat().st_mode) == 0o600
    assert pid is not None
    assert gone(pid)
    assert not directory.exists()
    assert not master.running
    master.close()


def test_a_server_that_does_not_run_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    servers = {"valkey-server": "exit 127", "redis-server": "echo 'Redis server v=7.4.1 sha=0 build=1'"}
    write_scripts(tmp_path, servers)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_server() == ServerBinary(tmp_path / "redis-server", "redis", "7.4.1")


PLAIN = re.sub(r"^\s*#.*\n", "", (TOP / "compose.yaml").read_text(encoding="utf-8"), flags=re.MULTILINE)
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


@slow
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
def ending_by(ending: str) -> Iterator[tuple[subprocess.Popen[str], list[int], list[Path]]]:
    """PROGRAM with an ending: the process, and the pids and directories of its masters."""
    with starter(TOP, []) as start:
        program = start(PYTHON, "-c", PROGRAM + ending)
        words = line(program).split()
        try:
            yield program, [int(word) for word in words[:2]], [Path(word) for word in words[2:]]
        finally:
            for directory in words[2:]:
                shutil.rmtree(directory, ignore_errors=True)


@slow
@pytest.mark.skipif(sys.platform != "linux", reason="the death signal is Linux's")
@pytest.mark.parametrize("freeze", [False, True], ids=["running", "paused"])
def test_a_killed_parent_takes_its_servers_with_it(freeze: bool) -> None:
    with ending_by(f"{freeze} and masters[0].pause(); time.sleep(60)") as (program, pids, _):
        time.sleep(0.1)
        program.kill()
        assert all(gone(pid) for pid in pids)


@slow
@pytest.mark.parametrize(
    "ending", ["", "raise SystemExit(3)", "raise RuntimeError", "del masters; time.sleep(1)"]
)
def test_a_program_that_forgets_to_close_leaves_neither_server_nor_directory(ending: str) -> None:
    with ending_by("sys.stderr.close()\n" + ending) as (program, pids, directories):
        program.wait(20)
        assert all(gone(pid) for pid in pids)
        assert not any(directory.exists() for directory in directories)
