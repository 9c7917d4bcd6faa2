"""The command line: one verb a file in commands/, loaded when it is called for."""

from __future__ import annotations

import logging
import sys
from importlib import import_module

import click

from .. import __version__
from ..errors import LeaseLostError, OptionsError, QuorumUnreachableError, RLockError
from . import exits
from .settings import ConfigError

#: In the order of the help text.
COMMANDS = ("run", "status", "list", "watch", "dashboard", "evict", "init", "up", "demo")


class Verbs(click.Group):
    """Imports a command with its first use: `rlock run` in a crontab must not load the dashboard."""

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
        return found


@click.group(
    cls=Verbs,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="\b\nStart here:\n"
    "  rlock demo                    watch processes take turns, with faults\n"
    "  rlock up -n 5                 start five local masters and print RLOCK_MASTERS=...\n"
    "  rlock run nightly -- ./job    run a command that must not run twice at once",
)
@click.version_option(__version__, prog_name="rlock")
def cli() -> None:
    """One lock for many processes and machines, on independent Redis or Valkey masters.

    A lease cannot exclude a paused holder: no two valid leases of one lock overlap, and a command that
    loses its lock is told and ended.

    The masters are named by RLOCK_MASTERS or --masters: URLs, separated by commas. One is enough to be
    useful; three or five survive the loss of one or two.
    """


def main() -> None:
    """Entry point; every error that is expected is one line on stderr and an exit code of its own."""
    logging.basicConfig(format="rlock: %(message)s", level=logging.WARNING)
    try:
        code = cli.main(standalone_mode=False)
    except click.NoSuchOption as error:
        error.show()
        if "run" in sys.argv[1:2]:
            click.echo("Put -- before COMMAND, so that its options are its own.", err=True)
        code = exits.USAGE
    except click.ClickException as error:
        error.show()
        code = exits.USAGE
    except ConfigError as error:
        code = _say(error, exits.CONFIG)
    except OptionsError as error:
        code = _say(error, exits.USAGE)
    except QuorumUnreachableError as error:
        code = _say(error, exits.UNREACHABLE)
    except LeaseLostError as error:
        code = _say(error, exits.LOST)
    except RLockError as error:
        code = _say(error, exits.UNREACHABLE)
    except (KeyboardInterrupt, click.Abort):
        code = exits.SIGNAL + 2
    except BrokenPipeError:
        # `rlock status x | head -1`: nobody reads any more, and that is no error of ours.
        sys.stderr.close()
        code = exits.SIGNAL + 13
    sys.exit(code or 0)


def _say(error: Exception, code: int) -> int:
    click.echo(f"rlock: {error}", err=True)
    return code
