"""Places in the queue: who waits, and with which ticket.

The order of a queue is a number that is the same on every master. An order of arrival would not do: with
several waiters each master would have another one first, and none of them would ever get a quorum.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping

from ..model import Vote
from .keys import owner_token, waiter_name
from .timing import TIME_AGE_S


class Place:
    """One waiter's place in the queue of one lock."""

    __slots__ = (
        "drawn",
        "fair",
        "label",
        "lease_ms",
        "name",
        "ticket",
        "token",
        "waiter",
    )

    def __init__(self, name: str, label: str, client_id: str, lease_ms: int, *, fair: bool) -> None:
        self.name = name
        #: `<client>` of its owner tokens.
        self.label = label
        #: The token under which masters hand it the lock. It is no owner: an attempt with a token of its
        #: own turns what was handed to the place into a lease.
        self.token = owner_token(label)
        #: Its name in the queue.
        self.waiter = waiter_name(self.token, client_id)
        self.lease_ms = lease_ms
        self.fair = fair
        #: What is asked for, or what was given; 0: whatever the masters say.
        self.ticket = 0
        #: The masters agree on the ticket.
        self.drawn = False

    def draw(self, votes: Mapping[int, Vote]) -> bool:
        """Take the ticket that the masters gave; whether those that have another one must be told.

        A master gives what was asked for, or more if others stand there already. So the largest that a
        quorum gave is behind everybody who had a quorum's place before; and who got what it asked for
        has it, or more, on those masters too that have not answered yet.
        """
        given = {vote.ticket for vote in votes.values() if vote.ticket}
        if self.drawn or not given:
            return False
        agreed = given == {self.ticket}
        self.ticket, self.drawn = max(given), True
        return not agreed


class FleetTime:
    """The masters' own time, as one client reckons it: what it asks for as a ticket or a fencing token.

    The wall clock of a client is not trusted: one that runs fast would wait behind everybody, one that
    runs slow would ask in vain. An estimate that is wrong costs one more message, never the order.
    """

    def __init__(self) -> None:
        self._offsets_us: dict[int, float] = {}
        self._offset_us: float | None = None
        self._told_at = -math.inf

    def stale(self, now: float) -> bool:
        """Whether masters have to tell it again."""
        return now - self._told_at > TIME_AGE_S

    def note(self, master: int, time_us: int, at: float) -> None:
        """A master told its time at the local instant ``at``."""
        self._offsets_us[master] = time_us - at * 1e6
        self._reckon()

    def observe(self, votes: Mapping[int, Vote], sent_at: float, now: float) -> None:
        """Take note of the times that masters told when they refused a round."""
        if self.correct(votes, sent_at, now):
            self._told_at = now

    def correct(self, votes: Mapping[int, Vote], sent_at: float, now: float) -> bool:
        """The same of those that granted it, and tell only a time that is far from the one reckoned."""
        at_us = (sent_at + now) / 2 * 1e6
        # A copy: other threads read answers of a decided round.
        told = {master: vote.time_us - at_us for master, vote in list(votes.items()) if vote.time_us}
        if told:
            self._offsets_us.update(told)
            self._reckon()
        return bool(told)

    def _reckon(self) -> None:
        self._offset_us = statistics.median(list(self._offsets_us.values()))

    def us(self, now: float) -> int:
        """Their time in microseconds; 0 before any master has told it."""
        return 0 if self._offset_us is None else round(now * 1e6 + self._offset_us)
