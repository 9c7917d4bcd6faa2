"""A worker: the process of a contestant. It answers one request at a time (``contestants/README.md``)."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any


class Failed(Exception):
    """The contestant answered with an error, gave no answer in time, or has ended."""


class Unsupported(Exception):
    """The contestant has no such thing."""


class Worker:
    """A running worker. `ask` waits for the answer; `send` and `answer` ask several at the same time."""

    def __init__(self, command: Sequence[str], environ: dict[str, str] | None = None) -> None:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                env={**os.environ, **(environ or {})},
                start_new_session=True,
            )
        except OSError as error:
            self._stderr.close()
            raise Failed(f"it cannot be started: {error}") from None
        self._unread = b""
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._out, selectors.EVENT_READ)

    @property
    def _out(self) -> int:
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, verb: str, **request: Any) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": verb, **request}).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise Failed(f"it has ended: {self.last_words()}") from None

    def answer(self, timeout: float = 60.0) -> dict[str, Any]:
        until = time.monotonic() + timeout
        while b"\n" not in self._unread:
            if not self._selector.select(max(0.0, until - time.monotonic())):
                raise Failed(f"no answer within {timeout:g} s")
            read = os.read(self._out, 1 << 20)
            if not read:
                raise Failed(f"it has ended: {self.last_words()}")
            self._unread += read
        line, _, self._unread = self._unread.partition(b"\n")
        try:
            reply: dict[str, Any] = json.loads(line)
            ok = reply.pop("ok")
        except (ValueError, TypeError, AttributeError, KeyError):
            raise Failed(f"no reply of the protocol: {line[:100].decode(errors='replace')}") from None
        if not ok:
            if "unsupported" in reply:
                raise Unsupported(reply["unsupported"])
            raise Failed(reply["error"])
        return reply

    def ask(self, verb: str, timeout: float = 60.0, **request: Any) -> dict[str, Any]:
        self.send(verb, **request)
        return self.answer(timeout)

    def last_words(self) -> str:
        self._stderr.seek(0)
        lines = self._stderr.read().decode(errors="replace").strip().splitlines()
        return lines[-1][:300] if lines else "it said nothing"

    def close(self) -> None:
        """End it, whatever it does."""
        if self._process.poll() is None:
            # The whole group: a worker may be a launcher of its runtime.
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        self._selector.close()
        self._stderr.close()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


ROOT = Path(__file__).parents[2]
