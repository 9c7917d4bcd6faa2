"""`rlock init`: the operator's word that nothing was locked before."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import click

from ..client import Client
from ..errors import RLockError
from . import exits
from .masters_option import client, masters_option

log = logging.getLogger("rlock")


@click.command()
@masters_option
def init(masters: str | None) -> int:
    """Make a new set of masters usable at once.

    A master that was started a short time ago has no vote for 11 seconds (max_ttl and a margin), because
    it may have forgotten a lease that is still valid. This states that there is none, for the masters as
    they run now. Do not use it after a restart while something may be locked: wait instead.

    Exit status: 0 all masters took note; 69 some did not; 64 wrong settings.
    """
    with client(masters) as found:
        told = found.init()
    for master, fault in told.items():
        click.echo(f"{master}: {'ready' if fault is None else fault}")
    return exits.UNREACHABLE if any(told.values()) else 0


def vouch_for(urls: Sequence[str]) -> None:
    """The same for masters that were started empty a moment ago, by who started them."""
    try:
        with Client(urls, 1.0, max_ttl=1.0) as found:  # who has a longer one notes that
            found.init()
    except RLockError as error:
        log.info("the new masters were not marked as such: %s", error)
