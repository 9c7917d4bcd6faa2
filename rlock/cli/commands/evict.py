"""`rlock evict NAME`: an operator takes a lock away from its holder."""

from __future__ import annotations

import sys

import click

from ...errors import OptionsError
from ...model import LockStatus
from ...procedures import inspect
from ...rules.keys import READERS
from .. import exits
from ..completion import complete_name
from ..output import age, complain, counted, hush, json_option, print_json, printable, show
from ..settings import Settings, settings_options


@click.command()
@click.argument("name", shell_complete=complete_name)
@click.option("-y", "--yes", is_flag=True, help="Do not ask. Needed where there is no terminal.")
@click.option(
    "--owner",
    metavar="TOKEN",
    help="Only if this owner still holds it: the whole token, as `rlock status` shows it.",
)
@json_option
@settings_options
def evict(name: str, *, yes: bool, owner: str | None, as_json: bool, settings: Settings) -> None:
    """Take the lock NAME away from its holder; the next one who waits gets it.

    It says whom it would evict, and asks. Only whom it has shown is evicted, and with --owner only that one:
    a master removes a hold if it is that owner's, so one that came in the meantime keeps the lock.

    A holder that was evicted is not stopped: it learns that its lease is lost with its next renewal, within a
    third of its ttl, and works on until then, while the next one may have begun. Stop it first if that
    matters. It comes back only if a quorum of masters loses its memory before that renewal.

    Exit status: 0 evicted; 1 no holder was found (or not that owner), or you said no; 64 no terminal to ask
    on and no --yes; 69 fewer than a quorum of masters answered.
    """
    if owner == "":
        raise click.UsageError("--owner is empty: give the whole token, as `rlock status` shows it")
    if not yes and (as_json or not (sys.stdin.isatty() and sys.stderr.isatty())):
        raise OptionsError("stdin or stderr is no terminal, or --json is given: confirm with --yes")
    hush()
    with settings.client() as client:
        found = client.status(name)
        holders = {view.holder for view in found.masters if view.holder is not None}
        if found.readers:  # masters name all readers together
            holders = (holders - {READERS}) | {reader.owner for reader in found.readers}
        if owner is not None:
            holders &= {owner}
        if not holders:
            _nobody(found, owner, as_json=as_json)
        if not as_json:
            for line in _whom(found, holders):
                show(line, err=not yes)
        if not yes and not click.confirm("Evict?", err=True):
            show("nobody was evicted", err=True)
            sys.exit(exits.FAILED)
        engine = client._engine()
        evicted = engine.perform(inspect.evict(engine.masters, name, engine.timeout, holders))
    if as_json:
        print_json({"name": name, "evicted": evicted, "holder": found.holder, "since": found.since})
    else:
        for token in evicted:
            show(f"evicted {printable(token)}; it learns of it within a third of its ttl")
        if not evicted:
            show("released in the meantime: nobody was evicted", err=True)
    if not evicted:
        sys.exit(exits.FAILED)


def _whom(found: LockStatus, holders: set[str]) -> list[str]:
    """Who is to be evicted, a line each."""
    lines = []
    for holder in sorted(holders):
        if holder in {reader.owner for reader in found.readers}:
            lines.append(f"{printable(found.name)}: held by {printable(holder)}, a reader")
            continue
        standing = sum(view.holder == holder for view in found.masters)
        line = f"{printable(found.name)}: held by {printable(holder)}"
        if holder != found.holder:
            line = f"{printable(found.name)}: {printable(holder)} is no holder, and stands"
        elif found.since is not None:
            line += f", since {age(found.since)},"
        lines.append(f"{line} on {standing} of {counted(len(found.masters), 'master')}")
    if found.queue_length:
        lines.append(f"waiting: {found.queue_length}")
    return lines


def _nobody(found: LockStatus, owner: str | None, *, as_json: bool) -> None:
    if as_json:
        print_json({"name": found.name, "evicted": [], "holder": found.holder, "since": found.since})
    if owner is not None and found.holder is not None:
        why = f"held by {printable(found.holder)}, not by {printable(owner)}"
    elif found.free:
        why = "nobody holds it"
    else:
        why = "no master names a holder, but some may have forgotten it or do not answer (see `rlock status`)"
    complain(f"{printable(found.name)}: {why}; nobody was evicted")
    sys.exit(exits.FAILED)
