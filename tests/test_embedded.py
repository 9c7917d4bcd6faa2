"""Local masters as child processes: they start, they obey, and nothing of them is left."""

from __future__ import annotations

import os
import socket
import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import redis

from rlock.testing.local import embedded, spawn
from rlock.testing.local.embedded import (
    EmbeddedError,
    Master,
    Masters,
    ServerBinary,
    Tls,
)

from .servers import gone, label, raw, servers_found

EVERY_SERVER = pytest.mark.parametrize("binary", servers_found(), ids=label)


# -- one master ------------------------------------------------------------------------------------------


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


def test_a_unix_socket_replaces_the_port(server: ServerBinary) -> None:
    with Master(server, unixsocket=True, password="p w") as master, raw(master.url) as client:
        assert master.url.startswith("unix://")
        assert client.ping()
        assert client.config_get("port")["port"] == "0"


def test_arguments_win_over_the_defaults_and_an_own_directory_stays(tmp_path: Path) -> None:
    with Master(args=("--appendonly", "yes"), directory=tmp_path) as master, raw(master.url) as client:
        assert client.config_get("appendonly")["appendonly"] == "yes"
        assert client.config_get("dir")["dir"] == str(tmp_path)
    assert (tmp_path / "server.log").exists()


def test_an_argument_that_the_server_refuses_is_shown_with_what_it_said() -> None:
    with pytest.raises(EmbeddedError, match="no-such-setting") as caught:
        Master(args=("--no-such-setting", "1")).start()
    assert "no-such-setting" in caught.value.log


def test_a_server_that_never_answers_is_given_up_and_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "START_TIMEOUT_S", 0.3)
    silent = tmp_path / "redis-server"
    silent.write_text(
        "#!/bin/sh\n"
        'if [ "$1" = --version ]; then echo "Redis server v=7.0.0"; exit; fi\n'
        f"echo $$ >{tmp_path}/pid; exec sleep 60"
    )
    silent.chmod(0o755)
    master = Master(silent)
    with pytest.raises(EmbeddedError, match=r"did not answer in 0\.3 s"):
        master.start()
    assert gone(int((tmp_path / "pid").read_text()))
    master.close()


def test_a_port_that_somebody_took_in_between_is_replaced_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        ports = iter([taken, spawn.free_port()])
        monkeypatch.setattr(embedded, "free_port", lambda: next(ports))
        with Master() as master, raw(master.url) as client:
            assert master.port != taken
            assert client.ping()


# -- obeying ---------------------------------------------------------------------------------------------


@EVERY_SERVER
def test_a_restart_keeps_the_port_and_forgets_the_data(binary: ServerBinary) -> None:
    with Master(binary) as master:
        url, pid = master.url, master.pid
        with raw(url) as client:
            client.set("key", 1)
        master.restart()
        assert (master.url, master.running) == (url, True)
        assert master.pid != pid
        with raw(url) as client:
            assert client.dbsize() == 0


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


def test_a_paused_master_answers_nothing_and_goes_on_where_it_stopped() -> None:
    with Master() as master, raw(master.url, timeout_s=0.2) as client:
        client.set("key", 1)
        master.pause()
        assert master.running
        with pytest.raises(redis.TimeoutError):
            client.get("key")
        master.start()  # of a running one: neither an effect nor a wait for an answer
        master.resume()
        assert client.get("key") == "1"


@pytest.mark.parametrize("end", [Master.stop, Master.kill, Master.close])
def test_a_paused_master_can_be_ended_at_once(end: Callable[[Master], None]) -> None:
    with Master() as master:
        pid = master.pid
        master.pause()
        began = time.monotonic()
        end(master)
        assert time.monotonic() - began < embedded.STOP_GRACE_S / 2
        assert pid is not None
        assert gone(pid)


def test_the_servers_are_not_in_the_process_group_that_a_terminal_interrupts() -> None:
    with Master() as master:
        assert master.pid is not None
        assert os.getpgid(master.pid) == master.pid
        assert os.getsid(master.pid) != os.getsid(0)


# -- several ---------------------------------------------------------------------------------------------


def test_if_one_of_them_fails_all_are_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made: list[Master] = []
    real = Master._launch

    def launch(self: Master) -> bool:
        made.append(self)
        return real(self)

    monkeypatch.setattr(Master, "_launch", launch)
    monkeypatch.setattr(embedded, "START_TIMEOUT_S", 0.5)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        ports = [spawn.free_port(), spawn.free_port(), other.getsockname()[1]]
        with pytest.raises(EmbeddedError, match=f"port {ports[2]}"):
            Masters(3, ports=ports, directory=tmp_path)
    assert {master.port for master in made} == set(ports)
    assert not any(master.running for master in made)


# -- TLS -------------------------------------------------------------------------------------------------


@EVERY_SERVER
def test_a_master_speaks_tls_or_says_that_its_binary_cannot(binary: ServerBinary, certificate: Tls) -> None:
    master = Master(binary, tls=certificate)
    refusal = ""
    try:
        master.start()
    except EmbeddedError as error:
        refusal = str(error)
    try:
        if refusal:
            assert "was built without TLS: use another server" in refusal
            pytest.skip(refusal.splitlines()[0])
        assert master.url.startswith("rediss://")
        with raw(master.url) as client:
            assert client.ping()
        with raw(f"redis://127.0.0.1:{master.port}", 0.5) as client, pytest.raises(redis.ConnectionError):
            client.ping()
    finally:
        master.close()
