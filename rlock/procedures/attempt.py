"""One attempt: a round of acquire, undone on every master unless it was won; and the end of split votes.

Source: "Distributed Locks with Redis" (redis.io), section "The Redlock algorithm".
"""

from ..model import Code, Verdict
from ..rules import commands, keys, timing
from ..rules.command_templates import Command
from ..rules.quorum import Settle
from ..rules.tickets import Place
from ..rules.waiting import Stage, Step
from .contender import Contender, Grant
from .fencing import agree, agreed_on, note_lease
from .inspect import impossible, no_quorum
from .port import ClientContext, Port, Request, WaitGenerator

_YES, _WON = Code.YES, Verdict.WON
_OPEN = (Verdict.SPLIT, Verdict.HELD)  # they prove no holder: it may still lack a vote (`Findings.note`)


def attempt(
    port: Port, contender: Contender, timeout: float, *, keep: bool = False
) -> WaitGenerator[Grant | None]:
    """Ask all masters for the lock once. None: the round was lost, and its undo was sent.

    Each attempt has its own owner token, so a late command never touches the next attempt. A master that
    has handed the lock to the contender's place grants it to this token. After an exception, `withdraw` it.

    ``keep``: after a split the leader keeps its votes and asks all masters again. Only the grants of its last
    round count, and validity counts from before that round was sent.
    """
    context, options, findings = port.context, contender.options, contender.findings
    ttl = options.lease.ttl
    owner = context.new_owner(contender.label)
    contender.owners.append(owner)
    command = _command(port, contender, owner)
    kept = False
    while True:
        ballot = yield from port.masters.call(Request(command, timeout, Settle.HOLDER))
        if ballot.faulted and ballot.duplicated:
            raise impossible(context, options.name, ballot)
        until = timing.won_until(ballot.sent_at, ttl, options.lease.longest)
        votes = dict(ballot.votes)  # first: while this thread does not run, others read late ones
        verdict = ballot.judge(context.clock(), until)
        if verdict is _WON:
            context.time.correct(votes, ballot.sent_at, ballot.decided_at)
            given = [vote.token for vote in list(ballot.votes.values()) if vote.code == _YES]
            token = agreed_on(given, ballot.quorum)
            if not token:
                token = yield from agree(port.masters, options, owner, given, until)
            if token and ttl > context.guard.noted:
                token = yield from note_lease(port.masters, options, owner, token, until)
            # Checked last: the lease may have ended while the masters agreed on a token.
            if token and context.clock() < until:
                waiter = "" if contender.place is None else contender.place.waiter
                return Grant(owner, ballot.sent_at, waiter, token=token, votes=len(given))
            verdict = Verdict.TOO_LATE
        elif ballot.outstanding and ballot.settled and contender.place is not None:
            # A master that refuses within this moment needs no undo.
            decided_at = ballot.decided_at
            wait = min(2 * (decided_at - ballot.sent_at), timing.STRAGGLERS_S)
            yield from port.masters.collect([ballot], context.clock() + wait)
            ballot.decided_at = decided_at
            verdict = ballot.judge(decided_at, until)
        findings.note(verdict, ballot)
        may_settle = keep and verdict is Verdict.SPLIT and findings.settling < timing.SETTLE_TRIES
        if not (may_settle and ballot.leader(findings.passed_over) == keys.holder_identity(owner)):
            break
        kept = True
        yield from pause(port, contender)
    votes = dict(ballot.votes)
    if context.clock() < until:  # otherwise the time in a vote may be old, or younger than the decision
        context.time.correct(votes, ballot.sent_at, ballot.decided_at)
    if queue_place(contender) is not None:
        findings.took_s = ballot.decided_at - ballot.sent_at
        findings.queue_length = max((vote.queue.length for vote in ballot.votes.values()), default=0)
    # An earlier round of a kept vote may have left votes on other masters than the last round.
    _give_back(port, contender, owner, list(range(ballot.masters)) if kept else ballot.maybe_granted())
    return None


def _command(port: Port, contender: Contender, owner: str) -> Command:
    context, options = port.context, contender.options
    name, fair, guarded = options.name, options.fair, context.guard.on
    lease = timing.lease_ms(options.lease.ttl)
    now_us = context.time.us(context.clock())
    # Otherwise each master that gave a higher token would give another one again, with each attempt.
    token = max(now_us, contender.findings.next_token())
    place = queue_place(contender)
    if place is not None:
        place.attempts += 1
        if contender.stage is Stage.JOINING:
            place.ticket = now_us
    return commands.acquire(name, owner, lease, place=place, fair=fair, token=token, guarded=guarded)


def take_place(context: ClientContext, contender: Contender) -> Place:
    options, owner = contender.options, context.new_owner(contender.label)
    place = Place(options.name, owner, context.client_id)
    # First: an interrupt in between must find the place, or it would stay in the queue.
    contender.owners.append(owner)
    contender.place = place
    contender.step(Step.SUBSCRIBE)
    return place


def queue_place(contender: Contender) -> Place | None:
    """The place to send with a round: none unless a quorum has confirmed the subscription."""
    place, stands = contender.place, contender.stage in (Stage.JOINING, Stage.WAITING)
    return place if stands and place is not None and not place.aside else None


def _give_back(port: Port, contender: Contender, owner: str, maybe: list[int]) -> None:
    """Undo a lost round on the masters that may have a vote. The place in the queue stays."""
    ballot, place = contender.findings.ballot, queue_place(contender)
    if place is not None:
        joins = contender.stage is Stage.JOINING and ballot.answered >= ballot.quorum
        differs = joins and place.draw(ballot.votes)
        if joins and place.drawn:
            contender.step(Step.TICKET)
        if differs:
            # Otherwise the masters would have different orders, and no waiter would get a quorum.
            port.masters.send(commands.wait(place))
        elif maybe and contender.stage is Stage.WAITING and (ballot.granted or not contender.findings.holder):
            # The place first: otherwise a master without it would hand the vote to a later waiter.
            port.masters.send(commands.wait(place), maybe, resend_for=contender.options.lease.ttl)
    if maybe:
        # The first in the queue gets the vote, so one contender gets all votes (docs/how-it-works.md).
        # Not while another owner may have a quorum: a minority would wake the first again and again.
        hand_on = contender.findings.holder is None and ballot.scattered()
        # A token of its own on each master would cost the next waiter a round of its own.
        token = port.context.time.us(port.context.clock())
        undo = commands.undo(port.context.wire, contender.name, owner, hand_on=hand_on, token=token)
        port.masters.send(undo, maybe, resend_for=contender.options.lease.ttl)
    contender.owners.remove(owner)


def pause(port: Port, contender: Contender) -> WaitGenerator[None]:
    """Let other contenders act before the next round that settles a split."""
    context, findings = port.context, contender.findings
    took = findings.ballot.decided_at - findings.ballot.sent_at
    wait = timing.settle_wait(context.random, findings.settling, took)
    findings.settling += 1
    yield from port.notifications.wait(contender, context.clock() + wait)


def settle(port: Port, contender: Contender) -> WaitGenerator[Grant | None]:
    """Find a holder. None: another owner had the lock during this call. Sends nothing if that is known.

    It ends an acquire that may wait no longer and has not got the lock: such an acquire may return False only
    if one owner was seen on a quorum of masters. After a split vote each contender may only be blocking the
    others. So the leader (`Ballot.leader`) keeps its votes and asks again (`attempt`). The others only ask
    who has it until one owner has a quorum, and try again if none gets it: docs/how-it-works.md.

    Raises `QuorumUnreachableError` if no quorum names an owner after `SETTLE_TRIES` pauses.
    """
    context, options, findings = port.context, contender.options, contender.findings
    timeout = options.lease.request_timeout
    seen: dict[int, str] = {}
    while findings.verdict in _OPEN and not findings.contended and findings.settling < timing.SETTLE_TRIES:
        yield from pause(port, contender)
        status = commands.status(options.name, waiters=1, guarded=context.guard.on)
        found = yield from port.masters.call(Request(status, timeout, Settle.HOLDER))
        findings.note(found.judge(context.clock(), 0.0), found)
        before, seen = seen, found.standing()
        if findings.verdict is not Verdict.SPLIT or (seen and (seen != before or not found.split())):
            continue
        # The lock is free, or the owners of the votes are dead, stopped, or about to give up.
        findings.passed_over.update(seen.values())
        grant = yield from attempt(port, contender, timeout, keep=True)
        if grant is not None:
            return grant
        if findings.ballot.hopeless and findings.ballot.foreign_holder() is None:
            raise impossible(context, options.name, findings.ballot)
    if findings.verdict not in _OPEN or not findings.contended:
        raise no_quorum(context, options, findings.verdict, findings.ballot)
    return None
