"""Handing on: to whom a lock goes that is given up here, or that was handed to one of ours who has gone."""

from __future__ import annotations

import threading
from typing import Any

from ..clock import Clock
from ..procedures.release import Released, gave_heir, handed_on, inherited, may_barge, outcome, release
from ..procedures.steps import Tell, Terms
from ..rules.holds import Hold, Holds
from ..rules.keys import owner_token, waiter_name
from ..rules.places import Bequest, Place
from ..rules.quorum import Ballot
from ..rules.timing import CLAIM_S, come_back_wait
from .driver import Driver
from .fanout import Fanout
from .listener import Listener
from .waits import Waits


class HandingOn:
    """The part of an engine that ends its holds in favour of somebody."""

    _fanout: Fanout[Any]
    _listener: Listener[Any]
    _driver: Driver
    terms: Terms
    clock: Clock
    mutex: threading.Lock
    holds: Holds
    #: Waiters of ours to which a release under way gives the lock, by the owner token that they get.
    _successors: dict[str, Place]

    #: The lock that was handed to another process last, and when to ask for it again at the earliest.
    _handed_on = ("", 0.0)

    def _giving_up(self, hold: Hold) -> Waits[tuple[Released, bool]]:
        """Release it on the masters, if allowed in favour of an owner of ours; whether that one got it."""
        heir = self._listener.heir(hold.name)
        if self.terms.wire.shared and not may_barge(hold, heir):
            heir = None  # nor by the threads of one process, for ever
        successor = "" if heir is None else owner_token(heir.label)
        procedure = release(
            self.terms,
            hold.name,
            hold.owner,
            hold.options.lease,
            waiter=hold.waiter,
            heir=heir,
            successor=successor,
            barging=heir is not None and may_barge(hold, heir),
        )
        ballot: Ballot | None = None
        given: bool | None = False
        try:
            if heir is not None:
                # Before it is sent: close() must find what the masters may give.
                self._successors[successor] = heir
            ballot = yield from self._driver.performing(procedure)
            tokens = [] if heir is None else inherited(ballot)
            if heir is not None and len(tokens) >= ballot.quorum:
                # Validity counts from before the release was sent: no master can have written it earlier.
                bequest = Bequest(successor, ballot.sent_at, hold.hops + 1, tokens)
                # From here on it may have it. Ctrl-C in between must not free what the heir goes on with.
                given = None
                given = self._listener.bequeath(heir, bequest)
        finally:
            if heir is not None and given is False:
                self._disinherit(heir, successor, ballot)
            # Not before the undo is written, or the waiter has the token in its own list.
            self._successors.pop(successor, None)
        if given is not True and handed_on(ballot):
            now = self.clock()
            self._handed_on = (hold.name, now + come_back_wait(now - ballot.sent_at))
        return outcome(self.terms, ballot), given is True

    def _disinherit(self, heir: Place, successor: str, ballot: Ballot | None) -> None:
        """Take back what masters gave, or may yet give, to a successor that nobody will be."""
        maybe = gave_heir(ballot, len(self.terms.masters))
        if maybe:
            undo = self.terms.release(heir.name, successor)
            self._fanout.tell(Tell(undo, maybe, owed_for=heir.lease_ms / 1000))

    def _pass_on(self, name: str, token: str, lease_s: float = CLAIM_S) -> None:
        """Give on at once what was handed to one of ours that has gone, and what would else run out."""
        waiter = waiter_name(token, self.terms.station)
        with self.mutex:
            done = self._driver.finished
            if token in done or any(hold.owner == token for hold in self.holds):
                return
            # Handed late to the place of one who has the lock by the other masters: the next one could
            # do nothing with a minority.
            hand_on = all(hold.waiter != waiter for hold in self.holds)
        release = self.terms.release(name, token, waiter=waiter, hand_on=hand_on)
        self._fanout.tell(Tell(release, owed_for=lease_s))

    def _standing_back(self, name: str, until: float) -> Waits[None]:
        """Let the one to whom we have handed a lock a moment ago claim it first."""
        handed_on, back_at = self._handed_on
        if handed_on == name:
            wait = min(back_at, until) - self.clock()
            if wait > 0:
                yield from self._driver.pausing(wait)
