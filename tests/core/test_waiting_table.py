"""The tables of `rules/waiting.py`: every ballot of up to five masters, with every state of a contender."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass

import pytest

from rlock.model import Code, Fault, FaultKind, Verdict, Vote
from rlock.rules.quorum import Ballot, Settle
from rlock.rules.waiting import MOVES, STAGES, Move, Stage, Step, next_move

YES = Vote(Code.YES, "me:1")
THEIRS = Vote(Code.FOREIGN, "them:1", 1, 9_000)
OTHERS = Vote(Code.FOREIGN, "others:1", 1, 9_000)
QUEUED = Vote(Code.QUEUED, "first:1", ticket=7)
YOUNG = THEIRS._replace(guarded=True)
DOWN = Vote(Code.FAULT, fault=Fault(FaultKind.DOWN, "connection refused"))
DENIED = Vote(Code.FAULT, fault=Fault(FaultKind.DENIED, "WRONGPASS"))
NOW = 1000.0
#: The stages in which a contender sends rounds.
TRYING = (Stage.NEW, Stage.SUBSCRIBING, Stage.JOINING, Stage.WAITING)


@dataclass
class State:
    stage: Stage
    verdict: Verdict
    nudged: bool
    until: float


def ballot_of(votes: tuple[Vote, ...]) -> Ballot:
    ballot = Ballot(len(votes), Settle.ALL, sent_at=NOW)
    for i, vote in enumerate(votes):
        ballot.cast(i, vote)
    return ballot


def states(ballot: Ballot) -> list[State]:
    """All states in which a contender can be after this round was lost; TOO_LATE: won, but over time."""
    verdict = ballot.judge(NOW, NOW + 1.0)
    if verdict is Verdict.WON:
        verdict = Verdict.TOO_LATE
    found = itertools.product(TRYING, (verdict,), (False, True), (NOW - 1.0, NOW, NOW + 1.0))
    return [State(*state) for state in found]


def all_ballots(kinds: tuple[Vote, ...], masters: int) -> list[Ballot]:
    return [ballot_of(votes) for votes in itertools.product(kinds, repeat=masters)]


@pytest.mark.parametrize("masters", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(
    "kinds",
    [
        (YES, THEIRS, DOWN),
        (YES, THEIRS, OTHERS),
        (YES, THEIRS, QUEUED),
        (YES, YOUNG, DOWN),
        (THEIRS, DENIED, QUEUED),
    ],
    ids=["a holder", "two contenders", "a queue", "young masters", "obstacles"],
)
def test_every_ballot_in_every_state_has_the_move_that_the_rules_ask_for(
    kinds: tuple[Vote, ...], masters: int
) -> None:
    """The conditions are written a second time here, from the rules and not from the table."""
    quorum = masters // 2 + 1
    for ballot in all_ballots(kinds, masters):
        votes = [*ballot.votes.values()]
        named = Counter(vote.holder for vote in votes if vote.code == Code.FOREIGN)
        holder = max(named.values(), default=0) >= quorum
        stuck = sum(vote.fault is not None and vote.fault.kind is FaultKind.DENIED for vote in votes)
        eligible = sum(vote.fault is None and not vote.guarded for vote in votes)
        queued = any(vote.code == Code.QUEUED for vote in votes)
        won = sum(vote.code == Code.YES for vote in votes) >= quorum
        for state in states(ballot):
            move = next_move(ballot, state, NOW)
            if not holder and not won and masters - stuck < quorum:
                assert move is Move.FAIL, "no waiting can help"
            elif not holder and not won and eligible >= quorum and queued and not state.nudged:
                assert move is Move.NUDGE, "a dead waiter may stand before it"
            elif state.until <= NOW:
                assert move is Move.STOP
            elif won:
                assert move is Move.RETRY, "the votes came too late"
            elif state.stage is Stage.NEW and (holder or eligible >= quorum):
                assert move is Move.SUBSCRIBE
            elif holder:
                assert move is Move.SLEEP
            elif eligible < quorum:
                refused = sum(vote.fault is None for vote in votes) >= quorum
                first = state.stage is Stage.NEW and refused
                assert move is (Move.SUBSCRIBE if first else Move.RETRY)
            elif queued:
                assert move is Move.SLEEP, "the first in the queue has the lock soon"
            elif state.stage is Stage.WAITING and max(named.values(), default=0) + _faults(votes) < quorum:
                assert move is Move.SLEEP_BRIEFLY, "asking again would disturb a hand-off"
            else:
                assert move is Move.BACK_OFF


def _faults(votes: list[Vote]) -> int:
    return sum(vote.fault is not None for vote in votes)


def test_each_row_of_the_table_decides_some_ballot() -> None:
    kinds = (YES, THEIRS, OTHERS, QUEUED, DENIED, DOWN)
    moves = {next_move(ballot, state, NOW) for ballot in all_ballots(kinds, 3) for state in states(ballot)}
    assert moves == set(Move) == {row.move for row in MOVES}


@pytest.mark.rule("4.2")
def test_a_contender_joins_the_queue_only_after_its_subscription_is_confirmed() -> None:
    before = {stage for (stage, step), after in STAGES.items() if after is Stage.JOINING}
    assert before == {Stage.SUBSCRIBING}
    assert STAGES[Stage.SUBSCRIBING, Step.CONFIRMED] is Stage.JOINING


@pytest.mark.parametrize("stage", list(Stage))
def test_a_contender_can_withdraw_in_each_stage_and_is_new_then(stage: Stage) -> None:
    """Ctrl-C can come between any two lines."""
    assert STAGES[stage, Step.WITHDRAW] is Stage.NEW
