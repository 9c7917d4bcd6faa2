"""`rlock release HANDLE`: the end of a lock that `rlock acquire` took."""

from __future__ import annotations

import click

from ...client import Client
from ...procedures.inspect import unreachable
from ...procedures.port import Request
from ...procedures.release import Released, outcome
from ...procedures.transfer import refusal
from ...rules import commands
from ...rules.handles import Handle
from ...rules.quorum import Settle
from ..settings import Settings, settings_options


@click.command()
@click.argument("handle")
@settings_options
def release(handle: str, *, settings: Settings) -> None:
    """Release the lock of HANDLE; the next one who waits gets it.

    Exit status: 0 released; 76 it was lost before, or somebody adopted it; 69 fewer than a quorum of masters
    answered; 64 HANDLE is none, or wrong settings.
    """
    with settings.client() as own:
        free(own, handle)


def free(own: Client, text: str) -> None:
    """Release the lock of a handle."""
    handle, engine = Handle.parse(text, len(own.masters)), own._engine()
    context, token = engine.context, engine.context.time.us(engine.clock())
    command = commands.free(context.wire, handle.name, handle.owner, token=token)
    # All: a master that is not asked before this process ends keeps the lock for the rest of the lease.
    request = Request(command, engine.timeout, Settle.ALL, resend_for=handle.lease_ms / 1000)
    ballot = engine.perform(engine.masters.call(request))
    released = outcome(context, ballot)
    if released is not Released.DONE:
        lost = refusal(context, handle, ballot) if released is Released.NOT_OURS else None
        raise lost or unreachable(context, handle.name, ballot)
