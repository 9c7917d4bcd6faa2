"""docs/dashboard.md: its commands serve a page, on the address that stands behind them."""

from __future__ import annotations

import re
import urllib.request
from pathlib import Path

import pytest

from ..servers import Fleet
from .pages import DOCS, PYTHON, TOP, marked, starter

(TEXT,) = marked(DOCS / "dashboard.md", "tests/docs/test_dashboard_page.py")
COMMANDS = re.findall(r"^\$ rlock (dashboard\b.*?) +# (.*)$", TEXT, re.MULTILINE)


def test_the_page_shows_two_commands_behind_the_masters_and_what_they_do() -> None:
    first, *others = TEXT.splitlines()
    assert first.startswith("$ export RLOCK_MASTERS=redis://")
    assert len(COMMANDS) == len(others) == 2
    assert COMMANDS[0] == ("dashboard", "http://127.0.0.1:8379/ until Ctrl-C")


def test_the_gauges_of_the_page_are_those_of_the_code() -> None:
    page = (
        (DOCS / "dashboard.md")
        .read_text(encoding="utf-8")
        .partition("\n| gauge | |\n")[2]
        .partition("\n\n")[0]
    )
    code = (TOP / "rlock" / "cli" / "dashboard" / "gauges.py").read_text(encoding="utf-8")
    assert {*re.findall(r"redlock_\w+", page)} == {*re.findall(r"\"(redlock_\w+)\"", code)}


@pytest.mark.parametrize("command", [command for command, _ in COMMANDS])
def test_a_command_of_the_page_serves_it_and_ends_with_ctrl_c(
    command: str, masters3: Fleet, tmp_path: Path
) -> None:
    words = [word.strip("'") for word in command.split()]
    if "--port" not in words:
        words += ["--port", "0"]  # 8379 may be somebody's
    with starter(tmp_path, masters3.urls) as start:
        process = start(PYTHON, "-u", "-m", "rlock", *words)
        assert process.stdout is not None
        found = None
        while found is None:
            line = process.stdout.readline()
            assert line, "it ended without an address"
            found = re.search(r"http://127\.0\.0\.1:\d+/", line)
        with urllib.request.urlopen(found[0], timeout=30) as answer:
            assert answer.status == 200
            assert "text/html" in answer.headers["Content-Type"]
        process.terminate()
        assert process.wait(30) is not None
