"""`rlock bench`: how fast the lock is on one's own masters, from here."""

from __future__ import annotations

import sys

import click

from ...client import Client
from .. import exits
from ..options import count_option, seconds_option
from ..output import complain, json_option, print_json
from ..settings import Settings, settings_options


@click.command()
@seconds_option("--seconds", within=(1, 600), default=10.0, told="How long to measure, in all.")
@count_option("--processes", within=(2, 64), default=4, metavar="K", told="How many processes contend.")
@seconds_option(
    "--hold",
    within=(0, 1),
    default=0.001,
    told="Seconds for which a contending process has the lock each time.",
)
@click.option(
    "--prefix",
    default="rlock-bench:",
    show_default=True,
    metavar="TEXT",
    help="Beginning of the names that are locked, for users who may use some names only.",
)
@click.option("-y", "--yes", is_flag=True, help="Load masters on other machines without asking.")
@json_option
@settings_options
def bench(
    *, seconds: float, processes: int, hold: float, prefix: str, yes: bool, as_json: bool, settings: Settings
) -> None:
    """Measure the masters: latency, acquire and release, hand-off between processes, contention.

    Locks names of its own, which nobody else uses, and removes them. But it loads the masters as much as it
    can for some seconds: for masters on other machines it asks first, or wants --yes.

    What one process does alone is measured in turn, a round trip to each master, a pair of acquire and
    release, so that noise hits all alike. Processes are compared by the monotonic clock,
    which they share; sections that began before another one had ended are counted (with a lock, none).

    \b
    Exit status: 0 measured, 1 sections overlapped or a process failed, 64 bad usage,
    69 fewer than a quorum of masters answered.
    """
    # Loaded here: the help text of all commands needs none of it.
    from ...testing.contention.processes import WorkerError
    from ..bench.report import Lines, Plan, perform

    environment = settings.environ()
    with Client.from_env(environment) as client:
        client.lock(prefix + "x" * 48)  # what is wrong with the prefix, before anything is asked
        _ask_first(client, yes=yes)
        plan = Plan(seconds, processes, hold, prefix)
        try:
            wrong = perform(client, environment, plan, print_json if as_json else Lines())
        except WorkerError as error:
            complain(error)
            sys.exit(exits.FAILED)
    if wrong:
        complain(f"{wrong} sections began before another one had ended")
        sys.exit(exits.FAILED)


def _ask_first(client: Client, *, yes: bool) -> None:
    elsewhere = [endpoint.label for endpoint in client._endpoints if not _is_here(endpoint.place)]
    if yes or not elsewhere:
        return
    what = f"this loads {', '.join(elsewhere)} as much as it can"
    if not sys.stdin.isatty():
        raise click.UsageError(f"{what}: say --yes if that is all right now")
    click.confirm(f"{what[0].upper()}{what[1:]}. Go on?", abort=True, err=True)


def _is_here(place: tuple[str, ...]) -> bool:
    return place[0] in ("unix", "localhost", "::1") or place[0].startswith("127.")
