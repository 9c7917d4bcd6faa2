"""Contender: one acquire from its first round to its end.

It notes each owner token before its round is sent, until its undo was sent: see withdraw.py.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..model import Verdict
from ..rules.holds import Hold, OwnerKey
from ..rules.keys import SHARED, HandOff
from ..rules.lease import Confirmation
from ..rules.options import LockOptions
from ..rules.quorum import Ballot
from ..rules.tickets import Place
from ..rules.waiting import STAGES, LostRound, Stage, Step


class Grant(NamedTuple):
    owner: str
    sent_at: float
    waiter: str = ""  # a place in the queue that may still stand on some masters
    token: int = 0  # the fencing token
    votes: int = 0  # masters that granted it, when it was decided
    handed: bool = False  # by a release; False: it was free
    confirmation: Confirmation | None = None  # until then, messages grant it for the claim time only
    hold_count: int = 1  # of the hold that was adopted


@dataclass(slots=True)
class Findings:
    ballot: Ballot = field(init=False)  # of the last round
    verdict: Verdict = Verdict.UNREACHABLE  # of the last round
    holder: str | None = None  # the owner that a quorum named in the last round
    took_s: float = 0.0  # duration of the last round with a place; messages take a few times as long
    #: The messages that woke it the last time, by master.
    handed: dict[int, HandOff] = field(default_factory=dict)
    queue_length: int = 0  # in the last round, this contender included; 0: no master reported it
    partial: int = 0  # hand-offs in a row from fewer masters than a quorum
    contended: bool = False  # some owner certainly had a quorum during this call
    settling: int = 0  # rounds that were spent on settling a split vote
    #: Owners with a minority of votes that two rounds saw unchanged, so they may be dead. No further split is
    #: settled in their favour: otherwise this contender would give back its votes for them again and again.
    passed_over: set[str] = field(default_factory=set)
    token: int = 0  # the highest fencing token that masters have given to attempts of this acquire

    def next_token(self) -> int:
        """A fencing token above those of its rounds and messages; 0: it knows none."""
        highest = max([self.token, *(message.token for message in self.handed.values())])
        return highest + 1 if highest else 0

    def note(self, verdict: Verdict, ballot: Ballot) -> None:
        self.token = max([self.token, *(vote.token for vote in list(ballot.votes.values()))])
        self.ballot, self.verdict, self.holder = ballot, verdict, None
        if verdict is Verdict.HELD:
            self.holder = ballot.foreign_holder()
            # Only masters with a vote count: else it may be an owner without a quorum, who has no lock.
            self.contended = self.contended or ballot.foreign_holder(voters_only=True) is not None


class Contender:
    """One acquire of one owner. ``until``: the instant at which its time ends."""

    def __init__(
        self, key: OwnerKey, options: LockOptions, until: float, began_at: float, writer: Hold | None = None
    ) -> None:
        self.key = key
        self.name = options.name
        self.options = options
        #: The `<client>` of its owner tokens.
        self.label = key.label + SHARED if options.shared else key.label
        self.until = until
        self.stage = Stage.NEW
        self.owners: list[str] = []  # owner tokens that may have votes, or a place
        self.place: Place | None = None
        #: The messages for it, and where its thread or task sleeps; the driver's own, made on first use.
        self.inbox: Any = None
        self.parker: Any = None
        self.is_withdrawn = False  # the contender has left the local queue, or is about to
        self.writer = writer  # the writer's hold of the same owner, whose reader it asks for
        self.findings = Findings()
        self.began_at = began_at
        #: Its events that were emitted: each one once, also if Ctrl-C comes between two lines.
        self.told_queued = self.told_end = False

    def lost_round(self, now: float, *, nudged: bool) -> LostRound:
        findings = self.findings
        return LostRound(findings.ballot, findings.verdict, self.stage, nudged, now >= self.until)

    def step(self, step: Step) -> None:
        self.stage = STAGES[self.stage, step]

    def confirmed_by(self, masters: int, quorum: int) -> bool:
        """Note how many masters confirm the subscription; whether the next round asks for a place now."""
        if self.stage is not Stage.SUBSCRIBING or masters < quorum:
            return False
        self.step(Step.CONFIRMED)
        return True
