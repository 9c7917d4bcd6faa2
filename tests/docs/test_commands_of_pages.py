"""docs/cli.md, docs/doctor.md and docs/dashboard.md: their commands run in a shell, as they stand there."""

from __future__ import annotations

import os
import re
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from ..cli.dashboards import Dashboard, get
from ..servers import Fleet
from .pages import DOCS, RLOCK, marked, starter, write_scripts


def commands(*pages: str) -> list[str]:
    """The commands of the pages, without their comments."""
    blocks = (
        block for page in pages for block in marked(DOCS / page, "tests/docs/test_commands_of_pages.py")
    )
    lines = (line for block in blocks for line in block.splitlines() if line.startswith("$ "))
    return [line[2:].partition("  #")[0].strip() for line in lines]


@pytest.mark.parametrize("command", commands("cli.md", "doctor.md"))
def test_a_command_of_the_page_does_its_work(command: str, masters3: Fleet, tmp_path: Path) -> None:
    if "| jq" in command and shutil.which("jq") is None:
        command = command.partition(" | jq")[0]  # the half that is ours
    for folder in re.findall(r"~/(\S+)/[\w.]+", command):
        (tmp_path / folder).mkdir(parents=True)
    # The pages assume some programs on a reader's machine.
    tools = {"rlock": RLOCK, "make": "echo made", "dump": "echo dumped", "gzip": "exec cat"}
    write_scripts(tmp_path / "tools", tools)
    write_scripts(tmp_path, {"report.sh": "echo ran", "migrate.sh": "echo ran"})
    path = f"{tmp_path / 'tools'}{os.pathsep}{os.environ['PATH']}"
    with starter(tmp_path, masters3.urls, PATH=path, HOME=str(tmp_path), NO_COLOR="1") as start:
        process = start("bash", "--norc", "-c", command)
        out, _ = process.communicate(timeout=60)
    # Doctor reports that masters of tests keep nothing, and exits with 1.
    allowed = {0, 1} if command.startswith("rlock doctor") else {0}
    assert process.returncode in allowed, out
    assert "Traceback" not in out
    assert "No such" not in out
    written = re.search(r"> ~/(\S+)", command)
    if written:
        assert (tmp_path / written[1]).read_text()
    elif "| jq" not in command:  # that shows errors, and there may be none
        assert out


@pytest.mark.parametrize("command", [each for each in commands("dashboard.md") if each.startswith("rlock ")])
def test_a_command_of_the_dashboard_serves_a_page(command: str, masters3: Fleet) -> None:
    words = [word.strip("'") for word in command.split()[2:]]
    with closing(Dashboard(masters3.urls, *words)) as page:
        assert "text/html" in get(page.port)[0].headers["Content-Type"]


def test_the_gauges_of_the_page_are_those_of_the_dashboard() -> None:
    text = (DOCS / "dashboard.md").read_text(encoding="utf-8")
    page = text.partition("\n| gauge | |\n")[2].partition("\n\n")[0]
    code = (DOCS.parent / "rlock" / "cli" / "dashboard" / "gauges.py").read_text(encoding="utf-8")
    assert {*re.findall(r"redlock_\w+", page)} == {*re.findall(r"\"(redlock_\w+)\"", code)}
