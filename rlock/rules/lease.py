"""The states of a lease, as a table from which docs/ and a test are made, and the votes on a renewal."""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ..model import Code, LeaseState, Vote
from .keys import HandOff
from .quorum import Ballot
from .restart_guard import same_memory
from .timing import CLAIM_S, heals_until, valid_until

HELD, SUSPECT = LeaseState.HELD, LeaseState.SUSPECT  # bound once: enum lookup is measurable on this path
LOST, RELEASED = LeaseState.LOST, LeaseState.RELEASED


class LeaseEvent(enum.Enum):
    __hash__ = object.__hash__
    RENEWED = "renewed"  # a quorum prolonged it before the old validity ended
    FAILED = "renewal failed"  # no quorum prolonged it, and no quorum denied it
    DISOWNED = "disowned"  # a quorum answered that the key is not this owner's
    EXPIRED = "expired"  # the validity ended
    RELEASE = "release"  # the owner released the lock


#: Every state with every event. LOST has no way back: an owner may have acted on the loss already.
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
    **{(LOST, event): LOST for event in LeaseEvent},
    (LOST, LeaseEvent.RELEASE): RELEASED,
    **{(RELEASED, event): RELEASED for event in LeaseEvent},
}


@dataclass(frozen=True)
class Confirmation:
    """The replies that prolong a grant by messages, although nobody waits for them. They grant nothing."""

    ballot: Ballot
    given: Mapping[int, HandOff]  # the messages that were counted, by master
    guarded: bool = field(kw_only=True)  # the restart guard is on

    def proves(self) -> bool:
        """Whether a quorum still had the grant: then the lease never lapsed, however late that is read."""
        return sum(self._unbroken(i) for i in self.given) >= self.ballot.quorum

    def _unbroken(self, master: int) -> bool:
        vote = self.ballot.votes.get(master)
        if vote is None or vote.code != Code.YES:
            return False
        # Without that memory the master may have granted the lock to another owner since its message.
        return not self.guarded or same_memory(vote.note, self.given[master].note)


#: The reason of a loss without an answer of the masters.
EXPIRED = "its validity ended before a quorum renewed it"


class Lease:
    """One lease as its holder sees it. Not thread-safe: the mutex of `HoldTable` serialises the events."""

    __slots__ = ("confirmation", "ended_by", "reason", "state", "ttl", "valid_until")

    def __init__(self, ttl: float, sent_at: float, confirmation: Confirmation | None = None) -> None:
        self.ttl = ttl
        self.state = HELD
        self.reason = ""  # why it was lost, and by which event
        self.ended_by = LeaseEvent.EXPIRED
        #: Until then nobody else can hold the lock. Renewals move it forward, and only a downgrade back.
        self.valid_until = valid_until(sent_at, ttl if confirmation is None else min(CLAIM_S, ttl))
        self.confirmation = confirmation  # the replies that prolong it to its full length, until they do

    def on(self, event: LeaseEvent, reason: str = "") -> LeaseState:
        """Apply an event. The first reason of a loss stays."""
        before = self.state
        self.state = TRANSITIONS[before, event]
        if self.state is LOST and before is not LOST:
            self.reason, self.ended_by = reason, event
        return self.state

    def state_at(self, now: float) -> LeaseState:
        """The state at ``now``, by the clock: no thread has to notice a loss. Any thread may call it."""
        self._hear()
        if now >= self.valid_until and self.state in (HELD, SUSPECT):
            # No call since the comparison: `_hear` of another thread comes before it, or finds nothing.
            self.confirmation = None  # otherwise a late reply would revive a lease that was told to be lost
            return TRANSITIONS[self.state, LeaseEvent.EXPIRED]
        return self.state

    def update(self, now: float) -> LeaseState:
        """The state at ``now``. Remembers a loss."""
        self._hear()
        if now < self.valid_until:
            return self.state
        if self.state_at(now) is not self.state:
            return self.on(LeaseEvent.EXPIRED, EXPIRED)
        return self.state

    def _hear(self) -> None:
        """Prolong the lease if the replies of its confirmation are there."""
        confirmation = self.confirmation
        if confirmation is not None and confirmation.proves():
            proven = valid_until(confirmation.ballot.sent_at, self.ttl)
            # Again, and with no call behind it: another thread may have told the loss meanwhile.
            if self.confirmation is confirmation:
                self.valid_until = proven if proven > self.valid_until else self.valid_until
                self.confirmation = None

    def renewed(self, sent_at: float, now: float, ttl: float | None = None) -> LeaseState:
        """Apply a renewal that was sent at ``sent_at`` and granted by a quorum at ``now``."""
        ttl = self.ttl if ttl is None else ttl
        if self.state is HELD and now < self.valid_until:
            self.valid_until = max(self.valid_until, valid_until(sent_at, ttl))
            return HELD  # the transition in the table, without a lookup for each lock of a renewal
        # No quorum revives a lease behind its validity: another owner may have had the lock in between.
        if self.update(now) is not LOST:
            self.valid_until = max(self.valid_until, valid_until(sent_at, ttl))
        return self.on(LeaseEvent.RENEWED)

    def remaining(self, now: float) -> float:
        if self.state_at(now) in (HELD, SUSPECT):
            return max(0.0, self.valid_until - now)
        return 0.0


#: A master, its code for one lock, and whether the restart guard does not count its grants yet.
Answer = tuple[int, int, bool]


class LockVotes(NamedTuple):
    """The votes on one lock of a batch. The ballot still takes late votes."""

    ballot: Ballot
    position: int  # of the lock in its batch

    def answers(self) -> list[Answer]:
        """The answers of all masters that did not refuse the whole batch."""
        return [
            (master, vote.codes[self.position], vote.guarded)
            for master, vote in list(self.ballot.votes.items())
            if vote.code != Code.FAULT
        ]

    def absent(self) -> list[int]:
        return [master for master, code, _ in self.answers() if code == Code.ABSENT]

    def replace(self, master: int, alone: Vote) -> None:
        vote = self.ballot.votes[master]
        codes = [*vote.codes]
        (codes[self.position],) = alone.codes
        self.ballot.votes[master] = vote._replace(codes=codes, guarded=vote.guarded or alone.guarded)

    def event(
        self, valid_until: float, now: float, max_ttl: float, healed: Sequence[Answer], *, shared: bool
    ) -> LeaseEvent:
        """Judge the renewal of a lease that ends at ``valid_until``.

        ``healed``: answers where it was put back. ``shared``: Redisson's forced unlock deletes the key.
        """
        granted = unsafe = denied = 0
        # By master: a slow one may answer the renewal during the healing. Otherwise it would have two votes.
        for _, code, guarded in {answer[0]: answer for answer in [*self.answers(), *healed]}.values():
            if code == Code.YES and not guarded:
                granted += 1
            elif code in (Code.YES, Code.HEALED):
                # This master may have granted the lock to somebody else before it lost its memory.
                unsafe += 1
            elif code not in (Code.ABSENT, Code.FAULT):
                # A guarded master cannot deny: the key there may be of an owner without a quorum.
                denied += not guarded
        if shared:
            denied += sum(code == Code.ABSENT and not guarded for _, code, guarded in self.answers())
        # Until then no other owner can have won with a vote that such a master lost: `heals_until`.
        if now < heals_until(valid_until, max_ttl):
            granted += unsafe
        if granted >= self.ballot.quorum:
            return LeaseEvent.RENEWED
        return LeaseEvent.DISOWNED if denied >= self.ballot.quorum else LeaseEvent.FAILED
