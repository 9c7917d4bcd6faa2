"""`rlock renew HANDLE`: keep the lock of a handle for longer."""

from __future__ import annotations

import click

from ...procedures.inspect import no_quorum
from ...procedures.transfer import refusal, take
from ...rules.handles import Handle
from ..options import Duration
from ..settings import Settings, settings_options


@click.command()
@click.argument("handle")
@click.option(
    "--ttl", type=Duration(), metavar="D", help="From now on; as `rlock acquire` said, if left out."
)
@settings_options
def renew(handle: str, *, ttl: float | None, settings: Settings) -> None:
    """Keep the lock of HANDLE for D from now on. HANDLE stays the same.

    Exit status: 0 it was held all the time, and is kept; 76 it was lost, so stop the work; 69 fewer than a
    quorum of masters answered: try again; 64 HANDLE is none, or wrong settings.
    """
    with settings.client() as own:
        found, engine = Handle.parse(handle, len(own.masters)), own._engine()
        kept = own._options.kept("--ttl", found.lease_ms / 1000 if ttl is None else ttl)
        options = own.lock(found.name, ttl=kept)._options
        # In the place of its own owner token: so the masters check all that they check for an adopter.
        grant, verdict, ballot = engine.perform(take(engine.masters, options, found, found.owner))
        if grant is None:
            lost = refusal(engine.context, found, ballot)
            raise lost or no_quorum(engine.context, options, verdict, ballot)
