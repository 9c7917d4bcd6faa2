"""`rlock run NAME -- COMMAND`: a command under a lock, in the manner of flock(1) and `etcdctl lock`."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence

import click

from ...client import Client
from ...errors import LeaseLostError, OptionsError, RLockError
from ...lock import RLock
from .. import exits
from ..settings import Settings, settings_options
from ..ward import Ward


@click.command(epilog=exits.epilog())
@click.argument("name")
@click.option("-w", "--timeout", type=float, metavar="S", help="Wait S seconds at the most.")
@click.option("-n", "--no-wait", is_flag=True, help="Do not wait: fail at once if it is held.")
@click.option("--fair", is_flag=True, help="First come, first served: nobody who comes later goes before.")
@click.option("--ttl", type=float, metavar="S", help="Length of the lease that is renewed; default 10.")
@click.option(
    "--grace",
    type=float,
    default=5.0,
    show_default=True,
    metavar="S",
    help="Seconds between SIGTERM and SIGKILL for a command whose lock was lost.",
)
@settings_options
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(
    name: str,
    timeout: float | None,
    no_wait: bool,
    fair: bool,
    ttl: float | None,
    grace: float,
    settings: Settings,
    command: Sequence[str],
) -> None:
    """Run COMMAND while holding the lock NAME, and exit as it does.

    \b
    Put `--` before COMMAND, so that its options are its own. Examples:
      rlock run nightly -- ./report.sh          wait for it as long as it takes
      rlock run -n nightly -- ./report.sh       cron: skip this run if the last one is still on
      rlock run -w 30 deploy -- make deploy     give up after 30 seconds

    The lease is renewed while COMMAND runs. When it is lost all the same, COMMAND gets SIGTERM, then
    SIGKILL after the grace time. Signals that reach rlock go on to COMMAND.

    Unlike flock(1), what COMMAND leaves running in the background does not keep the lock: it is free when
    COMMAND ends. If rlock itself is killed with -9, COMMAND is killed too (on Linux; not what COMMAND has
    started), and the lock is free within the ttl. A stopped rlock renews nothing.

    Without -n or -w it waits as long as it takes, for masters that cannot be reached as well; exit
    status 69 comes with -n and -w only. RLOCK_MASTERS, RLOCK_TTL, RLOCK_MAX_TTL (for a --ttl over 10),
    RLOCK_REQUEST_TIMEOUT and RLOCK_RESTART_GUARD are read from the environment.

    COMMAND finds RLOCK_NAME, RLOCK_OWNER (what the masters show as the holder), RLOCK_FENCING_TOKEN,
    RLOCK_TTL and RLOCK_MASTERS in its environment.
    """
    if no_wait and timeout is not None:
        raise click.UsageError("--no-wait and --timeout exclude each other: give one of the two")
    if timeout is not None and timeout < 0:
        raise click.UsageError(f"--timeout must be 0 or more seconds, not {timeout:g}")
    if not grace >= 0:
        raise click.UsageError(f"--grace must be 0 or more seconds, not {grace:g}")
    ward = Ward(command, grace)
    with settings.client(ttl=ttl) as own, ward.signals():
        lock = own.lock(name, fair=fair, on_lost=ward.lost)
        if not _acquire(lock, no_wait=no_wait, timeout=timeout):
            click.echo(f"rlock: not acquired: {_holder(own, name)}", err=True)
            sys.exit(exits.NOT_ACQUIRED)
        code: int
        try:
            code = ward.run(_environment(own, lock))
        finally:
            try:
                lock.release()
            except LeaseLostError as error:
                if ward.error is None:
                    click.echo(f"rlock: {error}", err=True)
                ward.error = error
        if ward.error is not None:
            code = exits.LOST  # the log has said why
    sys.exit(code)


def _acquire(lock: RLock, *, no_wait: bool, timeout: float | None) -> bool:
    if no_wait:
        return lock.acquire(blocking=False)
    try:
        return lock.acquire(timeout=-1 if timeout is None else timeout)
    except OptionsError:
        raise  # a ValueError, and none of the time-out's
    except (OverflowError, ValueError) as error:
        raise click.UsageError(f"--timeout: {error}") from None


def _environment(own: Client, lock: RLock) -> dict[str, str]:
    holder = own._engine().hold(lock.name)
    return {
        **os.environ,
        "RLOCK_NAME": lock.name,
        "RLOCK_OWNER": holder.owner if holder else "",
        "RLOCK_FENCING_TOKEN": str(lock.fencing_token) if holder else "",
        "RLOCK_TTL": f"{own.ttl:g}",
        "RLOCK_MASTERS": ",".join(str(endpoint.source) for endpoint in own._endpoints),
    }


def _holder(own: Client, name: str) -> str:
    try:
        found = own.status(name)
    except RLockError as error:
        return f"{name!r} is held ({error})"
    if found.holder is None:
        return f"{name!r} was held until a moment ago"
    for_s = f" for {time.time() - found.since:.0f} s" if found.since is not None else ""
    return f"{name!r} is held by {found.holder}{for_s}"
