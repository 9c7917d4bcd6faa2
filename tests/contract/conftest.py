"""Clients and other processes for the contract tests."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import rlock

from ..servers import Fleet


@pytest.fixture(params=[1, 3, 5], ids=lambda n: f"N={n}")
def urls(request: pytest.FixtureRequest, masters: Fleet) -> list[str]:
    """One, three and five masters."""
    return masters(request.param).urls


@pytest.fixture
def make_client() -> Iterator[Callable[..., rlock.Client]]:
    """Clients that are closed with the test."""
    made: list[rlock.Client] = []

    def make(urls: Any, ttl: float = 3.0, **options: Any) -> rlock.Client:
        made.append(rlock.Client(urls, ttl, **options))
        return made[-1]

    yield make
    for client in made:
        client.close()


_PRELUDE = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"


class Child:
    """A Python program in another process, which says what it does line by line."""

    def __init__(self, program: str, *arguments: str) -> None:
        self.process = subprocess.Popen(
            # From the shell's background a process inherits a deaf ear for Ctrl-C.
            [sys.executable, "-u", "-c", _PRELUDE + textwrap.dedent(program), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def say(self, text: str = "") -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def end(self) -> int:
        return self.process.wait(30)


@pytest.fixture
def child() -> Iterator[Callable[..., Child]]:
    """Other processes, ended with the test."""
    children: list[Child] = []

    def start(program: str, *arguments: str) -> Child:
        children.append(Child(program, *arguments))
        return children[-1]

    yield start
    for one in children:
        if one.process.poll() is None:
            one.process.kill()
        one.process.wait()
        for pipe in (one.process.stdin, one.process.stdout):
            if pipe is not None:
                pipe.close()


def in_thread(work: Callable[[], Any]) -> Any:
    """The result of ``work`` in a thread of its own, or its exception."""
    result: list[Any] = []

    def run() -> None:
        try:
            result.append(work())
        except BaseException as error:
            result.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(60)
    assert result, "the thread hangs"
    if isinstance(result[0], BaseException):
        raise result[0]
    return result[0]


def eventually(what: Callable[[], Any], within: float = 10.0) -> Any:
    """Wait until ``what()`` is true; its value."""
    until = time.monotonic() + within
    while True:
        value = what()
        if value or time.monotonic() > until:
            return value
        time.sleep(0.02)
