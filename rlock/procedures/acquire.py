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


def attempt(
    terms: Terms, options: LockOptions, label: str, timeout: float, asked: list[str]
) -> Procedure[Grant | Refusal]:
    """One round with an owner token of its own; undone on every master unless it was won.

    A fresh token each time: a late command of this attempt can then never touch the next one. ``asked``
    holds the token from before the first byte is sent until it is undone; what stands in it after an
    exception may have votes.
    """
    lease = options.lease
    owner = owner_token(label)
    undo = scripts.release(options.name, owner, publish=False)
    asked.append(owner)
    try:
        ballot = yield Ask(scripts.acquire(options.name, owner, lease_ms(lease.ttl)), timeout)
        if ballot.duplicated:
            raise impossible(terms, options.name, ballot)
        verdict = ballot.judge(terms.clock(), valid_until(ballot.sent_at, lease.ttl))
        if verdict is Verdict.WON:
            return Grant(owner, ballot.sent_at, ballot)
    except GeneratorExit:
        raise
    except BaseException:
        # Ctrl-C or a cancelled task: votes may stand on any master, and nobody would know of them.
        yield Tell(undo, owed_for=lease.ttl)
        asked.remove(owner)
        raise
    # "No answer" may be a vote: only a master that named another holder, or that was never sent the
    # command, certainly has none of ours.
    maybe = [
        i
        for i in range(ballot.masters)
        if i not in ballot.unsent
        and ((vote := ballot.votes.get(i)) is None or vote.code not in (Code.FOREIGN, Code.NOT_A_LOCK))
    ]
    if maybe:
        yield Tell(undo, maybe, owed_for=lease.ttl)
    asked.remove(owner)
    return Refusal(verdict, ballot)


def acquire(
    terms: Terms, options: LockOptions, label: str, until: float, asked: list[str]
) -> Procedure[Grant | None]:
    """Try until ``until`` (an instant, AT_ONCE or FOR_EVER). None: contention, and the time is over.

    Raises `QuorumUnreachableError` when the time is over and the last round had fewer answers than a
    quorum; `OptionsError` as soon as no waiting can help. ``asked``: see `attempt`.
    """
    clock = terms.clock
    listening = False
    splits = failures = 0
    while True:
        timeout = _time_for(until - clock(), options)
        outcome = yield from attempt(terms, options, label, timeout, asked)
        if isinstance(outcome, Grant):
            return outcome
        ballot, verdict = outcome.ballot, outcome.verdict
        if ballot.hopeless:
            raise impossible(terms, options.name, ballot)
        now = clock()
        if now >= until:
            break
        if verdict is Verdict.UNREACHABLE:
            failures += 1
            _tell_of_failure(terms, options, ballot, failures)
            heard = yield Park(min(now + unreachable_wait(terms.random, failures), until))
        elif not listening:
            # Only what is published after the confirmation is heard, so it is followed by another try.
            listening, failures = True, 0
            yield Listen(channel(options.name), _time_for(until - now, options))
            continue
        elif (holder := ballot.foreign_holder()) is not None and verdict is Verdict.OUTVOTED:
            failures = splits = 0
            heard = yield from _sleep(terms, options, ballot, holder, until)
        else:
            # Nobody was seen with a quorum. Sleeping as if somebody held it would leave all of them
            # asleep over a free lock: votes that are given back are not published.
            failures, splits = 0, splits + 1
            took = ballot.decided_at - ballot.sent_at
            wait = split_wait(terms.random, splits, took, certain=ballot.split())
            heard = yield Park(min(now + wait, until))
        if not heard and clock() >= until:
            break
    if verdict is Verdict.UNREACHABLE:
        # Not contention: nobody can say who holds it, and the caller must not take this for "busy".
        raise unreachable(terms, options.name, ballot)
    return None


def _sleep(terms: Terms, options: LockOptions, ballot: Ballot, holder: str, until: float) -> Procedure[bool]:
    """Sleep while ``holder`` has the lock. True: a quorum published its release, or it looks free."""
    clock, masters = terms.clock, ballot.masters
    ttls = [vote.ttl_ms for vote in ballot.votes.values() if vote.code == Code.FOREIGN]
    free_at = clock() + expiry_wait(ttls, ballot.quorum - ballot.granted)
    looked_at = terms.random.randrange(masters)
    while True:
        # Asked each time: a subscription that was slow or lost must not make us poll for ever.
        heard_by = yield Listen(channel(options.name), 0.0)
        look_at = clock() + poll_wait(terms.random, deaf=heard_by < terms.quorum)
        heard = yield Park(min(free_at, until, look_at))
        if heard:
            return True
        if clock() >= min(free_at, until):
            return clock() >= free_at
        # The message may have been lost, the holder may have died: look, at one master only, and at
        # another one each time, because this one may be the one that is wrong or dead.
        vote = None
        for _ in range(masters):
            looked_at = (looked_at + 1) % masters
            look = yield Ask(
                scripts.status(options.name),
                _time_for(until - clock(), options),
                Settle.ALL,
                targets=(looked_at,),
            )
            vote = look.votes.get(looked_at)
            if vote is not None and vote.code != Code.FAULT:
                break
        if vote is None or vote.code != Code.YES or vote.holder != holder:
            return True
        if vote.ttl_ms >= 0:
            # Renewed in the meantime: the expiry that the refusals told is no longer true.
            free_at = max(free_at, clock() + expiry_wait([vote.ttl_ms], 1))


def _time_for(left: float, options: LockOptions) -> float:
    """A round must not run far past the caller's time, nor be cut so short that it cannot succeed."""
    timeout = options.lease.request_timeout
    return timeout if left <= 0 else min(timeout, max(left, LAST_ROUND_S))


def _tell_of_failure(terms: Terms, options: LockOptions, ballot: Ballot, failures: int) -> None:
    # At the first failure and at each doubling: a wait without end must not be a silent one.
    if failures & (failures - 1) == 0:
        log.warning(
            "still waiting (%d failed rounds): %s", failures, unreachable(terms, options.name, ballot)
        )
