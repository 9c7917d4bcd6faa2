"""`rlock run` beside flock(1): the same words, the same exit status, the same output of COMMAND.

What flock's manual (util-linux) says of -n, -w, -E, -c, exit status and signals is asked of both programs.
Where they differ on purpose, both sides are pinned, and docs/cli.md lists the difference.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from rlock import Client

from ..servers import Fleet
from .shell import RLOCK, Done, done, environment

FLOCK = shutil.which("flock")
pytestmark = pytest.mark.skipif(FLOCK is None, reason="flock(1) is not on this machine")

NAME = "job"
PAGE = Path(__file__).parents[2] / "docs" / "cli.md"

#: LOCK is the file of flock, the name of rlock run.
LOCK = "LOCK"

#: The lock is free.
FREE: list[list[str]] = [
    [LOCK, "sh", "-c", "exit 7"],
    [LOCK, "sh", "-c", "kill -9 $$"],
    [LOCK, "echo", "-n", "a", "b c", "--help", "-w"],
    [LOCK, "-c", "echo $((1 + 2)); exit 3"],
    [LOCK],
    ["-w", ".5", LOCK, "echo", "x"],
    ["-w", "soon", LOCK, "echo", "x"],
    ["-E", "0", "-n", LOCK, "sh", "-c", "exit 4"],
    ["-nE9", LOCK, "echo", "x"],
    ["-x", LOCK, "echo", "x"],
    ["--bogus", LOCK, "echo", "x"],
]

#: Somebody else has it.
HELD: list[list[str]] = [
    ["-n", "-E", "42", LOCK, "echo", "ran"],
    ["--timeout", "0.2", "-E", "1", LOCK, "-c", "echo ran"],
]

#: (what the page calls it, words, held, exit status of flock, of rlock run).
DIFFERENT: list[tuple[str, list[str], bool, int, int]] = [
    ("Conflict with `-n`, without `-E`", ["-n", LOCK, "true"], True, 1, 75),
    ("Conflict with `-w`, without `-E`", ["-w", ".1", LOCK, "true"], True, 1, 75),
    ("COMMAND is not found", [LOCK, "no-such-command-here"], False, 69, 127),
    ("COMMAND cannot be executed", [LOCK, "/etc/passwd"], False, 69, 126),
    ("`-n` and `-w` together", ["-n", "-w", "1", LOCK, "true"], False, 0, 64),
    ("A negative `-w`", ["-w", "-1", LOCK, "true"], False, 71, 64),
    ("`-w nan`, or one of ages", ["-w", "nan", LOCK, "true"], False, 71, 64),
    ("`-s`, `--shared`", ["-s", LOCK, "true"], False, 0, 64),
    ("`-F`, `--no-fork`", ["-F", LOCK, "true"], False, 0, 64),
    ("`-u`, `--unlock`", ["-u", LOCK, "true"], False, 0, 64),
    ("Options behind the name", [LOCK, "-n", "true"], False, 69, 0),
    ("`--` before COMMAND", [LOCK, "--", "true"], False, 69, 0),
    ("`-c` before the name", ["-c", "true", LOCK], False, 64, 0),
    ("A file descriptor", ["0"], False, 0, 64),
]


class Pair:
    """flock and rlock run, each with a lock of its own."""

    def __init__(self, fleet: Fleet, folder: Path) -> None:
        self.file = str(folder / "lock")
        Path(self.file).touch()
        self.urls = fleet.urls

    def commands(self, words: Sequence[str]) -> tuple[list[str], list[str]]:
        assert FLOCK is not None
        return (
            [FLOCK, *(self.file if word == LOCK else word for word in words)],
            [*RLOCK, "run", *(NAME if word == LOCK else word for word in words)],
        )

    def run(self, words: Sequence[str]) -> tuple[Done, Done]:
        theirs, ours = self.commands(words)
        # flock's descriptor 0 must be something that can be locked.
        with open(self.file) as stdin:
            first = done(theirs, env=environment(self.urls), stdin=stdin)
        return first, done(ours, env=environment(self.urls))

    @contextmanager
    def held(self) -> Iterator[None]:
        with open(self.file) as file, Client(self.urls) as client, client.lock(NAME):
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


@pytest.fixture
def pair(masters3: Fleet, tmp_path: Path) -> Pair:
    return Pair(masters3, tmp_path)


@pytest.mark.parametrize("words", FREE, ids=" ".join)
def test_on_a_free_lock_both_do_the_same(words: list[str], pair: Pair) -> None:
    theirs, ours = pair.run(words)
    assert ours[:2] == theirs[:2], ours.err


@pytest.mark.parametrize("words", HELD, ids=" ".join)
def test_on_a_lock_that_is_held_both_do_the_same(words: list[str], pair: Pair) -> None:
    with pair.held():
        theirs, ours = pair.run(words)
    assert ours[:2] == theirs[:2], ours.err
    assert ours.out == ""


@pytest.mark.parametrize(
    ("told", "words", "held", "theirs", "ours"), DIFFERENT, ids=[" ".join(row[1]) for row in DIFFERENT]
)
def test_where_they_differ_both_sides_are_as_the_page_says(
    told: str, words: list[str], held: bool, theirs: int, ours: int, pair: Pair
) -> None:
    with ExitStack() as stack:
        if held:
            stack.enter_context(pair.held())
        found = pair.run(words)
    assert [one.code for one in found] == [theirs, ours], found[1].err
    if ours == 64:
        assert len(found[1].err.splitlines()) == 1
    (row,) = re.findall(rf"^\| {re.escape(told)} \|(.*)\|(.*)\|$", PAGE.read_text(), re.MULTILINE)
    assert re.search(rf"\b{theirs}\b", row[0]), f"{told}: the page says {row[0]!r} of flock"
    assert re.search(rf"\b{ours}\b", row[1]), f"{told}: the page says {row[1]!r} of rlock run"


def test_the_lock_of_flock_outlives_its_command_in_the_background_and_ours_does_not(pair: Pair) -> None:
    line = "sleep 60 >/dev/null 2>&1 & echo $!"
    codes = []
    for first, second in zip(
        pair.commands([LOCK, "-c", line]), pair.commands(["-n", LOCK, "true"]), strict=True
    ):
        left_running = int(done(first, env=environment(pair.urls)).out)
        try:
            codes.append(done(second, env=environment(pair.urls)).code)
        finally:
            os.kill(left_running, signal.SIGKILL)
    assert codes == [1, 0]
    assert "| What COMMAND leaves in the background |" in PAGE.read_text()
