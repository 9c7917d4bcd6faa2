"""`rlock status NAME`: who has it, since when, for how long."""

from __future__ import annotations

import sys

import click

from ...errors import QuorumUnreachableError
from ...model import LockStatus, MasterStatus
from .. import exits
from ..names import complete_name
from ..output import age, json_option, print_json
from ..settings import Settings, settings_options


@click.command()
@click.argument("name", shell_complete=complete_name)
@json_option
@settings_options
def status(name: str, *, as_json: bool, settings: Settings) -> None:
    """Show who holds the lock NAME, since when, for how long, what each master says, and who waits.

    Exit status 0 whether it is held or free; 69 when fewer than a quorum of masters answered.
    """
    with settings.client() as own:
        try:
            found = own.status(name)
        except QuorumUnreachableError as error:
            _tell_faults(own.masters, error, as_json=as_json)
            sys.exit(exits.UNREACHABLE)
    if as_json:
        print_json(found)
        return
    click.echo(_headline(found))
    width = max(len(view.master) for view in found.masters)
    for view in found.masters:
        click.echo(f"  {view.master:<{width}}  {_told(view)}")
    if found.queue_length:
        click.echo(f"waiting: {found.queue_length}")
    for place, waiter in enumerate(found.waiters, 1):
        since = "" if waiter.since is None else f"  since {age(waiter.since)}"
        click.echo(f"  {place}. {waiter.owner}{since}")


def _tell_faults(masters: list[str], error: QuorumUnreachableError, *, as_json: bool) -> None:
    """Nobody can say who holds it; which masters are the reason can be said all the same."""
    if as_json:
        views = [{"master": master, "fault": error.faults.get(master)} for master in masters]
        told = {"name": error.name, "error": str(error), "quorum": error.quorum, "masters": views}
        print_json(told)
        return
    click.echo(f"{error.name}: unknown, fewer than {error.quorum} of {len(masters)} masters answer")
    width = max(map(len, masters))
    for master in masters:
        fault = error.faults.get(master)
        click.echo(f"  {master:<{width}}  {'answers' if fault is None else f'no answer: {fault}'}")


def _headline(found: LockStatus) -> str:
    if found.holder is None:
        line = f"{found.name}: free (no holder on {found.quorum} of {len(found.masters)} masters)"
        guarded = sum(view.guarded for view in found.masters)
        if guarded > len(found.masters) - found.quorum:
            line += f"; nobody can get it yet, {guarded} masters are under the restart guard"
        return line
    line = f"{found.name}: held by {found.holder}"
    if found.since is not None:
        line += f", since {age(found.since)}"
    if found.hold_count > 1:
        line += f", hold count {found.hold_count}"
    if found.remaining is not None:
        line += f", lease ends in {found.remaining:.1f} s unless renewed"
    return line


def _told(view: MasterStatus) -> str:
    if view.fault is not None:
        return f"no answer: {view.fault}"
    guard = "  (restart guard: no vote yet)" if view.guarded else ""
    if view.holder is None:
        return f"free{guard}"
    left = "no expiry" if view.remaining is None else f"{view.remaining:.1f} s left"
    return f"{view.holder}  count {view.hold_count}  {left}{guard}"
