"""Permissions: which a user of the lock needs, which are missing, and the line that adds them.

A user who may not run a command may not run ACL either, so ACL is not asked. Each command is sent in a form
that can change nothing: masters look at the permissions first, and at the arguments afterwards.
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

#: The commands of the scripts and of the client itself; in the order of docs/operations.md.
COMMANDS = (
    "evalsha", "eval", "get", "set", "hlen", "hset", "hget", "hdel", "hgetall", "pexpire", "pttl", "del",
    "exists", "zadd", "zrem", "zrange", "zscore", "zcard", "zpopmin", "time", "publish", "subscribe",
    "unsubscribe",
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
    """What is missing. ``keys`` and ``channels`` are rules of ACL SETUSER."""

    commands: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    #: The master has no such commands: rename-command, or a server that is no Redis.
    unknown: tuple[str, ...] = ()
    #: Only names of doctor's own lock are missing, and nobody asked for those of other locks.
    only_of_probe: bool = False

    @property
    def rules(self) -> tuple[str, ...]:
        """What an administrator adds to the user, but for what is optional."""
        return (*self.keys, *self.channels, *(f"+{command}" for command in self.commands))

    @property
    def enough(self) -> bool:
        """Whether a lock can be acquired with these permissions."""
        return not self.rules and all(command in OPTIONAL for command in self.unknown)


class Scope:
    """The locks for which permissions are checked: one name, or all names that begin alike (``orders:*``)."""

    def __init__(self, name: str | None = None, wire: Wire = OWN) -> None:
        self._wire = wire
        #: An operator named it.
        self.given = name is not None
        self.name = "rlock-doctor:*" if name is None else name
        self.prefix = self.name.endswith("*")
        stem = self.name.removesuffix("*") if self.prefix else f"{self.name}:"
        exact = None if self.prefix else check_name(self.name)
        fresh = os.urandom(8).hex()
        #: A fresh lock that doctor acquires; behind a long name there may be no room for all of it.
        beside = f"{stem}rlock-doctor:{fresh}" if self.given else f"rlock-doctor:{fresh}"
        if len(beside.encode()) > MAX_NAME_BYTES:
            beside = f"{stem}{fresh}" if self.prefix else f"rlock-doctor:{fresh}"
        self.probe = check_name(beside)
        #: The lock whose keys are asked for; no key of it is touched.
        self.lock = exact or self.probe
        escaped = _escaped(stem) if self.prefix else _escaped(self.lock)
        #: A lock for each way in which keys are named (a brace may follow), and its text in the rules.
        self._locks = {self.lock: escaped}
        if self.prefix and not _braced(stem):
            self._locks[f"{stem}{{{fresh}}}"] = escaped
        self.key_rules = (
            f"~{escaped}{'*' if self.prefix else ''}",
            *(f"~{self._own(lock)}*" for lock in self._locks),
        )
        self.note_rule = f"~{keys.NOTE}"
        if self.name == "*":
            # Behind `~*` a master accepts no other pattern.
            self.key_rules, self.note_rule = ("~*",) * len(self.key_rules), "~*"
        self._channel_rules = [self._channels_of(lock) for lock in self._locks]
        self.channel_rules = tuple(dict.fromkeys(rule for rules in self._channel_rules for rule in rules))

    def _own(self, lock: str) -> str:
        """How the keys and channels of a lock begin."""
        escaped = self._locks[lock]
        if _braced(lock):
            return f"rlock::{escaped}" if self.prefix else f"rlock::{escaped}:"
        return f"rlock:{{{escaped}" if self.prefix else f"rlock:{{{escaped}}}:"

    def _channels_of(self, lock: str) -> tuple[str, ...]:
        if not self._wire.shared:
            return (f"&{self._own(lock)}*",)
        told = REDISSON_CHANNEL + ("" if "{" in lock or self.name == "*" else "{") + self._locks[lock]
        whole = told if "{" in lock else f"{told}}}"
        # For one name: its channel, and the channels of the clients that wait for it.
        return (f"&{told}*",) if self.prefix else (f"&{whole}", f"&{whole}|*")

    def keys(self, *, guarded: bool) -> list[tuple[str, str]]:
        """The keys that a client uses, and the rule that allows each."""
        found = [(self.lock, self.key_rules[0])]
        for lock, rule in zip(self._locks, self.key_rules[1:], strict=True):
            beside = (keys.queue(lock), keys.fence(lock), keys.readers(lock), keys.evicted(lock, "doctor"))
            found += [(key, rule) for key in beside]
        return [*found, (keys.NOTE, self.note_rule)] if guarded else found

    def channels(self) -> list[tuple[tuple[str, str], tuple[str, ...]]]:
        """For each way of naming: a lock's channel and a channel on which nobody listens, and the rules."""
        client = f"doctor-{os.urandom(8).hex()}"
        pairs = ((self._wire.channel(lock), self._wire.client_channel(lock, client)) for lock in self._locks)
        return list(zip(pairs, self._channel_rules, strict=True))

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
    """Each command that is needed, on a key that does not exist and with arguments that change nothing.

    Not those of channels, which need a connection of their own.
    """
    # A key that the user may have: each refusal is an entry in the master's ACL LOG.
    key = keys.own_key(f"doctor-{os.urandom(8).hex()}", scope.lock)
    return {
        "evalsha": ("EVALSHA", _NO_SCRIPT, "0"),
        "eval": ("EVAL", "return 1", "0"),
        "get": ("GET", key),
        "set": ("SET", key, "", "PX", "0"),
        "hlen": ("HLEN", key),
        "hset": ("HSET", key, "field", "1", "odd"),
        "hget": ("HGET", key, "field"),
        "hdel": ("HDEL", key, "field"),
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


def key_trial(key: str) -> tuple[str, ...]:
    """Finds out whether a key may be read and written, and does neither. Needs +evalsha."""
    return ("EVALSHA", _NO_SCRIPT, "1", key)


def denial(reply: Any) -> str | None:
    """What a master refuses: command, key, channel or other for want of a permission; unknown (command)."""
    if not isinstance(reply, Exception):
        return None
    text = str(reply)
    if text.startswith("NOPERM"):
        if "permissions to run the" in text:
            return "command"
        found = re.search(r"permissions to access (?:a|one of the) (key|channel)", text)
        return found[1] if found else "other"
    # The other ones: Garnet without --lua, and Valkey without its module for Lua.
    lacks = r"ERR (unknown (sub)?command|.*\bscripting (is disabled|engine))"
    return "unknown" if re.match(lacks, text, re.IGNORECASE) else None


def rules_refused(rules: Sequence[str], replies: Sequence[Any]) -> tuple[str, ...]:
    """The rules whose trials were refused for want of a key or channel, each once."""
    pairs = zip(rules, replies, strict=True)
    return tuple(dict.fromkeys(rule for rule, reply in pairs if denial(reply) in ("key", "other")))
