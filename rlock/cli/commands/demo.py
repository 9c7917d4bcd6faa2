"""`rlock demo`: what the lock does, shown and measured on this machine, with faults."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import TextIO

import click

from ...testing.contention.journal import now_ns
from ...testing.contention.processes import WorkerError, WorkerProcesses
from ...testing.local.binaries import ServerBinary
from ...testing.local.embedded import EmbeddedError, Masters, find_server
from .. import exits
from ..demo import phases
from ..demo.verdict import Evidence, Verdict, judge
from ..options import count_option
from ..output import json_option, print_json, show, styled

MASTERS = 5
TTL_S = 2.0


@click.command()
@count_option("--workers", within=(2, 8), default=6, metavar="K", told="How many processes contend.")
@click.option(
    "--keep",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Leave the counters and the journals of all workers in DIR.",
)
@json_option
def demo(workers: int, keep: Path | None, *, as_json: bool) -> None:
    """Watch processes take turns, with faults, and see it proven. About 17 seconds.

    \b
    It starts five local masters. Worker processes raise a counter in a file: read, wait, write.
      1. without the lock: updates are lost (otherwise the rest would prove nothing)
      2. under the lock, with nested acquires: no update is lost
      3. two workers hand the lock to each other: how fast is a waiter awake?
      4. two of the five masters are killed while the work goes on
      5. the holder is killed -9 in the middle of an update: when does the next worker get in?

    At the end a checker reads the journals of all workers: no two held the lock at once, fencing tokens
    rose, every update is in the file. The last line is the verdict, with the figures of this run.

    A lease cannot exclude a paused holder: if this machine stands still for over 2 seconds in the middle
    of a section, the demo says so and fails.

    With --json stdout has the verdict only, and the lines go to stderr.

    \b
    Exit status: 0 proven, 1 a violation or nothing proven, 64 something is not installed, 130 Ctrl-C.
    """
    try:
        server = find_server()
    except EmbeddedError as error:
        raise click.ClickException(error.message) from None
    directory = _directory(keep)
    keeping = keep is not None
    try:
        with _ended_by_signals():
            verdict = _run(server, workers, directory, sys.stderr if as_json else sys.stdout)
        # The journals of a violation stay: they show how it came about.
        keeping = keeping or not verdict.proven
    except EmbeddedError as error:
        raise click.ClickException(str(error)) from None
    finally:
        if not keeping:
            shutil.rmtree(directory, ignore_errors=True)
    if as_json:
        told = {"proven": verdict.proven, "verdict": verdict.sentence, "problems": verdict.problems}
        print_json({**told, "journals": str(directory) if keeping else None})
        sys.exit(0 if verdict.proven else exits.FAILED)
    if keeping:
        show(f"journals and counters: {directory}")
    for problem in verdict.problems:
        show(f"- {problem}")
    show(styled(verdict.sentence, fg="green" if verdict.proven else "red"))
    sys.exit(0 if verdict.proven else exits.FAILED)


def _run(server: ServerBinary, count: int, folder: Path, stream: TextIO) -> Verdict:
    with ExitStack() as stack:
        masters = stack.enter_context(Masters(MASTERS, server))
        ttl = {"RLOCK_TTL": f"{TTL_S:g}", "RLOCK_MAX_TTL": f"{TTL_S:g}"}
        environment = {**os.environ, "RLOCK_MASTERS": ",".join(masters.urls), **ttl}
        workers = WorkerProcesses(count, folder, environment)
        stack.callback(workers.end)
        stage = phases.Stage(list(masters), workers, stream, folder, TTL_S)
        stage.say(f"rlock demo: {MASTERS} masters ({server}), {count} processes, ttl {TTL_S:g} s")
        interruption = ""
        try:
            phases.run(stage)
            workers.history.horizon = now_ns()  # all are idle: every line has been read
        except WorkerError as error:
            interruption = str(error)
        names = [worker.name for worker in workers.workers]
        counts = stage.unlocked.count(), stage.counter.count()
        return judge(Evidence(workers.history, *counts, stage.marks, names, MASTERS, TTL_S, interruption))


def _directory(keep: Path | None) -> Path:
    """The folder of counters and journals."""
    if keep is None:
        return Path(tempfile.mkdtemp(prefix="rlock-demo-"))
    try:
        keep.mkdir(parents=True, exist_ok=True)
        used = any(keep.iterdir())
    except OSError as error:
        raise click.BadParameter(f"{keep}: {error.strerror}", param_hint="--keep") from None
    if used:
        # Workers append to journals: the checker would take an earlier run's sections for this run's.
        raise click.BadParameter(f"{keep} is not empty", param_hint="--keep")
    return keep


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Ctrl-C, SIGTERM and SIGHUP unwind once, so that every process is ended; later ones are ignored."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def unwind(number: int, _: FrameType | None) -> None:
        # An impatient second Ctrl-C must not interrupt the ending of the processes.
        for each in numbers:
            signal.signal(each, signal.SIG_IGN)
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(exits.SIGNAL + number)

    before = {number: signal.signal(number, unwind) for number in numbers}
    yield
    # Not after an exception: only the end is left then, and a late Ctrl-C would spoil the exit status.
    for number, handler in before.items():
        signal.signal(number, handler)
