"""Programs in processes of their own: what they do to Python must not leak into pytest."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from rlock.testing.local.spawn import free_port

from ..docs.pages import PYTHON, TOP, Start, starter
from ..lock.conftest import Child, eventually
from ..servers import Fleet, left, raw

#: Every program may use this.
COMMON = '''
import json, os, sys, time
import rlock
URLS = os.environ["RLOCK_MASTERS"].split(",")
def tell(**facts):
    print(json.dumps(facts), flush=True)
def quiet(call, *arguments, **options):
    """What a call answered, or the name of its error."""
    try:
        return call(*arguments, **options)
    except Exception as error:
        return type(error).__name__
'''


def needs(package: str) -> pytest.MarkDecorator:
    """The tests of a package that is not here are left out. It is not imported to find that out."""
    found = importlib.util.find_spec(package) is not None
    return pytest.mark.skipif(not found, reason=f"{package} is in the group test-all")


class Program(Child):
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def facts(self) -> Any:
        """The next line that it tells; {} at its end."""
        return json.loads(self.line() or "{}")


@contextmanager
def program(text: str, urls: list[str], *, before: str = "") -> Iterator[Program]:
    """A program that is ended with the block; ``before`` comes before its first line."""
    with starter(TOP, urls, RLOCK_TTL="3") as start:
        words = [PYTHON, "-u", "-W", "ignore", "-c", before + COMMON + text]
        yield Program(start(*words, stdin=subprocess.PIPE, stderr=None))


def outcome(text: str, urls: list[str], *, before: str = "") -> Any:
    """What a program tells in the end; it has to end well."""
    with program(text, urls, before=before) as started:
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


def assert_nothing_is_left(masters: Fleet, within: float = 8.0) -> None:
    """No lock, no queue and no subscription on any master."""

    def found() -> list[str]:
        return [str(name) for url in masters.urls for name in (*left(url), *raw(url).pubsub_channels())]

    assert eventually(lambda: not found(), within), found()
