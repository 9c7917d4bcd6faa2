"""Votes, texts and numbers from the replies of masters. No function here raises, whatever the reply is.

Another program may have written a key, and another server may answer at an address. So a reply may have any
type, bytes that are no UTF-8, and numbers that are infinite or too large.
"""

import re
from collections.abc import Mapping
from typing import Any

from ..model import NO_QUEUE, Code, Fault, FaultKind, Queue, Vote
from .keys import MAX_TOKEN, is_owner, owner_of_waiter


def text(value: Any) -> str:
    """A text; empty for anything else."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, str) else ""


def setting(reply: Any) -> str | None:
    """The value in the reply to CONFIG GET of one name; None: refused."""
    return text(reply[1]) if isinstance(reply, list | tuple) and len(reply) == 2 else None


def fields(reply: Any) -> dict[str, str]:
    """The fields of INFO; none if it was refused."""
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
    """The fault in an error reply. Inside a script the server wraps the message of the command."""
    text = str(reply).strip().partition(" script: ")[0]  # one text for all scripts of a cause
    for word, kind in _KINDS.items():
        if word in text:
            return Fault(kind, text)
    return Fault(FaultKind.ERROR, text)


#: The types in the replies of the scripts, as hiredis parses them.
_ACQUIRED = (int, bytes, int, int, int, int, int, bytes, int)
_RELEASED = (int, bytes, int, int, int)
_STATUS = (int, bytes, int, int, int, list, bytes)
_BATCH = (bytes, list, bytes)
_YES, _FOREIGN = Code.YES, Code.FOREIGN
#: The codes of a reply about one lock, and of each lock of a batch.
_CODES = frozenset(map(int, (Code.YES, Code.ABSENT, Code.FOREIGN, Code.NOT_A_LOCK, Code.QUEUED)))
_CODES_OF_MANY = frozenset(map(int, (Code.HEALED, Code.YES, Code.ABSENT, Code.FOREIGN)))


def _kinds(reply: Any) -> tuple[type, ...]:
    return (*map(type, reply),) if type(reply) is list else ()


def decode_one(reply: Any) -> Vote:
    """The vote in the reply of a script about one lock; anything else is a fault."""
    kinds = _kinds(reply)
    if kinds[:1] != (int,) or reply[0] not in _CODES:
        return _no_vote(reply)
    note, ticket, time_us, queued = None, 0, 0, 0
    if kinds == _ACQUIRED:
        code, holder, count, ttl_ms, ticket, time_us, token, note, queued = reply
        note = note.decode("utf-8", "replace")
    elif kinds == _RELEASED:
        code, holder, count, ttl_ms, token = reply
    else:
        return _no_vote(reply)
    if not 0 <= token <= MAX_TOKEN:
        return _no_vote(reply, FaultKind.ERROR)  # a stranger wrote it, and the connection is well
    holder = holder.decode("utf-8", "replace")
    if note is not None and code == _FOREIGN and not (count >= 0 and is_owner(holder)):
        return Vote(Code.NOT_A_LOCK, note=note)
    # By position: keywords take twice as long, on the path of each acquire.
    queue = Queue(queued) if queued else NO_QUEUE
    return Vote(code, holder, count, ttl_ms, None, (), ticket, time_us, queue, token, note)


def decode_handshake(reply: Any) -> Vote:
    vote = decode_one(reply)
    if vote.code == Code.FAULT:
        return vote
    return vote._replace(holder="", note=vote.holder, time_us=vote.token)


def decode_wait(reply: Any) -> Vote:
    vote = decode_one(reply)
    return _refusal(vote._replace(token=0, time_us=vote.token))


def decode_status(reply: Any) -> Vote:
    kinds = _kinds(reply)
    if kinds[:7] != _STATUS or kinds[7:] not in ((), (list,)) or reply[0] not in _CODES:
        return _no_vote(reply)
    code, holder, count, ttl_ms, length, entries, note = reply[:7]
    readers = [owner for owner in map(text, reply[7][::2] if kinds[7:] else ()) if is_owner(owner)]
    pairs = zip(map(text, entries[::2]), map(text, entries[1::2]), strict=False)
    # Without this check, entries of other programs would be listed as waiters.
    waiters = [
        (waiter, int(ticket))
        for waiter, ticket in pairs
        if is_owner(owner_of_waiter(waiter)) and ticket.isdecimal() and len(ticket) < 20
    ]
    note = text(note)
    return _refusal(Vote(code, text(holder), count, ttl_ms, queue=Queue(length, waiters, readers), note=note))


def decode_acknowledged(reply: Any) -> Vote:
    """The vote in the reply to WAIT: as a hold count, how many replicas have acknowledged."""
    return Vote(_YES, hold_count=reply) if type(reply) is int else _no_vote(reply)


def decode_replication(reply: Any) -> Vote:
    """The vote in the reply to INFO: the replication's id as holder, and how many replicas are online."""
    found = fields(reply)
    if found.get("role") != "master":
        text = str(reply) if isinstance(reply, Exception) else "it is no primary any more"
        return Vote(Code.FAULT, fault=Fault(FaultKind.BROKEN, text))
    return Vote(_YES, found.get("master_replid", ""), len(online(found)))


def online(replication: Mapping[str, str]) -> list[tuple[str, str]]:
    """The addresses of the replicas that are in step; none if one is there twice.

    WAIT counts connections: two of one replica would stand for a replica that is away.
    """
    lines = [value for key, value in replication.items() if re.fullmatch("slave[0-9]+", key)]
    parts = [dict(part.split("=", 1) for part in line.split(",") if "=" in part) for line in lines]
    found = [(each.get("ip", ""), each.get("port", "")) for each in parts if each.get("state") == "online"]
    return found if len({*found}) == len(found) else []


def _refusal(vote: Vote) -> Vote:
    """The vote of a script that names a holder: a refusal, as if it had been asked for the lock."""
    if vote.code == _YES and vote.hold_count >= 0 and is_owner(vote.holder):
        return vote._replace(code=_FOREIGN)
    code = Code.NOT_A_LOCK if vote.code == _YES else vote.code
    return vote._replace(code=code, holder="", hold_count=0)


def decode_batch(reply: Any, locks: int = 1) -> Vote:
    """The vote in the reply of `renew` or `heal`: YES if the code of each lock is."""
    if _kinds(reply) != _BATCH or len(reply[1]) != locks:
        return _no_vote(reply)
    first, codes, note = reply
    if not all(type(each) is int and each in _CODES_OF_MANY for each in codes):
        return _no_vote(reply)
    code = Code.YES if codes.count(Code.YES) == len(codes) else Code.FOREIGN
    return Vote(code, text(first), codes=codes, note=text(note))


def _no_vote(reply: Any, kind: FaultKind = FaultKind.BROKEN) -> Vote:
    if isinstance(reply, Exception):
        return Vote(Code.FAULT, fault=fault(reply))
    return Vote(Code.FAULT, fault=Fault(kind, f"an answer that no script gives: {type(reply).__name__}"))


def is_noscript(reply: Any) -> bool:
    """Whether the master has forgotten the script (restart, SCRIPT FLUSH, failover)."""
    return isinstance(reply, Exception) and str(reply).startswith("NOSCRIPT")
