"""`rlock init`: the operator's word that nothing was locked before."""

from __future__ import annotations

import click

from .. import exits
from ..output import hush, json_option, print_json, show
from ..settings import Settings, settings_options


@click.command()
@json_option
@settings_options
def init(*, as_json: bool, settings: Settings) -> int:
    """Make a new set of masters usable at once.

    A master that was started a short time ago has no vote for ten seconds (max_ttl and a margin), because
    it may have forgotten a lease that is still valid. This states that there is none, for the masters as
    they run now. Do not use it after a restart while something may be locked: wait instead.

    Exit status: 0 all masters took note; 69 some did not; 64 wrong settings, or they refuse
    the password.
    """
    hush()
    with settings.client() as found:
        told = found.init()
        code = exits.unanswered(found) if any(told.values()) else 0
    if as_json:
        print_json({"masters": [{"master": master, "fault": fault} for master, fault in told.items()]})
        return code
    for master, fault in told.items():
        show(f"{master}: {'ready' if fault is None else fault}", err=fault is not None)
    return code
