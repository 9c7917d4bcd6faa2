"""Every page that shows a terminal: its commands do what is shown.

``<!-- terminal: NAME -->`` before a ```console block: lines that begin with ``$ `` are typed into the shell
of that name, one for each name on a page, in the order of the page; what stands below is its answer. ``...``
stands for any text. Blocks named by ``<!-- recipe: file -->`` are written to the folder in their turn. Ports,
pids, instants and owners need not be the same; later commands get the real port for one that was shown.
``<!-- terminal: NAME; goes on -->``: the last command of the block is not waited for. Later blocks of that
terminal may begin with what it prints then, and with ``^C``.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from ..cli.shell import Console
from .pages import PAGES, PYTHON, RLOCK, TOP, Start, page_blocks, starter, write_scripts

PATIENCE_S = 60.0
#: Texts that differ from run to run, and the word that stands for them.
_VARIES = [
    (re.compile(r"[\w.+-]+/\d+/[\w.<>()-]+:[0-9a-f]{4,32}"), "OWNER"),
    (re.compile(r"\bprocess \d+ on \S+"), "PROCESS"),
    (re.compile(r"127\.0\.0\.1:\d+"), "MASTER"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d( [+-]\d{4})?"), "INSTANT"),
    (re.compile(r"\b1[78]\d{14}\b"), "TOKEN"),
    (re.compile(r"\b\d+(\.\d+)? s\b"), "SECONDS"),
    (re.compile(r"\b(Redis|Valkey|redis|valkey) \d+\.\d+\.\d+"), "SERVER"),
    (re.compile(r"[ \t]+"), " "),
]
_PORT = re.compile(r"127\.0\.0\.1:(\d+)")


class Step(NamedTuple):
    kind: str  # recipe, terminal
    name: str
    text: str
    goes_on: bool


def steps(page: Path) -> list[Step]:
    """The blocks of a page that are part of its story."""
    found = []
    for block in page_blocks(page):
        name, _, more = block.value.partition("; ")
        if block.kind in ("recipe", "terminal"):
            assert more in ("", "goes on"), f"{page.name}: {more!r} says nothing about a terminal"
            found.append(Step(block.kind, name, block.text, bool(more)))
    return found


def plain(text: str) -> str:
    """Without what varies."""
    for pattern, word in _VARIES:
        text = pattern.sub(word, text)
    return text.strip()


def pattern(shown: list[str]) -> re.Pattern[str]:
    """What output has to look like; ``...`` alone in a line stands for any number of lines."""
    parts = []
    for line in shown:
        if line.strip() == "...":
            parts.append(r"(?:.*\n)*?")
        else:
            parts.append(".*".join(map(re.escape, plain(line).split("..."))) + r"\n")
    return re.compile("".join(parts))


class Terminal(Console):
    """A shell, and what was printed there."""

    def __init__(self, shell: subprocess.Popen[str]) -> None:
        assert shell.stdin is not None
        assert shell.stdout is not None
        super().__init__(shell.stdout.fileno(), shell.stdin.fileno())
        self.process = shell
        self._asked = 0

    def run(self, command: str) -> str:
        """Have the shell run it; the answer marks its end in the output."""
        self._asked += 1
        mark = f"--- end {self._asked}"
        self.type(f"{command}\necho '{mark}'\n")
        return mark

    def before(self, mark: str) -> list[str]:
        """The lines up to the mark, which is taken out."""
        return self.until(rf"\A(.*?)^{mark}\n", PATIENCE_S)[1].splitlines()

    def like(self, wanted: re.Pattern[str]) -> list[str]:
        """What has been printed, as soon as it is what is wanted."""
        deadline = time.monotonic() + PATIENCE_S
        while self.rest[-1:] not in ("", "\n") or not wanted.fullmatch(_joined(self.rest.splitlines())):
            assert self.read(deadline - time.monotonic()), f"{wanted.pattern!r} did not come: {self.rest}"
        return self.until(r"\A.*\Z")[0].splitlines()

    def interrupt(self) -> None:
        pid = self.process.pid
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            os.kill(int(child), signal.SIGINT)

    def close(self) -> None:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            self.interrupt()  # `rlock up` ends its masters then
            self.process.communicate(timeout=10)


def _joined(lines: list[str]) -> str:
    return "".join(f"{plain(line)}\n" for line in lines)


class Story:
    """The blocks of one page, one after the other, in one folder."""

    def __init__(self, page: Path, folder: Path, start: Start) -> None:
        self.page, self.folder, self.start = page, folder, start
        self.terminals: dict[str, Terminal] = {}
        self.open: dict[str, str] = {}
        self.ports: dict[str, str] = {}  # ports of the page, and those that there really are

    def tell(self) -> None:
        """Do all that the page shows, and compare."""
        for step in steps(self.page):
            if step.kind == "recipe":
                path = self.folder / step.name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(self._real(step.text), encoding="utf-8")
            else:
                self._terminal(step)

    def _terminal(self, step: Step) -> None:
        if step.name not in self.terminals:
            self.terminals[step.name] = Terminal(self.start("bash", "--norc", stdin=subprocess.PIPE))
        terminal = self.terminals[step.name]
        before, commands = parsed(step.text)
        if before:
            mark = self.open.pop(step.name)
            if "^C" in before:
                at = before.index("^C")
                self._learn(before[:at], terminal.like(pattern(before[:at])))
                terminal.interrupt()
                before = before[at + 1 :]
            self._compare("", before, terminal.before(mark))
        for number, (command, shown) in enumerate(commands, 1):
            assert step.name not in self.open, f"{step.name} is busy: {command}"
            mark = terminal.run(self._real(command))
            if step.goes_on and number == len(commands):
                self.open[step.name] = mark
                self._learn(shown, terminal.like(pattern(shown)))
            else:
                self._compare(command, shown, terminal.before(mark))

    def _compare(self, command: str, shown: list[str], told: list[str]) -> None:
        wanted = pattern(shown)
        assert wanted.fullmatch(_joined(told)), "\n".join(
            (f"{self.page.name}: $ {command}", "is shown with:", *shown, "and says:", *told)
        )
        self._learn(shown, told)

    def _learn(self, shown: list[str], told: list[str]) -> None:
        for page, real in zip(_PORT.findall("\n".join(shown)), _PORT.findall("\n".join(told)), strict=False):
            self.ports.setdefault(page, real)

    def _real(self, text: str) -> str:
        return re.sub(r"\b\d{4,5}\b", lambda match: self.ports.get(match[0], match[0]), text)


def parsed(text: str) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """What a block shows before its first command; and each command with what is shown for it."""
    before: list[str] = []
    commands: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            commands.append((line[2:], []))
        elif line.startswith("> ") and commands and not commands[-1][1]:
            commands[-1] = (f"{commands[-1][0]}\n{line[2:]}", [])
        elif commands:
            commands[-1][1].append(line)
        else:
            before.append(line)
    return before, commands


STORIES = [page for page in PAGES if any(step.kind == "terminal" for step in steps(page))]


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("page", STORIES, ids=lambda page: page.relative_to(TOP).as_posix())
def test_the_terminals_of_a_page_show_what_happens(page: Path, tmp_path: Path) -> None:
    """In a folder that has `rlock` and `python` as a reader has them."""
    tools = tmp_path / ".bin"
    path = write_scripts(tools, {"rlock": RLOCK, "python": f'exec "{PYTHON}" "$@"'})
    (tmp_path / ".tmp").mkdir()
    # As at a terminal: a line is one write, and the log of another thread does not come into the middle.
    by_lines = "import sys\nsys.stdout.reconfigure(line_buffering=True, write_through=False)\n"
    (tools / "sitecustomize.py").write_text(by_lines)
    environ = {"PATH": path, "PYTHONPATH": f"{tools}{os.pathsep}{TOP}"}
    environ |= {"NO_COLOR": "1", "HOME": str(tmp_path), "TMPDIR": str(tmp_path / ".tmp"), "RLOCK_TTL": ""}
    with starter(tmp_path, [], **environ) as start:
        told = Story(page, tmp_path, start)
        try:
            told.tell()
        finally:
            for terminal in told.terminals.values():
                terminal.close()
