"""Release: remove the lease from every master, and wake the next waiter; or let `hold_at_least` end first.

A waiter of the same process gets the lock without another round trip. The release names it (`next_waiter`)
and its new owner token (`next_owner`), and the same script writes its lease. Without such a waiter each
master hands the lock to the first in its queue, or publishes that it is free.
"""

import enum
import math
from collections.abc import Sequence

from ..model import Code
from ..rules import commands
from ..rules.command_templates import Command
from ..rules.holds import Hold
from ..rules.lease import LeaseEvent, LockVotes
from ..rules.quorum import Ballot, Settle
from ..rules.tickets import Place
from ..rules.timing import LOCAL_HAND_OFFS, STRAGGLERS_S, lease_ms
from ..rules.waiting import Stage
from .contender import Contender, Grant
from .port import ClientContext, Masters, Port, Request, WaitGenerator


class Released(enum.Enum):
    DONE = "done"  # a quorum freed it, or keeps it
    HANDED = "handed over"  # a quorum freed it, and a waiter of this process has it
    NOT_OURS = "not ours"  # a quorum did not know the owner: the hold was lost before
    UNSURE = "unsure"  # neither; votes that are left end with the lease


def release(port: Port, hold: Hold) -> WaitGenerator[Released]:
    """Send the release to all masters; a master that cannot be reached gets it when it is back.

    After an exception the caller must `end` it: the command may have reached some masters only.
    """
    context = port.context
    if rest := hold.rest(context.clock()):
        return (yield from _keep(port, hold, rest))
    next_waiter = port.notifications.next_waiter(hold.name)
    place = None if next_waiter is None else next_waiter.place
    shared = next_waiter is not None and (hold.options.shared or next_waiter.options.shared)
    if shared or hold.reader is not None:
        place = None  # readers go together, and each of them asks the masters
    if next_waiter is not None and context.wire.shared and not may_barge(hold, next_waiter):
        place = None  # otherwise threads of one process could keep Redisson's waiters out for ever
    if next_waiter is None or place is None:
        command, given = ending(context, hold, 0.0), False
        lease = hold.options.lease
        ballot = yield from port.masters.call(Request(command, lease.request_timeout, resend_for=lease.ttl))
    else:
        ballot, given = yield from _hand_over(port, hold, next_waiter, place)
    released = outcome(context, ballot)
    if hold.reader is not None:
        # The key on a master that restarted is no vote, as for a hand-over.
        reads = [vote for vote in list(ballot.votes.values()) if vote.code == Code.YES and not vote.guarded]
        if released is Released.NOT_OURS:
            hold.read_since = -math.inf
        elif sum(vote.ttl_ms > 0 for vote in reads) >= ballot.quorum:
            hold.read_since = ballot.sent_at
    return Released.HANDED if given else released


def end(masters: Masters, hold: Hold) -> None:
    """End a hold on all masters, without waiting for them."""
    rest = hold.rest(masters.context.clock())
    # A lease that a master keeps late would be too long.
    masters.send(ending(masters.context, hold, rest), resend_for=0.0 if rest else hold.lease.ttl)


def ending(context: ClientContext, hold: Hold, rest: float) -> Command:
    """The command that ends a hold: it keeps the lock for the ``rest`` of `hold_at_least`, or frees it.

    If its owner reads on, masters make the exclusive key a shared one in one step.
    """
    if (reader := hold.reader) is not None:
        lease, token = lease_ms(reader.options.lease.ttl), context.time.us(context.clock())
        words = (hold.name, hold.owner, hold.waiter, reader.owner, lease)
        return commands.downgrade(context.wire, *words, token=token)
    if rest:
        return commands.keep(lease_ms(rest), hold.name, hold.owner, hold.waiter, guarded=context.guard.on)
    token = context.time.us(context.clock())
    return commands.free(context.wire, hold.name, hold.owner, hold.waiter, token)


def _keep(port: Port, hold: Hold, rest: float) -> WaitGenerator[Released]:
    """Renew the lease for the last time, for the ``rest`` of `hold_at_least`."""
    context, timeout = port.context, hold.options.lease.request_timeout
    ballot = yield from port.masters.call(Request(ending(context, hold, rest), timeout, Settle.WON_OR_ALL))
    votes, until, max_ttl = LockVotes(ballot, 0), hold.lease.valid_until, context.guard.max_ttl
    # Nobody puts the key back any more, so one that is absent was removed by an operator.
    event = votes.event(until, context.clock(), max_ttl, (), shared=True)
    kept = {LeaseEvent.RENEWED: Released.DONE, LeaseEvent.DISOWNED: Released.NOT_OURS}
    return kept.get(event, Released.UNSURE)


def _hand_over(
    port: Port, hold: Hold, next_waiter: Contender, place: Place
) -> WaitGenerator[tuple[Ballot, bool]]:
    """Release and hand the lock to a waiter of this process; whether it has the lock."""
    context, lease = port.context, hold.options.lease
    next_owner = context.new_owner(next_waiter.key.label)
    words = (context.wire, hold.owner, hold.waiter, place, next_owner)
    token = context.time.us(context.clock())
    command = commands.hand_over(*words, barging=may_barge(hold, next_waiter), token=token)
    # A late delivery must not give the lock to a waiter that may have gone by then.
    late = ending(context, hold, 0.0)
    ballot: Ballot | None = None
    given: bool | None = False
    # First: close() must find the token under which masters may write a lease.
    port.under_way.handing_over[next_owner] = next_waiter
    try:
        ballot = yield from port.masters.call(
            Request(command, lease.request_timeout, resend_for=lease.ttl, late=late)
        )
        if ballot.outstanding and any(vote.ttl_ms <= 0 for vote in list(ballot.votes.values())):
            # The missing replies may complete the quorum. A master that gave no lease needs no undo.
            wait = min(2 * (ballot.decided_at - ballot.sent_at), STRAGGLERS_S)
            yield from port.masters.collect([ballot], context.clock() + wait)
        # The lease on a master that restarted is no vote: it may have voted for another owner before.
        votes = [vote for vote in list(ballot.votes.values()) if not vote.guarded]
        tokens = [vote.token for vote in votes if vote.code == Code.YES and vote.ttl_ms > 0]
        if len(tokens) >= ballot.quorum:
            # Validity counts from before the release was sent: no master can have written it earlier.
            grant = Grant(next_owner, ballot.sent_at, hops=hold.hops + 1, tokens=tokens)
            given = None
            given = port.notifications.hand_over(next_waiter, grant)
    finally:
        if given is None:  # Ctrl-C: the waiter may have it, and must not lose it
            given = next_owner in next_waiter.owners
        if given is False:
            # On masters that answered "not ours" to a second delivery, too: the first delivery may have
            # written the next owner's lease, which would keep others out until it ends.
            take_back_from(
                port.masters, next_waiter, next_owner, None if ballot is None else ballot.maybe_granted()
            )
        # Not before the undo is written, or the waiter has the token in its own list.
        port.under_way.handing_over.pop(next_owner, None)
    return ballot, given is True


def take_back_from(
    masters: Masters, next_waiter: Contender, next_owner: str, targets: Sequence[int] | None
) -> None:
    """Undo a hand-over on all masters (or ``targets``)."""
    command, place = commands.free(masters.context.wire, next_waiter.name, next_owner), next_waiter.place
    still_waits = next_waiter.inbox is not None
    if place is not None and still_waits:  # otherwise it has left, and nobody would hear
        # First: the hand-over took the place out of the queue, so a later waiter would get the lock.
        masters.send(commands.wait(place), targets, resend_for=next_waiter.options.lease.ttl)
    masters.send(command, targets, resend_for=next_waiter.options.lease.ttl)
    # A waiter that has the lock may have got it by its place: this command would release it.
    left = next_waiter.inbox is None and next_waiter.stage is not Stage.HOLDING
    if place is not None and still_waits and left:
        gone = commands.leave_queue(masters.context.wire, place.name, place.waiter)
        masters.send(gone, targets, resend_for=next_waiter.options.lease.ttl)


def may_barge(hold: Hold, next_waiter: Contender) -> bool:
    """Whether a waiter of the same process may overtake the queue.

    Never in fair mode, and a bounded number of times: otherwise one process could keep the lock for ever.
    """
    return not (hold.options.fair or next_waiter.options.fair) and hold.hops < LOCAL_HAND_OFFS


def outcome(context: ClientContext, ballot: Ballot) -> Released:
    freed = denied = 0
    for i, vote in list(ballot.votes.items()):
        if vote.code == Code.FAULT:
            continue
        # "Not ours" after a second delivery: the first one freed the lock, and its reply was lost.
        again = i in ballot.resent
        # The master restarted or was flushed. The lease was still valid: no other owner could have it.
        restarted = vote.guarded and vote.code in (Code.ABSENT, Code.FOREIGN)
        if vote.code == Code.YES or again or restarted:
            freed += 1
        else:
            denied += 1
    if freed >= context.quorum:
        return Released.DONE
    return Released.NOT_OURS if denied >= context.quorum else Released.UNSURE
