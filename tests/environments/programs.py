"""Programs in processes of their own: what they do to Python must not leak into pytest."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import textwrap
import threading
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import rlock
from rlock.testing.local.spawn import free_port

from ..docs.pages import Start
from ..lock.conftest import Child, eventually
from ..servers import Fleet, left, raw

TOP = Path(rlock.__file__).resolve().parent.parent
PAGE = TOP / "docs" / "environments.md"

#: No program here takes half as long.
LIMIT_S = 40.0

#: What every program may use. A counter in a file of fixed length, so that a torn one cannot be read.
COMMON = '''
import json, os, sys, time
import rlock
URLS = os.environ["RLOCK_MASTERS"].split(",")
def tell(**facts):
    print(json.dumps(facts), flush=True)
def count(path, times, lock, sleep=time.sleep):
    for _ in range(times):
        with lock:
            file = os.open(path, os.O_RDWR)
            seen = int(os.pread(file, 8, 0))
            sleep(0.001)
            os.pwrite(file, b"%08d" % (seen + 1), 0)
            os.close(file)
def quiet(call, *arguments, **options):
    """What a call answered, or the name of its error."""
    try:
        return call(*arguments, **options)
    except Exception as error:
        return type(error).__name__
'''

#: An ordinary process that wants the lock too.
ORDINARY = """
count(sys.argv[2], int(sys.argv[3]), rlock.Client(URLS, 3.0).lock(sys.argv[1]))
"""


def needs(package: str) -> pytest.MarkDecorator:
    """The tests of a package that is not here are left out. It is not imported to find that out."""
    found = importlib.util.find_spec(package) is not None
    return pytest.mark.skipif(not found, reason=f"{package} is in the group test-all")


class Program(Child):
    """A program that finds this rlock and these masters; ``before`` comes before its first line."""

    def __init__(
        self,
        text: str,
        urls: Sequence[str],
        *arguments: object,
        before: str = "",
        cwd: Path | None = None,
        command: Sequence[str] = (),
    ) -> None:
        command = command or ["-c", before + COMMON + textwrap.dedent(text)]
        path = os.pathsep.join(filter(None, [str(TOP), os.environ.get("PYTHONPATH", "")]))
        told = {"PYTHONPATH": path, "RLOCK_MASTERS": ",".join(urls), "RLOCK_TTL": "3"}
        self.process = subprocess.Popen(
            [sys.executable, "-u", "-W", "ignore", *command, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=cwd,
            env={**os.environ, **told},
        )

    def facts(self) -> Any:
        """The next line that it tells; {} at its end."""
        return json.loads(self.line() or "{}")


@contextmanager
def program(text: str, urls: Sequence[str], *arguments: object, **options: Any) -> Iterator[Program]:
    """A program that is ended with the block."""
    started = Program(text, urls, *arguments, **options)
    # A program that hangs ends, and its test fails for want of facts; pytest itself must not hang.
    limit = threading.Timer(LIMIT_S, started.process.kill)
    limit.start()
    with started.process:
        try:
            yield started
        finally:
            limit.cancel()
            started.process.kill()


def outcome(text: str, urls: Sequence[str], *arguments: object, **options: Any) -> Any:
    """What a program tells in the end; it has to end well."""
    with program(text, urls, *arguments, **options) as started:
        told: dict[str, Any] = {}
        while facts := started.facts():
            told |= facts
        assert started.end() == 0, told
        return told


def gunicorn(start: Start, options: str, ready: str) -> tuple[subprocess.Popen[str], Callable[[str], bytes]]:
    """The arbiter, and a function that gets a path from its workers; ``ready``: a path that they answer."""
    port = free_port()

    def get(path: str) -> bytes:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=30) as answer:
            content: bytes = answer.read()
            return content

    def up() -> bool:
        try:
            return bool(get(ready))
        except OSError:
            return False

    command = f"-m gunicorn --no-control-socket --preload -b 127.0.0.1:{port} --log-level warning {options}"
    arbiter = start(sys.executable, *command.split())
    assert eventually(up, 20.0), "gunicorn does not answer"
    return arbiter, get


def counter(folder: Path) -> Path:
    path = folder / "count"
    path.write_bytes(b"%08d" % 0)
    return path


def blocks() -> dict[str, str]:
    """The Python files that docs/environments.md shows, by the name in their first line."""
    text = PAGE.read_text(encoding="utf-8")
    shown = re.findall(r"```python\n(# (\S+\.py)\n.*?)```", text, re.DOTALL)
    return {name: code for code, name in shown}


def assert_nothing_is_left(masters: Fleet, within: float = 8.0) -> None:
    """No lock, no queue and no subscription on any master."""

    def found() -> list[str]:
        return [str(name) for url in masters.urls for name in (*left(url), *raw(url).pubsub_channels())]

    assert eventually(lambda: not found(), within), found()
