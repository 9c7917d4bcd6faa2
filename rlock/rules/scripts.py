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
from .keys import channel, queue
from .places import Place
from .timing import CLAIM_S, QUEUE_TTL_S

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
WAIT = _load("wait")

ALL = (ACQUIRE, RENEW, RELEASE, STATUS, WAIT)

_QUEUE_MS = str(round(QUEUE_TTL_S * 1000))
_CLAIM_MS = str(round(CLAIM_S * 1000))
#: Waiters that `status` tells of.
STATUS_WAITERS = 100


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


def acquire(
    name: str,
    owner: str,
    lease_ms: int,
    count: int = 1,
    *,
    place: Place | None = None,
    fair: bool = False,
) -> Command:
    """Ask for the lease; where it is refused, take or keep a ``place`` in the queue.

    It is also granted where it was handed to that place.
    """
    order, waiter, ticket, rank = "fair" if fair else "barging", "", "", "last"
    if place is not None:
        waiter, ticket, rank = place.waiter, str(place.ticket), "kept" if place.drawn else "last"
    arguments = (owner, str(lease_ms), str(count), order, waiter, ticket, rank, _QUEUE_MS)
    return Command(ACQUIRE, (name, queue(name)), arguments, echo=owner)


def release(
    name: str,
    owner: str,
    *,
    waiter: str = "",
    hand_on: bool = True,
    publish: bool = True,
    heir: Place | None = None,
    successor: str = "",
    barging: bool = False,
) -> Command:
    """Give up the lease, and the place of ``waiter``.

    ``hand_on``: to the next in the queue; not where it can only be a minority's vote. ``publish``: tell
    all who listen where nobody is in the queue; not for an attempt that failed, or they would all try
    again. ``heir``: a waiter of the same process that gets it, under the token ``successor``, if it is the
    first, or in any case if ``barging``.
    """
    told = channel(name) if hand_on else ""
    favoured, lease_ms = ("", "0") if heir is None else (heir.waiter, str(heir.lease_ms))
    order = "barging" if barging else "fair"
    message = owner if publish else ""
    arguments = (owner, waiter, told, _CLAIM_MS, favoured, successor, lease_ms, order, message)
    return Command(RELEASE, (name, queue(name)), arguments, echo=owner)


def wait(place: Place) -> Command:
    """Keep a place, and look who holds the lock."""
    name = place.name
    return Command(WAIT, (name, queue(name)), (place.waiter, str(place.ticket), _QUEUE_MS))


def renew(lease_ms: int, leases: Sequence[tuple[str, str, int]]) -> Command:
    """Prolong many leases: (name, owner, hold count) each."""
    arguments = [str(lease_ms)]
    for _, owner, count in leases:
        arguments += (owner, str(count))
    return Command(RENEW, [name for name, _, _ in leases], arguments, decode=decode_batch, echo=leases[0][1])


def status(name: str, waiters: int = STATUS_WAITERS) -> Command:
    """Ask who holds it, and who waits: the first ``waiters`` of them, one or more."""
    return Command(STATUS, (name, queue(name)), (str(waiters - 1),), decode=decode_status)


def decode_one(reply: Any) -> Vote:
    """A vote out of the reply to a script about one lock: {code, holder, count, ttl_ms}.

    Behind them, in an answer to `acquire`: {ticket, time_us}.
    """
    if type(reply) is list:
        if len(reply) == 4:
            code, holder, count, ttl_ms = reply
            return Vote(code, holder.decode("utf-8", "replace"), count, ttl_ms)
        if len(reply) == 6:
            code, holder, count, ttl_ms, ticket, time_us = reply
            return Vote(
                code, holder.decode("utf-8", "replace"), count, ttl_ms, ticket=ticket, time_us=time_us
            )
    return Vote(Code.FAULT, fault=decode_fault(reply))


def decode_status(reply: Any) -> Vote:
    """A vote out of the reply to `status`: {code, holder, count, ttl_ms, length, {waiter, ticket, ...}}."""
    if type(reply) is list and len(reply) == 6:
        code, holder, count, ttl_ms, length, told = reply
        names = [name.decode("utf-8", "replace") for name in told[::2]]
        tickets = [int(float(ticket)) for ticket in told[1::2]]
        queue = list(zip(names, tickets, strict=True))
        return Vote(code, holder.decode("utf-8", "replace"), count, ttl_ms, length=length, queue=queue)
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
