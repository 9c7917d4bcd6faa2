"""What the server is, and in which state."""

from __future__ import annotations

from collections.abc import Iterator

from ....rules import keys
from ...output import seconds, size
from ..facts import Facts, Fleet
from ..findings import Severity, Told, error, note, of_master, warning

OLDEST = (6, 2)


@of_master("role", Severity.ERROR, "Each is a master, and no replica.")
def role(facts: Facts, fleet: Fleet) -> Iterator[Told]:
    """A replica has no vote."""
    if facts.role != "replica":
        return
    host, port = facts.text("master_host") or "?", facts.text("master_port") or "?"
    yield error(
        f"it is a replica of {host}:{port}",
        "a replica cannot be written to and has no vote",
        f"name its master, redis://{host}:{port}, unless that is in the list; or make it a master of its own",
        "REPLICAOF NO ONE",
    )


@of_master("replicas", Severity.NOTE, "Masters have no replicas.")
def replicas(facts: Facts, fleet: Fleet) -> Iterator[Told]:
    """They invite a failover."""
    count = facts.number("connected_slaves") or 0
    if facts.role == "master" and count:
        yield note(
            f"it has {count} replica{'s' if count > 1 else ''}",
            "replication is asynchronous: a replica that is promoted has forgotten the last leases. One that "
            "keeps a copy and is never promoted does no harm",
            "see that no Sentinel and no orchestration promotes it; more masters are what makes locks "
            "survive",
        )


@of_master("mode", Severity.ERROR, "Each is a server of its own: no Cluster, no Sentinel.")
def mode(facts: Facts, fleet: Fleet) -> Iterator[Told]:
    """The keys of one lock would be on several servers; or there are none."""
    if facts.mode == "cluster":
        yield error(
            "it runs in cluster mode",
            "a cluster fails over to replicas that have forgotten the last leases, and keys of the lock lie "
            "in different slots",
            "use masters of their own: take `cluster-enabled yes` out of the configuration",
        )
    elif facts.mode == "sentinel":
        yield error(
            "it is a Sentinel",
            "Sentinels keep no locks",
            "name the masters themselves, by their own addresses (usually port 6379, not 26379)",
        )


@of_master("version", Severity.ERROR, "Redis 6.2 or newer, or Valkey.")
def version(facts: Facts, fleet: Fleet) -> Iterator[Told]:
    """What the lock was written for."""
    if facts.info is None:
        return
    if facts.release is None:
        yield error(
            "it does not tell a version that is known here",
            "the lock was not written for this server, and nobody has tried it",
            "use Redis 6.2 or newer, or Valkey 8 or newer",
        )
    elif facts.flavour == "Redis" and facts.release < OLDEST:
        yield error(
            f"Redis {facts.version} is too old",
            "scripts and permissions work in another way before 6.2",
            "upgrade it: Redis 6.2 or newer, or Valkey 8 or newer",
        )
    elif facts.flavour not in ("Redis", "Valkey"):
        yield warning(
            f"it is {facts.flavour} {facts.version}",
            "it speaks the protocol of Redis; the lock was not tested on it, nor are its promises known",
            "use Redis 6.2 or newer, or Valkey 8 or newer",
        )


@of_master("loading", Severity.ERROR, "No master is loading its data.")
def loading(facts: Facts, fleet: Fleet) -> Iterator[Told]:
    """It has no vote before it is ready."""
    if facts.loading is not None:
        yield error(
            f"it loads its data ({facts.loading})",
            "it has no vote until it is ready",
            "wait; a master of locks that is used for nothing else is ready at once",
        )


@of_master("busy", Severity.ERROR, "No master is busy with a script that does not end.")
def busy(facts: Facts, fleet: Fleet) -> Iterator[Told]:
    """Nothing else is answered meanwhile."""
    if facts.busy is not None:
        yield error(
            f"a script runs on it and does not end: {facts.busy}",
            "it has no vote and answers nobody until the script ends",
            "end the script (it is none of the lock's, which end in microseconds); one that has written can "
            "only be ended by SHUTDOWN NOSAVE",
            "SCRIPT KILL",
        )


#: What a write was answered, and what is to be done.
_WRITES = {
    "MISCONF": "it could not save to disk: mend the disk (its log says what is wrong), see `disk`",
    "OOM": "its memory is full: see `memory`",
    "READONLY": "it is a replica, or was made read-only: see `role`",
    "NOREPLICAS": "it wants more replicas than it has; CONFIG SET min-replicas-to-write 0, and the same in "
    "its configuration: replicas do nothing for the lock",
    "LOADING": "wait until it has loaded its data",
    "BUSY": "SCRIPT KILL ends the script that it runs",
    "NOPERM": "see `permissions`",
    "CROSSSLOT": "see `mode`",
    "MOVED": "see `mode`",
    "CLUSTERDOWN": "see `mode`",
}


@of_master("writes", Severity.ERROR, "Each master grants a lock of our own.")
def writes(facts: Facts, fleet: Fleet) -> Iterator[Told]:
    """What was answered when a lock was tried on this master alone."""
    fault = facts.write_fault
    if fault is None or facts.role == "replica" or facts.loading:
        return
    # Inside a script the server puts the error of the command in the middle of its own words.
    action = next((action for word, action in _WRITES.items() if word in fault), "its log may say more")
    yield error(f"it does not grant a lock: {fault}", "it has no vote", action)


@of_master("guard", Severity.NOTE, "The restart guard: whose votes do not count yet.")
def guard(facts: Facts, fleet: Fleet) -> Iterator[Told]:
    """New, restarted, flushed."""
    if facts.guarded <= 0:
        return
    lacking = {*facts.permissions.commands, *facts.permissions.keys}
    if facts.note is None and lacking & {"get", "~*", f"~{keys.NOTE}"}:
        return  # who may not read its note cannot call it empty; `permissions` says what to do
    # A fleet on which another master has a vote by its note is in use: no place to speak of `rlock init`.
    used = any(each.note is not None and each.guarded <= 0 for each in fleet.masters)
    yield note(
        f"{facts.guard_reason}: it has no vote for {seconds(facts.guarded)} more",
        "leases that it has forgotten may still be valid",
        "wait, it passes by itself"
        if used
        else "wait; or, only if nothing can have been locked before: rlock init",
    )


@of_master("max-ttl", Severity.WARNING, "The longest lease is the same for the whole fleet.")
def max_ttl(facts: Facts, fleet: Fleet) -> Iterator[Told]:
    """What the note says, against this client's."""
    if facts.note is None or fleet.guard_off:
        return
    noted, own = facts.note.max_ttl_ms / 1000, fleet.max_ttl
    if noted > own and abs(noted - own) >= 0.001:
        yield warning(
            f"it has granted leases of up to {noted:g} s, the max_ttl of this client is {own:g} s",
            f"after a restart clients wait for the longer one; one that was started with {own:g} s and does "
            "not see the note would count votes too early",
            f"set one value everywhere: RLOCK_MAX_TTL={noted:g}; or, if {own:g} s is right and nothing is "
            "locked: rlock init",
        )


@of_master("memory", Severity.WARNING, "There is room in memory.")
def memory(facts: Facts, fleet: Fleet) -> Iterator[Told]:
    """Full is no vote."""
    used, limit = facts.number("used_memory"), facts.number("maxmemory")
    if used and limit and used >= 0.8 * limit:
        yield warning(
            f"{size(used)} of {size(limit)} are used ({100 * used / limit:.0f} %)",
            "when it is full it grants no lock (or throws some away, see `eviction`)",
            "find what else lives there, or raise the limit in its configuration, too",
            f"CONFIG SET maxmemory {2 * max(used, limit)}",
        )


@of_master("eviction", Severity.ERROR, "maxmemory-policy is noeviction.")
def eviction(facts: Facts, fleet: Fleet) -> Iterator[Told]:
    """A held lock is a key with an expiry: the first to go."""
    policy = facts.text("maxmemory_policy")
    if not policy or policy == "noeviction":
        return
    told = (
        f"maxmemory-policy is {policy}",
        "under memory pressure it throws held locks away silently, and somebody else gets them",
        "set it, and the same in its configuration file (CONFIG REWRITE)",
        "CONFIG SET maxmemory-policy noeviction",
    )
    if facts.number("maxmemory"):
        yield error(*told)
    else:
        yield warning(f"{told[0]}, though there is no maxmemory yet", *told[1:])
