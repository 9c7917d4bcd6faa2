"""The command line: `rlock run`, `status`, `up`, `init`, `demo`."""

from __future__ import annotations

import logging
import sys

import click

from .. import __version__
from ..errors import LeaseLostError, OptionsError, QuorumUnreachableError, RLockError
from . import exits
from .commands.demo import demo
from .commands.init import init
from .commands.run import run
from .commands.status import status
from .commands.up import up


@click.group(
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


for command in (run, status, up, init, demo):
    cli.add_command(command)


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
