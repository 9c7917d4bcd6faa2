"""`rlock hold NAME`: a lock without a command, until Ctrl-C."""

from __future__ import annotations

import sys
import time

import click

from ...errors import LeaseLostError
from .. import exits
from ..completion import complete_name
from ..options import Seconds
from ..output import json_option, print_json, show
from ..run.events import Outcome
from ..settings import Settings, settings_options
from .run import acquire, check_wait


@click.command()
@click.argument("name", shell_complete=complete_name)
@click.option(
    "-w", "--wait", "--timeout", "timeout", type=Seconds(), metavar="S", help="Wait S seconds at the most."
)
@click.option("-n", "--no-wait", is_flag=True, help="Do not wait: fail at once if it is held.")
@click.option("--ttl", type=Seconds(), metavar="S", help="Length of the lease that is renewed; default 10.")
@json_option
@settings_options
def hold(
    name: str, *, timeout: float | None, no_wait: bool, ttl: float | None, as_json: bool, settings: Settings
) -> None:
    """Acquire the lock NAME, and hold it until Ctrl-C, SIGTERM or SIGHUP. For work by hand.

    It prints a line when it has the lock. The lease is renewed meanwhile.

    Exit status: 0 released; 75 another owner had it for all the time; 76 the lock was lost; 69 fewer than a
    quorum of masters answered; 64 wrong settings.
    """
    check_wait(timeout=timeout, no_wait=no_wait)
    exits.end_at_signals()
    outcome = Outcome(name, as_json=as_json, verbose=False, quiet=False)
    with outcome.errors(), settings.client(ttl=ttl) as own:
        lock, began = own.lock(name), time.monotonic()
        if not acquire(lock, outcome, 0, 0.0, timeout=timeout, no_wait=no_wait or timeout == 0):
            outcome.busy(time.monotonic() - began, own.status(name))
            sys.exit(exits.NOT_ACQUIRED)
        try:
            if as_json:
                print_json({"event": "acquired", "name": name, "fencing_token": lock.fencing_token})
            else:
                show(f"holds {name!r}, fencing token {lock.fencing_token}; Ctrl-C releases it")
            sys.stdout.flush()
            lock.lost.wait()
            lock.check()
        except LeaseLostError as error:
            outcome.event("lost", {"reason": error.reason}, f"the lock {name!r} was lost", always=True)
            sys.exit(exits.LOST)
        except KeyboardInterrupt:
            lock.release()
            outcome.event("released", {})
            if not as_json:
                show("released", err=True)
