"""`rlock ...` as a process of its own, or at a terminal, for tests of the command line."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from typing import Any, NamedTuple
from unittest.mock import patch

from rlock.cli.main import main

from ..canary import look

RLOCK = [sys.executable, "-m", "rlock"]
NOWHERE = ["redis://127.0.0.1:1", "redis://127.0.0.1:2"]


class Done(NamedTuple):
    code: int  # as a shell sees it: 128 and its number for a signal
    out: str
    err: str


def environment(masters: Sequence[str] = (), **extra: str) -> dict[str, str]:
    """What a process finds: no settings of this machine, the masters, and ``extra``."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("RLOCK_")}
    kept["RLOCK_CONFIG"] = ""
    if masters:
        kept["RLOCK_MASTERS"] = ",".join(masters)
    return {**kept, **extra}


def done(command: Sequence[str | bytes], *, timeout: float = 60, **options: Any) -> Done:
    options = {"stdin": subprocess.DEVNULL, **options}
    found = subprocess.run(command, text=True, capture_output=True, timeout=timeout, check=False, **options)
    assert "Traceback" not in found.stderr, found.stderr
    code = found.returncode
    return Done(code if code >= 0 else 128 - code, found.stdout, found.stderr)


def process(command: Sequence[str], env: Mapping[str, str], **options: Any) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    options = {"stdin": subprocess.DEVNULL, "stdout": pipe, "stderr": pipe, "text": True, **options}
    return subprocess.Popen(command, env=env, **options)


def begin(*words: str, masters: Sequence[str] = (), **extra: str) -> subprocess.Popen[str]:
    return process([*RLOCK, *words], environment(masters, **extra))


def line(process: subprocess.Popen[str]) -> str:
    """The next line of its output."""
    assert process.stdout is not None
    return process.stdout.readline()


Start = Callable[..., "subprocess.Popen[str]"]


@contextmanager
def processes(env: Mapping[str, str], **usual: Any) -> Iterator[Start]:
    """``start(*command)``: a process, ended with the block; with its children, if it has a session."""
    started: list[subprocess.Popen[str]] = []

    def start(*command: str, **options: Any) -> subprocess.Popen[str]:
        started.append(process(command, env, **{**usual, **options}))
        return started[-1]

    try:
        yield start
    finally:
        for one in started:
            with suppress(ProcessLookupError):
                os.killpg(one.pid, signal.SIGKILL)
            one.kill()
            one.wait(30)
            for pipe in (one.stdin, one.stdout, one.stderr):
                if pipe is not None:
                    pipe.close()


@contextmanager
def starter(masters: Sequence[str], *first: str, **extra: str) -> Iterator[Start]:
    """``start(*words)``: `rlock` with the first words and these; ended with the block."""
    with processes(environment(masters, **extra)) as start:
        yield lambda *words: start(*RLOCK, *first, *words)


def rlock(*words: str | bytes, masters: Sequence[str] = (), **extra: str) -> Done:
    """Run ``rlock words``; its exit code and what it said."""
    return done([*RLOCK, *words], env=environment(masters, **extra))


def inside(*words: str | bytes, masters: Sequence[str] = (), **extra: str) -> Done:
    """Run ``rlock words`` in this process: quick, for commands that start and serve nothing."""
    if words[:1] in [("run",), ("hold",)]:  # they take the signals of their process
        return rlock(*words, masters=masters, **extra)
    out, err = io.StringIO(), io.StringIO()
    with (
        patch.dict(os.environ, environment(masters, **extra), clear=True),
        patch.object(sys, "argv", ["rlock", *map(os.fsdecode, words)]),
        patch.object(sys, "stdin", io.StringIO()),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as end:
            code = end.code
    assert isinstance(code, int)
    look(out.getvalue() + err.getvalue(), f"the output of rlock {words}")
    return Done(code, out.getvalue(), err.getvalue())


def ask(urls: Sequence[str], *words: str, **extra: str) -> Done:
    """`inside`, on these masters and with short leases."""
    return inside(*words, masters=urls, RLOCK_TTL="2", **extra)


def refused(found: Done, code: int, *told: str) -> None:
    """One line on stderr, which is ours and tells this, and nothing on stdout."""
    assert found.code == code, found
    assert found.out == ""
    (line,) = found.err.splitlines()
    assert line.startswith("rlock: ")
    for part in told:
        assert part in line


class Console:
    """What a program prints and what is typed, by their descriptors."""

    def __init__(self, output: int, keyboard: int) -> None:
        self._output, self._keyboard = output, keyboard
        self._printed, self._taken = b"", 0

    @property
    def text(self) -> str:
        """All that was read so far."""
        return self._printed.decode("utf-8", "replace")

    @property
    def rest(self) -> str:
        """The part that is not taken yet, without what moves the cursor."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.text)[self._taken :]

    def type(self, keys: str) -> None:
        os.write(self._keyboard, keys.encode())

    def read(self, timeout: float) -> bool:
        """Whether something came within this time."""
        if not select.select([self._output], [], [], max(0.0, timeout))[0]:
            return False
        with suppress(OSError):  # the program has closed its terminal
            self._printed += (new := os.read(self._output, 65536))
            return bool(new)
        return False

    def until(self, pattern: str, within: float = 20.0) -> re.Match[str]:
        """Wait for this; it is taken, with all before it."""
        deadline = time.monotonic() + within
        while not (found := re.search(pattern, self.rest, re.DOTALL | re.MULTILINE)):
            assert self.read(deadline - time.monotonic()), f"no {pattern!r} in {self.rest!r}"
        self._taken += found.end()
        return found


class Screen(Console):
    """A terminal, and a program that has it to itself: signals come as in a shell's window."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        self._ours, self._theirs = pty.openpty()
        super().__init__(self._ours, self._ours)
        fcntl.ioctl(self._theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        self.before = self.mode()
        screen = self._theirs
        self.process = subprocess.Popen(
            command, env=env, stdin=screen, stdout=screen, stderr=screen, preexec_fn=_take_terminal
        )

    def mode(self) -> list[Any]:
        return termios.tcgetattr(self._theirs)

    def ends(self) -> int:
        """Its exit status, when all that it printed is read."""
        deadline = time.monotonic() + 15
        while self.process.poll() is None and time.monotonic() < deadline:
            self.read(0.1)
        while self.read(0.2):
            pass
        return self.process.wait(timeout=1)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)
        os.close(self._theirs)


def _take_terminal() -> None:
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
