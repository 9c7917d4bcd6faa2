"""`rlock acquire NAME --ttl 10m`: a lock for the lines of a shell script that follow."""

from __future__ import annotations

import sys
import time

import click

from .. import exits
from ..completion import complete_name
from ..options import Duration, Seconds
from ..output import json_option, print_json, show
from ..run.events import Outcome
from ..settings import Settings, settings_options
from .release import free
from .run import acquire as acquire_as_told
from .run import check_wait


@click.command()
@click.argument("name", shell_complete=complete_name)
@click.option(
    "--ttl", type=Duration(), metavar="D", required=True, help="The lock is free D later: 90, 90s, 10m, 2h."
)
@click.option(
    "-w", "--wait", "--timeout", "timeout", type=Seconds(), metavar="S", help="Wait S seconds at the most."
)
@click.option("-n", "--no-wait", is_flag=True, help="Do not wait: fail at once if it is held.")
@click.option("--fair", is_flag=True, help="First come, first served.")
@json_option
@settings_options
def acquire(
    name: str,
    *,
    ttl: float,
    timeout: float | None,
    no_wait: bool,
    fair: bool,
    as_json: bool,
    settings: Settings,
) -> None:
    """Acquire the lock NAME, keep it for D, and print its handle.

    \b
    Nobody renews it: call `rlock renew` in time, and `rlock release` at the end.
      handle=$(rlock acquire backup --ttl 10m) || exit
      ./dump.sh; rlock renew "$handle"; ./upload.sh
      rlock release "$handle"
    Where one command can be wrapped, `rlock run` is better: it renews, and ends a command without the lock.

    RLOCK_MAX_TTL of all clients must be as long as D. Programs take the lock with client.adopt(handle).

    Exit status: 0 acquired; 75 another owner had it for all the time; 69 fewer than a quorum of masters
    answered; 64 wrong settings.
    """
    check_wait(timeout=timeout, no_wait=no_wait)
    if sys.__stdout__ is None:
        raise click.UsageError("standard output is closed: nobody would have the handle")
    exits.end_at_signals()
    outcome = Outcome(name, as_json=as_json, verbose=False, quiet=False)
    with outcome.errors(), settings.client() as own:
        own._options.kept("--ttl", ttl)  # before it waits
        lock, began = own.lock(name, fair=fair), time.monotonic()
        if not acquire_as_told(lock, outcome, 0, 0.0, timeout=timeout, no_wait=no_wait or timeout == 0):
            outcome.busy(time.monotonic() - began, own.status(name))
            sys.exit(exits.NOT_ACQUIRED)
        token, handle = lock.fencing_token, lock.detach(ttl)
        try:
            if as_json:
                print_json({"event": "acquired", "name": name, "handle": handle, "fencing_token": token})
            else:
                show(handle)
            sys.stdout.flush()
        except BaseException:
            # Otherwise nobody has the handle, and the lock is held for all of its lease.
            free(own, handle)
            raise
