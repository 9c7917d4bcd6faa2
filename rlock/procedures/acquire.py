"""Acquire: a timed majority, with undo; and the waiting for it.

Source: "Distributed Locks with Redis" (redis.io) for the round; the order try, subscribe, confirm, try
again, sleep closes the gap in which a release would go unheard.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass

from ..model import Code, Verdict
from ..rules import scripts
from ..rules.keys import channel, owner_token
from ..rules.options import LockOptions
from ..rules.quorum import Ballot, Settle
from ..rules.timing import (
    LAST_ROUND_S,
    expiry_wait,
    lease_ms,
    poll_wait,
    split_wait,
    unreachable_wait,
    valid_until,
)
from .steps import Ask, Listen, Park, Procedure, Tell, Terms, impossible, unreachable

log = logging.getLogger("rlock")

#: ``until`` of an acquire that tries once.
AT_ONCE = -math.inf
#: ``until`` of an acquire that waits as long as it takes.
FOR_EVER = math.inf


@dataclass(frozen=True)
class Grant:
    """A round that was won."""

    owner: str
    sent_at: float
    ballot: Ballot


@dataclass(frozen=True)
class Refusal:
    """A round that was not, and has been undone."""

    verdict: Verdict
    ballot: Ballot


def attempt(terms: Terms, options: LockOptions, label: str, timeout: float) -> Procedure[Grant | Refusal]:
    """One round with an owner token of its own; undone on every master unless it was won.

    A fresh token each time: a late command of this attempt can then never touch the next one.
    """
    lease = options.lease
    owner = owner_token(label)
    undo = scripts.release(options.name, owner, publish=False)
    try:
        ballot = yield Ask(scripts.acquire(options.name, owner, lease_ms(lease.ttl)), timeout)
        verdict = ballot.judge(terms.clock(), valid_until(ballot.sent_at, lease.ttl))
        if verdict is Verdict.WON:
            return Grant(owner, ballot.sent_at, ballot)
    except BaseException:
        # Ctrl-C or a cancelled task: votes may stand on any master, and nobody would know of them.
        yield Tell(undo, owed_for=lease.ttl)
        raise
    # "No answer" may be a vote: only a master that named another holder certainly has none of ours.
    maybe = [
        i
        for i in range(ballot.masters)
        if (vote := ballot.votes.get(i)) is None or vote.code not in (Code.FOREIGN, Code.NOT_A_LOCK)
    ]
    if maybe:
        yield Tell(undo, maybe, owed_for=lease.ttl)
    return Refusal(verdict, ballot)


def acquire(terms: Terms, options: LockOptions, label: str, until: float) -> Procedure[Grant | None]:
    """Try until ``until`` (an instant, AT_ONCE or FOR_EVER). None: contention, and the time is over.

    Raises `QuorumUnreachableError` when the time is over and the last round had fewer answers than a
    quorum; `OptionsError` as soon as no waiting can help.
    """
    clock, request_timeout = terms.clock, options.lease.request_timeout
    heard_by: int | None = None  # masters on which our subscription stands
    splits = failures = 0
    timeout = request_timeout
    while True:
        outcome = yield from attempt(terms, options, label, timeout)
        if isinstance(outcome, Grant):
            return outcome
        ballot, verdict = outcome.ballot, outcome.verdict
        if ballot.hopeless:
            raise impossible(terms, options.name, ballot)
        now = clock()
        if verdict is Verdict.UNREACHABLE:
            failures += 1
            _tell_of_failure(terms, options, ballot, failures, until)
            wake_at = now + unreachable_wait(terms.random, failures)
        elif heard_by is None and now < until:
            failures = 0
            # Only what is published after the confirmation is heard, so it is followed by another try.
            heard_by = yield Listen(channel(options.name), request_timeout)
            timeout = _time_for_a_round(until - clock(), request_timeout)
            continue
        elif verdict is Verdict.TOO_LATE or ballot.split():
            failures, splits = 0, splits + 1
            wake_at = now + split_wait(terms.random, splits, ballot.decided_at - ballot.sent_at)
        else:
            failures = splits = 0
            wake_at = math.inf
        if now >= until:
            break
        if wake_at < math.inf:
            heard = yield Park(min(wake_at, until))
        else:
            heard = yield from _sleep(terms, options, ballot, until, deaf=(heard_by or 0) < terms.quorum)
        if not heard and clock() >= until:
            break
        timeout = _time_for_a_round(until - clock(), request_timeout)
    if verdict is Verdict.UNREACHABLE:
        # Not contention: nobody can say who holds it, and the caller must not take this for "busy".
        raise unreachable(terms, options.name, ballot)
    return None


def _sleep(
    terms: Terms, options: LockOptions, ballot: Ballot, until: float, *, deaf: bool
) -> Procedure[bool]:
    """Sleep while somebody holds the lock. True: a quorum published its release, or it looks free."""
    clock = terms.clock
    holder = ballot.holders().most_common(1)[0][0]
    ttls = [vote.ttl_ms for vote in ballot.votes.values() if vote.code == Code.FOREIGN]
    free_at = clock() + expiry_wait(ttls, ballot.masters, ballot.quorum)
    looked_at = terms.random.randrange(ballot.masters)
    while True:
        heard = yield Park(min(free_at, until, clock() + poll_wait(terms.random, deaf=deaf)))
        if heard:
            return True
        if clock() >= min(free_at, until):
            return clock() >= free_at
        # The message may have been lost, the holder may have died: look, at one master only, and at
        # another one each time, because this one may be the one that is wrong.
        looked_at = (looked_at + 1) % ballot.masters
        look = yield Ask(
            scripts.status(options.name),
            options.lease.request_timeout,
            Settle.ALL,
            targets=(looked_at,),
        )
        vote = look.votes.get(looked_at)
        if vote is None or vote.code == Code.FAULT:
            continue
        if vote.code != Code.YES or vote.holder != holder:
            return True
        if vote.ttl_ms >= 0:
            # Renewed in the meantime: the expiry that the refusals told is no longer true.
            free_at = max(free_at, clock() + expiry_wait([vote.ttl_ms] * ballot.masters, ballot.masters, 1))


def _time_for_a_round(left: float, request_timeout: float) -> float:
    """A retry must not run far past the caller's time, nor be cut so short that it cannot succeed."""
    return min(request_timeout, max(left, LAST_ROUND_S))


def _tell_of_failure(terms: Terms, options: LockOptions, ballot: Ballot, failures: int, until: float) -> None:
    # At the first failure and at each doubling: a wait without end must not be a silent one.
    if until > terms.clock() and failures & (failures - 1) == 0:
        log.warning(
            "still waiting (%d failed rounds): %s",
            failures,
            unreachable(terms, options.name, ballot),
        )
