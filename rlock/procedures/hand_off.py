"""Hand-off: the messages of the masters are the grant, so the next owner need not ask them.

A release writes the first waiter's lease for the claim time, and each master publishes its grant. With the
messages of a quorum the waiter has the lock. It sends an acquire with its full lease at once, the
confirmation, and does not wait for the replies. `evidence/spec/HandOff.tla` shows that this is safe.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..model import Code
from ..rules import commands
from ..rules.keys import HandOff
from ..rules.quorum import Ballot, Settle
from ..rules.timing import CLAIM_S, lease_ms, won_until
from .contender import Contender, Grant
from .fencing import agree, agreed_on
from .port import ClientContext, Masters, Port, Request, WaitGenerator


@dataclass(frozen=True)
class Confirmation:
    """The acquire with the full lease behind a grant by messages."""

    masters: Masters
    ballot: Ballot
    #: The messages that were counted, by master.
    given: dict[int, HandOff]
    token: int  # on which the masters agreed

    def proves(self, *, read: bool) -> bool:
        """Whether a quorum of masters has granted the lock to nobody else since their messages.

        Then the lease has never lapsed, however late the replies are read.
        """
        if read:
            self.masters.read_arrived()
        return sum(self._unbroken(i) for i in self.given) >= self.masters.context.quorum

    def _unbroken(self, master: int) -> bool:
        vote, message = self.ballot.votes.get(master), self.given[master]
        # A grant to another owner changes the token, a loss of memory the note. None: the reply had the note
        # that was judged last, and a judged one does not come back.
        return (
            vote is not None
            and vote.code == Code.YES
            and vote.token in (message.token, self.token)
            and (vote.note in (None, message.note) or not self.masters.context.guard.on)
        )


def claim(port: Port, contender: Contender) -> WaitGenerator[Grant | None]:
    """Take the lock by the messages that woke the contender. None: it has to ask the masters."""
    context, options, place = port.context, contender.options, contender.place
    if place is None or not options.renew or context.wire.shared:
        return None
    # After another attempt with this place, or a second delivery, a message may tell of a lease that was
    # undone since.
    if place.attempts != 1 or contender.findings.ballot.resent:
        return None
    given, bounds = _counted(context, contender.findings.handed)
    if len(given) < context.quorum:
        return None
    # The smallest bound of a quorum: no master of it began the lease earlier.
    sent_at = sorted(bounds, reverse=True)[context.quorum - 1]
    lease = options.lease
    until = won_until(sent_at, min(CLAIM_S, lease.ttl), lease.longest)
    tokens = [message.token for message in given.values()]
    token = agreed_on(tokens, context.quorum)
    if not token:
        token = yield from agree(port.masters, options, place.token, tokens, until)
    if not token or context.clock() >= until:
        return None
    place.attempts += 1
    command = commands.acquire(
        contender.name,
        place.token,
        lease_ms(lease.ttl),
        place=place,
        fair=options.fair,
        token=token,
        guarded=context.guard.on,
        brief=True,
    )
    ballot = port.masters.start(Request(command, lease.request_timeout, Settle.HOLDER, count_late=True))
    confirmation = Confirmation(port.masters, ballot, given, token)
    return Grant(place.token, sent_at, place.waiter, 0, token, len(given), True, confirmation)


def _counted(context: ClientContext, handed: dict[int, HandOff]) -> tuple[dict[int, HandOff], list[float]]:
    """The messages that count, and for each a lower bound of the instant of its grant."""
    given: dict[int, HandOff] = {}
    bounds: list[float] = []
    now, guard = context.clock(), context.guard
    for master, message in handed.items():
        since = context.time.not_before(master, message.time_us)
        # A grant that is later than its message: the master's clock was set.
        if since is None or since > message.read_at or not message.token:
            continue
        if master in context.groups:  # its replicas may not have the grant
            continue
        if not guard.on or guard.counts(master, message.note, now):
            given[master] = message
            bounds.append(since)
    return given, bounds
