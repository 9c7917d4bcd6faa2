"""Handing on: to whom a lock goes that is given up here, or that was handed to one of ours who has gone."""

from __future__ import annotations

import threading
from typing import Any

from ..clock import Clock
from ..procedures.release import Released, handed_on, handed_tokens, may_barge, maybe_handed, outcome, release
from ..procedures.steps import ClientContext, Tell
from ..rules.holds import Hold, Holds
from ..rules.keys import owner_token, waiter_name
from ..rules.quorum import Ballot
from ..rules.tickets import LocalGrant, Place
from ..rules.timing import CLAIM_S, come_back_wait
from .calls import Calls
from .driver import Driver
from .subscriptions import Subscriptions
from .waits import Waits


class HandOff:
    """The part of an engine that ends its holds in favour of somebody."""

    _calls: Calls[Any]
    _subscriptions: Subscriptions[Any]
    _driver: Driver
    context: ClientContext
    clock: Clock
    mutex: threading.Lock
    holds: Holds
    #: Waiters of ours to which a release under way gives the lock, by the owner token that they get.
    _next_owners: dict[str, Place]

    #: The lock that was handed to another process last, and when to ask for it again at the earliest.
    _handed_on = ("", 0.0)

    def _giving_up(self, hold: Hold) -> Waits[tuple[Released, bool]]:
        """Release it on the masters, if allowed in favour of an owner of ours; whether that one got it."""
        next_waiter = self._subscriptions.next_waiter(hold.name)
        if self.context.wire.shared and not may_barge(hold, next_waiter):
            next_waiter = None  # nor by the threads of one process, for ever
        next_owner = "" if next_waiter is None else owner_token(next_waiter.label)
        procedure = release(
            self.context,
            hold.name,
            hold.owner,
            hold.options.lease,
            waiter=hold.waiter,
            next_waiter=next_waiter,
            next_owner=next_owner,
            barging=next_waiter is not None and may_barge(hold, next_waiter),
        )
        ballot: Ballot | None = None
        given: bool | None = False
        try:
            if next_waiter is not None:
                # Before it is sent: close() must find what the masters may give.
                self._next_owners[next_owner] = next_waiter
            ballot = yield from self._driver.performing(procedure)
            tokens = [] if next_waiter is None else handed_tokens(ballot)
            if next_waiter is not None and len(tokens) >= ballot.quorum:
                # Validity counts from before the release was sent: no master can have written it earlier.
                local_grant = LocalGrant(next_owner, ballot.sent_at, hold.hops + 1, tokens)
                # From here on it may have it. Ctrl-C in between must not free what the heir goes on with.
                given = None
                given = self._subscriptions.hand_over(next_waiter, local_grant)
        finally:
            if next_waiter is not None and given is False:
                self._take_back_from(next_waiter, next_owner, ballot)
            # Not before the undo is written, or the waiter has the token in its own list.
            self._next_owners.pop(next_owner, None)
        if given is not True and handed_on(ballot):
            now = self.clock()
            self._handed_on = (hold.name, now + come_back_wait(now - ballot.sent_at))
        return outcome(self.context, ballot), given is True

    def _take_back_from(self, next_waiter: Place, next_owner: str, ballot: Ballot | None) -> None:
        """Take back what masters gave, or may yet give, to a successor that nobody will be."""
        maybe = maybe_handed(ballot, len(self.context.masters))
        if maybe:
            undo = self.context.release(next_waiter.name, next_owner)
            self._calls.tell(Tell(undo, maybe, resend_for=next_waiter.lease_ms / 1000))

    def _pass_on(self, name: str, token: str, lease_s: float = CLAIM_S) -> None:
        """Give on at once what was handed to one of ours that has gone, and what would else run out."""
        waiter = waiter_name(token, self.context.client_id)
        with self.mutex:
            done = self._driver.finished
            if token in done or any(hold.owner == token for hold in self.holds):
                return
            # Handed late to the place of one who has the lock by the other masters: the next one could
            # do nothing with a minority.
            hand_on = all(hold.waiter != waiter for hold in self.holds)
        release = self.context.release(name, token, waiter=waiter, hand_on=hand_on)
        self._calls.tell(Tell(release, resend_for=lease_s))

    def _standing_back(self, name: str, until: float) -> Waits[None]:
        """Let the one to whom we have handed a lock a moment ago claim it first."""
        handed_on, back_at = self._handed_on
        if handed_on == name:
            wait = min(back_at, until) - self.clock()
            if wait > 0:
                yield from self._driver.pausing(wait)
