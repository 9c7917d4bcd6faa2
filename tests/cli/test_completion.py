"""`rlock completion`: the words that a shell is offered, and `rlock help`."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click
import pytest

import rlock as library
from rlock.cli import exits
from rlock.cli.commands.status import status
from rlock.cli.completion import complete_name
from rlock.cli.main import COMMANDS

from ..fixtures import FreshMasters
from ..servers import Fleet, raw
from .shell import done, environment, inside

_BASH = """
source <(rlock completion bash)
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_rlock_completion rlock
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A PATH on which `rlock` is ours."""
    program = tmp_path / "bin" / "rlock"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m rlock "$@"\n')
    program.chmod(0o755)
    return f"{program.parent}{os.pathsep}{os.environ['PATH']}"


def in_bash(words: list[str], path: str, masters: Sequence[str] = ()) -> list[str]:
    found = done(["bash", "-c", _BASH, "bash", "rlock", *words], env=environment(masters, PATH=path))
    assert found.code == 0
    return found.out.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash on this machine")
def test_commands_options_choices_programs_and_locks_are_completed(path: str, masters3: Fleet) -> None:
    assert set(in_bash([""], path)) == set(COMMANDS)
    assert "--retry-delay" in in_bash(["run", "--retr"], path)
    assert in_bash(["run", "--on-lost", ""], path) == ["warn", "term", "kill"]
    with library.Client(masters3.urls) as client, client.lock("orders:42"), client.lock("other"):
        raw(masters3[0].url).hset("orders:no-lock", mapping={"a": "1", "b": "2"})
        assert in_bash(["status", "o"], path, masters3.urls) == ["orders:42", "other"]
        assert in_bash(["run", "--fair", "ot"], path, masters3.urls) == ["other"]
        assert in_bash(["status", "[o]*"], path, masters3.urls) == []


@pytest.mark.timing
def test_masters_that_do_not_answer_keep_the_prompt_for_a_second_at_most(
    fresh_masters: FreshMasters, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = fresh_masters(5)
    fleet.pause()
    monkeypatch.setenv("RLOCK_MASTERS", ",".join(fleet.urls))
    parameter = status.params[0]
    began = time.monotonic()
    assert complete_name(click.Context(status), parameter, "o") == []
    assert time.monotonic() - began < 2.0


def test_a_name_that_means_something_to_a_shell_is_not_offered(path: str, masters3: Fleet) -> None:
    rude = ("or;reboot", "or$(id)", "or`id`", "or'x", "or x", "or\nplain,rm", "or\x1b[2J", "or|x", "or*")
    for url in masters3.urls:
        for name in (*rude, "orders:42/a.b@c", "or-ü"):
            raw(url).hset(name, f"h/1/m:{'0' * 32}", 1)
    for shell in ("bash", "zsh", "fish"):
        extra = {"_RLOCK_COMPLETE": f"{shell}_complete", "PATH": path}
        extra |= {"COMP_WORDS": "rlock status or", "COMP_CWORD": "or" if shell == "fish" else "2"}
        out = done([sys.executable, "-m", "rlock"], env=environment(masters3.urls, **extra)).out
        names = {row.removeprefix("plain,") for row in out.splitlines()} - {"plain", "_"}
        assert names == {"orders:42/a.b@c", "or-ü"}, shell


def test_help_shows_the_exit_codes() -> None:
    found = inside("help", "exit-codes")
    assert found.code == 0
    for code, meaning in exits.rows():
        assert f"{code} {meaning}" in " ".join(found.out.split())
    assert inside("help", "nothing").code == exits.USAGE
