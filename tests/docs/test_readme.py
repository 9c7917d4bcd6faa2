"""README.md: its programs and its commands, as they stand there; and the example of docs/waiting.md."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import rlock
import rlock.asyncio
from rlock.testing.local.embedded import ServerBinary

from ..contract.conftest import eventually
from ..contract.conftest import make_client as make_client  # a fixture
from ..servers import Fleet
from .pages import DOCS, PYTHON, TOP, marked, starter

TEXT = (TOP / "README.md").read_text(encoding="utf-8")
PROGRAM, TASKS, _UP, _THEN = marked(TOP / "README.md", "tests/docs/test_readme.py")


def real(text: str, fleet: Fleet) -> str:
    """A program of the page on real masters."""
    for number, url in enumerate(fleet.urls, 1):
        text = text.replace(f"redis://10.0.0.{number}", url)
    assert "10.0.0." not in text
    return text


def test_the_first_program_runs_and_its_comments_are_true(
    masters3: Fleet, make_client: Callable[..., Any]
) -> None:
    shipped: list[tuple[int, int]] = []
    names: dict[str, Any] = {}

    def ship(order: int) -> None:
        shipped.append((order, names["lock"].hold_count))
        assert make_client(masters3.urls).lock("orders:42").acquire(blocking=False) is False

    names["ship"] = ship
    exec(compile(real(PROGRAM, masters3), "README.md", "exec"), names)
    client = names["client"]
    try:
        assert shipped == [(42, 2)]
        assert not names["lock"].locked()
        with names["fair"]:
            assert names["lock"].is_owned(), "one name is one lock"
        ran: list[int] = []
        other = make_client(masters3.urls)
        report = rlock.locked(client, "report:{user_id}", blocking=False)(lambda user_id: ran.append(user_id))
        with other.lock("report:7"):
            assert report(7) is None
            assert names["report"](7) is None
        report(7)
        assert ran == [7]
    finally:
        client.close()


def test_the_program_with_tasks_runs(masters1: Fleet) -> None:
    shipped: list[int] = []

    async def ship(order: int) -> None:
        shipped.append(order)

    lines = "".join(f"    {line}\n" for line in real(TASKS, masters1).splitlines())
    names: dict[str, Any] = {"ship": ship, "rlock": rlock}
    exec(compile(f"async def main():\n{lines}", "README.md", "exec"), names)
    asyncio.run(names["main"]())
    assert shipped == [42]


UP, THEN = ([line[2:].partition("  #")[0].strip() for line in block.splitlines()] for block in (_UP, _THEN))


def test_the_commands_do_what_stands_behind_them(tmp_path: Path, server: ServerBinary) -> None:
    (tmp_path / "report.sh").write_text("#!/bin/sh\necho ran\nexit 3\n")
    (tmp_path / "report.sh").chmod(0o755)
    assert UP == ["rlock up -n 3"]
    assert THEN[0] == "export RLOCK_MASTERS=..."
    with starter(tmp_path, []) as start:
        up = start(PYTHON, "-m", "rlock", *UP[0].split()[1:], stderr=subprocess.DEVNULL)
        assert up.stdout is not None
        urls = up.stdout.readline().strip().removeprefix("RLOCK_MASTERS=").split(",")
        assert len(urls) == 3
        with starter(tmp_path, urls) as then:
            for command in THEN[1:]:
                program, *words = command.split()
                assert program == "rlock"
                process = then(PYTHON, "-m", "rlock", *words)
                out, _ = process.communicate(timeout=60)
                ran = words[0] == "run" and "--help" not in words
                assert ("ran" in out.splitlines()) is ran, out
                assert process.returncode == (3 if ran else 0), out
            with rlock.Client(urls).lock("nightly"):
                skipped = then(PYTHON, "-m", "rlock", *THEN[2].split()[1:])
                skipped.communicate(timeout=60)
                assert skipped.returncode == 75
        up.send_signal(signal.SIGTERM)
        assert up.wait(30) == 0


def test_the_example_of_statistics_has_the_fields_that_there_are(
    masters3: Fleet, make_client: Callable[..., Any]
) -> None:
    (text,) = marked(DOCS / "waiting.md", "tests/docs/test_readme.py")
    shown = re.fullmatch(r">>> lock\.statistics\(\)\n(.*)", text, re.DOTALL)
    assert shown
    client, lock = make_client(masters3.urls), make_client(masters3.urls).lock("orders:42")

    def wait() -> None:
        with client.lock("orders:42"):
            pass

    with lock:
        thread = threading.Thread(target=wait)
        thread.start()
        assert eventually(lambda: lock.statistics().queue_length == 1)
        told = repr(lock.statistics())
    thread.join(20)

    def names(of: str) -> list[str]:
        return re.findall(r"(\w+)(?==)|(?<![\w=])(Lock\w+|Waiter)\(", of)

    assert names(" ".join(shown[1].split())) == names(told)
