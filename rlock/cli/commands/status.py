"""`rlock status NAME`: who has it, since when, for how long."""

from __future__ import annotations

import sys
import time

import click

from ...client import Client
from ...errors import QuorumUnreachableError
from ...model import LockStatus, MasterStatus
from .. import exits
from ..completion import complete_name
from ..output import age, counted, hush, json_option, named, plain, print_json, printable, show, styled
from ..scan.look import statuses
from ..scan.masters import MasterReader
from ..scan.reading import led, seen
from ..scan.snapshot import GroupHealth
from ..settings import Settings, settings_options


@click.command()
@click.argument("name", shell_complete=complete_name)
@json_option
@settings_options
def status(name: str, *, as_json: bool, settings: Settings) -> None:
    """Show who holds the lock NAME, since when, for how long, what each master says, and who waits.

    Any name will do: a lock that nobody holds is free. `rlock list` shows all locks that are in use.

    The state is unknown where masters do not answer, or have restarted a short time ago.

    Exit status: 0 whether it is held, free or unknown; 69 fewer than a quorum of masters answered.
    """
    hush()
    code = 0
    with settings.client() as own:
        try:
            found = own.status(name)
        except QuorumUnreachableError:
            engine, code = own._engine(), exits.unanswered(own)
            (found,) = engine.perform(statuses(engine.masters, [name], engine.timeout))
        groups = _groups(own)
    if as_json:
        print_json({**plain(found), "groups": groups})
    else:
        _print(found, groups)
    sys.exit(code)


def _groups(client: Client) -> dict[str, GroupHealth]:
    """Which server leads each master that is a group."""
    found, timeout = {}, client._options.lease(None).request_timeout
    for endpoint in client._endpoints:
        if endpoint.replicas is not None:
            reader = MasterReader(endpoint, "", timeout, ())
            reader.look(None)
            reader.hang_up()
            if (group := reader.answer.told.get("group")) is not None:
                found[endpoint.label] = group
    return found


def _print(found: LockStatus, groups: dict[str, GroupHealth]) -> None:
    show(_headline(found))
    columns = max(len(view.master) for view in found.masters)
    for view in found.masters:
        show(f"  {view.master:<{columns}}  {_told(view)}")
        if view.master in groups:
            show(f"    {led(groups[view.master], time.time())}")
    if found.queue_length:
        show(f"waiting: {found.queue_length}")
    for number, waiter in enumerate(found.waiters, 1):
        since = "" if waiter.since is None else f"  since {age(waiter.since)}"
        show(f"  {number}. {printable(waiter.owner)}{since}")
    if found.queue_length > len(found.waiters) > 0:
        show(f"  and {found.queue_length - len(found.waiters)} more")


def _headline(found: LockStatus) -> str:
    name = styled(printable(found.name), bold=True)
    if found.holder is None:
        line = f"{name}: {_without_a_holder(found)}"
        guarded = sum(view.guarded for view in found.masters)
        if guarded > len(found.masters) - found.quorum:
            line += "; nobody can get it yet: restart guard"
        return line
    who = named(found.holder)
    if found.readers:
        owners = ", ".join(printable(reader.owner) for reader in found.readers)
        who = f"{counted(found.hold_count, 'reader')}: {owners}"
    line = f"{name}: {styled('held', fg='yellow')} by {who}"
    kept = found.hold_count == 0 and not found.readers
    if kept:
        line += ", which has finished"
    if found.since is not None:
        line += f", since {age(found.since)}"
    if found.hold_count > 1 and not found.readers:
        line += f", hold count {found.hold_count}"
    if found.remaining is not None:
        line += (
            f", kept for {found.remaining:.1f} s"
            if kept
            else f", lease ends in {found.remaining:.1f} s unless renewed"
        )
    return line


def _without_a_holder(found: LockStatus) -> str:
    """What it means that no quorum names a holder: "free" only where nobody can have it."""
    masters = len(found.masters)
    holder, votes = seen(found)
    if holder is None:
        answers = sum(view.fault is None for view in found.masters)
        told = f"no holder on {answers} of {counted(masters, 'master')}"
    else:
        told = f"{named(holder)} on {votes} of {counted(masters, 'master')}"
    if found.free and holder is None:
        return f"{styled('free', fg='green')} ({told})"
    if found.free:
        return f"{styled('free', fg='green')}, nobody has {found.quorum} votes ({told})"
    why = [f"{n} {what}" for n, what in doubts(found) if n]
    return f"{styled('unknown', fg='yellow')}, {told}, and {' and '.join(why)}"


def doubts(found: LockStatus) -> tuple[tuple[int, str], ...]:
    """How many masters may have the vote of a holder and do not name it, and why."""
    silent = sum(view.fault is not None for view in found.masters)
    young = sum(view.guarded for view in found.masters)
    return (silent, "did not answer"), (young, "may have forgotten who holds it")


def _told(view: MasterStatus) -> str:
    if view.fault is not None:
        return styled(f"no answer: {view.fault}", fg="red")
    guard = styled("  (restart guard: no vote yet)", fg="yellow") if view.guarded else ""
    if view.holder is None:
        return f"no holder{guard}"
    left = "no expiry" if view.remaining is None else f"{view.remaining:.1f} s left"
    return f"{named(view.holder)}  count {view.hold_count}  {left}{guard}"
