"""The Lua scripts of `lua/`, and the commands that carry them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..model import Code, Vote
from .keys import NOTE, evicted, queue
from .keys import fence as fence_key
from .replies import (
    decode_batch,
    decode_handshake,
    decode_one,
    decode_ping,
    decode_refused,
    decode_status,
    decode_wait,
)
from .tickets import Place
from .timing import CLAIM_S, FENCE_TTL_S, QUEUE_TTL_S
from .wire import OWN, Wire

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
HEAL = _load("heal")
FENCE = _load("fence")
HANDSHAKE = _load("handshake")

ALL = (ACQUIRE, RENEW, RELEASE, STATUS, WAIT, HEAL, FENCE, HANDSHAKE)
#: Whose YES makes a holder or a token: it needs a master whose memory is whole.
GRANTING = (ACQUIRE, FENCE)

_QUEUE_MS = str(round(QUEUE_TTL_S * 1000))
_CLAIM_MS = str(round(CLAIM_S * 1000))
_FENCE_MS = str(round(FENCE_TTL_S * 1000))
#: What a member of an enum costs to look up shows where each acquire and release comes by.
_YES = Code.YES
#: Waiters that `status` tells of.
STATUS_WAITERS = 100


#: The count in an answer to `release` by a master with more dead waiters than it passes over in one call.
UNFINISHED = -2

#: No answer begins like this.
NOT_FORESEEN = b"\0"
NO_VOTE = Vote(Code.FAULT)


class Command:
    """A script with its keys and arguments, and how to read the answer."""

    __slots__ = ("_arguments", "decode", "echo", "expected_reply", "noted", "packed", "script", "yes")

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
        #: As it goes on the wire to a master that has the script, if that is known already (`forms`).
        self.packed = b""
        # Text only: hiredis 3.5 crashes the interpreter when Ctrl-C comes while it packs an int.
        self._arguments = (str(len(keys)), *keys, *arguments)
        self.decode = decode or decode_one
        #: The holder that a YES must name; another one is the answer to another command. None: any.
        self.echo = echo
        #: The answer of a master on which all is as it nearly always is, as it comes over the wire, and
        #: what it says. ``noted``: `noted_end` follows.
        self.expected_reply, self.yes, self.noted = NOT_FORESEEN, NO_VOTE, False

    def expect_reply(self, vote: Vote, reply: str, *, noted: bool = False) -> Command:
        """Have an answer compared with what it will most likely be, which takes a tenth of reading it."""
        self.yes, self.noted, self.expected_reply = vote, noted, reply.encode()
        return self

    def learn(self) -> Command:
        """Foresee of the others what the first answer says, where nobody knows beforehand."""
        self.decode = self._learnt
        return self

    def _learnt(self, reply: Any) -> Vote:
        self.decode = decode_one
        vote = decode_one(reply)
        # One that is none of ours is not believed, and much less foreseen.
        if vote.code != Code.FAULT and (vote.code != _YES or vote.holder == self.echo):
            if len(reply) == 9:
                # How it ends is each master's own affair: its note, and an empty queue.
                _, holder, _, ttl_ms, ticket, time_us, token, _, length = reply
                if not length:
                    text = b"*9\r\n:%d\r\n$%d\r\n%b\r\n:%d\r\n:%d\r\n:%d\r\n:%d\r\n:%d\r\n"
                    numbers = vote.hold_count, ttl_ms, ticket, time_us, token
                    # First: Ctrl-C behind ``expected_reply`` would leave a text without its meaning, and
                    # the end of the next master's answer would be read as the answer to another command.
                    self.yes, self.noted = vote._replace(note=None), True
                    self.expected_reply = text % (vote.code, len(holder), holder, *numbers)
            elif len(reply) == 5:
                _, holder, count, ttl_ms, token = reply
                text = b"*5\r\n:%d\r\n$%d\r\n%b\r\n:%d\r\n:%d\r\n:%d\r\n"
                self.yes = vote
                self.expected_reply = text % (vote.code, len(holder), holder, count, ttl_ms, token)
        return vote

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
    token: int = 0,
    guarded: bool = True,
    brief: bool = False,
) -> Command:
    """Ask for the lease; where it is refused, take or keep a ``place`` in the queue.

    It is also granted where it was handed to that place. ``token``: the fencing token to propose; 0: by each
    master's time. ``guarded``: ask for the note as well. ``brief``: who is refused wants to know neither
    the masters' time nor the length of the queue.
    """
    # As few as will do: each costs a master a fifth of a microsecond, a hundredth of a pair.
    arguments: tuple[str, ...] = (owner, str(lease_ms), str(token), _FENCE_MS)
    if place is not None:
        rank = "kept" if place.drawn else "last"
        order = "fair" if fair else "barging"
        arguments += (str(count), order, place.waiter, str(place.ticket), rank, _QUEUE_MS)
        if brief:
            arguments += ("brief",)
    elif fair:
        arguments += (str(count), "fair")
    elif count != 1:
        arguments += (str(count),)
    command = Command(ACQUIRE, _acquire_keys(name, guarded), arguments, echo=owner)
    if place is not None and not place.drawn:
        # Contention, nearly always: refused by all, for the same reason.
        return command.learn()
    if token:
        size = len(owner.encode())
        granted = f"*9\r\n:1\r\n${size}\r\n{owner}\r\n:{count}\r\n:{lease_ms}\r\n:0\r\n:0\r\n:{token}\r\n"
        vote = Vote(_YES, owner, count, lease_ms, None, (), 0, 0, 0, (), token)
        command.expect_reply(vote, granted, noted=True)
    return command


def noted_end(note: str) -> bytes:
    """The end of the answer to an `acquire` that was granted, where this is the note."""
    told = note.encode()
    return b"$%d\r\n%b\r\n:0\r\n" % (len(told), told)


def release(
    name: str,
    owner: str,
    *,
    waiter: str = "",
    hand_on: bool = True,
    publish: bool = True,
    next_waiter: Place | None = None,
    next_owner: str = "",
    barging: bool = False,
    token: int = 0,
    ban_s: float = 0.0,
    wire: Wire = OWN,
    to_all: bool = False,
) -> Command:
    """Give up the lease, and the place of ``waiter``.

    ``hand_on``: to the next in the queue; not where it can only be a minority's vote. ``publish``: tell
    all who listen where nobody is in the queue; not for an attempt that failed, or they would all try
    again. ``next_waiter``: a waiter of the same process that gets it, under the token
    ``next_owner``, if it is the first, or in any case if ``barging``; ``token`` is the fencing token to
    propose for it. ``ban_s``: for so many seconds the owner cannot be healed. ``wire``: how it is told;
    ``to_all``: free it for whoever comes first, also where somebody stands in the queue.
    """
    told = wire.channel(name) if hand_on else ""
    message = wire.message(owner) if publish else ""
    arguments: tuple[str, ...] = (owner, told, message, "0" if to_all else _CLAIM_MS)
    keys = _release_keys(name)
    if next_waiter is not None or ban_s:
        keys += (fence_key(name), evicted(name, owner))
        favoured, lease_ms = (
            ("", "0") if next_waiter is None else (next_waiter.waiter, str(next_waiter.lease_ms))
        )
        order = "barging" if barging else "fair"
        arguments += (waiter, favoured, next_owner, lease_ms, order, str(token), _FENCE_MS)
        if ban_s:
            arguments += (str(round(ban_s * 1000)),)
    elif waiter:
        arguments += (waiter,)
    command = Command(RELEASE, keys, arguments, echo=owner)
    if waiter or next_waiter is not None:
        return command.learn()  # whether anybody was told of it, and whom it was given to
    if owner:
        released = f"*5\r\n:1\r\n${len(owner.encode())}\r\n{owner}\r\n:0\r\n:0\r\n:0\r\n"
        command.expect_reply(Vote(_YES, owner, 0, 0), released)
    return command


def wait(place: Place) -> Command:
    """Keep a place, and look who holds the lock."""
    name = place.name
    return Command(
        WAIT, (name, queue(name)), (place.waiter, str(place.ticket), _QUEUE_MS), decode=decode_wait
    )


def renew(lease_ms: int, leases: Sequence[tuple[str, str, int]], *, guarded: bool = True) -> Command:
    """Prolong many leases: (name, owner, hold count) each."""
    arguments = [str(lease_ms)]
    for _, owner, count in leases:
        arguments += (owner, str(count))
    keys = [*(name for name, _, _ in leases), *_note(guarded)]
    return Command(RENEW, keys, arguments, decode=partial(decode_batch, locks=len(leases)), echo=leases[0][1])


def heal(lease_ms: int, leases: Sequence[tuple[str, str, int, int]], *, guarded: bool = True) -> Command:
    """Put leases back: (name, owner, hold count, fencing token) each."""
    keys: list[str] = []
    arguments = [str(lease_ms), _FENCE_MS]
    for name, owner, count, token in leases:
        keys += (name, fence_key(name), evicted(name, owner))
        arguments += (owner, str(count), str(token))
    keys += _note(guarded)
    return Command(HEAL, keys, arguments, decode=partial(decode_batch, locks=len(leases)), echo=leases[0][1])


def fence(name: str, owner: str, token: int) -> Command:
    """Have a fencing token remembered."""
    return Command(FENCE, (fence_key(name),), (owner, str(token), _FENCE_MS), echo=owner)


def handshake(run_id: str, memory: str, known: str = "") -> Command:
    """Compare the note of a master with its ``run_id``; ``memory`` and ``known``: see `lua/handshake.lua`."""
    return Command(HANDSHAKE, (NOTE,), (run_id, memory, known), decode=decode_handshake)


@lru_cache(maxsize=1024)
def _acquire_keys(name: str, guarded: bool) -> tuple[str, ...]:
    return (name, queue(name), fence_key(name), *_note(guarded))


@lru_cache(maxsize=1024)
def _release_keys(name: str) -> tuple[str, ...]:
    return (name, queue(name))


def _note(guarded: bool) -> tuple[str, ...]:
    return (NOTE,) if guarded else ()


def status(
    name: str, waiters: int = STATUS_WAITERS, *, guarded: bool = True, refused: bool = False
) -> Command:
    """Ask who holds it, and who waits: the first ``waiters`` of them, one or more.

    ``refused``: a holder counts as a refusal, as in the answer to `acquire`.
    """
    keys = (name, queue(name), *_note(guarded))
    return Command(STATUS, keys, (str(waiters - 1),), decode=decode_refused if refused else decode_status)


def ping() -> Command:
    """Ask for an answer, and touch no key: which keys a user may have depends on its ACL."""
    return Command(STATUS, (), ("0",), decode=decode_ping)
