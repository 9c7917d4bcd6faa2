"""docs/cli.md and docs/doctor.md: the commands that they show run, as they stand there, in a shell."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from ..servers import Fleet
from .pages import DOCS, PYTHON, marked, starter

COMMANDS = [
    (page, line[2:].partition("  #")[0].strip())
    for page in ("cli.md", "doctor.md")
    for block in marked(DOCS / page, "tests/docs/test_commands_of_pages.py")
    for line in block.splitlines()
    if line.startswith("$ ")
]


def test_the_pages_have_commands() -> None:
    assert {page for page, _ in COMMANDS} == {"cli.md", "doctor.md"}


@pytest.mark.parametrize(("page", "command"), COMMANDS, ids=lambda value: value)
def test_a_command_of_the_page_does_its_work(
    page: str, command: str, masters3: Fleet, tmp_path: Path
) -> None:
    if "| jq" in command and shutil.which("jq") is None:
        command = command.partition(" | jq")[0]  # the half that is ours
    tools = tmp_path / "tools"
    for folder in (tools, *(tmp_path / name for name in re.findall(r"~/(\S+)/[\w.]+", command))):
        folder.mkdir(parents=True)
    (tools / "rlock").write_text(f'#!/bin/sh\nexec "{PYTHON}" -m rlock "$@"\n')
    (tools / "rlock").chmod(0o755)
    for name in ("report.sh", "migrate.sh"):
        (tmp_path / name).write_text("#!/bin/sh\necho ran\n")
        (tmp_path / name).chmod(0o755)
    # What the pages take for granted on a reader's machine.
    for name, does in (("make", "echo made"), ("dump", "echo dumped"), ("gzip", "exec cat")):
        (tools / name).write_text(f"#!/bin/sh\n{does}\n")
        (tools / name).chmod(0o755)
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"
    with starter(tmp_path, masters3.urls, PATH=path, HOME=str(tmp_path), NO_COLOR="1") as start:
        process = start("bash", "--norc", "-c", command)
        out, _ = process.communicate(timeout=60)
    # Masters of tests keep nothing: doctor has something to say, and says so with 1.
    allowed = {0, 1} if command.startswith("rlock doctor") else {0}
    assert process.returncode in allowed, out
    assert "Traceback" not in out
    assert "No such" not in out
    written = re.search(r"> ~/(\S+)", command)
    if written:
        assert (tmp_path / written[1]).read_text()
    elif "| jq" not in command:  # that shows errors, and there may be none
        assert out
