"""Hand-off: the messages of the masters are the grant, so the next owner need not ask them.

A release writes the first waiter's lease for the claim time, and each master publishes its grant. A message
is a vote with everything in it: validity, fencing token and memory count together, or not at all. With such
messages of a quorum the waiter has the lock. It sends the confirmation (`lua/confirm.lua`) for the full lease
at once, and does not wait for the replies. `evidence/spec/HandOff.tla` shows that this is safe.
"""

from ..rules import commands
from ..rules.keys import HandOff
from ..rules.lease import Confirmation
from ..rules.quorum import Settle
from ..rules.timing import CLAIM_S, lease_ms, valid_until
from .contender import Contender, Grant
from .fencing import agreed_on
from .port import ClientContext, Port, Request


def claim(port: Port, contender: Contender) -> Grant | None:
    """Take the lock by the messages that woke the contender. None: it has to ask the masters."""
    context, options, place = port.context, contender.options, contender.place
    lease, quorum = options.lease, context.quorum
    if place is None or not options.renew or context.wire.shared or lease.ttl > context.guard.noted:
        return None
    # After another attempt with this place, or a second delivery, the lease of a message may be undone.
    if place.attempts != 1 or contender.findings.ballot.resent:
        return None
    since = _counted(context, contender.findings.handed)
    if len(since) < quorum:
        return None
    given = {master: contender.findings.handed[master] for master in since}
    token = agreed_on([message.token for message in given.values()], quorum)
    given = {master: message for master, message in given.items() if message.token == token}
    if not given:
        return None
    # The smallest bound of the best quorum: no master of it began the lease earlier.
    sent_at = sorted((since[master] for master in given), reverse=True)[quorum - 1]
    now = context.clock()
    claimed_until = valid_until(sent_at, min(CLAIM_S, lease.ttl))
    # Otherwise the claim time would end before slow masters answer the confirmation: a loss for nothing.
    if now >= sent_at + lease.longest or now + lease.request_timeout > claimed_until:
        return None
    place.attempts += 1
    guarded = context.guard.on
    command = commands.confirm(contender.name, place.owner, lease_ms(lease.ttl), token, guarded=guarded)
    ballot = port.masters.start(Request(command, lease.request_timeout, Settle.ALL, count_late=True))
    confirmation = Confirmation(ballot, given, guarded=guarded)
    return Grant(place.owner, sent_at, place.waiter, token, len(given), True, confirmation)


def _counted(context: ClientContext, handed: dict[int, HandOff]) -> dict[int, float]:
    """The masters whose messages count, and for each a lower bound of the instant of its grant."""
    bounds: dict[int, float] = {}
    now, guard = context.clock(), context.guard
    for master, message in handed.items():
        since = context.time.not_before(master, message.time_us)
        # A grant that is later than its message: the master's clock was set.
        if since is None or since > message.read_at or not message.token:
            continue
        if master in context.groups:  # its replicas may not have the grant
            continue
        if not guard.on or guard.counts(master, message.note, now):
            bounds[master] = since
    return bounds
