"""Contender: one acquire from its first round to its end, with all that it has to give back.

A contender that ends without the lock must leave nothing on any master: no vote, no place in the queue, no
subscription. So each owner token is noted in `owners` before the first byte of its round is sent, and taken
out when its undo was sent. `withdraw` sends the rest. It waits for nothing, so it can follow Ctrl-C between
any two lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..model import Verdict
from ..rules import commands
from ..rules.holds import OwnerKey
from ..rules.keys import waiter_name
from ..rules.options import LockOptions
from ..rules.quorum import Ballot
from ..rules.tickets import Place
from ..rules.timing import lease_ms
from ..rules.waiting import STAGES, Stage, Step
from .port import ClientContext, Port


class Grant(NamedTuple):
    """The lock is won."""

    owner: str
    sent_at: float
    waiter: str = ""  # a place in the queue that may still stand on some masters
    hops: int = 0  # hand-offs in a row from thread to thread of this process
    token: int = 0  # the fencing token
    votes: int = 0  # masters that granted it, when it was decided
    handed: bool = False  # by a release; False: it was free


class LocalGrant(NamedTuple):
    """What a thread that releases hands to a waiter of its own process."""

    owner: str  # the token under which the masters have the lease
    sent_at: float  # when the release was sent
    hops: int  # hand-offs from thread to thread in a row
    tokens: Sequence[int] = ()  # the fencing tokens that the masters gave with it


class Findings:
    """What the rounds of one acquire have shown."""

    __slots__ = (
        "ballot",
        "contended",
        "holder",
        "nudged",
        "partial",
        "passed_over",
        "queue_length",
        "settling",
        "took_s",
        "verdict",
    )

    def __init__(self) -> None:
        #: The last round, its verdict, and the owner that a quorum named.
        self.ballot: Ballot
        self.verdict = Verdict.UNREACHABLE
        self.holder: str | None = None
        #: How long the last round with a place took: about how far apart the masters' messages come.
        self.took_s = 0.0
        #: The length of the queue in that round, this contender included; 0: no master said.
        self.queue_length = 0
        #: The masters were nudged before the last round.
        self.nudged = False
        #: How many hand-offs in a row came from too few masters.
        self.partial = 0
        #: Some owner certainly had a quorum during this call: then "somebody else had it" is true.
        self.contended = False
        #: Rounds that were spent on settling a split vote.
        self.settling = 0
        #: Owners of a minority that did not move: votes are given back for them only once.
        self.passed_over: set[str] = set()

    def note(self, verdict: Verdict, ballot: Ballot) -> None:
        """Remember a round."""
        self.ballot, self.verdict, self.holder = ballot, verdict, None
        if verdict is Verdict.HELD:
            holder = self.holder = ballot.foreign_holder()
            # An owner on masters without a vote may have no quorum, and give its votes back.
            self.contended = self.contended or ballot.votes_for(holder) >= ballot.quorum


class Report:
    """What observers were told of one acquire: each thing once, also if Ctrl-C comes between two lines."""

    __slots__ = ("began_at", "ended", "queued")

    def __init__(self, began_at: float) -> None:
        self.began_at = began_at
        self.queued = False
        self.ended = False


class Contender:
    """One acquire of one owner. ``until``: the instant at which its time ends."""

    __slots__ = (
        "__weakref__",
        "findings",
        "has_left",
        "inbox",
        "key",
        "local_grant",
        "options",
        "owners",
        "parker",
        "place",
        "report",
        "stage",
        "until",
    )

    def __init__(self, key: OwnerKey, options: LockOptions, until: float, began_at: float) -> None:
        self.key = key
        self.options = options
        self.until = until
        self.stage = Stage.NEW
        #: Owner tokens that may have votes, or a place.
        self.owners: list[str] = []
        self.place: Place | None = None
        #: The messages for it, and where its thread or task sleeps; the driver's own, made on first use.
        self.inbox: Any = None
        self.parker: Any = None
        #: It no longer stands in the line of its process.
        self.has_left = False
        #: What a releasing thread of this process has left to it.
        self.local_grant: LocalGrant | None = None
        self.findings = Findings()
        self.report = Report(began_at)

    @property
    def name(self) -> str:
        """The lock."""
        return self.options.name

    @property
    def verdict(self) -> Verdict:
        """The verdict of its last round."""
        return self.findings.verdict

    @property
    def nudged(self) -> bool:
        """Whether the masters were nudged before that round."""
        return self.findings.nudged

    def step(self, step: Step) -> None:
        """Go on to another stage. ValueError: not from here."""
        stage = STAGES.get((self.stage, step))
        if stage is None:
            raise ValueError(f"a contender that is {self.stage.value} cannot {step.value}")
        self.stage = stage

    def take_place(self, context: ClientContext) -> Place:
        """Name the place in the queue at which masters can hand it the lock."""
        options = self.options
        place = Place(
            options.name, self.key.label, context.client_id, lease_ms(options.lease.ttl), fair=options.fair
        )
        # First: an interrupt in between must find the place, or it would stay in the queue.
        self.owners.append(place.token)
        self.place = place
        self.step(Step.SUBSCRIBE)
        return place

    def confirmed_by(self, masters: int, quorum: int) -> bool:
        """Note how many masters confirm the subscription; whether the next round asks for a place now."""
        if self.stage is not Stage.SUBSCRIBING or masters < quorum:
            return False
        self.step(Step.CONFIRMED)
        return True

    def receive(self, grant: LocalGrant) -> None:
        """Take the lock from a thread of this process. Called by that thread."""
        # First: whatever ends the acquire (Ctrl-C, close) must find the token, or its votes would stay.
        self.owners.append(grant.owner)
        self.local_grant = grant


def undo(port: Port, options: LockOptions, owner: str) -> None:
    """Take back on all masters what stands under an owner token, and the place under its name."""
    waiter = waiter_name(owner, port.context.client_id)
    command = commands.undo(port.context.wire, options.name, owner, waiter)
    port.masters.send(command, resend_for=options.lease.ttl)


def take_back(port: Port, contender: Contender) -> None:
    """Undo all owner tokens of an acquire. Waits for nothing."""
    for owner in list(contender.owners):
        undo(port, contender.options, owner)
        contender.owners.remove(owner)


def stop_listening(port: Port, contender: Contender, *, left: bool) -> None:
    """End the subscription. ``left``:

    the place goes from all masters, so a later hand-off to it means nothing.
    """
    port.notifications.unsubscribe(contender, left=left)
    local, contender.local_grant = contender.local_grant, None
    if local is not None and local.owner in contender.owners:
        # A thread of this process handed the lock over when nobody waited for it any more: free it for the
        # others.
        free = commands.free(port.context.wire, contender.name, local.owner)
        port.masters.send(free, resend_for=contender.options.lease.ttl)
        contender.owners.remove(local.owner)


def leave_queue(port: Port, contender: Contender) -> None:
    """Give the place in the queue up, if there is one."""
    place = contender.place
    if place is not None:
        # First: otherwise a releasing thread of this process could hand the lock to a contender that has
        # gone.
        stop_listening(port, contender, left=True)
        # If the lock was handed to it a moment ago, the same command passes the lock on.
        leave = commands.leave_queue(port.context.wire, place.name, place.waiter)
        port.masters.send(leave, resend_for=contender.options.lease.ttl)
        contender.place = None
        contender.step(Step.WITHDRAW)
        # Last: Ctrl-C in between leaves the token to `take_back`, which may repeat the command.
        contender.owners.remove(place.token)


def withdraw(port: Port, contender: Contender) -> None:
    """Take back everything that this acquire has asked for, whatever ended it. Waits for nothing."""
    try:
        leave_queue(port, contender)
        take_back(port, contender)
    finally:
        # Last: otherwise votes that are not yet undone would refuse the next owner's round.
        port.leave(contender)
