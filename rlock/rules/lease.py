"""The states of a lease, as a table. The diagram in docs/ and the exhaustive test come out of it."""

from __future__ import annotations

import enum

from ..model import LeaseState
from .timing import valid_until

HELD, SUSPECT, LOST, RELEASED = (
    LeaseState.HELD,
    LeaseState.SUSPECT,
    LeaseState.LOST,
    LeaseState.RELEASED,
)


class LeaseEvent(enum.Enum):
    """What can happen to a lease."""

    RENEWED = "renewed"  # a quorum prolonged it, complete before the old validity ended
    FAILED = "renewal failed"  # no quorum prolonged it; no quorum denied it either
    DISOWNED = "disowned"  # a quorum answered "not yours"
    EXPIRED = "expired"  # the validity ended
    RELEASE = "release"  # the owner gave it up


#: Every state with every event. LOST has no way back: whoever was told of a loss must stay told.
TRANSITIONS: dict[tuple[LeaseState, LeaseEvent], LeaseState] = {
    (HELD, LeaseEvent.RENEWED): HELD,
    (HELD, LeaseEvent.FAILED): SUSPECT,
    (HELD, LeaseEvent.DISOWNED): LOST,
    (HELD, LeaseEvent.EXPIRED): LOST,
    (HELD, LeaseEvent.RELEASE): RELEASED,
    (SUSPECT, LeaseEvent.RENEWED): HELD,
    (SUSPECT, LeaseEvent.FAILED): SUSPECT,
    (SUSPECT, LeaseEvent.DISOWNED): LOST,
    (SUSPECT, LeaseEvent.EXPIRED): LOST,
    (SUSPECT, LeaseEvent.RELEASE): RELEASED,
    (LOST, LeaseEvent.RENEWED): LOST,
    (LOST, LeaseEvent.FAILED): LOST,
    (LOST, LeaseEvent.DISOWNED): LOST,
    (LOST, LeaseEvent.EXPIRED): LOST,
    (LOST, LeaseEvent.RELEASE): RELEASED,
    (RELEASED, LeaseEvent.RENEWED): RELEASED,
    (RELEASED, LeaseEvent.FAILED): RELEASED,
    (RELEASED, LeaseEvent.DISOWNED): RELEASED,
    (RELEASED, LeaseEvent.EXPIRED): RELEASED,
    (RELEASED, LeaseEvent.RELEASE): RELEASED,
}


#: The reason of a loss that the clock brought.
EXPIRED = "its validity ended before a quorum renewed it"


class Lease:
    """One lease as its holder sees it. Not thread-safe: its keeper serialises the events."""

    __slots__ = ("ended_by", "reason", "state", "ttl", "valid_until")

    def __init__(self, ttl: float, sent_at: float) -> None:
        self.ttl = ttl
        self.state = HELD
        #: Why it was lost, and what brought that.
        self.reason = ""
        self.ended_by = LeaseEvent.EXPIRED
        #: The instant before which nobody else can hold the lock. Grows by renewals only.
        self.valid_until = valid_until(sent_at, ttl)

    def on(self, event: LeaseEvent, reason: str = "") -> LeaseState:
        """Take an event; the first reason of a loss stays."""
        before = self.state
        self.state = TRANSITIONS[before, event]
        if self.state is LOST and before is not LOST:
            self.reason, self.ended_by = reason, event
        return self.state

    def state_at(self, now: float) -> LeaseState:
        """The state at ``now``: the loss comes out of the clock, no thread has to have noticed it.

        Changes nothing, so that any thread may ask.
        """
        if now >= self.valid_until and self.state in (HELD, SUSPECT):
            return TRANSITIONS[self.state, LeaseEvent.EXPIRED]
        return self.state

    def look(self, now: float) -> LeaseState:
        """The state at ``now``, and remember it: what was lost once stays lost."""
        if now < self.valid_until:
            return self.state
        if self.state_at(now) is not self.state:
            return self.on(LeaseEvent.EXPIRED, EXPIRED)
        return self.state

    def renewed(self, sent_at: float, now: float) -> LeaseState:
        """A quorum prolonged it by a round that was sent at ``sent_at`` and complete at ``now``."""
        if self.state is HELD and now < self.valid_until:
            self.valid_until = max(self.valid_until, valid_until(sent_at, self.ttl))
            return HELD  # as the table says; each renewal of each lock comes by here
        # A quorum that is complete only after the old validity must not revive the lease: in between
        # another owner may have had it.
        if self.look(now) is not LOST:
            self.valid_until = max(self.valid_until, valid_until(sent_at, self.ttl))
        return self.on(LeaseEvent.RENEWED)

    def remaining(self, now: float) -> float:
        """Seconds of validity left; 0.0 when there is none."""
        if self.state_at(now) in (HELD, SUSPECT):
            return max(0.0, self.valid_until - now)
        return 0.0
