"""A command under guard: started, signalled, and ended when its lock is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

from ...errors import LeaseLostError
from .. import exits
from ..launcher import launch
from ..output import complain

#: What may be done about a command whose lock was lost: nothing, SIGTERM and then SIGKILL, or SIGKILL.
WARN, TERM, KILL = ON_LOST = ("warn", "term", "kill")
#: The part of `stop`'s seconds until SIGKILL; the rest is for the end of the killed process.
GRACE_PART = 0.8
#: Signals that are meant for the command.
FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT, signal.SIGQUIT)


class GuardedCommand:
    """The command: started, signalled, and ended when its lock is lost; ``on_lost`` is one of ON_LOST."""

    def __init__(self, command: Sequence[str], grace: float, on_lost: str = TERM) -> None:
        self._command = list(command)
        self._usual_grace = self._grace = grace
        self._on_lost = on_lost
        self._child: subprocess.Popen[bytes] | None = None
        self._starting = False
        self._launching = threading.Lock()
        self._early: list[int] = []
        # On a terminal the command stays in our process group: else it could not read from it. Without
        # one it gets a group of its own, so that its children can be reached with it.
        self._grouped = not _on_terminal()
        self.error: LeaseLostError | None = None
        #: A signal was passed on that ends most programs.
        self.ended_by_signal = False
        #: The command was not found, or is not executable.
        self.not_startable = False

    @property
    def started(self) -> bool:
        """Whether the command was started."""
        return self._child is not None

    def run(self, environment: dict[str, str]) -> int:
        """Start it, wait for it; its exit status."""
        # An exception of a signal's handler would come out of the middle of the launch, which may have forked
        # by then: nobody would wait for the command.
        self._starting = True
        try:
            # `kill -9` of rlock, or the kernel out of memory: nobody renews the lock any more, and nobody is
            # left to end the command politely before the next one starts.
            with self._launching:
                if self.error is not None:
                    return exits.LOST
                self._child = launch(self._command, env=environment, start_new_session=self._grouped)
        except FileNotFoundError:
            hint = " (a shell line? use: sh -c '...')" if " " in self._command[0] else ""
            complain(f"{self._command[0]}: command not found{hint}")
            self.not_startable = True
            return exits.NOT_FOUND
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            complain(f"{self._command[0]}: {why}")
            self.not_startable = True
            return exits.NOT_EXECUTABLE
        finally:
            self._starting = False
        for number in self._early:
            self._send(number)
        code = self._child.wait()
        return code if code >= 0 else exits.SIGNAL - code

    def reset(self) -> None:
        """Prepare another run."""
        self._child, self.error, self._early = None, None, []

    def stop(self, error: LeaseLostError, seconds: float) -> None:
        """End the command within so many seconds, unless it has ended; none is started any more."""
        until = time.monotonic() + seconds
        self._grace = min(self._usual_grace, seconds * GRACE_PART)
        with self._launching:
            child = self._child
        if self.not_startable or (child is not None and child.returncode is not None):
            return
        self.lost(error)
        if child is not None:  # otherwise another machine could start it while the kernel still ends this one
            _wait(child, until - time.monotonic())

    def lost(self, error: LeaseLostError) -> None:
        """End the command: nobody keeps others out of its section any more. Writes nothing before the end."""
        self.error = error
        with self._launching:  # otherwise a command that is being started would run on
            child = self._child
        if child is None or self._on_lost == WARN:
            return
        if self._on_lost == TERM:
            self._send(signal.SIGTERM)
            _wait(child, self._grace)
        # Also after a polite end: what it has started may still run in its group.
        self._send(signal.SIGKILL)

    def _send(self, number: int) -> None:
        child = self._child
        if child is None:
            return
        try:
            if self._grouped:
                os.killpg(child.pid, number)
            elif child.poll() is None:
                child.send_signal(number)
        except ProcessLookupError:
            pass
        except PermissionError:
            name = signal.Signals(number).name
            complain(f"{self._command[0]}: cannot be sent {name}: it runs as another user")

    @contextmanager
    def signals(self) -> Iterator[None]:
        """Handlers that pass signals on while the command runs, and end the wait before it does."""
        before: dict[int, Any] = {}
        if threading.current_thread() is threading.main_thread():
            for number in FORWARDED:
                if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
                    before[number] = signal.signal(number, lambda n, _: self.signalled(n))
        try:
            yield
        finally:
            for handled, handler in before.items():
                signal.signal(handled, handler)

    def signalled(self, number: int) -> None:
        """A signal for us."""
        self.ended_by_signal = self.ended_by_signal or number not in (signal.SIGUSR1, signal.SIGUSR2)
        if self._starting:
            self._early.append(number)
            return
        if self._child is None:
            _leave(number)
        from_terminal = number in (signal.SIGINT, signal.SIGQUIT) and not self._grouped
        if not from_terminal:  # the terminal has sent it to the command as well
            self._send(number)


def _wait(child: subprocess.Popen[bytes], seconds: float) -> None:
    with suppress(subprocess.TimeoutExpired):
        child.wait(seconds)


def _leave(number: int) -> NoReturn:
    # An exception and not the default action: the acquire that waits takes its votes back on the way.
    raise SystemExit(exits.SIGNAL + number)


def _on_terminal() -> bool:
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (OSError, ValueError, AttributeError):  # closed; a closed stdin is None
        return False
