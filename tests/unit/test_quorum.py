"""Every ballot that can be cast, for 1 to 5 masters: yes, no, fault or nothing from each."""

from __future__ import annotations

import itertools

import pytest

from rlock.model import Code, Fault, FaultKind, Verdict, Vote
from rlock.rules.quorum import Ballot, Settle, quorum

YES = Vote(Code.YES, "me:1")
NO = Vote(Code.FOREIGN, "them:1", 1, 5000)
FAULT = Vote(Code.FAULT, fault=Fault(FaultKind.DOWN, "refused"))
ANSWERS = (YES, NO, FAULT)


def cast(votes: tuple[Vote | None, ...], settle: Settle = Settle.VERDICT) -> Ballot:
    ballot = Ballot(len(votes), settle)
    for i, vote in enumerate(votes):
        if vote is not None:
            ballot.cast(i, vote)
    return ballot


@pytest.mark.parametrize(("masters", "needed"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (6, 4), (7, 4)])
def test_two_quorums_always_share_a_master(masters: int, needed: int) -> None:
    assert quorum(masters) == needed
    assert 2 * quorum(masters) > masters


@pytest.mark.parametrize("masters", [1, 2, 3, 4, 5])
def test_all_complete_ballots_get_the_verdict_of_their_counts(masters: int) -> None:
    needed = masters // 2 + 1
    seen = 0
    for votes in itertools.product(ANSWERS, repeat=masters):
        seen += 1
        ballot = cast(votes)
        yes, no = votes.count(YES), votes.count(NO)
        assert ballot.settled
        if yes >= needed:
            assert ballot.judge(now=1.0, valid_until=2.0) is Verdict.WON
            assert ballot.judge(now=2.0, valid_until=2.0) is Verdict.TOO_LATE
        elif yes + no >= needed:
            assert ballot.judge(now=1.0, valid_until=2.0) is Verdict.OUTVOTED
        else:
            assert ballot.judge(now=1.0, valid_until=2.0) is Verdict.UNREACHABLE
    assert seen == 3**masters


@pytest.mark.parametrize("masters", [1, 2, 3, 4, 5])
def test_a_round_settles_exactly_when_no_further_answer_can_change_its_verdict(masters: int) -> None:
    for votes in itertools.product((*ANSWERS, None), repeat=masters):
        open_masters = [i for i, vote in enumerate(votes) if vote is None]
        outcomes = set()
        for rest in itertools.product(ANSWERS, repeat=len(open_masters)):
            full = list(votes)
            for i, vote in zip(open_masters, rest, strict=True):
                full[i] = vote
            outcomes.add(cast(tuple(full)).judge(now=1.0, valid_until=2.0))
        assert cast(votes).settled == (len(outcomes) == 1), votes


@pytest.mark.parametrize("masters", [1, 3, 4, 5])
def test_the_other_ways_to_settle(masters: int) -> None:
    for votes in itertools.product((*ANSWERS, None), repeat=masters):
        complete = None not in votes
        won = votes.count(YES) >= masters // 2 + 1
        assert cast(votes, Settle.ALL).settled == complete
        assert cast(votes, Settle.WON_OR_ALL).settled == (complete or won)


def test_a_master_has_one_vote_however_often_it_answers() -> None:
    ballot = Ballot(3)
    ballot.cast(0, YES)
    ballot.cast(0, YES)
    ballot.cast(0, NO)
    assert (ballot.granted, ballot.refused, ballot.outstanding) == (1, 0, 2)


def test_a_recalled_fault_can_be_answered_again_and_a_vote_cannot() -> None:
    ballot = cast((FAULT, YES, FAULT))
    ballot.recall(0)
    ballot.recall(1)
    assert (ballot.outstanding, ballot.granted, ballot.faulted) == (1, 1, 1)
    assert ballot.cast(0, YES)
    assert ballot.judge(1.0, 2.0) is Verdict.WON
    assert ballot.resent == {0}


def test_hopeless_only_when_lasting_faults_leave_no_quorum() -> None:
    denied = Vote(Code.FAULT, fault=Fault(FaultKind.DENIED, "WRONGPASS"))
    odd = Vote(Code.NOT_A_LOCK)
    assert not cast((denied, YES, YES)).hopeless
    assert cast((denied, odd, YES)).hopeless
    assert not cast((FAULT, FAULT, FAULT)).hopeless
    assert cast((denied,)).hopeless


def test_a_split_vote_is_one_in_which_nobody_can_have_a_quorum() -> None:
    first, second = Vote(Code.FOREIGN, "a:1", 1, 1000), Vote(Code.FOREIGN, "b:1", 1, 1000)
    assert cast((first, second, YES, YES, second)).split()
    assert not cast((first, first, first, second, YES)).split()
    # two silent masters, or two dead ones, may have the missing votes of the one who has one
    assert not cast((first, second, None, None, YES)).split()
    assert not cast((first, second, FAULT, FAULT, YES)).split()
    assert cast((first, second, second, YES, None)).split() is False
    # our own votes are given back: they count for nobody
    assert cast((first, second, YES, YES, YES)).split()


def test_only_a_holder_that_a_quorum_named_is_worth_sleeping_for() -> None:
    first, second = Vote(Code.FOREIGN, "a:1", 1, 1000), Vote(Code.FOREIGN, "b:1", 1, 1000)
    assert cast((first, first, first, second, YES)).foreign_holder() == "a:1"
    assert cast((first, first, second, None, YES)).foreign_holder() is None
    assert cast((first, first, YES, YES, FAULT)).foreign_holder() is None
    assert cast((first,)).foreign_holder() == "a:1"


def test_a_server_under_two_names_spoils_the_count() -> None:
    twin = Vote(Code.FAULT, fault=Fault(FaultKind.DUPLICATE, "the same server"))
    assert cast((YES, YES, twin)).duplicated
    assert not cast((YES, YES, FAULT)).duplicated


@pytest.mark.parametrize("masters", [1, 3, 4, 5])
def test_a_lost_acquire_is_settled_when_a_quorum_named_a_holder_or_all_have_answered(masters: int) -> None:
    other = Vote(Code.FOREIGN, "other:1", 1, 5000)
    needed = masters // 2 + 1
    kinds = set()
    for votes in itertools.product((YES, NO, other, FAULT, None), repeat=masters):
        ballot = cast(votes, Settle.HOLDER)
        named = max(votes.count(NO), votes.count(other))
        faults, missing = votes.count(FAULT), votes.count(None)
        if not missing or votes.count(YES) >= needed or faults > masters - needed:
            assert ballot.settled
            continue
        assert ballot.settled == (named >= needed), votes
        kinds.add(ballot.settled)
    assert kinds == ({True, False} if masters > 1 else {False})
