"""Defects that rlock had, each as it was, in today's code: what outsiders, soaks and readers found."""

from __future__ import annotations

import math
import re
from collections.abc import Generator, Sequence
from functools import partial
from typing import Any

from rlock._client import calls, connections, hold_table, notifications, subscriptions
from rlock.model import Code, LeaseState
from rlock.procedures import acquire, attempt, contender, hand_off, renew
from rlock.procedures.contender import Contender, Grant
from rlock.procedures.fencing import agree, agreed_on
from rlock.procedures.port import Port, Request, Wake
from rlock.rules import commands, lease, options, quorum, replies, restart_guard, timing
from rlock.rules.command_templates import encode
from rlock.rules.keys import OWN, Wire
from rlock.rules.lease import Confirmation
from rlock.rules.quorum import Settle
from rlock.rules.timing import CLAIM_S, lease_ms, valid_until
from rlock.testing.memory import keyspace, masters
from rlock.testing.memory.masters import Master, Reply

from .registry import Patches, around, bug

# -- the hand-off by messages ------------------------------------------------------------------------------


def claim(
    port: Port,
    contender: Contender,
    *,
    whole: bool = True,
    grants: bool = False,
    patient: bool = True,
    repeated: bool = False,
) -> Grant | None:
    """`hand_off.claim` as it was. ``whole``: a message counts with all that is in it, or not at all.

    ``grants``: the confirmation is an acquire. ``patient``: it has time. ``repeated``: also when sent twice.
    """
    context, place, least = port.context, contender.place, port.context.quorum
    lease = contender.options.lease
    if place is None or not contender.options.renew or context.wire.shared or lease.ttl > context.guard.noted:
        return None
    if place.attempts != 1 or (contender.findings.ballot.resent and not repeated):
        return None
    handed, now = contender.findings.handed, context.clock()
    if whole:
        since = hand_off._counted(context, handed)
    else:
        bounds = {i: context.time.not_before(i, message.time_us) for i, message in handed.items()}
        since = {i: at for i, at in bounds.items() if at is not None and at <= handed[i].read_at}
    tokens = [handed[i].token for i in since]
    if len(since) < least or not all(tokens):
        return None
    token = agreed_on(tokens, least) or _agreed.pop(place.owner, 0)
    if not token:
        return None
    sent_at = sorted(since.values(), reverse=True)[least - 1]
    until = valid_until(sent_at, min(CLAIM_S, lease.ttl))
    if now >= sent_at + lease.longest or now + lease.request_timeout * patient > until:
        return None
    place.attempts += 1
    name, ms, guarded = contender.name, lease_ms(lease.ttl), context.guard.on
    command = commands.confirm(name, place.owner, ms, token, guarded=guarded)
    if grants:
        fair = contender.options.fair
        command = commands.acquire(
            name, place.owner, ms, place=place, fair=fair, token=token, guarded=guarded
        )
        command.packed = encode(command.by_source())  # not "confirmation by its hash" as well
    ballot = port.masters.start(Request(command, lease.request_timeout, Settle.ALL, count_late=True))
    given = {i: handed[i] for i in since}
    confirmation = Confirmation(ballot, given, guarded=context.guard.on)
    return Grant(place.owner, sent_at, place.waiter, token, len(since), True, confirmation)


_agreed: dict[str, int] = {}  # the tokens on which contenders agreed with the masters, by their places


@around(acquire, "_sleep")
def _agrees(genuine: Any, port: Port, contender: Contender, **how: Any) -> Generator[Any, Any, Any]:
    """A waiter to which masters gave different tokens agrees on one with them before it claims the lock."""
    wake = yield from genuine(port, contender, **how)
    tokens, place = [each.token for each in contender.findings.handed.values()], contender.place
    if wake is Wake.HANDED and place and tokens and not agreed_on(tokens, port.context.quorum):
        until = port.context.clock() + CLAIM_S / 2
        token = yield from agree(port.masters, contender.options, place.owner, tokens, until)
        _agreed[place.owner] = token
    return wake


def _claims(patches: Patches, **how: Any) -> None:
    patches.set(acquire, "claim", partial(claim, **how))


def _granted(patches: Patches, *, also_agreed: bool) -> None:
    """A YES of the confirmation proves if its token is that of the message, or the agreed one."""

    def unbroken(self: Confirmation, master: int) -> bool:
        vote = self.ballot.votes.get(master)
        agreed = max(message.token for message in self.given.values()) if also_agreed else 0
        return vote is not None and vote.code == Code.YES and vote.token in (self.given[master].token, agreed)

    patches.set(Confirmation, "_unbroken", unbroken)


@bug("lapsed lease is proven", "3.10")
def lapsed_lease(patches: Patches) -> None:
    """The confirmation was an acquire that proposed the agreed token, and a master that gave it was taken for
    one that had granted nobody else since its message. A stopped holder worked beside a later one."""
    token_without_lock(patches)  # it hid behind the mend of this one
    _agrees(patches)
    _claims(patches, grants=True)
    _granted(patches, also_agreed=True)


@bug("token of an old message", "3.10")
def old_token(patches: Patches) -> None:
    """A message that was too old for the validity still gave its fencing token. A later holder had a lower
    token than the one before it, and the resource refused the rightful one."""
    _claims(patches, whole=False)


@bug("eviction that comes undone", "3.10")
def evicted_comes_back(patches: Patches) -> None:
    """A confirmation that arrived behind the eviction granted the lock anew, which others believed free."""
    _claims(patches, grants=True)
    _granted(patches, also_agreed=False)


@bug("confirmation by its hash", "3.10")
@around(commands, "confirm")
def confirmation_by_hash(genuine: Any, *words: Any, **how: Any) -> Any:
    """After SCRIPT FLUSH masters answered NOSCRIPT to the confirmation. Holders lost their leases by that."""
    command = genuine(*words, **how)
    command.packed = encode(command.by_sha())
    return command


@bug("no time for the confirmation", "3.10")
def impatient_claim(patches: Patches) -> None:
    """A grant by messages was taken although its confirmation could not come back in time. Where masters
    answer slowly, but within the time-out, every such hold was lost."""
    _claims(patches, patient=False)


@bug("claim behind a second delivery", "3.10")
def repeated_claim(patches: Patches) -> None:
    """Messages were a grant behind a round that was sent twice and had undone them. Two had the lock."""
    _claims(patches, repeated=True)


# -- what one client leaves to others ----------------------------------------------------------------------


@bug("failing acquire raises the note", "3.11")
@around(Master, "_acquire")
def noted_by_acquire(genuine: Any, self: Master, keys: Sequence[str], ms: str, *words: str) -> Reply:
    """An acquire wrote its lease into the note before it was won. One careless process with ttl=86400, which
    failed, stopped the whole fleet for a day."""
    reply: Reply = genuine(self, keys, ms, *words)
    if reply[0] == 1:
        reply[7] = self._note(keys, 3, ms)
    return reply


@bug("lease without a limit", "3.11")
def absurd_lease(patches: Patches) -> None:
    """ttl=2e13 wrote a note that no other client could read: none of them got a lock any more."""
    noted_by_acquire(patches)
    for module in (options, restart_guard):
        patches.set(module, "MAX_TTL_S", math.inf)
    for module in (keyspace, masters):
        patches.set(module, "NOTE", re.compile(r"^(\S*) (\d+) (\d+)$"))


@around(connections.Connections, "fail")
def _raises(genuine: Any, self: Any, server: Any, error: BaseException) -> None:
    """An error that comes of what was received is raised out of the call of whoever read it."""
    genuine(self, server, error)
    if isinstance(error, ValueError | TypeError):
        raise error


@bug("reply that no script gives", "3.11")
def strict_reply(patches: Patches) -> None:
    """A reply of another type raised out of the call. A program at the address of one master stopped all."""

    def strict(genuine: Any, reply: Any) -> Any:
        if not isinstance(reply, Exception):
            raise TypeError(f"unexpected reply {reply!r:.40}")
        return genuine(reply)

    _raises(patches)
    patches.wrap(replies, "_no_vote", strict)


@bug("mirrored owner", "3.11")
@around(subscriptions.Subscriptions, "_hand_off")
def mirrored_owner(genuine: Any, self: Any, found: Any, server: Any, payload: Any) -> None:
    """Whoever may publish named a holder on the channel of a waiter. Its client released the lock."""
    if found.inbox(payload) is None and OWN.announces(payload):
        self._places.append(payload)
    genuine(self, found, server, payload)


@bug("message that is no UTF-8", "3.11")
def strict_message(patches: Patches) -> None:
    """A stranger's message on the channel raised UnicodeDecodeError out of the acquire of each waiter."""

    def strict(genuine: Any, self: Any, master: int, message: bytes) -> None:
        message.decode()
        genuine(self, master, message)

    _raises(patches)
    patches.wrap(notifications.Inbox, "on_release", strict)
    patches.set(Wire, "announces", lambda *_: True)


@bug("note from the future", "3.6")
@around(Master, "_handshake")
def future_note(genuine: Any, self: Master, keys: Any, run_id: str, memory: str, *known: str) -> Any:
    """A master whose clock was ahead when it started, and was set back, kept its note. Every new client had
    to wait for the restart guard, again and again."""
    note = keyspace.NOTE.match(self.text(keys[0]))
    if note is not None and note[1] == run_id and int(note[2]) > self._us and memory != "vouched":
        return [1, note[0].encode(), 0, 0, self._us]
    return genuine(self, keys, run_id, memory, *known)


@bug("lease as it was before the reading", "3.2")
@around(hold_table.HoldTable, "hear")
def before_reading(genuine: Any, self: Any, hold: Any, **how: Any) -> Any:
    """A lease was checked for the instant before its confirmation was read. A process that was stopped in
    between believed in a lease that another owner had had since."""
    now = self.clock()
    genuine(self, hold, **how)
    return now


# -- what is left behind -----------------------------------------------------------------------------------


@bug("release overtakes its acquire", "3.4")
@around(connections.Connections, "_connect_options")
def overtaken(genuine: Any, self: Any, server: Any) -> Any:
    """A connection that was given up was not killed. A stopped server ran its acquire behind the release,
    and the lock stood until its lease ended."""
    return genuine(self, server)._replace(kill=[])


@bug("undo that forgets the unanswered", "3.1")
def forgetful_undo(patches: Patches) -> None:
    """A lost round was undone on the masters that had granted it, and not on those that answered later. Their
    votes refused others until they expired."""
    sure: Any = lambda self: [i for i, vote in self.votes.items() if vote.code == Code.YES]  # noqa: E731
    patches.set(quorum.Ballot, "maybe_granted", sure)


@bug("healed behind its release", "3.7")
def healed_after_release(patches: Patches) -> None:
    """A thread that was kept from running put a key back behind its release, and nobody had it."""
    patches.set(renew, "_stand", lambda *_: True)


@bug("healed behind its lease", "3.7")
def healed_after_lease(patches: Patches) -> None:
    """A key was put back by the time of the last look at the clock. When the process was stopped since, the
    lease had ended, and a key of nobody kept others out for its time."""
    held = (LeaseState.HELD, LeaseState.SUSPECT)
    patches.set(renew, "_stand", lambda _, holds: all(hold.lease.state in held for hold in holds))


@bug("eviction without a ban", "3.7")
@around(Master, "_release")
def no_ban(genuine: Any, self: Master, keys: Sequence[str], *words: str) -> Reply:
    """An eviction deleted the key only, and the watchdog of the holder put it back."""
    reply: Reply = genuine(self, keys, *words)
    for key in keys[5:]:
        self.keys.pop(key, None)
    return reply


@bug("lease that comes back", "3.5")
@around(lease.Lease, "renewed")
def revived(_: Any, self: lease.Lease, sent_at: float, _now: float, ttl: float | None = None) -> Any:
    """A renewal that was complete after the end of the lease made it valid again beside the next owner."""
    self.valid_until = max(self.valid_until, valid_until(sent_at, ttl or self.ttl))
    return self.on(lease.LeaseEvent.RENEWED)


# -- dead owners and evicted ones, tokens that are too low -------------------------------------------------


@bug("token of one without the lock", "3.8")
@around(Master, "_fence")
def token_without_lock(genuine: Any, self: Master, *words: Any) -> Reply:
    """A fencing token counted also where its owner had no lock. Another owner had got a lower one there
    before, and entered later: the resource took it for an old one."""
    # Visible if the token does not reach a master that has the lock, and the other owner waits for that vote.
    reply: Reply = genuine(self, *words)
    return [reply[0] or 1, *reply[1:]]


@bug("eviction hands to the evicted", "3.10")
def evicted_is_next(patches: Patches) -> None:
    """The place of an evicted owner stayed, or came back late. Its eviction, or a later release, handed it
    the lock, although the operator had told others that it was free."""
    patches.set(Master, "_is_evicted", lambda *_: False)


@bug("proposal below known tokens", "3.8")
def low_proposals(patches: Patches) -> None:
    """An acquire proposed tokens below those that masters had given to it. Each gave another one again, and
    where masters answer slowly a lone waiter never had the time to agree on one."""
    patches.set(contender.Findings, "next_token", lambda _: 0)
    patches.wrap(commands, "undo", lambda genuine, *words, token=0, **how: genuine(*words, **how))


@bug("time of a stopped process", "3.8")
@around(attempt, "_give_back")
def stopped_time(genuine: Any, port: Port, contender: Contender, *words: Any) -> None:
    """A process that was stopped behind the answers of the masters took their times for later ones. It was
    behind then, and when the masters had lost their memory its next token was below an earlier holder's."""
    ballot = contender.findings.ballot
    port.context.time.correct(ballot.votes, ballot.sent_at, ballot.decided_at)
    genuine(port, contender, *words)


@bug("time of a late vote", "3.8")
@around(attempt, "_give_back")
def late_vote(genuine: Any, port: Port, contender: Contender, *words: Any) -> None:
    """A vote that came while the thread of a lost round did not run counted as given when that was decided.
    Its client was ahead then, and masters that lost its next token gave a later holder a lower one."""
    ballot, of = contender.findings.ballot, contender.options.lease
    if ballot.decided_at < timing.won_until(ballot.sent_at, of.ttl, of.longest):
        port.context.time.correct(ballot.votes, ballot.sent_at, ballot.decided_at)
    genuine(port, contender, *words)


@bug("time of a stopped handshake", "3.8")
@around(calls.Calls, "on_connect")
def stopped_handshake(genuine: Any, self: Any, server: Any, connection: Any) -> None:
    """The same for a process that was stopped behind the answer to its handshake, and not in a round."""
    genuine(self, server, connection)
    if time_us := connection.memory_report.time_us:
        self.context.time.note(server.index, time_us, self.context.clock())
