"""The votes on one lock of a batch, and their meaning for its lease."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..model import Code, Vote
from .lease import LeaseEvent
from .quorum import Ballot
from .timing import heals_until

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
        """Put in the answer of a master that was asked for this lock alone."""
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
