"""flock(1) and `rlock run`, each with a COMMAND under a lock of its own: what a scenario can do to both."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from rlock import Client

from ..lock.conftest import eventually
from ..servers import Fleet, gone, state
from .shell import RLOCK, Done, Screen, done, environment

FLOCK = shutil.which("flock")
LOCK, NAME = "LOCK", "job"  # the file of flock, the name of rlock run
QUIET_S = 1.0  # seconds in which a signal without effect shows none
MAY_BE_QUIET = ("SIGCONT", "SIGWINCH", "SIGCHLD", "SIGPIPE")
#: Notes its pid and the signals that it gets, and ends with 5 as soon as the first file is there.
TRAPS = """
import os, signal, sys, time
for name in sys.argv[2:]:
    signal.signal(getattr(signal, name), lambda number, _: print(signal.Signals(number).name, flush=True))
print(os.getpid(), flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
sys.exit(5)
"""
#: A shell with job control: a job in the foreground, its stdout and stdin are the files named. Enter is `fg`.
SHELL = """
import os, signal, sys
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
job = os.fork()
if not job:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.dup2(os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND), 1)
    os.dup2(os.open(sys.argv[2], os.O_RDONLY), 0)
    os.execv(sys.argv[3], sys.argv[3:])
print(f"pid {job};", flush=True)
while True:
    _, status = os.waitpid(job, os.WUNTRACED)
    os.tcsetpgrp(0, os.getpid())
    if not os.WIFSTOPPED(status):
        break
    print("stopped;", flush=True)
    sys.stdin.readline()
    os.tcsetpgrp(0, job)
    os.killpg(job, signal.SIGCONT)
print(f"status {os.waitstatus_to_exitcode(status) % 256};", flush=True)
"""


class Side:
    """One of the two programs, with a lock of its own."""

    def __init__(self, fleet: Fleet, folder: Path, *, ours: bool) -> None:
        self.ours, self.urls, self.folder = ours, fleet.urls, folder
        self.file, self.log, self.end = (folder / name for name in ("lock", "log", "end"))
        for path in (self.file, self.log):
            path.touch()

    def argv(self, *words: str) -> list[str]:
        program, name = ([*RLOCK, "run"], NAME) if self.ours else ([FLOCK or ""], str(self.file))
        return [*program, *(name if word == LOCK else word for word in words)]

    def traps(self, *names: str) -> list[str]:
        return self.argv(LOCK, sys.executable, "-c", TRAPS, str(self.end), *names)

    def done(self, *words: str, **options: Any) -> Done:
        # flock's descriptor 0 must be something that can be locked.
        with open(self.file) as stdin:
            return done(self.argv(*words), **{"env": environment(self.urls), "stdin": stdin, **options})

    @contextmanager
    def held(self) -> Iterator[None]:
        with open(self.file) as file, Client(self.urls) as client, client.lock(NAME):
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def lines(self) -> list[str]:
        return self.log.read_text().splitlines()

    def command(self) -> int:
        """The pid of COMMAND, as soon as it runs."""
        assert eventually(lambda: self.lines(), 20)
        return int(self.lines()[0])

    @contextmanager
    def running(self, *names: str) -> Iterator[subprocess.Popen[bytes]]:
        """COMMAND runs, and handles these signals; the end of the block ends it."""
        with self.log.open("a") as log:
            env = environment(self.urls)
            process = subprocess.Popen(self.traps(*names), stdout=log, env=env, start_new_session=True)
        try:
            self.command()
            yield process
        finally:
            self.end.touch()
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGCONT)
            process.wait(20)

    def effect(self, number: int, program: int) -> str:
        """What a signal to the program alone does."""
        command = self.command()
        os.kill(program, number)
        within = QUIET_S if signal.Signals(number).name in MAY_BE_QUIET else 20
        eventually(lambda: self.lines()[1:] or state(program) in "TZX", within)
        if state(program) == "T":
            eventually(lambda: state(command) == "T", QUIET_S)
        elif number == signal.SIGKILL:
            gone(command, QUIET_S)
        if self.lines()[1:]:
            assert self.lines()[1:] == [signal.Signals(number).name]
            return "goes to COMMAND"
        if state(program) in "ZX":
            return "ends it" + (", COMMAND runs on" if state(command) not in "ZX" else " and COMMAND")
        if state(program) == "T":
            return "stops both" if state(command) == "T" else "stops it, COMMAND runs on"
        return "nothing"


@contextmanager
def terminal(
    side: Side, *command: str, stdin: str = "/dev/tty", ttl: str = "10"
) -> Iterator[tuple[Screen, int]]:
    """A terminal with the program in the foreground, which has this pid; SHELL is around it."""
    words = [sys.executable, "-c", SHELL, str(side.log), stdin, *command]
    with closing(Screen(words, environment(side.urls, RLOCK_TTL=ttl))) as screen:
        program = int(screen.until(r"pid (\d+);")[1])
        yield screen, program
    side.end.touch()
    assert gone(program, 20)
