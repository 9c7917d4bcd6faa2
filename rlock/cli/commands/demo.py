"""`rlock demo`: what the lock does, shown and measured on this machine, with faults."""

from __future__ import annotations

import importlib.util
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

from ...testing.local.binaries import ServerBinary
from ...testing.local.embedded import EmbeddedError, Masters, find_server
from .. import exits
from ..demo import acts
from ..demo import screen as screens
from ..demo.board import ActLine, Board, Observer
from ..demo.crew import Crew, CrewError
from ..demo.ledger import Ledger
from ..demo.verdict import Evidence, Verdict, judge, read_ledgers
from ..demo.worker import control_path, guarded_path
from ..output import json_option, print_json, show

MASTERS = 5
TTL_S = 2.0
FAILED = 1
PROBLEMS = 12  # that are listed


@click.command()
@click.option(
    "--workers",
    metavar="K",
    type=click.IntRange(2, 8),
    default=6,
    show_default=True,
    help="How many processes contend.",
)
@click.option(
    "--keep",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Leave the ledgers and the journals of all workers in DIR.",
)
@json_option
def demo(workers: int, keep: Path | None, *, as_json: bool) -> None:
    """Watch processes take turns, with faults, and see it proven. About 17 seconds.

    \b
    On five local masters, which it starts itself, worker processes rewrite one real file:
      1. without the lock: the file breaks (else the rest would prove nothing)
      2. under the lock, with nested acquires: it must not
      3. two of them hand the lock to each other: how fast is a waiter awake?
      4. two of the five masters are killed while the work goes on
      5. the holder is killed -9 in the middle of a rewrite: when does the next one get in?

    At the end the journals of all workers are merged and checked: no two were inside at once, every
    update is in the file. The last line states what was proven, with the figures of this run.

    A lease cannot exclude a paused holder: if this machine stands still for over 2 seconds in the middle
    of a section, the demonstration says so and fails.

    With --json stdout has the verdict only, and the lines go to stderr.

    On a terminal there is a dashboard; plain lines elsewhere, and with NO_COLOR or CI set.

    \b
    Exit status: 0 proven, 1 a violation or nothing proven, 64 something is not installed, 130 Ctrl-C.
    """
    if importlib.util.find_spec("rich") is None:
        raise click.ClickException("rich is not installed: pip install rich (the extra quorum-rlock[demo])")
    try:
        server = find_server()
    except EmbeddedError as error:
        raise click.ClickException(error.message) from None
    directory = _directory(keep)
    keeping = keep is not None
    try:
        with _ended_by_signals():
            verdict = _run(server, workers, directory, sys.stderr if as_json else sys.stdout)
        # Who sees a violation wants to see what it was made of.
        keeping = keeping or not verdict.proven
    except EmbeddedError as error:
        raise click.ClickException(str(error)) from None
    finally:
        if not keeping:
            shutil.rmtree(directory, ignore_errors=True)
    if as_json:
        print_json(
            {
                "proven": verdict.proven,
                "verdict": verdict.sentence,
                "problems": verdict.problems,
                "journals": str(directory) if keeping else None,
            }
        )
        sys.exit(0 if verdict.proven else FAILED)
    if keeping:
        show(f"journals and ledgers: {directory}")
    for problem in verdict.problems[:PROBLEMS]:
        show(f"- {problem}")
    if len(verdict.problems) > PROBLEMS:
        show(f"- and {len(verdict.problems) - PROBLEMS} more")
    plain = screens.is_plain(sys.stdout, os.environ)
    click.secho(verdict.sentence, fg="green" if verdict.proven else "red", color=not plain)
    sys.exit(0 if verdict.proven else FAILED)


def _run(server: ServerBinary, workers: int, directory: Path, stream: TextIO) -> Verdict:
    with ExitStack() as stack:
        masters = stack.enter_context(Masters(MASTERS, server))
        for path in (control_path(directory), guarded_path(directory)):
            Ledger(path).create()
        crew = Crew(workers, directory, masters.urls, TTL_S)
        stack.callback(crew.end)
        board = Board(
            f"rlock demo: {MASTERS} masters ({server}), {workers} processes, ttl {TTL_S:g} s",
            masters=list(masters),
            crew=crew,
            acts=[ActLine(title) for title in acts.TITLES],
        )
        stack.enter_context(Observer(board, masters.urls, TTL_S))
        stage = acts.Stage(board, stack.enter_context(screens.screen(board, stream)), directory, TTL_S)
        interruption = None
        try:
            acts.play(stage)
        except CrewError as error:
            interruption = str(error)
        control_ledger, ledger = read_ledgers(directory)
        return judge(
            Evidence(
                sections=crew.sections,
                control_ledger=control_ledger,
                ledger=ledger,
                marks=stage.marks,
                faults=crew.faults,
                workers=workers,
                masters=MASTERS,
                masters_killed=sum(not master.running for master in masters),
                ttl=TTL_S,
                interruption=interruption,
            )
        )


def _directory(keep: Path | None) -> Path:
    """Where ledgers and journals go."""
    if keep is None:
        return Path(tempfile.mkdtemp(prefix="rlock-demo-"))
    try:
        keep.mkdir(parents=True, exist_ok=True)
        used = any(keep.iterdir())
    except OSError as error:
        raise click.BadParameter(f"{keep}: {error.strerror}", param_hint="--keep") from None
    if used:
        # Journals are appended to: an earlier run's sections would be taken for this one's.
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
    # Not after an exception: what is left to do then is to end, and a late second Ctrl-C would spoil the
    # exit status.
    for number, handler in before.items():
        signal.signal(number, handler)
