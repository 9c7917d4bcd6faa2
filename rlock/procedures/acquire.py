"""Acquire: attempts, and the waiting between them.

The order try, subscribe, confirm, try again, sleep closes the gap in which a release would go unheard. The
queue is that of a monitor with hand-off (as in AQS): docs/waiting.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..events import Queued, observed, tell
from ..model import Code, Verdict
from ..rules import commands
from ..rules.options import LockOptions
from ..rules.quorum import Ballot, Settle
from ..rules.tickets import Place
from ..rules.timing import (
    LAST_ROUND_S,
    expiry_wait,
    poll_wait,
    split_wait,
    spread_wait,
    unreachable_wait,
    won_until,
)
from ..rules.wire import holder_identity
from .attempt import Asked, Grant, Waiting, attempt
from .fencing import agree, agreed_on
from .settle import settle
from .steps import (
    Ask,
    ClientContext,
    Listen,
    Park,
    Procedure,
    Standing,
    Tell,
    Unlisten,
    Wake,
    impossible,
    no_quorum,
    tell_of_failure,
)

#: Rounds after which a waiter asks again later, and says so.
_FAILURES = (Verdict.UNREACHABLE, Verdict.TOO_LATE)
#: ``until`` of an acquire that tries once.
AT_ONCE = -math.inf
#: ``until`` of an acquire that waits as long as it takes.
FOR_EVER = math.inf


def acquire(
    context: ClientContext, options: LockOptions, label: str, until: float, asked: Asked
) -> Procedure[Grant | None]:
    """Try until ``until`` (an instant, AT_ONCE or FOR_EVER). None: time is over, somebody else had it.

    Raises `QuorumUnreachableError` when the time is over and nobody can say who had it; `OptionsError` as
    soon as no waiting can help. ``asked``: see `Waiting`.
    """
    waiting = Waiting(context, options, label, asked)
    try:
        grant = yield from _acquire(waiting, until)
    except GeneratorExit:
        raise
    except BaseException:
        yield from _leave(waiting)
        raise
    if grant is None:
        # First: a round that settles a split has no place, or what masters hand to it would be lost.
        yield from _leave(waiting)
        grant = yield from settle(waiting)
    return grant


def _leave(waiting: Waiting) -> Procedure[None]:
    place = waiting.place
    if place is not None:
        # First: a thread of ours that is releasing must not leave the lock to one who has gone.
        yield Unlisten()
        # Also if it was handed the lock a moment ago: the same command passes it on.
        leave = waiting.context.release(place.name, place.token, waiter=place.waiter)
        yield Tell(leave, resend_for=waiting.options.lease.ttl)
        waiting.asked.remove(place.token)
        waiting.place = None


def _acquire(waiting: Waiting, until: float) -> Procedure[Grant | None]:
    context, options = waiting.context, waiting.options
    clock = context.clock
    splits = failures = 0
    if until > AT_ONCE and (yield Standing(options.name)):
        heard_by = yield Listen(waiting.take_place(), 0.0)
        waiting.queued = heard_by >= context.quorum
    wake, nudged = Wake.TIME, False
    while True:
        timeout = _time_for(until - clock(), options)
        outcome = yield from attempt(waiting, timeout, keep=until == AT_ONCE)
        if isinstance(outcome, Grant):
            return outcome._replace(handed=True) if wake is Wake.HANDED else outcome
        ballot, now, place = outcome, clock(), waiting.place
        if place is not None:
            if waiting.queued and not waiting.asked.queued and observed():
                _tell_of_place(waiting, ballot)
            place.splits = place.splits + 1 if wake is Wake.HANDED else 0
        # Of a quorum that names a holder none is out of order, or free.
        verdict, held = waiting.verdict, waiting.verdict is Verdict.HELD
        if not held and ballot.hopeless:
            raise impossible(context, options.name, ballot)
        queued = [i for i, vote in ballot.votes.items() if vote.code == Code.QUEUED]
        if queued and verdict is Verdict.SPLIT and not nudged:
            # Free, and we are not the first. Whoever is gets it now, and of those who are dead the
            # queue is rid; if that was all of them, it is our turn.
            nudged = True
            yield from _nudge(waiting, queued, timeout)
            if place is None:
                continue
        nudged = False
        if now >= until:
            break
        # While so many masters may not vote nobody can win: to hand their votes round would only keep all
        # waiters busy. But who is refused by a quorum of them takes a place first.
        refused = verdict is Verdict.UNREACHABLE and ballot.answered >= ballot.quorum
        if verdict in _FAILURES and not (refused and place is None):
            failures += 1
            tell_of_failure(no_quorum(context, options, verdict, ballot), failures)
            wake = yield Park(min(now + unreachable_wait(context.random, failures), until))
        elif place is None:
            # Only what is published after the confirmation is heard, so it is followed by another try.
            failures = 0
            heard_by = yield Listen(waiting.take_place(), timeout)
            waiting.queued = heard_by >= context.quorum
            continue
        elif held or queued:
            failures = splits = 0
            wake = yield from _sleep(waiting, ballot, until)
        elif place.drawn and ballot.scattered():
            # In the middle of a hand-off some masters name the holder that was, some the one that is; or
            # votes were split, and go to the first of the queue, in which we stand. To ask again would
            # only disturb.
            failures = splits = 0
            wake = yield from _sleep(waiting, ballot, until, soon=True)
        else:
            # Nobody was seen with a quorum. Sleeping as if somebody held it could leave all of them
            # asleep over a free lock.
            failures, splits = 0, splits + 1
            took = ballot.decided_at - ballot.sent_at
            certain = ballot.split()
            if not certain and splits > 1:
                tell_of_failure(no_quorum(context, options, verdict, ballot), splits)
            wait = split_wait(context.random, splits, took, certain=certain)
            wake = yield Park(min(now + wait, until))
        # With a master away a thread of Java that waits at the first of the others would always be before us.
        crowd = context.wire.shared and context.quorum > 1 and not ballot.faulted
        if wake is Wake.FREE and place is not None and crowd:
            wake = yield from _spread(waiting, place, until)
        if place is not None and place.local_grant is not None:
            owner, sent_at, hops, given = place.local_grant
            place.local_grant = None
            won = won_until(sent_at, options.lease.ttl, options.lease.longest)
            token = agreed_on(given, context.quorum)
            if not token:
                token = yield from agree(context, options, owner, given, won)
            if token and clock() < won:
                return Grant(owner, sent_at, place.waiter, hops, token, len(given), handed=True)
            yield Tell(waiting.undo(owner), resend_for=options.lease.ttl)
            waiting.asked.remove(owner)
        if wake is Wake.TIME and clock() >= until:
            break
    return None


def _nudge(waiting: Waiting, masters: Sequence[int], timeout: float) -> Procedure[None]:
    """Have the lock handed to the first who lives, on masters on which it is free.

    A master passes over so many dead waiters in one call; with more of them it is called again.
    """
    context = waiting.context
    nudge, until = context.release(waiting.options.name, "", publish=False), context.clock() + timeout
    while masters and context.clock() < until:
        ballot: Ballot = yield Ask(nudge, timeout, Settle.ALL, targets=masters)
        masters = [i for i, vote in ballot.votes.items() if vote.hold_count == commands.UNFINISHED]


def _spread(waiting: Waiting, place: Place, until: float) -> Procedure[Wake]:
    """Where one message wakes all who wait, come one after another, or none of them gets a quorum."""
    clock = waiting.context.clock
    at = min(clock() + spread_wait(waiting.context.random, place.length, place.round_s), until)
    wake = Wake.FREE
    # Votes that others take back are told meanwhile: the round that follows finds them.
    while wake in (Wake.FREE, Wake.TIME) and clock() < at:
        wake = yield Park(at)
    return Wake.FREE if wake is Wake.TIME else wake


def _sleep(waiting: Waiting, ballot: Ballot, until: float, *, soon: bool = False) -> Procedure[Wake]:
    """Sleep while somebody has the lock; ``soon``: perhaps. TIME before ``until`` is over: it may be free."""
    context, options, place = waiting.context, waiting.options, waiting.place
    if place is None:
        raise AssertionError("asleep without a place to hear from")
    clock, masters = context.clock, ballot.masters
    holder = waiting.holder
    ttls = [vote.ttl_ms for vote in ballot.votes.values() if vote.code == Code.FOREIGN]
    free_at = clock() + expiry_wait(ttls, ballot.quorum - ballot.granted)
    looked_at = -1
    while True:
        # Asked each time: a subscription that was slow or lost must not make us poll for ever.
        heard_by = yield Listen(place, 0.0)
        if heard_by >= context.quorum and not waiting.queued:
            waiting.queued = True
            return Wake.TIME
        look_at = clock() + poll_wait(context.random, deaf=soon or heard_by < context.quorum)
        soon = False
        wake: Wake = yield Park(min(free_at, until, look_at))
        if wake is not Wake.TIME or clock() >= min(free_at, until):
            return wake
        # The message may have been lost, the holder may have died: look, at one master only, and at
        # another one each time, because this one may be the one that is wrong or dead.
        vote = None
        looked_at = context.random.randrange(masters) if looked_at < 0 else looked_at
        for _ in range(masters):
            looked_at = (looked_at + 1) % masters
            look = yield Ask(
                commands.wait(place)
                if place.drawn
                else commands.status(options.name, waiters=1, guarded=context.guard.on),
                _time_for(until - clock(), options),
                Settle.ALL,
                targets=(looked_at,),
            )
            vote = look.votes.get(looked_at)
            if vote is not None and vote.code != Code.FAULT:
                break
        if vote is None or vote.code != Code.YES:
            return Wake.TIME
        if vote.holder == place.token:
            return Wake.HANDED
        if vote.ttl_ms >= 0:
            left = clock() + expiry_wait([vote.ttl_ms], 1)
            # Renewed in the meantime, or somebody else's by now: then it may also be a waiter that was
            # handed it and is dead to the world.
            free_at = max(free_at, left) if holder_identity(vote.holder) == holder else left
            holder = holder_identity(vote.holder)


def _time_for(left: float, options: LockOptions) -> float:
    """A round must not run far past the caller's time, nor be cut so short that it cannot succeed."""
    timeout = options.lease.request_timeout
    return timeout if left <= 0 else min(timeout, max(left, LAST_ROUND_S))


def _tell_of_place(waiting: Waiting, ballot: Ballot) -> None:
    lengths = sorted((vote.length for vote in ballot.votes.values() if vote.length), reverse=True)
    if len(lengths) >= ballot.quorum:
        # First: one of whom Ctrl-C keeps it from saying that it has left would be counted for ever.
        waiting.asked.queued = True
        tell(Queued(waiting.options.name, lengths[ballot.quorum - 1]))
