"""`rlock dashboard`: a read-only web page of the fleet, its locks, and who waits."""

from __future__ import annotations

import errno
import signal
import socket
import webbrowser
from contextlib import ExitStack
from functools import partial

import click

from ...errors import OptionsError
from ..dashboard.answers import Answers
from ..dashboard.hosts import AllowedHosts, is_loopback, resolve
from ..dashboard.poller import Poller
from ..dashboard.server import Server
from ..options import count_option, limit_option
from ..output import json_option, print_json, show
from ..scan.look import Scan
from ..settings import Settings, settings_options


@click.command()
@click.argument("pattern", default="*")
@click.option(
    "--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Address to listen on."
)
@count_option(
    "--port", within=(0, 65535), default=8379, metavar="PORT", told="Port to listen on; 0 takes any free one."
)
@limit_option(200, 10_000)
@click.option(
    "--allow-remote", is_flag=True, help="Listen where other machines reach it; there is no password."
)
@click.option(
    "--allow-host",
    "allowed",
    multiple=True,
    metavar="NAME",
    help="A further name for the Host header, say of a proxy in front. May be repeated.",
)
@click.option("--open", "browse", is_flag=True, help="Open it in a browser.")
@json_option
@settings_options
def dashboard(
    pattern: str,
    *,
    host: str,
    port: int,
    limit: int,
    allow_remote: bool,
    allowed: tuple[str, ...],
    browse: bool,
    as_json: bool,
    settings: Settings,
) -> None:
    """Show masters, locks, holders and who waits on a web page; with PATTERN only locks whose names match.

    \b
      rlock dashboard                      http://127.0.0.1:8379/ until Ctrl-C
      rlock dashboard --port 0 'orders:*'  any free port, some of the locks
      ssh -L 8379:127.0.0.1:8379 HOST      to see it from elsewhere

    It changes nothing: there is no button that could, and it sends no command that writes. It has no
    password, so it answers this machine only, unless --allow-remote is given. While a page is open it
    looks at the masters once a second, once for all pages.

    \b
      /api/snapshot     what the page shows, as JSON
      /api/lock/NAME    one lock
      /metrics          gauges for Prometheus (needs quorum-rlock[prometheus])
      /healthz          ok

    Exit status: 0 ended by Ctrl-C or SIGTERM; 64 the address cannot be listened on.
    """
    try:
        family, address = resolve(host)
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise OptionsError(f"--host: {host!r} is no address of this machine: {why}") from None
    remote = not is_loopback(address)
    if remote and not allow_remote:
        raise OptionsError(
            f"--host: {host} is reached by other machines, and this page has no password: add --allow-remote "
            "if that is what you want, or use ssh -L"
        )
    # Before the client: from here on the two signals end us in one way, whatever is going on.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with ExitStack() as stack:
        client = stack.enter_context(settings.client())
        poller = Poller(partial(Scan, client, pattern, limit))
        stack.callback(poller.close)
        own = [host, address, *allowed, *([socket.gethostname()] if remote else [])]
        hosts = AllowedHosts(own, any_address=remote)
        answers = Answers(poller.sight, client.status)
        try:
            server = stack.enter_context(Server((address, port), family, answers.answer, hosts))
        except OSError as error:
            raise _cannot_listen(error, host, port) from None
        shown = f"[{address}]" if family == socket.AF_INET6 else address
        url = f"http://{shown}:{server.port}/"
        try:
            if remote:
                show("warning: anybody who reaches this address can look; there is no password", err=True)
            if as_json:
                print_json({"url": url, "masters": client.masters, "pattern": pattern})
            else:
                show(url)
                show(f"{len(client.masters)} masters. Ctrl-C ends it.", err=True)
            if browse:
                webbrowser.open(url)
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            # A second Ctrl-C must not turn the end into a traceback.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            show("ended", err=True)


def _cannot_listen(error: OSError, host: str, port: int) -> OptionsError:
    if error.errno == errno.EADDRINUSE:
        return OptionsError(f"port {port} is in use: take another one with --port, or any with --port 0")
    if error.errno == errno.EACCES:
        return OptionsError(f"port {port} is not for this user: take one above 1023 with --port")
    return OptionsError(f"cannot listen on {host} port {port}: {error.strerror or error}")
