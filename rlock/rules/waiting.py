"""Waiting: the life of a contender, and what it does after a round that it did not win. Two tables.

A contender tries once without a place in the queue. If it may wait, it subscribes, and joins the queue with
the first round after a quorum has confirmed the subscription: a client that cannot hear of a hand-off must
not stand in the way of others. It waits from the moment at which it knows its ticket.

After each round that was not won, `next_move` takes the first row of `MOVES` whose condition holds. The
diagrams in docs/ and the exhaustive test (tests/core/test_waiting_table.py) come out of these tables.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import NamedTuple, Protocol

from ..model import Code, Verdict
from .quorum import Ballot


class Stage(enum.Enum):
    __hash__ = object.__hash__  # see `LeaseState`
    NEW = "new"  # it has no place in the queue
    SUBSCRIBING = "subscribing"  # fewer than a quorum of masters have confirmed its subscription
    JOINING = "joining"  # its next round asks for a place in the queue
    WAITING = "waiting"  # it knows its ticket, the same on all masters
    HOLDING = "holding"  # it has the lock


class Step(enum.Enum):
    """What takes a contender from one stage to another."""

    __hash__ = object.__hash__
    SUBSCRIBE = "subscribe"  # it asks the masters for their messages
    CONFIRMED = "confirmed"  # a quorum of them sends messages from now on
    TICKET = "ticket"  # a quorum of them gave it a place
    GRANT = "grant"  # a round was won, or a thread of the same process handed the lock over
    WITHDRAW = "withdraw"  # it leaves the queue


#: Every stage with the steps that are possible in it.
STAGES: dict[tuple[Stage, Step], Stage] = {
    (Stage.NEW, Step.SUBSCRIBE): Stage.SUBSCRIBING,
    (Stage.SUBSCRIBING, Step.CONFIRMED): Stage.JOINING,
    (Stage.JOINING, Step.TICKET): Stage.WAITING,
    **{(stage, Step.GRANT): Stage.HOLDING for stage in Stage if stage is not Stage.HOLDING},
    # Also while it holds: Ctrl-C may come before the caller learns that it has the lock.
    **{(stage, Step.WITHDRAW): Stage.NEW for stage in Stage},
}


class ContenderState(Protocol):
    """The part of a contender that decides its next move."""

    stage: Stage
    until: float  # the instant at which its time ends

    @property
    def verdict(self) -> Verdict: ...

    @property
    def nudged(self) -> bool: ...


class Move(enum.Enum):
    FAIL = "raise an error: no waiting can help"
    NUDGE = "have the masters that are free hand the lock to the first waiter that lives"
    STOP = "leave the queue: the time is over"
    RETRY = "ask again later: no quorum can vote"
    SUBSCRIBE = "subscribe, then try again at once"
    SLEEP = "sleep until a message comes or enough keys have expired"
    SLEEP_BRIEFLY = "sleep, but look at one master soon"
    BACK_OFF = "stay away for a random time, then try again"


class Row(NamedTuple):
    when: str  # the condition in words, for the docs
    holds: Callable[[Ballot, ContenderState, float], bool]
    move: Move


def _queued(ballot: Ballot) -> bool:
    return any(vote.code == Code.QUEUED for vote in ballot.votes.values())


def _no_vote(ballot: Ballot, contender: ContenderState, _now: float) -> bool:
    """Whether too few masters have a vote. A first refusal by a quorum of them earns a place first."""
    if contender.verdict not in (Verdict.UNREACHABLE, Verdict.TOO_LATE):
        return False
    refused = contender.verdict is Verdict.UNREACHABLE and ballot.answered >= ballot.quorum
    return not (refused and contender.stage is Stage.NEW)


#: The first row that holds decides.
MOVES = (
    Row(
        "no quorum names a holder, and too many masters have an obstacle that lasts",
        lambda ballot, contender, now: contender.verdict is not Verdict.HELD and ballot.hopeless,
        Move.FAIL,
    ),
    # The masters that queued this contender are free, and somebody stands before it. If that waiter is dead,
    # nobody else would ever take it out of the queue.
    Row(
        "the votes are split, and a free master has others first in its queue",
        lambda ballot, contender, now: (
            contender.verdict is Verdict.SPLIT and not contender.nudged and _queued(ballot)
        ),
        Move.NUDGE,
    ),
    Row("the time is over", lambda ballot, contender, now: now >= contender.until, Move.STOP),
    # Nobody can win while so many masters have no vote: handing on their votes would only keep all waiters
    # busy.
    Row("too few masters have a vote", _no_vote, Move.RETRY),
    Row(
        "it has no place in the queue",
        lambda ballot, contender, now: contender.stage is Stage.NEW,
        Move.SUBSCRIBE,
    ),
    Row(
        "a quorum names a holder, or a free master has others first in its queue",
        lambda ballot, contender, now: contender.verdict is Verdict.HELD or _queued(ballot),
        Move.SLEEP,
    ),
    # In the middle of a hand-off some masters name the last holder and some the next one; or votes were split
    # and go to the first in the queue. Asking again would only disturb.
    Row(
        "it has a ticket, and nobody can have a quorum",
        lambda ballot, contender, now: contender.stage is Stage.WAITING and ballot.scattered(),
        Move.SLEEP_BRIEFLY,
    ),
    # Sleeping as if somebody held the lock could leave all contenders asleep over a free one.
    Row("otherwise", lambda ballot, contender, now: True, Move.BACK_OFF),
)


def next_move(ballot: Ballot, contender: ContenderState, now: float) -> Move:
    for row in MOVES:
        if row.holds(ballot, contender, now):
            return row.move
    raise AssertionError("the last row of MOVES always holds")
