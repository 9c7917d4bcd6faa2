"""The contending processes, seen from `rlock bench`: started, ordered, ended."""

from __future__ import annotations

import json
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from ...errors import RLockError
from .figures import Section, in_order
from .worker import Order, order_line

#: For an interpreter to start on a loaded machine, and for an answer after the time is over.
PATIENCE_S = 30.0
#: For a section to end and its lock to be given back.
END_S = 4.0


class CrewError(RLockError):
    """A contending process ended, or does not answer."""


class Crew:
    """Processes that contend for a lock when they are told to."""

    def __init__(self, count: int, environment: Mapping[str, str]) -> None:
        self._processes: list[subprocess.Popen[str]] = []
        try:
            for _ in range(count):
                self._processes.append(
                    subprocess.Popen(
                        [sys.executable, "-m", "rlock.cli.bench.worker"],
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        text=True,
                        env=dict(environment),
                        # Not in the terminal's process group: they give their locks back before they end.
                        start_new_session=True,
                    )
                )
            until = time.monotonic() + PATIENCE_S
            for process in self._processes:
                self._answer(process, until)
        except BaseException:
            self.close()
            raise

    def contend(
        self, name: str, seconds: float, *, workers: int, hold: float, think: float = 0.0, fair: bool = False
    ) -> list[Section]:
        """The first ``workers`` of them contend for ``seconds``; the sections that count, in order.

        The first tenth is for connecting and lining up; sections that reach beyond the end count for
        nobody.
        """
        start = time.monotonic() + 0.05
        close = start + seconds
        order = Order(name, fair, start, close, hold, think)
        for process in self._processes[:workers]:
            self._send(process, order)
        sections: list[Section] = []
        for number, process in enumerate(self._processes[:workers]):
            told = self._answer(process, close + PATIENCE_S)
            if told["failure"]:
                raise CrewError(f"process {number + 1} of {workers} stopped: {told['failure']}")
            sections += [Section(number, *times) for times in told["sections"]]
        opened = start + seconds / 10
        return in_order(s for s in sections if s.entered >= opened and s.left <= close)

    def close(self) -> None:
        """End all of them, and give them the time to give their locks back."""
        for process in self._processes:
            if process.stdin is not None:
                try:
                    process.stdin.close()
                except OSError:
                    pass
        until = time.monotonic() + END_S
        for process in self._processes:
            try:
                process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()

    def __enter__(self) -> Crew:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _send(self, process: subprocess.Popen[str], order: Order) -> None:
        assert process.stdin is not None
        try:
            process.stdin.write(order_line(order))
            process.stdin.flush()
        except OSError:
            raise CrewError(f"a contending process (pid {process.pid}) has ended") from None

    def _answer(self, process: subprocess.Popen[str], until: float) -> dict[str, Any]:
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], max(0.0, until - time.monotonic()))
        line = process.stdout.readline() if ready else ""
        if not line:
            raise CrewError(f"a contending process (pid {process.pid}) has ended or does not answer")
        found: dict[str, Any] = json.loads(line)
        return found
