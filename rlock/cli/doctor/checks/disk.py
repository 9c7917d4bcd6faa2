"""What a restart of a master costs: persistence, fsync, and errors of the disk."""

from __future__ import annotations

from collections.abc import Iterator

from ...output import seconds
from ..facts import Facts, Fleet
from ..findings import Severity, Told, error, note, of_fleet, of_master, warning

_ALWAYS = (
    "CONFIG SET appendonly yes",
    "CONFIG SET appendfsync always",
    "CONFIG SET no-appendfsync-on-rewrite no",
    "CONFIG REWRITE",
)


@of_master("disk", Severity.ERROR, "The last writes to disk worked.")
def disk(facts: Facts, fleet: Fleet) -> Iterator[Told]:
    """MISCONF, now or soon."""
    if facts.text("aof_enabled") == "1" and facts.text("aof_last_write_status") not in (None, "ok"):
        yield error(
            "the last write to its append-only file failed",
            "it refuses writes (MISCONF), and so has no vote",
            "mend the disk: full, read-only, wrong permissions? Its log says which",
        )
    if facts.text("aof_enabled") == "1" and facts.text("aof_last_bgrewrite_status") not in (None, "ok"):
        yield warning(
            "the last rewrite of its append-only file failed",
            "the file grows until the disk is full, and then it refuses writes",
            "mend the disk (its log says what is wrong), then:",
            "BGREWRITEAOF",
        )
    if facts.text("rdb_last_bgsave_status") in (None, "ok"):
        return
    # Without CONFIG GET the worse is assumed: these are the defaults.
    stops = facts.config.get("stop-writes-on-bgsave-error", "yes") == "yes" and facts.config.get("save") != ""
    if stops:
        yield error(
            "its last snapshot failed, and stop-writes-on-bgsave-error is yes",
            "it refuses writes (MISCONF), and so has no vote",
            "mend the disk (its log says what is wrong), then BGSAVE; or do without snapshots, which are "
            'nothing for locks: the command below, and `save ""` in its configuration',
            'CONFIG SET save ""',
        )
    else:
        yield warning(
            "its last snapshot failed",
            "it goes on, as it is configured to; the disk may have a fault",
            "mend the disk (its log says what is wrong), then:",
            "BGSAVE",
        )


@of_master("durability", Severity.WARNING, "Whether a restart forgets leases, and what that costs.")
def durability(facts: Facts, fleet: Fleet) -> Iterator[Told]:
    """Against the restart guard."""
    if facts.durable is None or facts.role == "replica":
        return
    if facts.durable:
        return
    fsync = facts.config.get("appendfsync")
    if facts.text("aof_enabled") == "1" and fsync == "always":
        what = "appendonly is yes and appendfsync is always, but a restart may lose locks: "
        if facts.config.get("no-appendfsync-on-rewrite") == "yes":
            what += "no-appendfsync-on-rewrite is yes, so nothing is synced while the file is rewritten"
        else:
            what += "it was a replica once, and may lack the last writes of its primary"
    elif facts.text("aof_enabled") == "1":
        what = f"appendonly is yes, appendfsync is {fsync}: a crash may lose "
        what += "the last second" if fsync == "everysec" else "what the system had not written yet"
    else:
        what = (
            "appendonly is no: a restart forgets its locks (if it was switched off at run time, run CONFIG "
            "REWRITE: a restart with the old file would pass for one that forgot nothing)"
        )
    if fleet.guard_off:
        yield warning(
            what,
            "the restart guard of this client is off: a restart can give a held lock to a second owner",
            "turn the guard on (RLOCK_RESTART_GUARD unset), or make it durable",
            *_ALWAYS,
        )
    else:
        yield note(
            what,
            f"safe with the restart guard: after each restart it has no vote for {seconds(fleet.guard_s)} "
            "(max_ttl and a margin)",
            "nothing, if that is fine; else make it durable",
            *_ALWAYS,
        )


@of_fleet("forgetful", Severity.WARNING, "Not all masters forget their locks when they restart.")
def forgetful(fleet: Fleet) -> Iterator[Told]:
    """A power failure takes all of them."""
    known = [facts for facts in fleet.examined if facts.durable is not None]
    durable = sum(facts.durable is True for facts in known)
    if not known or durable or len(known) < fleet.quorum:
        return
    many = "the master forgets" if len(fleet.masters) == 1 else "all masters forget"
    yield warning(
        f"{many} the locks in a restart: none has appendonly yes and appendfsync always",
        f"when a quorum restarts at once (power, an upgrade of all) nobody gets a lock for "
        f"{seconds(fleet.guard_s)}, and what was held is lost unless they are back before its lease ends",
        "make them durable; where restarts come one at a time it can stay as it is",
        *_ALWAYS,
    )
