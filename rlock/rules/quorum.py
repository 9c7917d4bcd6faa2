"""Counting votes. Source: "Distributed Locks with Redis" (redis.io). An even N follows the same formula."""

import enum
from collections import Counter
from collections.abc import Set
from dataclasses import dataclass, field

from ..model import LASTING, Code, FaultKind, Verdict, Vote
from .keys import holder_identity


def quorum(masters: int) -> int:
    """Votes that no second owner can have at the same time: floor(N/2) + 1. For 4 masters that is 3."""
    return masters // 2 + 1


class Settle(enum.Enum):
    """When a round needs no further answer."""

    VERDICT = "verdict"  # no answer can change the verdict any more
    HOLDER = "holder"  # as above; and a lost round: a quorum named one holder, or all have answered
    WON_OR_ALL = "won or all"  # a quorum said yes, or all masters have answered
    ALL = "all"  # all masters have answered


#: Bound once: enum lookup is measurable on this path.
_YES, _FOREIGN, _ALL = Code.YES, Code.FOREIGN, Settle.ALL
_MAYBE_YES = (Code.YES, Code.FAULT)

NONE: Set[int] = frozenset()


@dataclass(slots=True, eq=False)
class Ballot:
    """The answers of one round. It counts them as they arrive, and knows when no further answer matters."""

    masters: int
    settle: Settle = Settle.VERDICT
    sent_at: float = 0.0  # before the first byte of the round was sent
    votes: dict[int, Vote] = field(default_factory=dict)
    granted: int = 0
    refused: int = 0
    faulted: int = 0
    unsent: Set[int] = NONE  # masters that were not sent the command, because they were not connected
    #: Masters that were sent the command twice: "absent" may be the work of the first delivery.
    resent: Set[int] = NONE
    quorum: int = field(init=False)
    settled: bool = field(init=False)  # no further answer matters
    decided_at: float = field(init=False)  # when it was settled

    def __post_init__(self) -> None:
        self.quorum = self.masters // 2 + 1
        self.settled = not self.masters
        self.decided_at = self.sent_at

    def cast(self, master: int, vote: Vote) -> bool:
        """Count one master's answer; whether it settled the round. A second answer changes nothing."""
        votes = self.votes
        if master in votes:
            return False
        votes[master] = vote
        if vote.code == _YES:
            self.granted = granted = self.granted + 1
            if granted < self.quorum and granted == len(votes):
                return False  # as `_decided` would say, without a call on the path of every grant
        elif vote.code == Code.FAULT:
            self.faulted += 1
        else:
            self.refused += 1
        self.settled = settled = self._decided()
        return settled

    def amend(self, master: int, vote: Vote) -> None:
        """Replace an answer that counts for less than it did when it arrived."""
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
        """Forget a fault, because the command is sent to this master again."""
        vote = self.votes.get(master)
        if master in self.unsent:
            self.unsent -= {master}
        elif vote is None or vote.code == Code.FAULT:
            self.resent |= {master}
        if vote is not None and vote.code == Code.FAULT:
            del self.votes[master]
            self.faulted -= 1
            self.settled = self._decided()

    @property
    def answered(self) -> int:
        return self.granted + self.refused

    @property
    def voters(self) -> int:
        """How many masters have a vote: they answered, are not guarded, and the key is a lock or free."""
        counted = [vote.code for vote in list(self.votes.values()) if not vote.guarded]
        return sum(code not in (Code.FAULT, Code.NOT_A_LOCK) for code in counted)

    @property
    def outstanding(self) -> int:
        return self.masters - self.granted - self.refused - self.faulted

    def _decided(self) -> bool:
        granted, settle = self.granted, self.settle
        if granted >= self.quorum and settle is not _ALL:
            return True
        if granted == len(self.votes):
            return granted == self.masters
        outstanding = self.masters - granted - self.refused - self.faulted
        if not outstanding:
            return True
        if settle is _ALL or settle is Settle.WON_OR_ALL:
            return False
        if self.faulted > self.masters - self.quorum:
            return True
        # A quorum must have answered. Otherwise the missing answers could still make it "unreachable".
        lost = granted + outstanding < self.quorum and self.answered >= self.quorum
        # A split round waits for the last replies: a late vote would stay unnoticed for about a second.
        return lost and (settle is Settle.VERDICT or self.foreign_holder() is not None)

    def judge(self, now: float, valid_until: float) -> Verdict:
        """The verdict at ``now`` on a lease that ends at ``valid_until``. HELD: a quorum named one owner."""
        if self.granted >= self.quorum:
            # A pause since the round was sent may have used up the validity.
            return Verdict.WON if now < valid_until else Verdict.TOO_LATE
        if self.foreign_holder() is not None:
            return Verdict.HELD
        return Verdict.SPLIT if self.voters >= self.quorum else Verdict.UNREACHABLE

    def maybe_granted(self) -> list[int]:
        """The masters that gave a lease, or may yet."""
        votes, resent = self.votes, self.resent
        sent = (i for i in range(self.masters) if i not in self.unsent)
        return [i for i in sent if i in resent or i not in votes or votes[i].code in _MAYBE_YES]

    @property
    def hopeless(self) -> bool:
        """Whether waiting cannot bring a quorum: too many masters need another setting or another key."""
        votes = list(self.votes.values())
        lasting = sum(vote.fault is not None and vote.fault.kind in LASTING for vote in votes)
        return lasting + sum(vote.code == Code.NOT_A_LOCK for vote in votes) > self.masters - self.quorum

    @property
    def duplicated(self) -> bool:
        """Whether two masters of the list are one server: then no count is right."""
        faults = [vote.fault for vote in list(self.votes.values()) if vote.fault is not None]
        return any(fault.kind is FaultKind.DUPLICATE for fault in faults)

    def foreign_holder(self, *, voters_only: bool = False) -> str | None:
        """The other owner that a quorum of masters (with a vote) named; None: no owner certainly has one."""
        holder, most = self.most_named(voters_only=voters_only)
        return holder if most >= self.quorum else None

    def split(self) -> bool:
        """Whether certainly nobody else has a quorum, whatever the masters without a vote would say."""
        return self.most_named()[1] + self.masters - self.voters < self.quorum

    def scattered(self) -> bool:
        """Whether nobody else has a quorum, unless an answer that is on its way names one."""
        return self.most_named()[1] + self.faulted < self.quorum

    def standing(self) -> dict[int, str]:
        """By master: the owner that has its vote, or the first in its queue. The caller may be among them."""
        voted = (_YES, _FOREIGN, Code.QUEUED)
        return {i: holder_identity(vote.holder) for i, vote in list(self.votes.items()) if vote.code in voted}

    def leader(self, passed_over: Set[str]) -> str | None:
        """The owner that keeps its votes after a split; the other contenders give theirs back.

        Every contender names the same owner: the most votes, then the oldest token, whose uuid begins with
        its time. So no newcomer replaces an owner that already keeps its votes.
        """
        votes = Counter(owner for owner in self.standing().values() if owner not in passed_over)
        return min(votes, key=lambda owner: (-votes[owner], owner.rpartition(":")[2], owner), default=None)

    def most_named(self, *, voters_only: bool = False) -> tuple[str | None, int]:
        """The other owner that most masters (with a vote) name as the holder, and how many do."""
        # No Counter: it takes ten times as long, and each lost round comes here several times.
        named: dict[str, int] = {}
        holder, most, owner, identity = None, 0, "", ""
        for vote in list(self.votes.values()):
            if vote.code == _FOREIGN and not (voters_only and vote.guarded):
                if vote.holder != owner:
                    owner, identity = vote.holder, holder_identity(vote.holder)
                named[identity] = times = named.get(identity, 0) + 1
                if times > most:
                    holder, most = identity, times
        return holder, most
