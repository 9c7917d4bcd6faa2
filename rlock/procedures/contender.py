"""Contender: one acquire from its first round to its end, and the undo of everything that it sent.

A contender that ends without the lock must leave no vote, queue place or subscription behind. So `owners`
notes each owner token before its round is sent, until its undo was sent. `withdraw` sends the undo of each
token that is left. It waits for nothing, so it can follow Ctrl-C between any two lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..model import Verdict
from ..rules import commands
from ..rules.holds import OwnerKey
from ..rules.keys import HandOff, waiter_name
from ..rules.lease import Confirmation
from ..rules.options import LockOptions
from ..rules.quorum import Ballot
from ..rules.tickets import Place
from ..rules.timing import lease_ms
from ..rules.waiting import STAGES, Stage, Step
from .port import ClientContext, Port


class Grant(NamedTuple):
    owner: str
    sent_at: float
    waiter: str = ""  # a place in the queue that may still stand on some masters
    hops: int = 0  # hand-offs in a row from thread to thread of this process
    token: int = 0  # the fencing token
    votes: int = 0  # masters that granted it, when it was decided
    handed: bool = False  # by a release; False: it was free
    confirmation: Confirmation | None = None  # until then, messages grant it for the claim time only


class LocalGrant(NamedTuple):
    """A lock that a releasing thread hands to a waiter of its process."""

    owner: str  # the token under which the masters have the lease
    sent_at: float  # when the release was sent
    hops: int  # hand-offs from thread to thread in a row
    tokens: Sequence[int] = ()  # the fencing tokens that the masters gave with it


@dataclass(slots=True)
class Findings:
    ballot: Ballot = field(init=False)  # of the last round
    verdict: Verdict = Verdict.UNREACHABLE  # of the last round
    holder: str | None = None  # the owner that a quorum named in the last round
    took_s: float = 0.0  # duration of the last round with a place; messages take a few times as long
    #: The messages that woke it the last time, by master.
    handed: dict[int, HandOff] = field(default_factory=dict)
    queue_length: int = 0  # in the last round, this contender included; 0: no master reported it
    nudged: bool = False  # the masters were nudged before the last round
    partial: int = 0  # hand-offs in a row from fewer masters than a quorum
    contended: bool = False  # some owner certainly had a quorum during this call
    settling: int = 0  # rounds that were spent on settling a split vote
    #: Owners with a minority of votes that two looks saw unchanged, so they may be dead. No further split is
    #: settled in their favour: otherwise this contender would give back its votes for them again and again.
    passed_over: set[str] = field(default_factory=set)

    #: The highest fencing token that masters have given to attempts of this acquire.
    token: int = 0

    def next_token(self) -> int:
        """A fencing token above those of its rounds and messages; 0: it knows none."""
        highest = max([self.token, *(message.token for message in self.handed.values())])
        return highest + 1 if highest else 0

    def note(self, verdict: Verdict, ballot: Ballot) -> None:
        self.token = max([self.token, *(vote.token for vote in list(ballot.votes.values()))])
        self.ballot, self.verdict, self.holder = ballot, verdict, None
        if verdict is Verdict.HELD:
            holder = self.holder = ballot.foreign_holder()
            # Only masters with a vote count. Otherwise an owner without a quorum, which gives its votes back,
            # would make this acquire return False although nobody had the lock.
            self.contended = self.contended or ballot.votes_for(holder) >= ballot.quorum


@dataclass(slots=True)
class Report:
    """The events of one acquire that were emitted: each one once, also if Ctrl-C comes between two lines."""

    began_at: float
    queued: bool = False
    ended: bool = False


class Contender:
    """One acquire of one owner. ``until``: the instant at which its time ends."""

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
        #: The contender has left the local queue, or is about to.
        self.has_left = False
        #: The lock, if a releasing thread of this process has handed it over.
        self.local_grant: LocalGrant | None = None
        self.findings = Findings()
        self.report = Report(began_at)

    @property
    def name(self) -> str:
        return self.options.name

    @property
    def verdict(self) -> Verdict:
        return self.findings.verdict

    @property
    def nudged(self) -> bool:
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
        # No call: otherwise Ctrl-C could come between the lines, and leave a token without its grant.
        self.owners += [grant.owner]
        self.local_grant = grant


def undo(port: Port, options: LockOptions, owner: str) -> None:
    """Remove an owner token's vote and queue place from all masters."""
    waiter = waiter_name(owner, port.context.client_id)
    command = commands.undo(port.context.wire, options.name, owner, waiter)
    port.masters.send(command, resend_for=options.lease.ttl)


def take_back(port: Port, contender: Contender) -> None:
    """Undo all owner tokens of an acquire. Waits for nothing."""
    for owner in list(contender.owners):
        undo(port, contender.options, owner)
        contender.owners.remove(owner)


def stop_listening(port: Port, contender: Contender, *, left: bool) -> None:
    """End the subscription. ``left``: see `Notifications.unsubscribe`."""
    port.notifications.unsubscribe(contender, left=left)
    local, contender.local_grant = contender.local_grant, None
    if local is not None and local.owner in contender.owners:
        # Otherwise a lock that was handed over too late would stay locked until its lease ends.
        free = commands.free(port.context.wire, contender.name, local.owner)
        port.masters.send(free, resend_for=contender.options.lease.ttl)
        contender.owners.remove(local.owner)


def leave_queue(port: Port, contender: Contender) -> None:
    place = contender.place
    if place is not None:
        # First: otherwise a releasing thread of this process could hand the lock to this contender.
        stop_listening(port, contender, left=True)
        # The command also passes on a lock that a master has just handed to this place.
        leave = commands.leave_queue(port.context.wire, place.name, place.waiter)
        port.masters.send(leave, resend_for=contender.options.lease.ttl)
        contender.place = None
        contender.step(Step.WITHDRAW)
        # Last: Ctrl-C in between leaves the token to `take_back`, which may repeat the command.
        contender.owners.remove(place.token)


def step_aside(port: Port, contender: Contender) -> None:
    """Take a waiter that hears nothing out of the queue. Otherwise each release would wait for it.

    It keeps its ticket, and comes back with it when a quorum confirms the subscription.
    """
    place = contender.place
    if contender.stage is Stage.WAITING and place is not None and not place.aside:
        place.aside = True
        place.attempts += 1  # first: the lease of a message that arrives now is undone by this command
        port.masters.send(commands.leave_queue(port.context.wire, place.name, place.waiter))


def withdraw(port: Port, contender: Contender) -> None:
    """Undo everything that this acquire has sent. Waits for nothing."""
    try:
        _undo_all(port, contender)
    except BaseException:
        # A second Ctrl-C. Otherwise the rest would stay on the masters until its lease ends.
        _undo_all(port, contender)
        raise
    finally:
        # Last: otherwise votes that are not yet undone would refuse the next owner's round.
        port.leave(contender)


def _undo_all(port: Port, contender: Contender) -> None:
    leave_queue(port, contender)
    take_back(port, contender)
