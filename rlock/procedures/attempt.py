"""One attempt: a round of acquire, undone on every master unless it was won.

Source: "Distributed Locks with Redis" (redis.io).
"""

from __future__ import annotations

from typing import NamedTuple

from ..events import observed
from ..model import Code, Verdict
from ..rules import command_templates, commands
from ..rules.keys import owner_token, same_process
from ..rules.options import LockOptions
from ..rules.quorum import Ballot, Settle
from ..rules.tickets import Place
from ..rules.timing import SETTLE_TRIES, lease_ms, settle_wait, straggler_wait, won_until
from .fencing import agree, agreed_on
from .steps import Ask, ClientContext, Park, Procedure, Rest, Tell, impossible

#: What a member of an enum costs to look up shows where each attempt comes by.
_YES = Code.YES


class Grant(NamedTuple):
    """The lock is had."""

    owner: str
    sent_at: float
    waiter: str = ""  # a place in the queue that may still stand on some masters
    hops: int = 0  # hand-offs in a row from thread to thread of this process
    token: int = 0  # the fencing token
    votes: int = 0  # masters that granted it, when it was decided
    handed: bool = False  # by a release, not found free


class Asked(list[str]):
    """Owner tokens that may have votes, or a place; kept by the caller of one acquire.

    ``began``: when that was called; ``queued``: it was told that it stands in the queue; ``told``: so was
    what came of it.
    """

    began = 0.0
    queued = False
    told = False


class Waiting:
    """What one acquire has to give back when it ends without the lock, whatever ends it.

    ``asked`` holds owner tokens from before the first byte is sent until they are undone; what stands
    in it after an exception may have votes, or a place.
    """

    def __init__(self, context: ClientContext, options: LockOptions, label: str, asked: Asked) -> None:
        self.context = context
        self.options = options
        self.label = label
        self.asked = asked
        self.place: Place | None = None
        #: Enough masters let us hear of a hand-off; who cannot hear takes no place.
        self.queued = False
        #: The last round, what it came to, and who was seen with a quorum.
        self.ballot: Ballot
        self.verdict = Verdict.UNREACHABLE
        self.holder: str | None = None
        #: Somebody certainly had a quorum during this call: then "somebody else had it" is true.
        self.contended = False
        #: Rounds that were spent on settling a split vote.
        self.settling = 0
        #: Owners whose minority stood still: votes are given back for them only once.
        self.passed_over: set[str] = set()

    def take_place(self) -> Place:
        """Where to be handed the lock."""
        lease = lease_ms(self.options.lease.ttl)
        name, fair = self.options.name, self.options.fair
        place = Place(name, self.label, self.context.client_id, lease, fair=fair)
        # First: a Ctrl-C in between must find what there is to leave.
        self.asked.append(place.token)
        place.asked = self.asked
        self.place = place
        return place

    def may_rest(self) -> bool:
        """Whether it may stay awake for a moment.

        No thread of this process that releases could make it its heir; in fair mode that is rarely its turn.
        """
        return self.options.fair or not same_process(self.holder or "", self.label)

    def note(self, verdict: Verdict, ballot: Ballot) -> None:
        """Remember what a round came to."""
        self.ballot, self.verdict = ballot, verdict
        self.holder = None
        if verdict is Verdict.HELD:
            holder = self.holder = ballot.foreign_holder()
            # An owner that stands on masters without a vote may have no quorum, and give its votes back.
            self.contended = self.contended or ballot.votes_for(holder) >= ballot.quorum

    def leads(self, owner: str) -> bool:
        """Whether ``owner`` keeps its votes after the split that was noted last."""
        return self.settling < SETTLE_TRIES and self.ballot.leader(self.passed_over) == owner

    def pause(self) -> Park:
        """Before the next round that settles a split."""
        took = self.ballot.decided_at - self.ballot.sent_at
        wait = settle_wait(self.context.random, self.settling, took)
        self.settling += 1
        return Park(self.context.clock() + wait)

    def undo(self, owner: str, *, hand_on: bool = True) -> commands.Command:
        """Take the votes for ``owner`` back. Its place stays."""
        return self.context.release(self.options.name, owner, hand_on=hand_on, publish=False)


def attempt(waiting: Waiting, timeout: float, *, keep: bool = False) -> Procedure[Grant | Ballot]:
    """One round; undone on every master unless it was won.

    With an owner token of its own, so that a late command of this attempt can never touch the next one.
    What masters have handed to the place becomes a vote for that token.

    ``keep``: after a split the leader keeps its votes and asks all masters again. Only the grants of its last
    round count, from before that was sent.
    """
    context, options, place = waiting.context, waiting.options, waiting.place
    ttl = options.lease.ttl
    queued = place if waiting.queued else None
    owner = owner_token(waiting.label)
    waiting.asked.append(owner)
    now = context.clock()
    now_us = context.time.us(now)
    if queued is not None and not queued.drawn:
        queued.ticket = now_us
    name, lease, fair, guarded = options.name, lease_ms(ttl), options.fair, context.guard.on
    brief = False
    if queued is None:
        command = command_templates.acquire(
            name, owner, lease, place=None, fair=fair, token=now_us, guarded=guarded
        )
    else:
        # What masters tell beside, they tell when somebody wants to know it.
        brief = not (
            context.wire.shared or context.time.stale(now) or (observed() and not waiting.asked.queued)
        )
        command = commands.acquire(
            name, owner, lease, place=queued, fair=fair, token=now_us, guarded=guarded, brief=brief
        )
    kept = False
    try:
        while True:
            ask = Ask(command, timeout, Settle.HOLDER)
            ballot: Ballot = yield ask
            if ballot.faulted and ballot.duplicated:
                raise impossible(context, name, ballot)
            until = won_until(ballot.sent_at, ttl, options.lease.longest)
            verdict = ballot.judge(context.clock(), until)
            if verdict is Verdict.WON:
                context.time.correct(ballot.votes, ballot.sent_at, ballot.decided_at)
                given = [vote.token for vote in list(ballot.votes.values()) if vote.code == _YES]
                token = agreed_on(given, ballot.quorum)
                if not token:
                    token = yield from agree(context, options, owner, given, until)
                # Looked at last: what came before may have used the validity up.
                if token and context.clock() < until:
                    waiter = "" if place is None else place.waiter
                    return Grant(owner, ballot.sent_at, waiter, token=token, votes=len(given))
                verdict = Verdict.TOO_LATE
            elif place is not None and ballot.outstanding and ballot.settled and waiting.may_rest():
                # Give the answers a moment without which the round was lost: what they say needs no undo.
                decided_at = ballot.decided_at
                yield Rest(ask, context.clock() + straggler_wait(decided_at - ballot.sent_at))
                ballot.decided_at = decided_at
                verdict = ballot.judge(decided_at, until)
            waiting.note(verdict, ballot)
            if not (keep and verdict is Verdict.SPLIT and waiting.leads(owner)):
                break
            kept = True
            yield waiting.pause()
    except GeneratorExit:
        raise
    except BaseException:
        # Ctrl-C or a cancelled task: votes may stand on any master, and nobody would know of them.
        yield Tell(waiting.undo(owner), resend_for=ttl)
        waiting.asked.remove(owner)
        raise
    votes = ballot.votes
    if not brief:
        context.time.observe(votes, ballot.sent_at, ballot.decided_at)
    # A vote that is given back goes to the first in the queue, so that all come to one contender in the
    # end: docs/election.md. Not while somebody may have a quorum: the first could only collect a
    # minority, and would come round for it again and again.
    hand_on = waiting.holder is None and ballot.scattered()
    # "No answer" may be a vote, or become one: only a master that refused, or that was never sent the
    # command, certainly has none of ours. The undo goes the same way behind it.
    maybe: list[int] = []
    if kept:
        # An earlier round may have reached a master that this one did not.
        maybe = list(range(ballot.masters))
    elif ballot.refused < ballot.masters:
        asked = (i for i in range(ballot.masters) if i not in ballot.unsent)
        maybe = [i for i in asked if (vote := votes.get(i)) is None or vote.code in (_YES, Code.FAULT)]
    if queued is not None:
        queued.round_s = ballot.decided_at - ballot.sent_at
        queued.length = 0 if brief else max((vote.length for vote in votes.values()), default=0)
        if not queued.drawn and ballot.answered >= ballot.quorum and queued.draw(votes):
            # See to it that all masters have the same ticket.
            yield Tell(commands.wait(queued))
        elif ballot.granted and queued.drawn:
            # First a place on those masters, too, or their votes would pass us by.
            yield Tell(commands.wait(queued), maybe)
    if maybe:
        yield Tell(waiting.undo(owner, hand_on=hand_on), maybe, resend_for=ttl)
    waiting.asked.remove(owner)
    return ballot
