"""`rlock watch [PATTERN]`: a live screen of locks, holders, waiters and masters."""

from __future__ import annotations

import sys
import time
from contextlib import closing

import click

from ...client import Client
from ...errors import OptionsError, RLockError
from .. import exits
from ..options import limit_option, seconds_option
from ..output import hush, json_option, print_json, show, utf8
from ..scan.columns import LOCKS, MASTERS, Moment, lines
from ..scan.look import Scan
from ..scan.reading import led, nothing, unlisted, unreachable
from ..scan.snapshot import Snapshot
from ..settings import Settings, settings_options

#: Seconds of a second that a look may search for names: under a hundredth of what a master can do.
SHARE = 0.01


@click.command()
@click.argument("pattern", default="*")
@seconds_option(
    "-i", "--interval", within=(0.2, 3600.0), default=1.0, told="Seconds from one look to the next."
)
@click.option("--once", is_flag=True, help="Print one picture and end; needs no terminal.")
@limit_option(200, 10_000)
@json_option
@settings_options
def watch(
    pattern: str, *, interval: float, once: bool, limit: int, as_json: bool, settings: Settings
) -> None:
    """Watch the locks whose names match PATTERN, as they are held and waited for, and the masters.

    Keys: q quits, s sorts by name, waiters, since or lease. PATTERN is a pattern of Redis' KEYS, as for
    `rlock list`. VOTES 2/3: two of three masters name this holder; under a quorum nobody has the lock.

    It only reads: a few commands a second for each lock and master, and a SCAN for a hundredth of the time.
    Where masters hold very many other keys, it finds all locks after some looks; "+" behind a number says
    that there may be more.

    With --json each look is an object on a line of its own, until Ctrl-C; that needs no terminal and no rich.

    Exit status: 0 after q; 130 after Ctrl-C; 64 no terminal, or wrong settings; with --once 69 when fewer
    than a quorum of masters answered, and 64 if the user may not SCAN.
    """
    if not as_json and not once:
        try:
            from ..watch.live import live, why_not
            from ..watch.tables import View
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "rich":
                raise
            raise OptionsError(
                "`rlock watch` needs rich: pip install rich (quorum-rlock[watch]); "
                "--once and --json work without it"
            ) from None
        if (why := why_not()) is not None:
            raise OptionsError(why)
    hush()
    with settings.client() as client, closing(Scan(client, pattern, limit, scan_s=SHARE * interval)) as scan:
        if as_json:
            _print_looks(client, scan, interval, once=once)
            return
        if not once:
            live(scan, View(pattern, utf8=utf8(sys.stdout)), interval)
            return
        snapshot = scan.look()
        _print(snapshot)
        if unreachable(snapshot) or unlisted(snapshot):
            sys.exit(exits.unanswered(client) if unreachable(snapshot) else exits.USAGE)


def _print(snapshot: Snapshot) -> None:
    moment = Moment(time.time(), 0.0)
    for line in lines(MASTERS, snapshot.masters, moment):
        show(line)
    for each in snapshot.masters:
        told = each.fault or (led(each.group, moment.now) if each.group else "")
        if told:
            show(f"{each.master}: {told}")
    show()
    for line in lines(LOCKS, snapshot.locks, moment) if snapshot.locks else [nothing(snapshot)]:
        show(line)


def _print_looks(client: Client, scan: Scan, interval: float, *, once: bool) -> None:
    due = time.monotonic()
    while True:
        snapshot = scan.look()
        print_json(snapshot)
        sys.stdout.flush()
        if once:
            if (why := unreachable(snapshot)) is not None:
                raise OptionsError(why) if exits.refused(client) else RLockError(why)
            return
        due = max(due + interval, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))
