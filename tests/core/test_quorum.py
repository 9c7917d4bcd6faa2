"""Every ballot that can be cast, for 1 to 5 masters, and the tables of `rules/waiting.py`, in every state."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from rlock.model import Code, Fault, FaultKind, Verdict, Vote
from rlock.procedures.contender import Contender
from rlock.rules.holds import OwnerKey
from rlock.rules.options import LeaseOptions, LockOptions
from rlock.rules.quorum import Ballot, Settle
from rlock.rules.waiting import MOVES, LostRound, Move, Stage, next_move

from .world import DENIED, DOWN, ODD, cast

YES = Vote(Code.YES, "me:1")
THEIRS = Vote(Code.FOREIGN, "them:1", 1, 9_000)
OTHERS = Vote(Code.FOREIGN, "others:1", 1, 9_000)
QUEUED = Vote(Code.QUEUED, "first:1", ticket=7)
YOUNG = THEIRS._replace(guarded=True)
NOW = 1000.0
#: The stages in which a contender sends rounds.
TRYING = (Stage.NEW, Stage.SUBSCRIBING, Stage.JOINING, Stage.WAITING)


def states(ballot: Ballot) -> list[LostRound]:
    """All states in which a contender can be after this round was lost; TOO_LATE: won, but over time."""
    verdict = ballot.judge(NOW, NOW + 1.0)
    if verdict is Verdict.WON:
        verdict = Verdict.TOO_LATE
    found = itertools.product(TRYING, (False, True), (False, True))
    return [LostRound(ballot, verdict, *state) for state in found]


def all_ballots(kinds: tuple[Vote, ...], masters: int) -> list[Ballot]:
    return [cast(votes, Settle.ALL) for votes in itertools.product(kinds, repeat=masters)]


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
def test_every_ballot_in_every_state_has_the_move_of_the_rules(kinds: tuple[Vote, ...], masters: int) -> None:
    """The conditions are written a second time here, from the rules and not from the table."""
    quorum = masters // 2 + 1
    for ballot in all_ballots(kinds, masters):
        votes = [*ballot.votes.values()]
        named = Counter(vote.holder for vote in votes if vote.code == Code.FOREIGN)
        holder = max(named.values(), default=0) >= quorum
        stuck = sum(vote.fault is not None and vote.fault.kind is FaultKind.DENIED for vote in votes)
        eligible = sum(vote.fault is None and not vote.guarded for vote in votes)
        faults = sum(vote.fault is not None for vote in votes)
        queued = any(vote.code == Code.QUEUED for vote in votes)
        won = sum(vote.code == Code.YES for vote in votes) >= quorum
        for state in states(ballot):
            move = next_move(state)
            if not holder and not won and masters - stuck < quorum:
                assert move is Move.FAIL, "no waiting can help"
            elif not holder and not won and eligible >= quorum and queued and not state.nudged:
                assert move is Move.NUDGE, "a dead waiter may stand before it"
            elif state.time_is_over:
                assert move is Move.STOP
            elif won:
                assert move is Move.RETRY, "the votes came too late"
            elif state.stage is Stage.NEW and (holder or eligible >= quorum):
                assert move is Move.SUBSCRIBE
            elif holder:
                assert move is Move.SLEEP
            elif eligible < quorum:
                first = state.stage is Stage.NEW and len(votes) - faults >= quorum
                assert move is (Move.SUBSCRIBE if first else Move.RETRY)
            elif queued:
                assert move is Move.SLEEP, "the first in the queue has the lock soon"
            elif state.stage is Stage.WAITING and max(named.values(), default=0) + faults < quorum:
                assert move is Move.SLEEP_BRIEFLY, "asking again would disturb a hand-off"
            else:
                assert move is Move.BACK_OFF


def test_each_row_of_the_table_decides_some_ballot() -> None:
    kinds = (YES, THEIRS, OTHERS, QUEUED, DENIED, DOWN)
    moves = {next_move(state) for ballot in all_ballots(kinds, 3) for state in states(ballot)}
    assert moves == set(Move) == {row.move for row in MOVES}


@pytest.mark.parametrize(("now", "over"), [(NOW - 1e-6, False), (NOW, True), (NOW + 1.0, True)])
def test_the_time_of_a_contender_is_over_at_its_very_end(now: float, over: bool) -> None:
    contender = Contender(OwnerKey("me", int), LockOptions("x", LeaseOptions(10.0, 0.5)), NOW, NOW - 1.0)
    contender.findings.note(Verdict.SPLIT, cast((YES, THEIRS, OTHERS)))
    assert contender.lost_round(now, nudged=False).time_is_over is over


ANSWERS = (YES, THEIRS, DOWN)
YOUNG_YES = Vote(Code.FAULT, "me:1", fault=Fault(FaultKind.GUARDED, "it restarted"), guarded=True)


@pytest.mark.rule("3.1")
@pytest.mark.parametrize("masters", [1, 2, 3, 4, 5])
def test_all_complete_ballots_get_the_verdict_of_their_counts(masters: int) -> None:
    """HELD needs a quorum that names one owner, SPLIT a quorum that may vote.

    A junk key, a fault and a young master are no votes; the refusal of a young master names an owner.
    """
    needed = masters // 2 + 1
    no_votes = (DOWN, ODD, YOUNG_YES)
    for votes in itertools.product((YES, THEIRS, OTHERS, YOUNG, *no_votes), repeat=masters):
        named = max(votes.count(THEIRS) + votes.count(YOUNG), votes.count(OTHERS))
        if votes.count(YES) >= needed:
            expected = Verdict.WON
        elif named >= needed:
            expected = Verdict.HELD
        elif masters - sum(votes.count(vote) for vote in (*no_votes, YOUNG)) >= needed:
            expected = Verdict.SPLIT
        else:
            expected = Verdict.UNREACHABLE
        ballot = cast(votes, Settle.HOLDER)
        assert ballot.settled
        assert ballot.judge(now=1.0, valid_until=2.0) is expected, votes
        late = Verdict.TOO_LATE if expected is Verdict.WON else expected
        assert ballot.judge(now=2.0, valid_until=2.0) is late
        certain = max(votes.count(THEIRS), votes.count(OTHERS)) >= needed
        assert (ballot.foreign_holder(voters_only=True) is not None) == certain


@pytest.mark.parametrize("masters", [1, 2, 3, 4, 5])
def test_of_a_split_all_contenders_name_one_leader_whoever_counts(masters: int) -> None:
    """As each of them sees it: its own votes are YES, those of the others name them."""
    owners = ("web/1:0b", "web/2:0a", "web/3:0c")
    for holders in itertools.product((*owners, None), repeat=masters):
        leaders = set()
        for me in owners:
            said = [Vote(Code.YES if one == me else Code.FOREIGN, one) if one else DOWN for one in holders]
            leaders.add(cast(said, Settle.HOLDER).leader(frozenset()))
        (leader,) = leaders
        votes = {owner: holders.count(owner) for owner in holders if owner}
        if leader is None:
            assert not votes
            continue
        assert votes[leader] == max(votes.values())
        equals = [owner for owner in votes if votes[owner] == votes[leader]]
        assert leader == min(equals, key=lambda owner: owner[-2:]), "the oldest"
        assert cast(said, Settle.HOLDER).leader({leader}) != leader, "which did not move"


@pytest.mark.parametrize("masters", [1, 2, 3, 4, 5])
def test_a_round_settles_exactly_when_no_further_answer_can_change_its_verdict(masters: int) -> None:
    for votes in itertools.product((*ANSWERS, None), repeat=masters):
        open_masters = [i for i, vote in enumerate(votes) if vote is None]
        outcomes = set()
        for rest in itertools.product(ANSWERS, repeat=len(open_masters)):
            full = list(votes)
            for i, vote in zip(open_masters, rest, strict=True):
                full[i] = vote
            verdict = cast(full).judge(now=1.0, valid_until=2.0)
            outcomes.add("refused" if verdict in (Verdict.HELD, Verdict.SPLIT) else verdict)
        assert cast(votes).settled == (len(outcomes) == 1), votes


@pytest.mark.parametrize("settle", Settle)
@pytest.mark.parametrize("masters", [1, 2, 3, 4])
def test_a_ballot_that_is_amended_is_the_one_that_is_cast_anew(masters: int, settle: Settle) -> None:
    for votes in itertools.product((*ANSWERS, None), repeat=masters):
        for master, vote in itertools.product(range(masters), (*ANSWERS, YOUNG_YES)):
            if votes[master] is None:
                continue
            ballot = cast(votes, settle)
            ballot.amend(master, vote)
            anew = cast((*votes[:master], vote, *votes[master + 1 :]), settle)
            for field in ("votes", "granted", "refused", "faulted", "outstanding", "settled", "voters"):
                assert getattr(ballot, field) == getattr(anew, field), (votes, master, vote, field)


def test_a_split_vote_is_one_in_which_nobody_can_have_a_quorum() -> None:
    first, second = Vote(Code.FOREIGN, "a:1", 1, 1000), Vote(Code.FOREIGN, "b:1", 1, 1000)
    assert cast((first, second, YES, YES, second)).split()
    assert not cast((first, first, first, second, YES)).split()
    # two silent masters, or two dead ones, may have the missing votes of the one who has one
    assert not cast((first, second, None, None, YES)).split()
    assert not cast((first, second, DOWN, DOWN, YES)).split()
    # and so may masters that have lost their memory have had them
    assert not cast((first, YOUNG, YOUNG_YES, YES, YES)).split()
    assert cast((first, second, second, YES, None)).split() is False
    # our own votes are given back: they count for nobody
    assert cast((first, second, YES, YES, YES)).split()


def test_an_undo_also_goes_to_a_master_that_may_have_granted_the_first_delivery() -> None:
    ballot = cast([YES, THEIRS, THEIRS, None, DOWN])
    assert ballot.maybe_granted() == [0, 3, 4]
    ballot.resent = {1}
    assert ballot.maybe_granted() == [0, 1, 3, 4]
