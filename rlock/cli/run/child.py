"""A command under guard: started, signalled, and ended when its lock is lost.

It stays in the process group of rlock, as the child of flock(1) does, so a terminal treats both alike. To end
it, rlock looks for its descendants: a process group would miss some of them, and could hold strangers.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress

from ...errors import LeaseLostError
from .. import exits
from ..launcher import launch
from ..output import complain
from .processes import adopt_orphans, descendants
from .signals import ENDS, STOPS, interrupt_main, receive

#: What may be done about a command whose lock was lost: nothing, SIGTERM and then SIGKILL, or SIGKILL.
WARN, TERM, KILL = ON_LOST = ("warn", "term", "kill")
#: The part of `stop`'s seconds until SIGKILL; the rest is for the end of the killed process.
GRACE_PART = 0.8
#: Looks for processes that started while others were killed, with a pause between two of them.
KILL_ROUNDS, KILL_PAUSE_S = 50, 0.01
subprocess._USE_POSIX_SPAWN = False  # type: ignore[misc] # glibc 2.36 leaves two signals ignored


class GuardedCommand:
    """The command: started, signalled, and ended when its lock is lost; ``on_lost`` is one of ON_LOST.

    ``leads``: SIGUSR1 and SIGUSR2 do not end the wait for the lock.
    """

    def __init__(
        self, command: Sequence[str], grace: float, on_lost: str = TERM, *, leads: bool = False
    ) -> None:
        self._command = list(command)
        self._usual_grace = self._grace = grace
        self._on_lost = on_lost
        self._leads = leads
        self._mask: Iterable[int] = ()
        self._mutex = threading.Lock()  # held while the command starts, is reaped, or is sent a signal
        self._pid: int | None = None
        self._code = 0
        self._ended = threading.Event()
        self._waiting = True  # for the lock: a signal ends rlock
        self._early: list[int] = []
        self._stopped = self._asked_to_stop = False
        self._known: set[int] = set()
        self._refused = False
        self.error: LeaseLostError | None = None
        #: The last signal that ends most programs; 0: none came.
        self.ended_by = 0
        #: The command was not found, or is not executable.
        self.not_startable = False

    @property
    def started(self) -> bool:
        """Whether the command was started."""
        return self._pid is not None

    def run(self, environment: dict[str, str]) -> int:
        """Start it, wait for it; its exit status."""
        # An exception of the handler could come behind the fork: nobody would wait for the command.
        self._waiting = False
        try:
            # `kill -9` of rlock, or no memory: nobody renews, and nobody is left to end the command politely.
            with self._mutex:
                if self.error is not None:
                    return exits.LOST
                child = launch(self._command, env=environment, mask=self._mask, close_fds=False)
                self._pid = child.pid
                self._known = {child.pid}
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            self.not_startable = True
            why, code = error.strerror if isinstance(error, OSError) else error, exits.NOT_EXECUTABLE
            if isinstance(error, FileNotFoundError):
                hint = " (a shell line? use: sh -c '...')" if " " in self._command[0] else ""
                why, code = f"command not found{hint}", exits.NOT_FOUND
            complain(f"{self._command[0]}: {why}")
            return code
        for number in self._early:
            self._send({child.pid}, number)
        self._ended.wait()
        child.returncode = self._code  # otherwise it would be waited for again
        if self.ended_by and self._code == -self.ended_by:
            self._send_all(self.ended_by)  # otherwise the children of a shell would work on without the lock
        self._tell_refused()
        return self._code if self._code >= 0 else exits.SIGNAL - self._code

    def reset(self) -> None:
        """Prepare another run."""
        with self._mutex:
            self._pid, self.error, self._waiting = None, None, True
            self._ended.clear()

    def stop(self, error: LeaseLostError, seconds: float) -> None:
        """End the command within so many seconds, unless it has ended; none is started any more."""
        until = time.monotonic() + seconds
        self._grace = min(self._usual_grace, seconds * GRACE_PART)
        with self._mutex:  # otherwise a command that is being started would not be known
            if self.not_startable or self._ended.is_set():
                return
        self.lost(error)
        if self.started:  # otherwise another machine could start it while the kernel still ends this one
            self._ended.wait(until - time.monotonic())

    def lost(self, error: LeaseLostError) -> None:
        """End the command: nobody keeps others out of its section any more. Writes nothing before the end."""
        self.error = error
        with self._mutex:  # otherwise a command that is being started would run on
            started = self.started
        if not started or self._on_lost == WARN:
            return
        if self._on_lost == TERM:
            self._send_all(signal.SIGTERM)
            self._ended.wait(self._grace)
        # Also after a polite end: what it has started may still run.
        for _ in range(KILL_ROUNDS):
            if not self._send_all(signal.SIGKILL):
                break
            time.sleep(KILL_PAUSE_S)
        self._tell_refused()

    def listen(self) -> None:
        """From now on pass signals on while it runs, and end the wait before it does; see `receive`."""
        adopt_orphans()
        self._mask = receive(self._signalled, self._interrupted)

    def _signalled(self, number: int, by_kernel: bool) -> None:
        if number == signal.SIGCHLD:
            self._reap()
        elif number == signal.SIGCONT:
            self._asked_to_stop = False
            if self._stopped and self._pid is not None:
                self._send({self._pid}, number)
        elif number in STOPS:
            self._asked_to_stop = True
            if self._pid is not None and not by_kernel:
                self._send({self._pid}, number)
        else:
            self._pass_on(number, by_kernel)
        # Without the mutex, which is held while the command starts: a terminal may stop it in the middle.
        if self._asked_to_stop and (self._stopped or self._pid is None):
            self._asked_to_stop = False
            os.kill(os.getpid(), signal.SIGSTOP)

    def _pass_on(self, number: int, by_kernel: bool) -> None:
        ends = number in ENDS
        self.ended_by = number if ends else self.ended_by
        with self._mutex:
            if (pid := self._pid) is None and (ends or not self._leads):
                self._early.append(number)
        if pid is None:
            interrupt_main()
        elif by_kernel and number != signal.SIGHUP:
            pass  # a terminal sends it to the whole group, but SIGHUP to the leader of the session first
        elif number in (signal.SIGINT, signal.SIGQUIT):
            self._send_all(number)  # as a terminal does: a shell waits for the end of its child
        else:
            self._send({pid}, number)

    def _interrupted(self) -> None:
        # An exception and not the default action: the acquire that waits takes its votes back on the way.
        if self._waiting and self._early:
            self._waiting = False  # otherwise a second signal would interrupt that
            raise SystemExit(exits.SIGNAL + self._early[-1])

    def _reap(self) -> None:
        with self._mutex, suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG | os.WUNTRACED | os.WCONTINUED))[0]:
                pid, status = found
                if pid != self._pid:
                    continue  # an orphan
                self._stopped = os.WIFSTOPPED(status) and os.WSTOPSIG(status) in STOPS
                if os.WIFEXITED(status) or os.WIFSIGNALED(status):
                    self._code = os.waitstatus_to_exitcode(status)
                    self._ended.set()

    def _send_all(self, number: int) -> bool:
        return self._send(descendants(self._known), number)

    def _send(self, pids: Iterable[int], number: int) -> bool:
        """Whether a process got it."""
        sent = False
        with self._mutex:
            for pid in pids:
                if pid == self._pid and self._ended.is_set():
                    continue
                try:
                    os.kill(pid, number)
                    sent = True
                except ProcessLookupError:
                    pass
                except PermissionError:
                    self._refused = True
        return sent

    def _tell_refused(self) -> None:
        if self._refused:
            self._refused = False
            complain(f"{self._command[0]}: cannot be sent a signal: it runs as another user")
