"""Waiting: the life of a contender, and what it does after a round that it did not win. Two tables.

A contender tries once without a place in the queue. If it may wait, it subscribes, and joins the queue with
the first round after a quorum has confirmed the subscription: a client that cannot hear of a hand-off must
not stand in the way of others. It waits from the moment at which it knows its ticket.

After each round that was not won, `next_move` takes the first row of `MOVES` whose condition holds. The
diagrams in docs/ and the exhaustive test (tests/core/test_quorum.py) come out of these tables.
"""

import enum
from collections.abc import Callable
from typing import NamedTuple

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
    __hash__ = object.__hash__
    SUBSCRIBE = "subscribe"  # it asks the masters for their messages
    CONFIRMED = "confirmed"  # a quorum of them sends messages from now on
    TICKET = "ticket"  # a quorum of them gave it a place
    GRANT = "grant"  # a round was won, or the messages of a quorum
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


class LostRound(NamedTuple):
    ballot: Ballot
    verdict: Verdict
    stage: Stage
    nudged: bool  # the masters were nudged before it
    time_is_over: bool


class Move(enum.Enum):
    FAIL = "raise an error: no waiting can help"
    NUDGE = "have the masters that are free hand the lock to the first waiter that lives"
    STOP = "leave the queue: the time is over"
    RETRY = "ask again later: no quorum can vote"
    SUBSCRIBE = "subscribe, then try again at once"
    SLEEP = "sleep until a message comes or enough keys have expired"
    SLEEP_BRIEFLY = "sleep, but poll one master soon"
    BACK_OFF = "stay away for a random time, then try again"


class Row(NamedTuple):
    when: str  # the condition in words, for the docs
    holds: Callable[[LostRound], bool]
    move: Move


def _queued(lost: LostRound) -> bool:
    return any(vote.code == Code.QUEUED for vote in lost.ballot.votes.values())


def _no_vote(lost: LostRound) -> bool:
    """Whether too few masters have a vote. A first refusal by a quorum of them earns a place first."""
    if lost.verdict not in (Verdict.UNREACHABLE, Verdict.TOO_LATE):
        return False
    refused = lost.verdict is Verdict.UNREACHABLE and lost.ballot.answered >= lost.ballot.quorum
    return not (refused and lost.stage is Stage.NEW)


#: The first row that holds decides.
MOVES = (
    Row(
        "no quorum names a holder, and too many masters have an obstacle that lasts",
        lambda lost: lost.verdict is not Verdict.HELD and lost.ballot.hopeless,
        Move.FAIL,
    ),
    # The masters that queued it are free. They may have a dead waiter first, which nobody else takes away.
    Row(
        "the votes are split, and a free master has others first in its queue",
        lambda lost: lost.verdict is Verdict.SPLIT and not lost.nudged and _queued(lost),
        Move.NUDGE,
    ),
    Row("the time is over", lambda lost: lost.time_is_over, Move.STOP),
    # Nobody can win while so many masters have no vote. To hand on their votes would keep all waiters busy.
    Row("too few masters have a vote", _no_vote, Move.RETRY),
    Row("it has no place in the queue", lambda lost: lost.stage is Stage.NEW, Move.SUBSCRIBE),
    Row(
        "a quorum names a holder, or a free master has others first in its queue",
        lambda lost: lost.verdict is Verdict.HELD or _queued(lost),
        Move.SLEEP,
    ),
    # In the middle of a hand-off masters name the last holder or the next one: another round would disturb.
    Row(
        "it has a ticket, and nobody can have a quorum",
        lambda lost: lost.stage is Stage.WAITING and lost.ballot.scattered(),
        Move.SLEEP_BRIEFLY,
    ),
    # Sleeping as if somebody held the lock could leave all contenders asleep over a free one.
    Row("otherwise", lambda lost: True, Move.BACK_OFF),
)


def next_move(lost: LostRound) -> Move:
    return next(row.move for row in MOVES if row.holds(lost))
