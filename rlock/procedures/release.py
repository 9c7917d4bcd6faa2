"""Release: remove the lease from every master, and wake the next waiter; or let `hold_at_least` end first.

Each master hands the lock to the first waiter in its queue, or publishes that it is free.
"""

import enum
import math

from ..model import Code
from ..rules import commands
from ..rules.command_templates import Command
from ..rules.holds import Hold
from ..rules.lease import LeaseEvent, LockVotes
from ..rules.quorum import Ballot, Settle
from ..rules.timing import lease_ms
from .port import ClientContext, Masters, Port, Request, WaitGenerator


class Released(enum.Enum):
    DONE = "done"  # a quorum freed it, or keeps it
    NOT_OURS = "not ours"  # a quorum did not know the owner: the hold was lost before
    UNSURE = "unsure"  # neither; votes that are left end with the lease


def release(port: Port, hold: Hold) -> WaitGenerator[Released]:
    """Send the release to all masters; a master that cannot be reached gets it when it is back.

    After an exception the caller must `end` it: the command may have reached some masters only.
    """
    context = port.context
    if rest := hold.rest(context.clock()):
        return (yield from _keep(port, hold, rest))
    command, lease = ending(context, hold, 0.0), hold.options.lease
    ballot = yield from port.masters.call(Request(command, lease.request_timeout, resend_for=lease.ttl))
    released = outcome(context, ballot)
    if hold.reader is not None:
        # The key on a master that restarted is no vote: it may have voted for another owner before.
        reads = [vote for vote in list(ballot.votes.values()) if vote.code == Code.YES and not vote.guarded]
        if released is Released.NOT_OURS:
            hold.read_since = -math.inf
        elif sum(vote.ttl_ms > 0 for vote in reads) >= ballot.quorum:
            hold.read_since = ballot.sent_at
    return released


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
