"""The command line: one verb a file in commands/, loaded when it is called for."""

from __future__ import annotations

import io
import logging
import os
import signal
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any

import click
from click.shell_completion import shell_complete

from .. import __version__
from ..errors import RLockError
from . import exits
from .output import OneLine, complain

#: In the order of the help text.
COMMANDS = (
    "run", "hold", "acquire", "renew", "release", "status", "list", "watch", "exporter", "doctor", "evict",
    "init", "up", "demo", "config", "completion", "help",
)  # fmt: skip

#: click's completion scripts set it.
COMPLETE = "_RLOCK_COMPLETE"


class Verbs(click.Group):
    """Imports a command with its first use: `rlock run` in a crontab must not load the others."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Split the words; without one, the help text is the complaint."""
        if not args and not ctx.resilient_parsing:
            # Before click does it: 8.1 prints to stdout and ends with 0, and has no error to catch.
            click.echo(ctx.get_help(), err=True)
            ctx.exit(exits.USAGE)
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All of them, in the order of the help text."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, or None."""
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f".commands.{cmd_name}", __package__)
        # `list_` for `list`: it would hide Python's own.
        found: click.Command = getattr(module, f"{cmd_name}_", None) or getattr(module, cmd_name)
        # Else the list of commands cuts the sentence off: "since when, for how long,...".
        found.short_help = found.get_short_help_str(200)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is called for; for one that is not there, the one that may be meant."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-") and not ctx.resilient_parsing:
            import difflib

            near = difflib.get_close_matches(args[0], COMMANDS, 1)
            meant = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(COMMANDS)}"
            raise click.UsageError(f"No such command {args[0]!r}: {meant}", ctx)
        return super().resolve_command(ctx, args)


@click.group(
    cls=Verbs,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="\b\nStart here:\n"
    "  rlock demo                    watch processes take turns, with faults\n"
    "  rlock up -n 5                 start five local masters and print RLOCK_MASTERS=...\n"
    "  rlock run nightly -- ./job    run a command that must not run twice at once\n"
    "  rlock help run                the help text of a command; also: exit-codes",
)
@click.version_option(__version__, "-V", "--version", prog_name="rlock")
def cli() -> None:
    """One lock for many processes and machines, on independent Redis or Valkey masters.

    A lease cannot exclude a paused holder: no two valid leases of one lock overlap, and a command that
    loses its lock is told and ended.

    The masters are named by RLOCK_MASTERS or --masters: URLs, separated by commas. One is enough to be
    useful; three or five survive the loss of one or two.
    """


class BestEffort(io.FileIO):
    """Stderr: a full disk or a reader that is gone must not change an exit status, or end `rlock run`."""

    def write(self, data: Any, /) -> int:
        """Write what can be written."""
        with suppress(OSError):
            super().write(data)
        return len(data)


def main() -> None:
    """Entry point; every error that is expected is one line on stderr and an exit code of its own."""
    # `<&-`, `>&-`: None would be a traceback wherever something is flushed, or asked if it is a terminal.
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: SIM115 - until the process ends
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    kind = "backslashreplace"  # LANG=C and a lock that is named in Greek
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors=kind)
    if isinstance(sys.stderr, io.TextIOWrapper):
        raw = io.BufferedWriter(BestEffort(sys.stderr.fileno(), "w", closefd=False))
        sys.stderr = io.TextIOWrapper(raw, sys.stderr.encoding, kind, line_buffering=True)
    log = logging.StreamHandler()
    log.setFormatter(OneLine())
    logging.basicConfig(handlers=[log], level=logging.WARNING)
    if COMPLETE in os.environ:
        logging.disable()  # a prompt is no place for a log
    code = _ended()
    try:
        sys.stdout.flush()
    except OSError as error:
        code = _unwritten(error)
    sys.exit(code)


def _ended() -> int:
    """Run the command that is called for; the exit code."""
    # Not cli.main(): it makes the exit status of a BrokenPipeError 1.
    try:
        if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:  # of `start`
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if (shell := os.environ.get(COMPLETE)) is not None:
            return shell_complete(cli, {}, "rlock", COMPLETE, shell)
        with cli.make_context("rlock", sys.argv[1:]) as context:
            return cli.invoke(context) or 0
    except click.exceptions.Exit as end:
        return end.exit_code
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    except click.ClickException as error:
        return _say(_usage(error), exits.USAGE)
    except RLockError as error:
        return _say(error, exits.of(error))
    except exits.Terminated as end:
        return exits.SIGNAL + int(end.args[0])
    except (KeyboardInterrupt, click.Abort):
        return exits.SIGNAL + 2
    except OSError as error:
        return _unwritten(error)


def _say(error: object, code: int) -> int:
    complain(error)
    return code


def _usage(error: click.ClickException) -> str:
    """What is wrong with the words that were given, on one line."""
    message = " ".join(error.format_message().split())
    context = getattr(error, "ctx", None)
    if not isinstance(error, click.UsageError) or context is None:
        return message
    unknown = error.option_name if isinstance(error, click.NoSuchOption) else ""
    if context.parent is None and unknown in ("--masters", "--config", "--json"):
        return f"{unknown} stands behind the command, as in `rlock list {unknown} ...`"
    return f"{message.rstrip('.')} (see `{context.command_path} --help`)"


def _unwritten(error: OSError) -> int:
    """Stdout takes no more."""
    try:
        # Else Python tries again at its end, and complains.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except OSError:
        pass
    if isinstance(error, BrokenPipeError):
        # `rlock status x | head -1`: nobody reads any more, and that is no error of ours.
        return exits.SIGNAL + 13
    return _say(error.strerror or error, exits.OUTPUT)
