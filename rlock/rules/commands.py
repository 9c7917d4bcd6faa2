"""The commands: what each script is sent. The headers in `lua/` say what the arguments mean."""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

from ..model import Vote
from . import replies, scripts
from .command_templates import Command, CommandTemplate, encode, expect_grant
from .handles import Handle
from .keys import NOTE, OWN, Wire, evicted, is_shared, owner_of_waiter, queue, readers
from .keys import fence as fence_key
from .tickets import Place
from .timing import CLAIM_S, FENCE_TTL_S, QUEUE_TTL_S

_QUEUE_MS = str(round(QUEUE_TTL_S * 1000))
_CLAIM_MS = str(round(CLAIM_S * 1000))
_FENCE_MS = str(round(FENCE_TTL_S * 1000))

STATUS_WAITERS, STATUS_READERS = 100, 1000  # that one lists; a client refuses arrays of 10,000 items
UNFINISHED = -2  # the count in a reply to `release` if one call could not pass all dead waiters


def acquire(
    name: str,
    owner: str,
    lease_ms: int,
    *,
    place: Place | None = None,
    fair: bool = False,
    token: int = 0,
    guarded: bool = True,
) -> Command:
    """Ask for the lease; a caller that is refused takes or keeps its ``place`` in the queue.

    A lock that was handed to the place is granted, too. ``token``: the fencing token to propose; 0: each
    master's time. ``guarded``: ask for the note.
    """
    rank = "" if place is None else "kept" if place.drawn else "last"
    if is_shared(owner):
        waiter, ticket = ("", 0) if place is None else (place.waiter, place.ticket)
        template, channel = _acquire(name, lease_ms, fair, guarded, shared=True), OWN.channel(name)
        words = (rank, _QUEUE_MS, waiter, str(ticket), channel, owner, str(token))
        return template.render(*words, echo=owner)
    if place is None:
        return _acquire(name, lease_ms, fair, guarded).render_acquire(owner, lease_ms, token)
    template = _acquire(name, lease_ms, fair, guarded, rank, _QUEUE_MS)
    command = template.render(place.waiter, str(place.ticket), owner, str(token), echo=owner)
    if place.drawn and token:
        command.expected_reply = expect_grant(owner, lease_ms, token)
    return command


@lru_cache(maxsize=1024)
def _acquire(
    name: str, lease_ms: int, fair: bool, guarded: bool, *waiting: str, shared: bool = False
) -> CommandTemplate:
    keys, times = (name, queue(name), fence_key(name), *_note(guarded)), (str(lease_ms), _FENCE_MS)
    if shared:
        return CommandTemplate(scripts.ACQUIRE, (*keys, readers(name)), (*times, "shared"), changing=7)
    # Send only the arguments that are needed: each costs the server 0.2 us.
    order = ("fair",) if fair else ("barging",) if waiting else ()
    words = (*times, *order, *waiting)
    return CommandTemplate(scripts.ACQUIRE, keys, words, changing=4 if waiting else 2)


def free(
    wire: Wire,
    name: str,
    owner: str,
    waiter: str = "",
    token: int = 0,
    *,
    hand_on: bool = True,
    publish: bool = True,
) -> Command:
    """Release the lock, and the queue place ``waiter`` of its holder.

    Each master hands the lock to the first in its queue (``hand_on``), or publishes that it is free
    (``publish``). ``token``: the fencing token to propose for the next owner; 0: each master's time.
    """
    template = _release_template(wire, name, hand_on, publish, bool(waiter))
    if not waiter:
        return template.render_release(owner, token)
    return template.render(waiter, str(token), owner, echo=owner)


def downgrade(
    wire: Wire, name: str, owner: str, waiter: str, reader: str, lease_ms: int, *, token: int
) -> Command:
    """The holder reads on as the owner ``reader``; the readers that wait at the head may join."""
    arguments = (*_announcement(wire, name), waiter, "", reader, str(lease_ms), str(token), owner)
    command = _command(scripts.RELEASE, _release_keys(name), arguments, echo=owner, by_source=True)
    command.acknowledged = True
    return command


#: Take back the votes of a failed attempt, and the queue place ``waiter``. It wakes the next waiter at most;
#: with ``hand_on=False`` none, because that one could only get the votes of a minority.
undo = partial(free, publish=False)


def leave_queue(wire: Wire, name: str, waiter: str, *, hand_on: bool = True) -> Command:
    """A waiter gives up, or is gone: remove its place, and pass on the lock if it was handed to it."""
    return free(wire, name, owner_of_waiter(waiter), waiter, hand_on=hand_on)


def nudge(wire: Wire, name: str) -> Command:
    """Hand a free lock to the first live waiter, and remove the dead ones before it."""
    return free(wire, name, "", publish=False)


def evict(wire: Wire, name: str, owner: str, ban_s: float) -> Command:
    """Take the lock from its holder; for ``ban_s`` seconds it is neither healed nor handed over."""
    arguments = (*_announcement(wire, name), "", str(round(ban_s * 1000)), "0", owner)
    return _command(scripts.RELEASE, (*_release_keys(name), evicted(name, owner)), arguments, echo=owner)


@lru_cache(maxsize=1024)
def _release_template(wire: Wire, name: str, hand_on: bool, publish: bool, waiter: bool) -> CommandTemplate:
    arguments = _announcement(wire, name, hand_on, publish)
    if not waiter and arguments[-1] == OWN.message:
        arguments = arguments[:-1]  # the default
    return CommandTemplate(scripts.RELEASE, _release_keys(name), arguments, changing=3 if waiter else 2)


def _release_keys(name: str) -> tuple[str, ...]:
    return name, queue(name), fence_key(name), NOTE, readers(name)


def _announcement(wire: Wire, name: str, hand_on: bool = True, publish: bool = True) -> tuple[str, ...]:
    """The channel, the time for a claim, how long the fencing token is kept, and the message.

    ``hand_on``: to the next waiter. ``publish``: to all if there is none.
    """
    if wire.shared:
        # Redisson's waiters are not in our queue. They would never get a lock that is handed to our waiters,
        # and after an undo without a message they would sleep while the lock is free.
        return wire.channel(name), "0", _FENCE_MS, wire.message
    return wire.channel(name) if hand_on else "", _CLAIM_MS, _FENCE_MS, wire.message if publish else ""


def _command(
    script: scripts.Script,
    keys: Sequence[str],
    arguments: Sequence[str],
    decode: Callable[[Any], Vote] = replies.decode_one,
    echo: str | None = None,
    unwritten: str = "",
    *,
    by_source: bool = False,
) -> Command:
    """``by_source``: it must not come late, so a master without the script is not asked a second time."""
    words = (str(len(keys)), *keys, *arguments)
    packed = encode(("EVAL", script.source, *words) if by_source else ("EVALSHA", script.sha, *words))
    return Command(script, words, (), packed, echo, decode=decode, unwritten=unwritten)


def wait(*places: Place) -> Command:
    """Keep places in the queue, and ask who holds the lock. A place that comes too late would stay there."""
    name, words = places[0].name, [word for place in places for word in (place.waiter, str(place.ticket))]
    keys, words = [name, queue(name)], [_QUEUE_MS, *words]
    if any(is_shared(place.owner) for place in places):
        keys, words = [*keys, readers(name)], [*words, OWN.channel(name)]
    return _command(scripts.WAIT, keys, words, replies.decode_wait, by_source=True)


#: The name of a lock, its owner, the hold count, and the fencing token.
StandingLease = tuple[str, str, int, int]


def renew(lease_ms: int, leases: Sequence[StandingLease], *, guarded: bool = True) -> Command:
    """Prolong leases. All of ``leases`` are exclusive, or all are shared."""
    if is_shared(leases[0][1]):
        return _with_tokens(lease_ms, leases, "renew", guarded)
    words = [word for _, owner, count, _ in leases for word in (owner, str(count))]
    keys = [*(lease[0] for lease in leases), *_note(guarded)]
    decode = partial(replies.decode_batch, locks=len(leases))
    return _command(scripts.RENEW, keys, (str(lease_ms), *words), decode, leases[0][1])


def keep(lease_ms: int, name: str, owner: str, waiter: str, *, guarded: bool = True) -> Command:
    """End a hold and keep its lease so long, for nobody. Its place in the queue goes."""
    keys = (name, *_note(guarded), queue(name))
    return _command(scripts.RENEW, keys, (str(lease_ms), owner, "0", waiter), replies.decode_batch, owner)


def heal(lease_ms: int, leases: Sequence[StandingLease], *, guarded: bool = True) -> Command:
    """Put leases back. All of ``leases`` are exclusive, or all are shared."""
    return _with_tokens(lease_ms, leases, "heal", guarded)


def _with_tokens(lease_ms: int, leases: Sequence[StandingLease], task: str, guarded: bool) -> Command:
    """A command that may write leases anew, and with each its fencing token."""
    shared = is_shared(leases[0][1])
    keys, arguments = list[str](), [str(lease_ms), _FENCE_MS, *((task,) if shared else ())]
    for name, owner, count, token in leases:
        keys += (name, fence_key(name), evicted(name, owner), *((readers(name),) if shared else ()))
        arguments += (owner, str(token)) if shared else (owner, str(count), str(token))
    keys += _note(guarded)
    decode = partial(replies.decode_batch, locks=len(leases))
    script, by_source = scripts.READERS if shared else scripts.HEAL, task == "heal"
    return _command(script, keys, arguments, decode, leases[0][1], by_source=by_source)


def confirm(name: str, owner: str, lease_ms: int, token: int, *, guarded: bool = True) -> Command:
    """Prolong the grant of a hand-off with this token. A stopped process repeats nothing in time."""
    keys, words = (name, fence_key(name), *_note(guarded)), (str(lease_ms), str(token), owner)
    return _command(scripts.CONFIRM, keys, words, replies.decode_batch, owner, by_source=True)


def transfer(handle: Handle, present: str, owner: str, *, checked: bool = False, guarded: bool) -> Command:
    """Put an owner token in the place of the present one, with the rest of its lease.

    ``checked``: only where no fencing token above the handle's mark was given.
    """
    keys = (handle.name, fence_key(handle.name), *_note(guarded))
    words = (str(handle.hold_count), str(handle.mark) if checked else "", present, owner)
    return _command(scripts.TRANSFER, keys, words, echo=owner)


def fence(name: str, owner: str, token: int) -> Command:
    arguments = (owner, str(token), _FENCE_MS)
    keys = (name, fence_key(name), *((readers(name),) if is_shared(owner) else ()))
    return _command(scripts.FENCE, keys, arguments, echo=owner, unwritten=name)


def handshake(run_id: str, memory: str, known: str = "") -> Command:
    """Compare the note of a master with its ``run_id``; ``memory`` and ``known``: `lua/handshake.lua`."""
    return _command(scripts.HANDSHAKE, (NOTE,), (run_id, memory, known), replies.decode_handshake)


def status(name: str, waiters: int = STATUS_WAITERS, *, guarded: bool, list_readers: bool = False) -> Command:
    """Ask who holds the lock, and for the first ``waiters``, one or more."""
    keys = (name, queue(name), *_note(guarded or list_readers), *((readers(name),) if list_readers else ()))
    return _command(scripts.STATUS, keys, (str(waiters - 1),), replies.decode_status, unwritten=name)


def mark(channel: str) -> Command:
    """Send the replicas a message that nobody hears: WAIT waits for writes, in Valkey 9.1 for its own."""
    words = ("PUBLISH", channel, "")
    return Command(scripts.MARK, words, (), encode(words), decode=replies.decode_acknowledged)


def acknowledge(replicas: int, timeout: float) -> Command:
    """Wait for so many replicas to have all writes of this connection; the vote's hold count says how many.

    Source: "WAIT" (redis.io). A replica acknowledges what it has in its memory.
    """
    words = ("WAIT", str(replicas), str(max(1, round(timeout * 1000))))
    return Command(scripts.ACKNOWLEDGE, words, (), encode(words), decode=replies.decode_acknowledged)


def replication() -> Command:
    """Ask a primary for the id of its replication, the holder of the vote, and the number of its replicas."""
    words = ("INFO", "replication")
    return Command(scripts.REPLICATION, words, (), encode(words), decode=replies.decode_replication)


def ping() -> Command:
    """Ask for a reply, and touch no key: the ACL of a user may forbid any of them."""
    return _command(scripts.STATUS, (), ("0",), lambda told: replies.decode_status(told)._replace(note=None))


def _note(guarded: bool) -> tuple[str, ...]:
    return (NOTE,) if guarded else ()
