"""Replies: the votes, words and numbers in what a master says. None of these raises, whatever it says.

A key may be somebody else's, and what answers at an address need not be a Redis: each of these may meet any
type, bytes that are no UTF-8, and numbers that are infinite, too large, or none. All that the decoders read
out of a reply comes by here, or was compared with the types that the script's header names.
"""

from __future__ import annotations

import math
import re
from typing import Any

from ..model import NO_QUEUE, Code, Fault, FaultKind, Queue, Vote
from .keys import is_lock, is_owner, token_of

#: Integers on the wire have 64 bits.
MOST = 2**63 - 1
_WRITTEN = re.compile(r"-?[0-9]{1,19}")


def text(value: Any) -> str:
    """A word; empty for anything else."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, str) else ""


def number(value: Any) -> float | None:
    """A finite number, written out or not; None for anything else."""
    if isinstance(value, bytes):
        value = text(value)
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def whole(value: Any) -> int | None:
    """An integer of 64 bits, written out or not, also as a float; None for anything else."""
    if isinstance(value, int):
        return value if -MOST <= value <= MOST else None
    written = text(value)
    if _WRITTEN.fullmatch(written):
        return whole(int(written))  # not as a float, which rounds beyond 2 to the power of 53
    found = number(value)
    return None if found is None or abs(found) >= MOST else int(found)


def time_us(reply: Any) -> int | None:
    """The reply to TIME, in microseconds; None for anything else."""
    if not isinstance(reply, list | tuple) or len(reply) != 2:
        return None
    seconds, micros = whole(reply[0]), whole(reply[1])
    if seconds is None or micros is None:
        return None
    # No longer than tickets and tokens can be.
    return whole(seconds * 1_000_000 + micros)


def setting(reply: Any) -> str | None:
    """The value in the reply to CONFIG GET of one name; None where it was refused."""
    return text(reply[1]) if isinstance(reply, list | tuple) and len(reply) == 2 else None


def fields(reply: Any) -> dict[str, str]:
    """The fields of INFO; none where it was refused."""
    pairs = (line.partition(":") for line in text(reply).splitlines() if not line.startswith("#"))
    return {key: value.strip() for key, colon, value in pairs if colon}


_KINDS = {
    "NOAUTH": FaultKind.DENIED,
    "WRONGPASS": FaultKind.DENIED,
    "NOPERM": FaultKind.DENIED,
    # The same inside a script: Redis 6.2 and 7, Valkey 9.
    "can't run this command or subcommand": FaultKind.DENIED,
    "ACL failure in script": FaultKind.DENIED,
    "READONLY": FaultKind.REPLICA,
}


def fault(reply: Any) -> Fault:
    """A fault out of an error reply; inside a script the server wraps the message of the command."""
    text = str(reply).strip()
    for word, kind in _KINDS.items():
        if word in text:
            return Fault(kind, text)
    return Fault(FaultKind.ERROR, text)


#: The types of the answers that the scripts give, as hiredis has them.
_ACQUIRED = (int, bytes, int, int, int, int, int, bytes, int)
_RELEASED = (int, bytes, int, int, int)
_LOOKED = (int, bytes, int, int)
_TOLD = (int, bytes, int, int, int, list, bytes)
_BATCH = (bytes, list, bytes)
#: What a member of an enum costs to look up shows where each acquire comes by.
_YES, _FOREIGN = Code.YES, Code.FOREIGN
#: The codes of an answer about one lock, and of each lock of a batch.
_CODES = frozenset(map(int, (Code.YES, Code.ABSENT, Code.FOREIGN, Code.NOT_A_LOCK, Code.QUEUED)))
_CODES_OF_MANY = frozenset(map(int, (Code.HEALED, Code.YES, Code.ABSENT, Code.FOREIGN)))


def _kinds(reply: Any) -> tuple[type, ...]:
    return (*map(type, reply),) if type(reply) is list else ()


def decode_one(reply: Any) -> Vote:
    """A vote out of the reply to a script about one lock: {code, holder, count, ttl_ms}.

    Behind them, in an answer to `release` and `fence`: {token}; in one to `acquire`: {ticket, time_us,
    token, note, length}. Anything else is a fault.
    """
    kinds = _kinds(reply)
    if kinds[:1] != (int,) or reply[0] not in _CODES:
        return _no_vote(reply)
    if kinds == _ACQUIRED:
        code, holder, count, ttl_ms, ticket, time_us, token, note, queued = reply
        holder, note = holder.decode("utf-8", "replace"), note.decode("utf-8", "replace")
        if code == _FOREIGN and not is_lock(holder, count):
            return Vote(Code.NOT_A_LOCK, note=note)
        # By position: half as dear, and each answer of each acquire comes by here.
        queue = Queue(queued) if queued else NO_QUEUE
        return Vote(code, holder, count, ttl_ms, None, (), ticket, time_us, queue, token, note)
    if kinds == _RELEASED:
        code, holder, count, ttl_ms, token = reply
        holder = holder.decode("utf-8", "replace")
        return Vote(code, holder, count, ttl_ms, None, (), 0, 0, NO_QUEUE, token)
    if kinds == _LOOKED:
        code, holder, count, ttl_ms = reply
        return Vote(code, holder.decode("utf-8", "replace"), count, ttl_ms)
    return _no_vote(reply)


def decode_handshake(reply: Any) -> Vote:
    """A vote out of the reply to `handshake`: {1, note, 0, 0, time_us}."""
    vote = decode_one(reply)
    if vote.code == Code.FAULT:
        return vote
    return vote._replace(holder="", note=vote.holder, time_us=vote.token)


def decode_wait(reply: Any) -> Vote:
    """A vote out of the reply to `wait`."""
    return _of_a_lock(decode_one(reply))


def decode_status(reply: Any) -> Vote:
    """A vote out of the reply to `status`: {code, holder, count, ttl_ms, length, waiters, note}."""
    if _kinds(reply) != _TOLD or reply[0] not in _CODES:
        return _no_vote(reply)
    code, holder, count, ttl_ms, length, told, note = reply
    pairs = zip(map(text, told[::2]), map(whole, told[1::2]), strict=False)
    # Entries that no waiter wrote are left out, or status would list them as waiters.
    waiters = [(name, ticket) for name, ticket in pairs if ticket is not None and is_owner(token_of(name))]
    note = text(note)
    return _of_a_lock(Vote(code, text(holder), count, ttl_ms, queue=Queue(length, waiters), note=note))


def decode_refused(reply: Any) -> Vote:
    """The same, where a holder is somebody else."""
    vote = decode_status(reply)
    return vote._replace(code=Code.FOREIGN) if vote.code == Code.YES else vote


def decode_ping(reply: Any) -> Vote:
    """A vote out of the reply to `ping`, which reads no note."""
    return decode_status(reply)._replace(note=None)


def _of_a_lock(vote: Vote) -> Vote:
    """What a look found: a holder, if it is one, and nobody but a holder."""
    if vote.code != _YES:
        return vote._replace(holder="", hold_count=0)
    if is_lock(vote.holder, vote.hold_count):
        return vote
    return vote._replace(code=Code.NOT_A_LOCK, holder="", hold_count=0)


def decode_batch(reply: Any, locks: int) -> Vote:
    """A vote out of the reply to `renew` or `heal`: {first owner, {code of each lock}, note}.

    YES only if each of them is.
    """
    if _kinds(reply) != _BATCH or len(reply[1]) != locks:
        return _no_vote(reply)
    first, codes, note = reply
    if not all(type(each) is int and each in _CODES_OF_MANY for each in codes):
        return _no_vote(reply)
    code = Code.YES if codes.count(Code.YES) == len(codes) else Code.FOREIGN
    return Vote(code, text(first), codes=codes, note=text(note))


def _no_vote(reply: Any) -> Vote:
    if isinstance(reply, Exception):
        return Vote(Code.FAULT, fault=fault(reply))
    told = f"an answer that no script gives: {reply!r:.200}"
    return Vote(Code.FAULT, fault=Fault(FaultKind.ERROR, told))


def is_noscript(reply: Any) -> bool:
    """Whether the master has forgotten the script (restart, SCRIPT FLUSH, failover)."""
    return isinstance(reply, Exception) and str(reply).startswith("NOSCRIPT")
