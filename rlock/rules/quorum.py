"""Counting votes. Source: "Distributed Locks with Redis" (redis.io); the even N follows the same formula."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Set

from ..model import LASTING, Code, FaultKind, Verdict, Vote
from .keys import holder_identity

_FOREIGN = Code.FOREIGN


def quorum(masters: int) -> int:
    """Votes that no second owner can have at the same time: floor(N/2) + 1. For 4 masters that is 3."""
    return masters // 2 + 1


class Settle(enum.Enum):
    """When a round needs no further answer."""

    VERDICT = "verdict"  # the verdict can no longer change
    HOLDER = "holder"  # won; or lost, and a quorum named who has it; or all have answered
    WON_OR_ALL = "won or all"  # a quorum said yes, or all have answered
    ALL = "all"  # all have answered


#: What members of an enum cost to look up shows in a round; these two come with every answer.
_YES, _ALL = Code.YES, Settle.ALL

NONE: Set[int] = frozenset()


class Ballot:
    """All the answers of one round. Counts as they come in; knows when no further one matters."""

    __slots__ = (
        "decided_at",
        "faulted",
        "granted",
        "masters",
        "quorum",
        "refused",
        "resent",
        "sent_at",
        "settle",
        "settled",
        "unsent",
        "votes",
    )

    def __init__(self, masters: int, settle: Settle = Settle.VERDICT, *, sent_at: float = 0.0) -> None:
        self.masters = masters
        self.quorum = masters // 2 + 1
        self.settle = settle
        #: The round is decided, whatever else may come.
        self.settled = not masters
        self.votes: dict[int, Vote] = {}
        self.granted = self.refused = self.faulted = 0
        #: Before the first byte was sent.
        self.sent_at = self.decided_at = sent_at
        #: Masters to which the command never went: there was no connection.
        self.unsent: Set[int] = NONE
        #: Masters to which the command went a second time: "absent" there may be our own first delivery.
        self.resent: Set[int] = NONE

    def cast(self, master: int, vote: Vote) -> bool:
        """Count one master's answer; whether that settled it. A second answer changes nothing."""
        votes = self.votes
        if master in votes:
            return False
        votes[master] = vote
        if vote.code == _YES:
            self.granted = granted = self.granted + 1
            if granted < self.quorum and granted == len(votes):
                return False  # as `_decided` says: nobody has refused, and nobody failed
        elif vote.code == Code.FAULT:
            self.faulted += 1
        else:
            self.refused += 1
        self.settled = settled = self._decided()
        return settled

    def amend(self, master: int, vote: Vote) -> None:
        """Replace an answer, because it counts for less than it did when it came."""
        before = self.votes[master]
        if vote != before:
            self.votes[master] = vote
            yes = (vote.code == _YES) - (before.code == _YES)
            faults = (vote.code == Code.FAULT) - (before.code == Code.FAULT)
            self.granted += yes
            self.faulted += faults
            self.refused -= yes + faults
            self.settled = self._decided()

    def recall(self, master: int) -> None:
        """Forget a fault, because the command goes to this master again."""
        vote = self.votes.get(master)
        if master in self.unsent:
            self.unsent -= {master}
        elif vote is None or vote.code == Code.FAULT:
            self.resent |= {master}
        if vote is not None and vote.code == Code.FAULT:
            del self.votes[master]
            self.faulted -= 1
            self.settled = self._decided()

    def await_all(self) -> None:
        """Now every answer matters."""
        self.settle = Settle.ALL
        self.settled = self._decided()

    @property
    def answered(self) -> int:
        """Masters that said yes or no."""
        return self.granted + self.refused

    @property
    def voters(self) -> int:
        """Masters that may vote: they answered, the key is a lock or free, and the restart guard is over."""
        return sum(
            not vote.guarded and vote.code not in (Code.FAULT, Code.NOT_A_LOCK)
            for vote in self.votes.values()
        )

    @property
    def outstanding(self) -> int:
        """Masters that have said nothing yet."""
        return self.masters - self.granted - self.refused - self.faulted

    def _decided(self) -> bool:
        granted, settle = self.granted, self.settle
        if granted >= self.quorum and settle is not _ALL:
            return True
        if granted == len(self.votes):
            return granted == self.masters  # nobody has refused, and nobody failed
        outstanding = self.masters - granted - self.refused - self.faulted
        if not outstanding:
            return True
        if settle is _ALL or settle is Settle.WON_OR_ALL:
            return False
        if self.faulted > self.masters - self.quorum:
            return True
        # Outvoted needs both: a win is out of reach, and a quorum did answer. With answers missing
        # the same votes could still turn out to be "unreachable", which is another error.
        lost = granted + outstanding < self.quorum and self.answered >= self.quorum
        # A vote that comes after the verdict would be found by nobody for a second. It cannot hurt
        # where somebody has a quorum; in a split vote it may be the one that all wait for.
        return lost and (settle is Settle.VERDICT or self.foreign_holder() is not None)

    def judge(self, now: float, valid_until: float) -> Verdict:
        """What the round came to at ``now``; ``valid_until`` is when the lease that it asked for ends.

        HELD is the only one that makes "somebody else has it" true.
        """
        if self.granted >= self.quorum:
            # Checked when it is decided, not when it was sent: a pause in between may have used it up.
            return Verdict.WON if now < valid_until else Verdict.TOO_LATE
        if self.foreign_holder() is not None:
            return Verdict.HELD
        return Verdict.SPLIT if self.voters >= self.quorum else Verdict.UNREACHABLE

    @property
    def hopeless(self) -> bool:
        """Whether so many masters have a lasting obstacle that no waiting can bring a quorum."""
        stuck = sum(
            1
            for vote in self.votes.values()
            if vote.code == Code.NOT_A_LOCK or (vote.fault is not None and vote.fault.kind in LASTING)
        )
        return stuck > self.masters - self.quorum

    @property
    def duplicated(self) -> bool:
        """Whether two names of the list turned out to be one server: then no count can be trusted."""
        return any(
            vote.fault is not None and vote.fault.kind is FaultKind.DUPLICATE for vote in self.votes.values()
        )

    def holders(self) -> Counter[str]:
        """On how many masters each owner token was seen to hold the lock."""
        return Counter(vote.holder for vote in self.votes.values() if vote.holder)

    def claims(self) -> Counter[str]:
        """The same, of those that are one holder under several tokens."""
        return Counter(holder_identity(vote.holder) for vote in self.votes.values() if vote.holder)

    def foreign_holder(self) -> str | None:
        """The other owner that a quorum of the answers named; None when no one has one for certain."""
        holder, most = self._most_named()
        return holder if most >= self.quorum else None

    def split(self) -> bool:
        """Whether certainly nobody else has a quorum: the votes went to several contenders.

        Our own votes are given back after a lost round and count for nobody; a master that said nothing, or
        has lost its memory, may have had the missing vote of a holder.
        """
        return self._most_named()[1] + self.masters - self.voters < self.quorum

    def scattered(self) -> bool:
        """Whether the answers so far, and masters that give none, leave nobody else a quorum.

        Less than `split`: a master whose answer is on its way may still name somebody who has one.
        """
        return self._most_named()[1] + self.faulted < self.quorum

    def standing(self) -> dict[int, str]:
        """Who has each master's vote, the caller included; of a free master the first in its queue."""
        voted = (_YES, _FOREIGN, Code.QUEUED)
        return {i: holder_identity(vote.holder) for i, vote in self.votes.items() if vote.code in voted}

    def votes_for(self, owner: str | None) -> int:
        """Masters that named this other owner, and have a vote themselves."""
        return sum(
            vote.code == _FOREIGN and not vote.guarded and holder_identity(vote.holder) == owner
            for vote in self.votes.values()
        )

    def leader(self, passed_over: Set[str]) -> str | None:
        """The owner that keeps its votes after a split; the others give theirs back.

        Every contender names the same one: the most votes, then the oldest token (its uuid begins with the
        time). So a newcomer takes nothing from one that has begun to keep its votes.
        """
        votes = Counter(owner for owner in self.standing().values() if owner not in passed_over)
        return min(votes, key=lambda owner: (-votes[owner], owner.rpartition(":")[2], owner), default=None)

    def _most_named(self) -> tuple[str | None, int]:
        """The other owner that most answers named, and how many did."""
        # No Counter: several times in each round that is lost, and it takes ten times as long.
        named: dict[str, int] = {}
        holder, most, told, who = None, 0, "", ""
        for vote in self.votes.values():
            if vote.code == _FOREIGN:
                if vote.holder != told:
                    told, who = vote.holder, holder_identity(vote.holder)
                named[who] = times = named.get(who, 0) + 1
                if times > most:
                    holder, most = who, times
        return holder, most
