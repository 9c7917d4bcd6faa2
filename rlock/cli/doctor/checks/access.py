"""Is the user let in, and may it do what the lock needs?"""

from __future__ import annotations

from collections.abc import Iterator

from ....rules.keys import WIRES
from ...output import listed
from ..acl import OPTIONAL, Permissions, Scope, lines
from ..facts import Facts, Fleet, Trouble
from ..findings import Severity, Told, error, note, of_master, warning

_PROBE = "rlock-doctor:"


@of_master("login", Severity.ERROR, "User and password are accepted.")
def login(facts: Facts, fleet: Fleet) -> Iterator[Told]:
    """NOAUTH, WRONGPASS and their kin."""
    if facts.trouble is not Trouble.DENIED:
        return
    fault = facts.fault or ""
    why = "it refuses everything that this client asks, and so has no vote"
    if "NOAUTH" in fault or "uthentication required" in fault:
        yield error(
            f"it asks for a password, and the URL has none: {fault}",
            why,
            "write user and password into the URL: redis://USER:PASSWORD@HOST:PORT "
            "(redis://:PASSWORD@HOST:PORT for the user `default`)",
        )
    elif "without any password configured" in fault:
        yield error(
            "the URL has a password, and the master asks for none",
            why,
            "take the password out of the URL, or set one: CONFIG SET requirepass, and the same in its "
            "configuration file",
        )
    elif facts.with_user and not facts.with_password:
        yield error(
            f"the URL names the user {facts.user} and no password: {fault}",
            why,
            f"write it into the URL: redis://{facts.user}:PASSWORD@HOST:PORT",
        )
    else:
        yield error(
            f"it does not let the user {facts.user} in: {fault}",
            why,
            "the password in the URL is wrong, or there is no such user, or it is off: an administrator sees "
            "it with the command below, and mends it with ACL SETUSER NAME on >PASSWORD",
            f"ACL GETUSER {facts.user}",
        )


@of_master("permissions", Severity.ERROR, "The user may run the commands, and use the keys and channels.")
def permissions(facts: Facts, fleet: Fleet) -> Iterator[Told]:
    """What is missing in the master's ACL, and the line that adds it."""
    missing = facts.permissions
    if not facts.examined or facts.mode == "sentinel" or not missing.missing:
        return
    ready = lines(facts.user, missing)
    keep = "; then ACL SAVE, or CONFIG REWRITE where there is no aclfile"
    told = _told(facts.user, missing)
    if not missing.commands and _only_of_the_probe(missing):
        yield warning(
            f"{told}: they are of the lock that this command tries, and whether those of your locks are "
            f"allowed is not known",
            "a user that may lock some names only is right; which names, nobody can tell from here",
            "name them: rlock doctor --name 'orders:*' (or one lock); or allow the names of this command, too"
            + keep,
            *ready,
        )
        return
    unsure = (
        ""
        if not missing.unsure_of_keys
        else ("; the second line is refused if the user may use all keys already, and is not needed then")
    )
    own = (
        ""
        if _PROBE not in " ".join(ready)
        else (
            f" (rules with {_PROBE} are for the lock that this command tries: --name checks those of your "
            "locks)"
        )
    )
    yield error(
        told, "acquire, release or waiting is refused", f"an administrator runs{own}{unsure}{keep}", *ready
    )


def _told(user: str, missing: Permissions) -> str:
    parts = []
    if missing.commands:
        parts.append(f"run {listed(list(missing.commands))}")
    if missing.keys:
        known = " (as far as can be told without a command that it may run)" if missing.unsure_of_keys else ""
        parts.append(f"use the keys {listed(list(missing.keys))}{known}")
    if missing.channels:
        parts.append(f"use the channels {listed(list(missing.channels))}")
    return f"the user {user} may not {listed(parts)}"


def _only_of_the_probe(missing: Permissions) -> bool:
    return any(missing.only_of(Scope(wire=wire)) for wire in WIRES.values())


@of_master("optional", Severity.NOTE, "The user may also do what makes locks safer or faster.")
def optional(facts: Facts, fleet: Fleet) -> Iterator[Told]:
    """What is lost without."""
    lacking = facts.permissions.optional
    if not facts.examined or facts.mode == "sentinel" or not lacking:
        return
    lost = dict.fromkeys(OPTIONAL[command] for command in lacking)
    rules = " ".join(f"+{command}" for command in lacking)
    yield note(
        f"the user {facts.user} may not run {listed([command.replace('|', ' ') for command in lacking])}",
        "; ".join(lost),
        "allow it if you can",
        f"ACL SETUSER {facts.user} {rules}",
    )


@of_master("commands", Severity.ERROR, "The master knows the commands that the lock needs.")
def commands(facts: Facts, fleet: Fleet) -> Iterator[Told]:
    """rename-command, or something that only looks like Redis."""
    unknown = [command for command in facts.permissions.unknown if command not in OPTIONAL]
    if facts.examined and facts.mode != "sentinel" and unknown:
        yield error(
            f"it does not know {listed([command.upper() for command in unknown])}",
            "the lock's scripts cannot run",
            "take `rename-command` out of its configuration file, and use an ACL in its place; or it is no "
            "Redis or Valkey",
        )


@of_master("publish", Severity.ERROR, "What is published reaches those who listen.")
def publish(facts: Facts, fleet: Fleet) -> Iterator[Told]:
    """Without it every waiter sleeps on."""
    if facts.unheard:
        yield error(
            "a message that was published reached no subscriber, though there was one",
            "waiters are not woken by a release, and sleep until they look again",
            "a proxy in between that does not pass messages on, or two servers behind one name: name the "
            "server itself",
        )
