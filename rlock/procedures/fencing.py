"""Fence: agree with the masters on the fencing token of a grant, and on the longest lease.

Each master gives a token above its earlier ones, and at least the proposed one. A token that a majority gave
is final: a later majority shares a master with it, which gives a higher token. Otherwise the largest token is
first written to a majority. Source: the register with several writers of Attiya, Bar-Noy and Dolev, "Sharing
memory robustly in message-passing systems" (JACM 1995).
"""

from collections.abc import Sequence

from ..model import Code
from ..rules import commands, timing
from ..rules.options import LockOptions
from ..rules.quorum import Settle
from .port import Masters, Request, WaitGenerator


def agreed_on(given: Sequence[int], quorum: int) -> int:
    """The token that a quorum gave; 0: none."""
    if given.count(given[0]) >= quorum:
        return given[0]
    token = max(given, key=given.count)
    return token if given.count(token) >= quorum else 0


def agree(
    masters: Masters, options: LockOptions, owner: str, given: Sequence[int], until: float
) -> WaitGenerator[int]:
    """The token of a grant with different tokens; 0: none before ``until``. Nearly always one round trip."""
    token = max(given)
    while (remaining_s := until - masters.context.clock()) > 0:
        timeout = min(options.lease.request_timeout, remaining_s)
        ballot = yield from masters.call(Request(commands.fence(options.name, owner, token), timeout))
        votes = list(ballot.votes.values())
        if ballot.granted >= ballot.quorum:
            return token
        higher = [vote.token for vote in votes if vote.code == Code.FOREIGN]
        if ballot.answered < ballot.quorum or not higher:
            return 0  # too few masters answer, or the owner has lost its votes
        # A late write of another owner was faster: the next token must be above that one, too.
        token = max(higher) + 1
    return 0


def note_lease(
    masters: Masters, options: LockOptions, owner: str, token: int, until: float, hold_count: int = 1
) -> WaitGenerator[int]:
    """Note a lease that is longer than all before; 0: no quorum has noted it before ``until``.

    Only its note tells clients with a shorter `max_ttl` for how long a master that lost its memory may have
    forgotten a lease. An acquire writes no note itself: otherwise one that fails would keep every client of
    the fleet waiting for as long as its lease would have been. A renewal writes it (`lua/renew.lua`).
    """
    context, lease = masters.context, options.lease
    timeout = min(lease.request_timeout, until - context.clock())
    if timeout <= 0:
        return 0
    leases = [(options.name, owner, hold_count, token)]
    command = commands.renew(timing.lease_ms(lease.ttl), leases, guarded=context.guard.on)
    ballot = yield from masters.call(Request(command, timeout, Settle.WON_OR_ALL))
    return token if ballot.granted >= ballot.quorum and context.guard.noted >= lease.ttl else 0
