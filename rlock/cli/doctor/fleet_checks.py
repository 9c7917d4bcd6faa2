"""Checks of all masters together: how many, which may fail at once, and their clocks."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterator

from ...rules.timing import DRIFT_FACTOR
from ..output import listed, percent, seconds, span
from ..scan.snapshot import CLOCK_ALERT_S
from .facts import Facts, Fleet
from .findings import Finding, Severity, error, note, of_fleet, warning

_HERE = "this machine"
_DURABLE = (
    "CONFIG SET appendonly yes",
    "CONFIG SET appendfsync always",
    "CONFIG SET no-appendfsync-on-rewrite no",
    "CONFIG REWRITE",
)


@of_fleet("masters", Severity.WARNING, "An odd number of masters, three or more.")
def masters(fleet: Fleet) -> Iterator[Finding]:
    """How many may fail."""
    count = len(fleet.masters)
    if count == 1:
        yield note(
            "there is one master",
            "that works, and no other takes over: when it is away nobody gets a lock, and a held lock is "
            "lost when its lease ends",
            "three masters on three machines survive the loss of one, five of two",
        )
    elif count % 2 == 0:
        yield warning(
            f"{count} masters are an even number: {fleet.quorum} have to agree, {fleet.spare} may fail",
            f"{count - 1} survive as many failures, with one server less that can fail"
            if count > 2
            else "each of the two stops all locks when it fails: that is worse than one master",
            f"use {count + 1}" + (f", or {count - 1}" if count > 2 else ", or one"),
        )


@of_fleet("duplicate", Severity.ERROR, "Each master is a server of its own.")
def duplicate(fleet: Fleet) -> Iterator[Finding]:
    """A majority of one server is none."""
    same: dict[object, list[Facts]] = defaultdict(list)
    for facts in fleet.examined:
        if facts.run_id:
            same[facts.run_id].append(facts)
        if facts.target.address:
            same[facts.target.address, facts.target.port].append(facts)
    told = set()
    for servers in same.values():
        names = tuple(facts.master for facts in servers)
        if len(names) > 1 and names not in told:
            told.add(names)
            known = f"run_id {servers[0].run_id[:8]}" if servers[0].run_id else servers[0].target.address
            yield error(
                f"{listed(list(names))} are one server ({known})",
                "a majority of one server is none: when it fails, all these votes are gone",
                "name each server once; for another vote start another server",
                master=names[-1],
            )


@of_fleet("hosts", Severity.WARNING, "No host takes several masters with it.")
def hosts(fleet: Fleet) -> Iterator[Finding]:
    """Failure domains, as far as addresses tell."""
    count = len(fleet.masters)
    by_host: dict[str, list[str]] = defaultdict(list)
    for facts in fleet.masters:
        target = facts.target
        if target.address or target.addresses:
            by_host[_HERE if target.local else target.address or target.addresses[0]].append(facts.master)
    if count < 2:
        return
    if list(by_host) == [_HERE]:
        if len(by_host[_HERE]) == count:
            yield note(
                f"all {count} masters are on this machine",
                "they fail with it, and nobody elsewhere can use them: fine for tests and a first look",
                "put each on a machine of its own for anything else",
            )
        return
    for host, names in by_host.items():
        if len(names) > 1:
            yield warning(
                f"{len(names)} of {count} masters may fail together: {listed(names)} are on {host}",
                f"that is more than the {fleet.spare} that may fail: without this host nobody gets a lock"
                if len(names) > fleet.spare
                else f"{fleet.spare} may fail, and this host alone takes {len(names)} of them",
                "put each master on a machine of its own (power, rack and zone as well)",
            )


@of_fleet("durability", Severity.WARNING, "A restart does not make all masters forget their locks.")
def durability(fleet: Fleet) -> Iterator[Finding]:
    """Persistence, and the price of a restart."""
    # A server of a group is never taken for durable: another one may replace it.
    alone = [f for f in fleet.examined if f.role != "replica" and f.target.replicas is None]
    known = [facts for facts in alone if facts.memory.durable is not None]
    forgetful = [facts for facts in known if not facts.memory.durable]
    if forgetful and len(forgetful) == len(known) >= fleet.quorum:
        if len(fleet.masters) == 1:
            # On this machine it is most often a server for development.
            yield (note if known[0].target.local else warning)(
                "the master forgets the locks in a restart: it lacks appendonly yes and appendfsync always",
                f"after a restart nobody gets a lock for {seconds(fleet.guard_s)}, and a held lock is lost "
                "unless the master is back before its lease ends",
                "make it durable; for development it can stay as it is",
                *_DURABLE,
            )
            return
        yield warning(
            "all masters forget the locks in a restart: none has appendonly yes and appendfsync always",
            f"when a quorum restarts at once (power, an upgrade of all) nobody gets a lock for "
            f"{seconds(fleet.guard_s)}, and a held lock is lost unless they are back before its lease ends",
            "make them durable; where restarts come one at a time it can stay as it is",
            *_DURABLE,
        )
        return
    for facts in forgetful:
        yield note(
            _what_a_restart_loses(facts),
            f"safe with the restart guard: after each restart it has no vote for {seconds(fleet.guard_s)} "
            "(max_ttl and a margin)",
            "nothing, if that is fine; else make it durable",
            *_DURABLE,
            master=facts.master,
        )


def _what_a_restart_loses(facts: Facts) -> str:
    if facts.text("aof_enabled") != "1":
        return (
            "appendonly is no: a restart forgets its locks (if it was switched off at run time, run CONFIG "
            "REWRITE: a restart with the old file would pass for one that forgot nothing)"
        )
    fsync = facts.config.get("appendfsync")
    if fsync != "always":
        lost = "the last second" if fsync == "everysec" else "writes that the system still held"
        return f"appendonly is yes, appendfsync is {fsync}: a crash may lose {lost}"
    told = "appendonly is yes and appendfsync is always, but a restart may lose locks: "
    if facts.config.get("no-appendfsync-on-rewrite") == "yes":
        return f"{told}no-appendfsync-on-rewrite is yes, so nothing is synced while the file is rewritten"
    return f"{told}it was a replica once, and may lack the last writes of its primary"


@of_fleet("guard-off", Severity.WARNING, "The restart guard is on.")
def guard_off(fleet: Fleet) -> Iterator[Finding]:
    """restart_guard=0 is for tests."""
    if fleet.guard_off:
        yield warning(
            "the restart guard of this client is off (RLOCK_RESTART_GUARD=0)",
            "a master that restarts and is not durable can give a held lock to a second owner",
            "unset RLOCK_RESTART_GUARD; for new masters there is: rlock init",
        )


# -- clocks ----------------------------------------------------------------------------------------

#: Two clocks that NTP keeps are some ms apart.
_NOTE_S = 0.02
#: NTP slews by up to 0.05 %, and quartz is off by 0.02 % at most.
_NOTE_RATE = 0.001
_SYNC = "does time synchronisation run there? chronyc tracking, or timedatectl"


@of_fleet("clock-offset", Severity.WARNING, "The masters' clocks agree.")
def clock_offset(fleet: Fleet) -> Iterator[Finding]:
    """Constant offsets are harmless to leases; a clock that jumps is not."""
    for facts in fleet.masters:
        told = fleet.clock_offset(facts)
        if told is None:
            continue
        ahead, unsure = told
        side = "ahead of" if ahead > 0 else "behind"
        what = f"its clock is {span(ahead)} {side} the other masters' (give or take {span(unsure)})"
        if abs(ahead) - unsure > CLOCK_ALERT_S:
            yield warning(
                what,
                "a constant difference does no harm, but it shows that nothing synchronises this clock: when "
                "it is set forward, leases on this master end early; and after a restart that lost them, "
                "fencing tokens begin again by the masters' time",
                f"synchronise it by slewing, not in a jump while locks are held; {_SYNC}",
                master=facts.master,
            )
        elif abs(ahead) - unsure > _NOTE_S:
            yield note(what, "clocks that are synchronised are closer", _SYNC, master=facts.master)


@of_fleet("clock-rate", Severity.ERROR, "The masters' clocks, and ours, run at the same rate.")
def clock_rate(fleet: Fleet) -> Iterator[Finding]:
    """Exclusion rests on this property of clocks, and on no other."""
    rates = [(facts, told) for facts in fleet.masters if (told := facts.timing.rate()) is not None]
    if not rates:
        return
    middle = statistics.median_low([fast for _, (fast, _) in rates]) if len(rates) > 1 else 0.0
    unsure = max(unsure for _, (_, unsure) in rates)
    if abs(middle) - unsure > _NOTE_RATE:
        doubt = "all of them alike: it may be the clock of this machine, which its holders use"
        yield _rate(middle, unsure, "the masters' clocks run", doubt, "look at this machine first")
    for facts, (fast, unsure) in rates:
        if fast + unsure < -0.9:
            yield error(
                "its clock stands still",
                "leases never end there: a holder that dies keeps its vote, and a restart is never over",
                f"look at its machine or container, which may fake the time; {_SYNC}",
                master=facts.master,
            )
        elif abs(fast - middle) - unsure > _NOTE_RATE:
            doubt, look = "or was set while this command looked", "run this again to see whether it stays so"
            yield _rate(fast - middle, unsure, "its clock runs", doubt, look, facts.master)
        elif unsure > DRIFT_FACTOR / 2:
            yield note(
                f"the rate of its clock cannot be told more closely than to {percent(unsure)}",
                f"the drift allowance is {percent(DRIFT_FACTOR)}: the round trips are too long for so short "
                "a look",
                "look for longer: rlock doctor --measure 30",
                master=facts.master,
            )


def _rate(
    fast: float, unsure: float, subject: str, doubt: str, look: str, master: str | None = None
) -> Finding:
    sure = abs(fast) - unsure
    say = error if sure > DRIFT_FACTOR else warning if sure > DRIFT_FACTOR / 2 else note
    return say(
        f"{subject} {percent(fast)} {'fast' if fast > 0 else 'slow'} by the clock of this machine (give or "
        f"take {percent(unsure)}), {doubt}",
        f"leases are safe while clocks run at the same rate within {percent(DRIFT_FACTOR)}: on a master that "
        "is faster a lease ends before its holder knows",
        f"{look}; {_SYNC}",
        master=master,
    )
