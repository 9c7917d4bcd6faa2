"""Permissions: what a user of the lock needs, how to find out what is missing, and the line that mends it.

Whoever may not run a command may not run ACL either; so nothing is asked of ACL. Each command is sent in a
form that can change nothing: masters look at the permissions first, and at the arguments afterwards.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...rules import keys
from ...rules.keys import OWN, REDISSON_CHANNEL, Wire
from ...rules.options import MAX_NAME_BYTES, check_name

#: What the scripts call, and the client itself; in the order of docs/operations.md.
COMMANDS = (
    "evalsha", "eval", "get", "set", "hlen", "hset", "hget", "hgetall", "pexpire", "pttl", "del", "exists",
    "zadd", "zrem", "zrange", "zscore", "zcard", "zpopmin", "time", "publish", "subscribe", "unsubscribe",
)  # fmt: skip

#: What may be left out, and what is lost with it.
OPTIONAL = {
    "info": "replicas, eviction policies and one server named twice are not noticed; the restart guard waits "
    "for max_ttl after each new connection",
    "config|get": "masters that forget nothing cannot be told from others, and are guarded after a restart",
    "client|id": "a command that a stopped master still has in its queue cannot be cancelled",
    "client|kill": "a command that a stopped master still has in its queue cannot be cancelled",
    "script|load": "each script is sent in full once more after a restart of a master",
}

_NO_SCRIPT = "0" * 40


@dataclass(frozen=True)
class Permissions:
    """What is missing. Rules of ACL SETUSER, but for the commands."""

    commands: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    #: The master has no such commands: rename-command, or something that is no Redis.
    unknown: tuple[str, ...] = ()
    #: No command is allowed that would tell about keys: those of ``keys`` may be allowed already.
    unsure_of_keys: bool = False
    #: The same of channels.
    unsure_of_channels: bool = False

    @property
    def missing(self) -> bool:
        """Whether anything is that a user needs."""
        return bool(self.commands or self.keys or self.channels)

    @property
    def enough(self) -> bool:
        """Whether locks can be had."""
        return not self.missing and all(command in OPTIONAL for command in self.unknown)

    def only_of(self, scope: Scope) -> bool:
        """Whether all that is missing has to do with the names of the scope."""
        own = {*scope.key_rules, *scope.channel_rules}
        return not self.commands and {*self.keys, *self.channels} <= own


class Scope:
    """For which locks the permissions are asked: one name, or all that begin alike."""

    def __init__(self, name: str | None = None, wire: Wire = OWN) -> None:
        self._wire = wire
        #: An operator named it.
        self.given = name is not None
        self.name = "rlock-doctor:*" if name is None else name
        self.prefix = self.name.endswith("*")
        stem = self.name.removesuffix("*") if self.prefix else f"{self.name}:"
        exact = None if self.prefix else check_name(self.name)
        fresh = os.urandom(8).hex()
        #: A lock of our own; behind a long name there may be no room for all of it.
        beside = f"{stem}rlock-doctor:{fresh}" if self.given else f"rlock-doctor:{fresh}"
        if len(beside.encode()) > MAX_NAME_BYTES:
            beside = f"{stem}{fresh}" if self.prefix else f"rlock-doctor:{fresh}"
        self.probe = check_name(beside)
        #: The lock whose keys are asked for; no key of it is touched.
        self.lock = exact or self.probe
        escaped = _escaped(stem) if self.prefix else _escaped(self.lock)
        #: One lock for each way in which keys and channels are called, with what stands in the rules: a name
        #: that begins so may hold a brace further on.
        self._locks = {self.lock: escaped}
        if self.prefix and not _braced(stem):
            self._locks[f"{stem}{{{fresh}}}"] = escaped
        #: The lock, and what belongs to it.
        own = tuple(f"~{self._own(lock)}*" for lock in self._locks)
        self.key_rules = (f"~{escaped}{'*' if self.prefix else ''}", *own)
        self.note_rule = f"~{keys.NOTE}"
        if self.name == "*":
            # Behind a `*` no other pattern is accepted.
            self.key_rules, self.note_rule = ("~*",) * len(self.key_rules), "~*"
        #: The channels of each of the locks.
        self._channel_rules = [self._told(lock) for lock in self._locks]
        self.channel_rules = tuple(dict.fromkeys(rule for rules in self._channel_rules for rule in rules))

    def _own(self, lock: str) -> str:
        """How the keys and channels of a lock begin."""
        escaped = self._locks[lock]
        if _braced(lock):
            return f"rlock::{escaped}" if self.prefix else f"rlock::{escaped}:"
        return f"rlock:{{{escaped}" if self.prefix else f"rlock:{{{escaped}}}:"

    def _told(self, lock: str) -> tuple[str, ...]:
        """The rules for the channels of a lock."""
        if not self._wire.shared:
            return (f"&{self._own(lock)}*",)
        told = REDISSON_CHANNEL + ("" if "{" in lock or self.name == "*" else "{") + self._locks[lock]
        # Of one name: its channel, and those of the clients that wait for it.
        whole = told if "{" in lock else f"{told}}}"
        return (f"&{told}*",) if self.prefix else (f"&{whole}", f"&{whole}|*")

    def keys(self, *, guarded: bool = True) -> list[tuple[str, str]]:
        """The keys that are used, and the rule that allows each."""
        name, *own = self.key_rules
        found = [(self.lock, name)]
        for lock, rule in zip(self._locks, own, strict=True):
            beside = (keys.queue(lock), keys.fence(lock), keys.evicted(lock, "doctor"))
            found += [(key, rule) for key in beside]
        return [*found, (keys.NOTE, self.note_rule)] if guarded else found

    def channels(self) -> list[tuple[str, str]]:
        """Of each lock: its channel, and one on which nobody listens."""
        wire, client = self._wire, f"doctor-{os.urandom(8).hex()}"
        return [(wire.channel(lock), wire.client_channel(lock, client)) for lock in self._locks]

    def rules_of(self, barred: Sequence[bool]) -> tuple[str, ...]:
        """The rules for the channels of the locks of which it is said that they are refused."""
        refused = [rules for rules, refused in zip(self._channel_rules, barred, strict=True) if refused]
        return tuple(dict.fromkeys(rule for rules in refused for rule in rules))

    def rules(self) -> list[str]:
        """The least permissions, as docs/operations.md lists them."""
        allowed = [f"+{command}" for command in ("info", *COMMANDS)]
        patterns = dict.fromkeys([*self.key_rules, self.note_rule])
        return [*patterns, "resetchannels", *self.channel_rules, "-@all", *allowed]


def _braced(name: str) -> bool:
    return "{" in name or "}" in name


def _escaped(name: str) -> str:
    """A name as a pattern that means it. A blank or a quote would end the rule: `?` is any character."""
    return re.sub(r"[\s\"'\x00-\x1f\x7f]", "?", re.sub(r"([*?\[\]\\])", r"\\\1", name))


def command_trials(scope: Scope) -> dict[str, tuple[str, ...]]:
    """Each command that is needed, on a key that is not there and with arguments that change nothing.

    Without those of channels, which want a connection of their own.
    """
    # One that the user may have: each refusal is an entry in the master's ACL LOG.
    key = keys.own_key(scope.lock, f"doctor-{os.urandom(8).hex()}")
    return {
        "evalsha": ("EVALSHA", _NO_SCRIPT, "0"),
        "eval": ("EVAL", "return 1", "0"),
        "get": ("GET", key),
        "set": ("SET", key, "", "PX", "0"),
        "hlen": ("HLEN", key),
        "hset": ("HSET", key, "field", "1", "odd"),
        "hget": ("HGET", key, "field"),
        "hgetall": ("HGETALL", key),
        "pexpire": ("PEXPIRE", key, "soon"),
        "pttl": ("PTTL", key),
        "del": ("DEL", key),
        "exists": ("EXISTS", key),
        "zadd": ("ZADD", key, "high", "member"),
        "zrem": ("ZREM", key, "member"),
        "zrange": ("ZRANGE", key, "0", "0"),
        "zscore": ("ZSCORE", key, "member"),
        "zcard": ("ZCARD", key),
        "zpopmin": ("ZPOPMIN", key),
        "time": ("TIME",),
    }


def optional_trials() -> dict[str, tuple[str, ...]]:
    """The same for what may be left out, but for what is asked anyway."""
    return {
        "client|id": ("CLIENT", "ID"),
        # Never given to anybody. Not 0: Redis 6.2 takes that for no filter, and kills every connection.
        "client|kill": ("CLIENT", "KILL", "ID", str(2**63 - 1)),
        "script|load": ("SCRIPT", "LOAD", "no script ("),
    }


def key_trials(key: str) -> list[tuple[str, ...]]:
    """Ways to find out whether a key may be read and written, the best first. None of them does either."""
    return [
        ("EVALSHA", _NO_SCRIPT, "1", key),
        ("EVAL", "return 1", "1", key),
        ("PEXPIRE", key, "soon"),
        ("SET", key, "", "PX", "0"),
        ("HSET", key, "field", "1", "odd"),
        ("ZADD", key, "high", "member"),
        ("EXISTS", key),
        ("PTTL", key),
        ("GET", key),
        ("HLEN", key),
        ("ZCARD", key),
    ]


def denial(reply: Any) -> str | None:
    """What a master refuses for want of a permission: command, key, channel, other; or unknown (command)."""
    if not isinstance(reply, Exception):
        return None
    text = str(reply)
    if text.startswith("NOPERM"):
        if "permissions to run the" in text:
            return "command"
        found = re.search(r"permissions to access (?:a|one of the) (key|channel)", text)
        return found[1] if found else "other"
    return "unknown" if re.match(r"ERR unknown (sub)?command", text, re.IGNORECASE) else None


def judge_keys(scope: Scope, told: Sequence[Sequence[Any]], *, guarded: bool) -> tuple[list[str], bool]:
    """The rules that are missing for keys, by the replies to `key_trials`; and whether that is a guess."""
    missing: list[str] = []
    unsure = False
    for (_, rule), replies in zip(scope.keys(guarded=guarded), told, strict=True):
        # A command that is not allowed is refused for itself, whatever the key.
        first = next((reply for reply in replies if denial(reply) not in ("command", "unknown")), None)
        nothing = all(denial(reply) in ("command", "unknown") for reply in replies)
        unsure = unsure or nothing
        if (nothing or denial(first) is not None) and rule not in missing:
            missing.append(rule)
    return missing, unsure


def lines(user: str, missing: Permissions) -> tuple[str, ...]:
    """What an administrator says to the master so that nothing is missing any more."""
    patterns = [] if missing.unsure_of_keys else list(missing.keys)
    # Of channels that no command of his could use nothing is taken away; and "after the * pattern" a
    # pattern is refused, with all that stands beside it.
    reset = ["resetchannels"] if missing.unsure_of_channels and missing.channels else []
    rules = [*patterns, *reset, *missing.channels, *(f"+{command}" for command in missing.commands)]
    found = [f"ACL SETUSER {user} {' '.join(rules)}"] if rules else []
    if missing.unsure_of_keys and missing.keys:
        found.append(f"ACL SETUSER {user} {' '.join(missing.keys)}")
    return tuple(found)
