"""`rlock list [PATTERN]`: all locks that are held or waited for."""

from __future__ import annotations

import time
from contextlib import closing

import click

from ...errors import OptionsError, RLockError
from .. import exits
from ..options import limit_option, seconds_option
from ..output import counted, hush, json_option, plain, print_json, show
from ..scan.columns import LOCKS, Moment, lines
from ..scan.look import Scan
from ..scan.reading import ORDERS, ordered, unlisted, unreachable
from ..settings import Settings, settings_options

COLUMNS = LOCKS[:-1]  # without the last column, the next waiter: `rlock status` shows it


@click.command("list")
@click.argument("pattern", default="*")
@click.option("--held", is_flag=True, help="Only locks that somebody holds.")
@click.option("--waited", is_flag=True, help="Only locks that somebody waits for.")
@click.option(
    "--sort",
    type=click.Choice(tuple(ORDERS)),
    default="name",
    show_default=True,
    help="By name; most waiters first; longest held first; lease that ends next first.",
)
@limit_option(1000, 100_000)
@seconds_option(
    "--scan",
    "scan_s",
    within=(0.0, 3600.0),
    default=5.0,
    told="Search the keys of the masters for S seconds at the most.",
)
@json_option
@settings_options
def list_(
    pattern: str,
    *,
    held: bool,
    waited: bool,
    sort: str,
    limit: int,
    scan_s: float,
    as_json: bool,
    settings: Settings,
) -> None:
    """Show all locks whose names match PATTERN: held, or waited for.

    \b
    PATTERN is one of Redis' KEYS, quoted for the shell:
      rlock list                    all
      rlock list 'orders:*'         * any text, ? any byte, [ab] [^a] [a-f] a set, \\x the character x
      rlock list --waited --sort waiters

    The names come from a SCAN of every master that answers (never KEYS), so a lock is found if it stands on
    one of them: hashes with an owner token as their only field, and queues. Nothing is written. What was
    acquired or released while it searched may be missing, or stand there still. VOTES under a quorum: what
    is left of an attempt or of a hold that is over; nobody has that lock.

    With --json each lock is an object on a line of its own, as from `rlock status --json`.

    Exit status: 0 also if there is none; 69 when fewer than a quorum of masters answered; 64 wrong settings,
    or a user who may not SCAN.
    """
    hush()
    with settings.client() as client, closing(Scan(client, pattern, limit, scan_s=scan_s)) as scan:
        snapshot = scan.look()
        if (why := unreachable(snapshot)) is not None:
            raise OptionsError(why) if exits.refused(client) else RLockError(why)
    if (why := unlisted(snapshot)) is not None:
        raise OptionsError(why)
    locks = [
        lock
        for lock in ordered(snapshot.locks, sort)
        if (not held or lock.locked) and (not waited or lock.queue_length)
    ]
    if as_json:
        groups = {each.master: each.group for each in snapshot.masters if each.group is not None}
        for lock in locks:
            print_json({**plain(lock), "groups": groups})
    elif locks:
        # Nothing is shortened: a script may cut columns out of it.
        for line in lines(COLUMNS, locks, Moment(time.time(), 0.0)):
            show(line)
    if not locks and not as_json:
        matching = "" if pattern == "*" else f" that matches {pattern!r}"
        show(f"no lock{matching} was found", err=True)
    if hidden := max(each.hidden for each in snapshot.masters):
        show(f"locks may be missing: this user may not read {counted(hidden, 'key')}", err=True)
    if snapshot.more:
        ended = f"the search ended after {limit} locks (--limit) or {scan_s:g} s (--scan)"
        show(f"there may be more: {ended}", err=True)
