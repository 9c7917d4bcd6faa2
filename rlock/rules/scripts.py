"""The Lua scripts of `lua/`, the commands that carry them, and the one decoder of their replies."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..model import Code, Fault, FaultKind, Vote
from .keys import channel

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable


@dataclass(frozen=True)
class Script:
    """One file of `lua/`."""

    name: str
    source: str

    @cached_property
    def sha(self) -> str:
        """How the masters' script caches name it."""
        return hashlib.sha1(self.source.encode(), usedforsecurity=False).hexdigest()


def folder() -> Traversable:
    """Where the scripts are: inside the installed package, or at the top of a checkout."""
    installed = resources.files("rlock") / "lua"
    if installed.is_dir():
        return installed
    # An editable install and a plain checkout have no copy in the package: lua/ stands beside it.
    return Path(__file__).resolve().parents[2] / "lua"


def _load(name: str) -> Script:
    return Script(name, (folder() / f"{name}.lua").read_text(encoding="utf-8"))


ACQUIRE = _load("acquire")
RENEW = _load("renew")
RELEASE = _load("release")
STATUS = _load("status")
EVICT = _load("evict")

ALL = (ACQUIRE, RENEW, RELEASE, STATUS, EVICT)


class Command:
    """A script with its keys and arguments, and how to read the answer."""

    __slots__ = ("_arguments", "decode", "echo", "script")

    def __init__(
        self,
        script: Script,
        keys: Sequence[str],
        arguments: Sequence[str],
        *,
        decode: Callable[[Any], Vote] | None = None,
        echo: str | None = None,
    ) -> None:
        self.script = script
        # Text only: hiredis 3.5 crashes the interpreter when Ctrl-C comes while it packs an int.
        self._arguments = (str(len(keys)), *keys, *arguments)
        self.decode = decode or decode_one
        #: The holder that a YES must name. Another one is the answer to another command.
        self.echo = echo

    def misread(self, vote: Vote) -> bool:
        """Whether this vote cannot be the answer to this command."""
        return self.echo is not None and vote.code == Code.YES and vote.holder != self.echo

    def by_sha(self) -> tuple[str, ...]:
        """The command for a master that has the script."""
        return ("EVALSHA", self.script.sha, *self._arguments)

    def by_source(self) -> tuple[str, ...]:
        """The command for a master that has not."""
        return ("EVAL", self.script.source, *self._arguments)


def acquire(name: str, owner: str, lease_ms: int, count: int = 1) -> Command:
    """Ask for the lease."""
    return Command(ACQUIRE, (name,), (owner, str(lease_ms), str(count)), echo=owner)


def release(name: str, owner: str, *, publish: bool) -> Command:
    """Give the lease up; ``publish`` only for a lock that was held, an undone attempt wakes nobody."""
    return Command(RELEASE, (name,), (owner, channel(name) if publish else "", owner), echo=owner)


def renew(lease_ms: int, leases: Sequence[tuple[str, str, int]]) -> Command:
    """Prolong many leases: (name, owner, hold count) each."""
    arguments = [str(lease_ms)]
    for _, owner, count in leases:
        arguments += (owner, str(count))
    return Command(RENEW, [name for name, _, _ in leases], arguments, decode=decode_batch, echo=leases[0][1])


def status(name: str) -> Command:
    """Ask who holds it."""
    return Command(STATUS, (name,), ())


def evict(name: str, holder: str) -> Command:
    """Take it away from ``holder``."""
    return Command(EVICT, (name,), (holder, channel(name), holder), echo=holder)


def decode_one(reply: Any) -> Vote:
    """A vote out of the reply to a script about one lock: {code, holder, count, ttl_ms}."""
    if type(reply) is list and len(reply) == 4:
        code, holder, count, ttl_ms = reply
        return Vote(code, holder.decode("utf-8", "replace"), count, ttl_ms)
    return Vote(Code.FAULT, fault=decode_fault(reply))


def decode_batch(reply: Any) -> Vote:
    """A vote out of the reply to `renew`, {first owner, {code of each lock}}; YES only if each of them is."""
    if type(reply) is list and len(reply) == 2:
        first, codes = reply
        whole = Code.YES if codes.count(Code.YES) == len(codes) else Code.FOREIGN
        return Vote(whole, first.decode("utf-8", "replace"), codes=codes)
    return Vote(Code.FAULT, fault=decode_fault(reply))


_KINDS = {
    "NOAUTH": FaultKind.DENIED,
    "WRONGPASS": FaultKind.DENIED,
    "NOPERM": FaultKind.DENIED,
    # The same inside a script: Redis 6.2 and 7, Valkey 9.
    "can't run this command or subcommand": FaultKind.DENIED,
    "ACL failure in script": FaultKind.DENIED,
    "READONLY": FaultKind.REPLICA,
}


def decode_fault(reply: Any) -> Fault:
    """A fault out of an error reply; inside a script the server wraps the message of the command."""
    text = str(reply).strip()
    for word, kind in _KINDS.items():
        if word in text:
            return Fault(kind, text)
    return Fault(FaultKind.ERROR, text)


def is_noscript(reply: Any) -> bool:
    """Whether the master has forgotten the script (restart, SCRIPT FLUSH, failover)."""
    return isinstance(reply, Exception) and str(reply).startswith("NOSCRIPT")
