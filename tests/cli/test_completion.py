"""`rlock completion`: in real shells; and the manual."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click
import pytest

import rlock as library
from rlock.cli.commands.status import status
from rlock.cli.main import COMMANDS
from rlock.cli.manual import Page, Terms, Text, as_roff, as_text
from rlock.cli.names import complete_name

from ..conftest import FreshMasters
from ..servers import Fleet, raw
from .shell import done, environment, inside, rlock

needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="no bash on this machine")
needs_zsh = pytest.mark.skipif(shutil.which("zsh") is None, reason="no zsh on this machine")
needs_fish = pytest.mark.skipif(shutil.which("fish") is None, reason="no fish on this machine")

_BASH = """
source <(rlock completion bash)
COMP_LINE=$1; COMP_POINT=${#1}
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


def in_bash(line: str, path: str, masters: Sequence[str] = ()) -> list[str]:
    found = done(["bash", "-c", _BASH, "bash", line], env=environment(masters, PATH=path))
    assert found.code == 0
    return found.out.split()


@needs_bash
def test_bash_completes_commands_options_choices_and_files(path: str, tmp_path: Path) -> None:
    assert in_bash("rlock stat", path) == ["status"]
    assert set(in_bash("rlock ", path)) == set(COMMANDS)
    assert in_bash("rlock run --on-lost ", path) == ["warn", "term", "kill"]
    assert "--retry-delay" in in_bash("rlock run --retr", path)
    assert in_bash("rlock completion f", path) == ["fish"]
    assert in_bash("rlock help exit", path) == ["exit-codes"]
    assert "printf" in in_bash("rlock run job prin", path)


@needs_bash
def test_bash_completes_the_names_of_locks_behind_their_colons(path: str, masters3: Fleet) -> None:
    with library.Client(masters3.urls) as client, client.lock("orders:42"), client.lock("other"):
        raw(masters3[0].url).hset("orders:no-lock", mapping={"a": "1", "b": "2"})
        raw(masters3[0].url).hset("orders:counter", mapping={"user:1": "1"})
        raw(masters3[0].url).set("orders:text", "x")
        assert in_bash("rlock status o", path, masters3.urls) == ["orders:42", "other"]
        # bash takes what stands behind the colon for the word.
        assert in_bash("rlock status orders:", path, masters3.urls) == ["42"]
        assert in_bash("rlock run --fair ot", path, masters3.urls) == ["other"]
        assert in_bash("rlock status x", path, masters3.urls) == []
        assert in_bash("rlock status [o]*", path, masters3.urls) == []


@pytest.mark.timing
def test_masters_that_do_not_answer_keep_the_prompt_for_a_second_at_most(
    fresh_masters: FreshMasters, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = fresh_masters(5)
    for master in fleet:
        master.pause()
    monkeypatch.setenv("RLOCK_MASTERS", ",".join(fleet.urls))
    parameter = status.params[0]
    began = time.monotonic()
    assert complete_name(click.Context(status), parameter, "o") == []
    assert time.monotonic() - began < 2.0


@needs_fish
def test_fish_completes(path: str, masters3: Fleet, tmp_path: Path) -> None:
    with library.Client(masters3.urls) as client, client.lock("orders:42"):
        for line, wanted in (
            ("rlock stat", ["status"]),
            ("rlock run --on-lost ", ["warn", "term", "kill"]),
            ("rlock status ord", ["orders:42"]),
        ):
            script = f"rlock completion fish | source; complete -C '{line}'"
            extra = {"PATH": path, "HOME": str(tmp_path)}
            found = done(["fish", "--no-config", "-c", script], env=environment(masters3.urls, **extra))
            assert sorted(row.split("\t")[0] for row in found.out.splitlines()) == sorted(wanted), line


def typed(command: Sequence[str], keys: bytes, wanted: bytes, env: dict[str, str]) -> bytes:
    """What a terminal shows after ``keys``, up to ``wanted``."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(command[0], list(command), env)
    shown = b""
    sent = False
    until = time.monotonic() + 20
    try:
        while time.monotonic() < until and wanted not in shown:
            if select.select([terminal], [], [], 0.2)[0]:
                try:
                    shown += os.read(terminal, 4096)
                except OSError:
                    break
            if not sent and b"READY" in shown:
                os.write(terminal, keys)
                sent = True
        return shown
    finally:
        os.kill(pid, 9)
        os.close(terminal)
        os.waitpid(pid, 0)


@needs_zsh
def test_the_tab_key_completes_in_an_interactive_zsh(path: str, masters3: Fleet, tmp_path: Path) -> None:
    (tmp_path / ".zshrc").write_text(
        "autoload -U compinit; compinit -u\nsource <(rlock completion zsh)\nPS1='READY> '\n"
    )
    env = environment(masters3.urls, PATH=path, TERM="dumb", HOME=str(tmp_path), ZDOTDIR=str(tmp_path))
    with library.Client(masters3.urls) as client, client.lock("orders:42"):
        shown = typed(["zsh", "-i"], b"rlock status ord\t", b"orders:42", env)
    assert b"orders:42" in shown


SECTIONS = ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "SEE ALSO")


@pytest.mark.parametrize("command", COMMANDS)
def test_the_manual_of_every_command_has_the_sections_of_a_manual(command: str) -> None:
    found = inside("help", command)
    assert (found.code, found.err) == (0, "")
    lines = found.out.splitlines()
    assert [line for line in lines if line in SECTIONS] == list(SECTIONS)
    assert lines[1].startswith(f"  rlock-{command} - ")
    assert "\b" not in found.out
    if "--config" in found.out:
        assert "/etc/rlock/config.toml" in "".join(lines[lines.index("FILES") :])
        assert any(line.lstrip().startswith("RLOCK_MASTERS") for line in lines)


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not on this machine")
@pytest.mark.parametrize("topic", [[], ["run"], ["exit-codes"]], ids=str)
def test_the_source_for_man_is_typeset_without_a_warning(topic: list[str]) -> None:
    source = rlock("help", "--man", *topic).out
    found = subprocess.run(
        ["groff", "-ww", "-man", "-Tascii"], input=source, capture_output=True, text=True, check=False
    )
    assert (found.returncode, found.stderr) == (0, "")
    assert "EXIT STATUS" in found.stdout.replace("\b", "").replace("EE", "E") or "EEXXIITT" in "".join(
        found.stdout.split("\b")
    )


def test_what_is_special_to_roff_and_to_tables_comes_through() -> None:
    page = Page("rlock-x", "brief")
    page.add(
        "DESCRIPTION", Text(".TH at the beginning, a \\ and 'quotes'"), Text("'a'\n  .b\n", verbatim=True)
    )
    page.add("OPTIONS", Terms([("--a-b", ".so /etc/passwd")]))
    source = as_roff(page)
    assert re.findall(r"^\.(TH|so)\b", source, re.MULTILINE) == ["TH"], "a text became a request"
    assert "\n\\&.TH at the beginning, a \\e and \\(aqquotes\\(aq\n" in source
    assert "\n\\&.so /etc/passwd\n" in source
    assert "\n\\(aqa\\(aq\n" in source
    assert ".B \\-\\-a\\-b" in source
    assert "--a-b  .so /etc/passwd" in as_text(page)


def test_a_name_that_means_something_to_a_shell_is_not_offered(path: str, masters3: Fleet) -> None:
    rude = ("or;reboot", "or$(id)", "or`id`", "or'x", "or x", "or\nplain,rm", "or\x1b[2J", "or|x", "or*")
    for url in masters3.urls:
        for name in (*rude, "orders:42/a.b@c", "or-ü"):
            raw(url).hset(name, f"h/1/m:{'0' * 32}", 1)
    for shell in ("bash", "zsh", "fish"):
        extra = {"_RLOCK_COMPLETE": f"{shell}_complete", "COMP_LINE": "rlock status or", "PATH": path}
        extra |= {"COMP_WORDS": "rlock status or", "COMP_CWORD": "or" if shell == "fish" else "2"}
        out = done([sys.executable, "-m", "rlock"], env=environment(masters3.urls, **extra)).out
        names = {row.removeprefix("plain,") for row in out.splitlines()} - {"plain", "_"}
        assert names == {"orders:42/a.b@c", "or-ü"}, shell
