"""Checks of the way to each master: network, address, login, permissions, speed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..output import listed, ms
from .acl import OPTIONAL, Permissions
from .facts import Facts, Fleet, Trouble
from .findings import Finding, Severity, error, note, of_fleet, of_master, warning

_NO_VOTE = "it has no vote; a quorum has to come from the others"


@of_fleet("quorum", Severity.ERROR, "A quorum of masters can be reached, and has a vote.")
def quorum(fleet: Fleet) -> Iterator[Finding]:
    """Without a quorum nobody acquires a lock."""
    reached = sum(facts.reached for facts in fleet.masters)
    if reached < fleet.quorum:
        yield error(
            f"{reached} of {len(fleet.masters)} masters can be reached, {fleet.quorum} are needed",
            "nobody can acquire a lock, and holders lose theirs when their leases end",
            "bring back the missing masters; each has its own finding",
        )
    waits = sorted(facts.memory.guarded for facts in fleet.examined)
    voting = sum(wait == 0 for wait in waits)
    if voting < fleet.quorum <= len(waits):
        yield error(
            f"{voting} of {len(fleet.masters)} masters have a vote now, {fleet.quorum} are needed: the "
            f"restart guard holds the others back for {waits[fleet.quorum - 1]:.0f} s more",
            "nobody gets a lock until then: a lease that they have forgotten may still be valid",
            "wait; or, only if they are new and nothing can have been locked before: rlock init",
        )


@of_master("reachable", Severity.ERROR, "Each master can be reached, and answers to the end.")
def reachable(facts: Facts, fleet: Fleet) -> Iterator[Finding]:
    """Network, names, TLS, protocol."""
    if facts.trouble is not None and facts.trouble is not Trouble.DENIED:
        what, action = facts.trouble.value
        yield error(f"{what}: {facts.fault}", _NO_VOTE, action)


@of_master("login", Severity.ERROR, "User and password are accepted.")
def login(facts: Facts, fleet: Fleet) -> Iterator[Finding]:
    """NOAUTH, WRONGPASS, and a user who may not do what the URL asks for."""
    if facts.trouble is not Trouble.DENIED:
        return
    fault, user = facts.fault or "", facts.target.user
    why = "it refuses every command of this client, and so has no vote"
    if "NOAUTH" in fault or "uthentication required" in fault:
        yield error(
            f"it asks for a password, and the URL has none: {fault}",
            why,
            "write user and password into the URL: redis://USER:PASSWORD@HOST:PORT "
            "(redis://:PASSWORD@HOST:PORT for the user `default`)",
        )
    elif refused := re.search(r"permissions to run the '([\w|]+)'", fault):
        yield error(
            f"the user {user} may not do what the URL asks for: {fault}",
            why,
            "take the database or the client_name out of the URL, or an administrator allows it",
            f"ACL SETUSER {user} +{refused[1]}",
        )
    else:
        yield error(
            f"it does not let the user {user} in: {fault}",
            why,
            "the password in the URL is wrong, missing or not wanted, or the user does not exist or is off: "
            "look with the command below, and mend it with ACL SETUSER NAME on >PASSWORD",
            f"ACL GETUSER {user}",
        )


@of_master("permissions", Severity.ERROR, "The user may run the commands, and use the keys and channels.")
def permissions(facts: Facts, fleet: Fleet) -> Iterator[Finding]:
    """Missing rules of the ACL, and commands that the master does not know."""
    if not facts.examined or facts.mode == "sentinel":
        return
    missing, user = facts.permissions, facts.target.user
    if unknown := [command.upper() for command in missing.unknown if command not in OPTIONAL]:
        yield error(
            f"it does not know {listed(unknown)}",
            "the lock's scripts cannot run",
            "load its module for Lua, or start it with its option for Lua (Garnet: --lua)"
            if set(unknown) <= {"EVAL", "EVALSHA"}
            else "take `rename-command` out of its configuration file, and use an ACL in its place; or it "
            "is no Redis or Valkey",
        )
    if missing.rules:
        yield _missing(user, missing)
    if missing.optional:
        yield note(
            f"the user {user} may not run {listed([c.replace('|', ' ') for c in missing.optional])}",
            "; ".join(dict.fromkeys(OPTIONAL[command] for command in missing.optional)),
            "allow it if you can",
            f"ACL SETUSER {user} {' '.join(f'+{command}' for command in missing.optional)}",
        )


def _missing(user: str, missing: Permissions) -> Finding:
    parts = [
        f"{verb} {listed(list(names))}"
        for verb, names in (
            ("run", missing.commands),
            ("use the keys", missing.keys),
            ("use the channels", missing.channels),
        )
        if names
    ]
    what = f"the user {user} may not {listed(parts)}"
    command = f"ACL SETUSER {user} {' '.join(missing.rules)}"
    keep = "then ACL SAVE, or CONFIG REWRITE where there is no aclfile"
    if missing.only_of_probe:
        return warning(
            f"{what}: these rules are for the lock that doctor tries; the rules for your locks are not known",
            "a user who may lock some names only is right, and a master does not tell which names",
            "name your locks: rlock doctor --name 'orders:*' (or one lock); or allow the names of doctor, "
            f"too, {keep}",
            command,
        )
    again = ""
    if "evalsha" in missing.commands or "publish" in missing.commands or "subscribe" in missing.commands:
        # A command that is refused says nothing about keys or channels.
        again = ", and run this again: keys and channels can be checked only then"
    return error(
        what, "acquire, release or waiting is refused", f"an administrator runs it, {keep}{again}", command
    )


@of_master("one-server", Severity.ERROR, "Every connection to a master leads to the same server.")
def one_server(facts: Facts, fleet: Fleet) -> Iterator[Finding]:
    """A proxy, a load balancer, a name with several addresses."""
    for family, colon in (("IPv4", False), ("IPv6", True)):
        many = [address for address in facts.target.addresses if (":" in address) is colon]
        if len(many) > 1:
            yield warning(
                f"its name stands for {len(many)} {family} addresses: {', '.join(many)}",
                "two connections may lead to two servers, and a master must be one",
                "name each master by a name or an address of its own",
            )
    if facts.run_id and facts.other_run_id and facts.run_id != facts.other_run_id:
        yield error(
            f"two connections led to two servers (run_id {facts.run_id[:8]} and {facts.other_run_id[:8]})",
            "a lock that one connection acquires does not exist for the other one: a proxy or a load "
            "balancer in between, or it restarted just now",
            "name each server directly; if it restarted just now, run this again",
        )
    elif "info" in facts.permissions.unknown:
        yield error(
            "it does not know the command INFO: a proxy in between, or INFO was renamed",
            "the restart guard does not see restarts through a proxy that keeps client connections open, and "
            "then a restart can give a held lock away",
            "name the server itself, or take `rename-command INFO` out of its configuration",
        )
    elif facts.unheard:
        yield error(
            "a message that was published reached no subscriber, though there was one",
            "a release does not wake waiters, and they sleep until they poll again",
            "name the server itself: a proxy or firewall that drops messages, or two servers behind one name",
        )
    if facts.twice:
        yield warning(
            f"{facts.twice} client{'s have' if facts.twice > 1 else ' has'} an older connection for messages",
            "a firewall or NAT forgot it, and the messages of a release were lost until the client noticed",
            "raise the idle limit of what stands in between over the 5 s after which clients ask",
            "CLIENT LIST TYPE pubsub",
        )


@of_master("latency", Severity.ERROR, "Round trips and scripts are fast against the request time-out.")
def latency(facts: Facts, fleet: Fleet) -> Iterator[Finding]:
    """A master that is too slow counts as dead."""
    typical, limit = facts.timing.latency, fleet.request_timeout
    if typical is None:
        return
    worst, scripts = max(facts.timing.round_trips), facts.timing.scripts
    what = f"round trips of {ms(typical)}, the slowest of {len(facts.timing.round_trips)} {ms(worst)}"
    action = "move clients or master closer, relieve it (SLOWLOG GET, INFO commandstats), or set a longer "
    action += "RLOCK_REQUEST_TIMEOUT on every client"
    if typical >= limit:
        yield error(f"{what}; the request time-out is {ms(limit)}", "most of its votes come too late", action)
    elif worst >= limit / 2:
        yield warning(
            f"{what}: near the request time-out of {ms(limit)}",
            "under more load its votes come too late, and it counts as dead",
            action,
        )
    elif scripts and min(scripts) >= limit / 2:
        yield warning(
            f"a script takes {ms(min(scripts))}, while the request time-out is {ms(limit)}",
            "its votes come late: it does much else, or runs slow commands",
            "look for slow commands, and give the lock masters of its own",
            "SLOWLOG GET 10",
        )
    threshold = facts.config.get("busy-reply-threshold") or facts.config.get("lua-time-limit", "")
    if threshold.isdigit() and 0 < int(threshold) < 1000 * limit:
        yield note(
            f"busy-reply-threshold is {threshold} ms: shorter than the request time-out of {ms(limit)}",
            "it refuses every command while a script of any program runs for so long, and has no vote",
            "give it the default of Redis, and the same in its configuration",
            "CONFIG SET busy-reply-threshold 5000",
        )


@of_master("exposure", Severity.NOTE, "Masters on other machines use TLS, and ask for a password.")
def exposure(facts: Facts, fleet: Fleet) -> Iterator[Finding]:
    """Everybody who can connect can release every lock."""
    target = facts.target
    if target.local or not facts.reached:
        return
    if not target.tls:
        also = ", and the password" if target.with_password else ""
        yield note(
            "no TLS on the way to another machine",
            f"everybody who can listen there reads the names of locks{also}",
            "use rediss:// URLs, unless the network is your own",
        )
    if facts.examined and not target.with_password:
        yield note(
            "it asks for no password",
            "everybody who can connect can take every lock away, and more",
            "make a user for the lock (docs/operations.md, least permissions), and a password for `default`",
        )
