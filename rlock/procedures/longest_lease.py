"""The longest lease: a lease that is longer than all before is noted on a quorum before it counts.

Only its note tells clients with a shorter `max_ttl` for how long a master that lost its memory may have
forgotten a lease. An acquire writes no note itself: otherwise one that fails would keep every client of the
fleet waiting for as long as its lease would have been.
"""

from __future__ import annotations

from ..rules import commands
from ..rules.options import LockOptions
from ..rules.quorum import Settle
from ..rules.timing import lease_ms
from .port import Masters, WaitGenerator


def note_lease(
    masters: Masters, options: LockOptions, owner: str, token: int, until: float
) -> WaitGenerator[int]:
    """Note the lease of a grant with this fencing token; 0: no quorum has noted it before ``until``.

    One round trip: a renewal writes the note where the owner has the lock (`lua/renew.lua`).
    """
    context, lease = masters.context, options.lease
    timeout = min(lease.request_timeout, until - context.clock())
    if timeout <= 0:
        return 0
    command = commands.renew(lease_ms(lease.ttl), [(options.name, owner, 1, token)])
    ballot = yield from masters.call(command, timeout, Settle.WON_OR_ALL)
    return token if ballot.granted >= ballot.quorum and context.guard.noted >= lease.ttl else 0
