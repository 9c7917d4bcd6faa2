"""`rlock exporter`: metrics of the fleet for Prometheus."""

from __future__ import annotations

import sys
import threading
from contextlib import closing

import click

from ...errors import OptionsError
from .. import exits
from ..options import count_option, limit_option
from ..output import show
from ..scan.look import FIRST_SCAN_S, Scan
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
@settings_options
def exporter(pattern: str, *, host: str, port: int, limit: int, settings: Settings) -> None:
    """Serve metrics of the masters, locks and waiters for Prometheus, until Ctrl-C.

    \b
      rlock exporter                    http://127.0.0.1:8379/metrics
      rlock exporter --host 0.0.0.0     where other machines reach it; there is no password

    It asks the masters when it is scraped, and changes nothing. One exporter is enough for a fleet. The
    metrics name the masters, and no lock. They need the extra quorum-rlock[prometheus].

    Exit status: 0 ended by Ctrl-C, SIGTERM or SIGHUP; 64 the address cannot be listened on.
    """
    try:
        from prometheus_client import CollectorRegistry, start_http_server

        from ..scan.gauges import FleetCollector
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "prometheus_client":
            raise
        raise OptionsError(
            "`rlock exporter` needs prometheus-client: pip install 'quorum-rlock[prometheus]'"
        ) from None
    exits.end_at_signals()  # before the client: from here on the signals end us in one way
    with (
        settings.client() as client,
        closing(Scan(client, pattern, limit, scan_s=FIRST_SCAN_S, waiters=1)) as scan,
    ):
        registry = CollectorRegistry()
        registry.register(FleetCollector(scan))
        try:
            server, _ = start_http_server(port, host, registry)
        except OSError as error:
            why = error.strerror or error
            raise OptionsError(f"cannot listen on --host {host} --port {port}: {why}") from None
        try:
            show(f"http://{host}:{server.server_port}/metrics")
            sys.stdout.flush()
            threading.Event().wait()
        except KeyboardInterrupt:
            server.shutdown()
            show("ended", err=True)
