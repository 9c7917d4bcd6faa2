"""Checks of each server: its role, version and state, and its configuration."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...rules import keys
from ...rules.timing import drift, renew_period
from ..output import seconds, size, span
from ..scan.info import acknowledging
from .facts import Facts, Fleet
from .findings import Finding, Severity, error, note, of_master, warning

_OLDEST = (6, 2)
_BUFFER = 1 << 20  # bytes of messages, some thousand
#: Warnings from the documentation of servers on which rlock was not tested.
_FORKS = {
    "KeyDB": "with active-replica two servers grant the same lock: turn it off",
    "Dragonfly": "its only copy on disk is a snapshot: a restart forgets the locks since then",
    "Garnet": "it runs scripts only if it was started with --lua",
}
_UPGRADE = "use Redis 6.2 or newer, or Valkey 8 or newer"


@of_master("role", Severity.ERROR, "Each is a master of its own: no replica, no Cluster, no Sentinel.")
def role(facts: Facts, fleet: Fleet) -> Iterator[Finding]:
    """A replica has no vote; a failover forgets the last leases."""
    replicas = facts.number("connected_slaves") or 0
    if facts.mode == "cluster":
        yield error(
            "it runs in cluster mode",
            "a cluster fails over to replicas that lack the last leases, and keys of the lock lie in "
            "different slots",
            "use servers of their own: take `cluster-enabled yes` out of the configuration",
        )
    elif facts.mode == "sentinel":
        yield error(
            "it is a Sentinel",
            "Sentinels keep no locks",
            "name a group by redis+sentinel://host:26379/service?replicas=1, or masters by their addresses",
        )
    elif facts.role == "replica":
        primary = f"{facts.text('master_host') or '?'}:{facts.text('master_port') or '?'}"
        yield error(
            f"it is a replica of {primary}",
            "a replica cannot be written to and has no vote",
            f"name its master, redis://{primary}, unless that is in the list; or make it a master of its own",
            "REPLICAOF NO ONE",
        )
    elif facts.info is not None and facts.target.replicas is not None:
        yield from _group(facts, fleet, acknowledging(facts.info), facts.target.replicas)
    elif replicas:
        yield note(
            f"it has {replicas} replica{'s' if replicas > 1 else ''}",
            "replication is asynchronous: a promoted replica lacks the last leases. A replica that is never "
            "promoted does no harm",
            "see that no Sentinel and no orchestration promotes it; more masters make locks survive",
        )


def _group(facts: Facts, fleet: Fleet, found: int, wanted: int) -> Iterator[Finding]:
    if wanted == 0:
        yield warning(
            "replicas=0 is set",
            "after a failover two clients can hold one lock",
            f"set replicas={max(found, 1)}",
        )
    elif found != wanted:
        yield error(
            f"{found} of its {wanted} replicas acknowledge" if found < wanted else f"it has {found} replicas",
            "a vote counts only when all replicas acknowledge it, so this group has none",
            "bring them back, start another one, or correct replicas= in the URL of all clients",
        )
    own, margin = facts.timing.clock, drift(fleet.ttl)
    for address, clock in facts.timing.replica_clocks.items():
        if isinstance(clock, str) or own is None:
            yield note(
                f"the clock of {address} was not read: {clock}", "it may become the primary", "reach it"
            )
        elif abs(ahead := clock.offset - own.offset) - clock.error - own.error > margin:
            yield error(
                f"the clock of its replica {address} is {span(ahead)} {'ahead' if ahead > 0 else 'behind'}",
                f"leases are replicated as instants: after a failover they end too early by more than the "
                f"margin of {span(margin)}, or too late",
                "synchronise the clocks of the group with NTP",
            )


@of_master("version", Severity.ERROR, "Redis 6.2 or newer, or Valkey.")
def version(facts: Facts, fleet: Fleet) -> Iterator[Finding]:
    """The servers that the lock was written for."""
    if facts.info is None:
        return
    if facts.release is None or (facts.flavour == "Redis" and facts.release < _OLDEST):
        yield error(
            f"its version is {facts.version or 'unknown'}",
            "scripts and permissions work in another way before Redis 6.2",
            f"upgrade it: {_UPGRADE}",
        )
    elif facts.flavour not in ("Redis", "Valkey"):
        yield warning(
            f"it is {facts.flavour} {facts.version}",
            "it speaks the protocol of Redis; the lock was not tested on it"
            + (f" (by its documentation only: {_FORKS[facts.flavour]})" if facts.flavour in _FORKS else ""),
            _UPGRADE,
        )


#: Words of a refused write, and what to do.
_WRITES = {
    "MISCONF": "it could not save to disk: mend the disk (its log says what is wrong), see `disk`",
    "OOM": "its memory is full: see `memory`",
    "READONLY": "it is a replica, or was made read-only: see `role`",
    "replicas=": "name it in the same way in all clients",
    "NOREPLICAS": "it wants more replicas than it has; CONFIG SET min-replicas-to-write 0, and the same in "
    "its configuration: replicas do nothing for the lock",
}


@of_master("writes", Severity.ERROR, "Each master grants a lock now.")
def writes(facts: Facts, fleet: Fleet) -> Iterator[Finding]:
    """The answer to a lock that was tried on this master alone."""
    fault = facts.write_fault
    if facts.text("loading") == "1":
        left = facts.text("loading_eta_seconds") or "?"
        yield error(
            f"it loads its data ({left} s to go, by its own estimate)",
            "it has no vote until it is ready",
            "wait; a master that serves locks only is ready at once",
        )
    elif fault is not None and fault.startswith("BUSY"):
        yield error(
            f"a script runs on it and does not end: {fault}",
            "it has no vote and answers nobody until the script ends",
            "end the script (it is none of the lock's, which end in microseconds); after a write only "
            "SHUTDOWN NOSAVE ends it",
            "SCRIPT KILL",
        )
    elif fault is not None and facts.role != "replica":
        # A server puts the error of a command in the middle of the error of the script.
        action = next((action for word, action in _WRITES.items() if word in fault), "its log may say more")
        yield error(f"it does not grant a lock: {fault}", "it has no vote", action)


@of_master("guard", Severity.NOTE, "The restart guard gives each master a vote.")
def guard(facts: Facts, fleet: Fleet) -> Iterator[Finding]:
    """New, restarted, flushed."""
    memory, missing = facts.memory, {*facts.permissions.commands, *facts.permissions.keys}
    ahead = memory.note.first_us - memory.report.time_us if memory.note and memory.report else 0
    if ahead > 0:
        yield note(
            f"its clock was set back: the note in {keys.NOTE} was dated {span(ahead / 1e6)} ahead of it",
            "new clients take its memory for new, once; the lock of a dead holder from before lasts longer "
            "by as much",
            "let NTP set the clock before the server starts; the note has its right date by now",
        )
    if memory.guarded <= 0:
        return
    if memory.note is None and missing & {"get", "evalsha", "~*", f"~{keys.NOTE}"}:
        return  # the note cannot be read: `permissions` says what to do
    # Another master that votes by its note shows that the fleet is in use: no place to speak of `rlock init`.
    used = any(each.memory.note is not None and each.memory.guarded <= 0 for each in fleet.masters)
    yield note(
        f"{memory.guard_reason}: it has no vote for {seconds(memory.guarded)} more",
        "leases that it has forgotten may still be valid",
        "wait, it passes by itself"
        if used
        else "wait; or, only if nothing can have been locked before: rlock init",
    )


@of_master("max-ttl", Severity.WARNING, "The longest lease is the same for the whole fleet.")
def max_ttl(facts: Facts, fleet: Fleet) -> Iterator[Finding]:
    """The note of a master against this client."""
    if facts.memory.note is None or fleet.guard_off:
        return
    noted, own = facts.memory.note.max_ttl_ms / 1000, fleet.max_ttl
    if noted - own >= 0.001:
        yield warning(
            f"it has granted leases of up to {noted:g} s, the max_ttl of this client is {own:g} s",
            f"after a restart clients wait for the longer one; a client that was started with {own:g} s and "
            "does not see the note would count votes too early",
            f"set one value everywhere: RLOCK_MAX_TTL={noted:g}; or, if {own:g} s is right and nothing is "
            "locked: rlock init",
        )


@of_master("memory", Severity.WARNING, "There is room in memory.")
def memory(facts: Facts, fleet: Fleet) -> Iterator[Finding]:
    """A full master has no vote."""
    used, limit = facts.number("used_memory"), facts.number("maxmemory")
    if used and limit and used >= 0.8 * limit:
        yield warning(
            f"{size(used)} of {size(limit)} are used ({100 * used / limit:.0f} %)",
            "when it is full it grants no lock (or throws some away, see `eviction`)",
            "find what else lives there, or raise the limit in its configuration, too",
            f"CONFIG SET maxmemory {2 * max(used, limit)}",
        )


@of_master("eviction", Severity.ERROR, "maxmemory-policy is noeviction.")
def eviction(facts: Facts, fleet: Fleet) -> Iterator[Finding]:
    """A held lock is a key with an expiry: the first that other policies evict."""
    policy = facts.text("maxmemory_policy")
    if not policy or policy == "noeviction":
        return
    limited = facts.number("maxmemory")
    say = error if limited else warning
    yield say(
        f"maxmemory-policy is {policy}{'' if limited else ', though there is no maxmemory yet'}",
        "under memory pressure it throws held locks away silently, and another client gets them",
        "set it, and the same in its configuration file (CONFIG REWRITE)",
        "CONFIG SET maxmemory-policy noeviction",
    )


@of_master("disk", Severity.ERROR, "The last writes to disk worked.")
def disk(facts: Facts, fleet: Fleet) -> Iterator[Finding]:
    """MISCONF, now or soon."""
    aof = facts.text("aof_enabled") == "1"
    refuses = "it refuses writes (MISCONF), and so has no vote"
    if aof and facts.text("aof_last_write_status") not in (None, "ok"):
        yield error(
            "the last write to its append-only file failed",
            refuses,
            "mend the disk: full, read-only, wrong permissions? Its log says which",
        )
    if facts.text("rdb_last_bgsave_status") in (None, "ok"):
        return
    # Without CONFIG GET the worse is assumed: these are the defaults.
    stops = facts.config.get("stop-writes-on-bgsave-error", "yes") == "yes" and facts.config.get("save") != ""
    if stops:
        yield error(
            "its last snapshot failed, and stop-writes-on-bgsave-error is yes",
            refuses,
            "mend the disk (its log says what is wrong), then BGSAVE; or turn snapshots off, which do "
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


@of_master("connections", Severity.WARNING, "Idle connections stay, dead ones go, there is room for more.")
def connections(facts: Facts, fleet: Fleet) -> Iterator[Finding]:
    """tcp-keepalive, timeout, client-output-buffer-limit, maxclients."""
    if facts.config.get("tcp-keepalive") == "0" and facts.target.port is not None:
        yield warning(
            "tcp-keepalive is 0",
            "the connections of a machine that vanished stay for ever: a release hands the lock to its "
            "waiters, which costs the others a second each time, and connections run out",
            "set it, and the same in its configuration",
            "CONFIG SET tcp-keepalive 300",
            "CONFIG REWRITE",
        )
    text, period = facts.config.get("timeout", ""), renew_period(fleet.ttl)
    idle = int(text) if text.isdigit() else 0
    if 0 < idle < 300:
        say = warning if idle <= max(period, 10) else note
        yield say(
            f"timeout is {idle}: it closes connections that were idle for {idle} s",
            f"a holder is idle for {period:.1f} s between two renewals, and other clients for longer: the "
            "next lock begins with a new connection",
            "turn it off, and the same in its configuration; tcp-keepalive finds the dead ones",
            "CONFIG SET timeout 0",
            "CONFIG REWRITE",
        )
    limit = re.search(r"\bpubsub (\d+)", facts.config.get("client-output-buffer-limit", ""))
    if limit and int(limit[1]) < _BUFFER:
        yield warning(
            f"client-output-buffer-limit pubsub is {limit[1]} bytes"
            + (", so there is no limit" if limit[1] == "0" else ""),
            "a subscriber that stands still fills the memory of the server"
            if limit[1] == "0"
            else "a waiter that reads late loses its connection, and the message that hands it the lock",
            "give it the default of Redis, and the same in its configuration",
            'CONFIG SET client-output-buffer-limit "pubsub 32mb 8mb 60"',
            "CONFIG REWRITE",
        )
    used, most = facts.number("connected_clients"), facts.number("maxclients")
    if used and most and used >= 0.8 * most:
        yield warning(
            f"{used} of {most} possible connections are open",
            "at the limit new clients get no vote here; each process needs two connections",
            "find the program that holds so many (CLIENT LIST), or raise it, and the same in its "
            "configuration",
            f"CONFIG SET maxclients {2 * most}",
        )


@of_master("patterns", Severity.WARNING, "No client subscribes to all channels (PSUBSCRIBE).")
def patterns(facts: Facts, fleet: Fleet) -> Iterator[Finding]:
    """PUBLISH counts a subscriber of a pattern as a waiter that is alive."""
    count = facts.number("pubsub_patterns")
    if count:
        yield warning(
            f"there are {count} subscriptions to patterns of channels (PSUBSCRIBE)",
            "if one matches rlock:*, a release takes a dead waiter for a live one: the next waiter gets the "
            "lock a second later",
            "have that program name its channels, or listen to others than rlock:*; its connections are in",
            "CLIENT LIST TYPE pubsub",
        )
