"""Every ballot that can be cast, for 1 to 5 masters: yes, no, fault or nothing from each."""

from __future__ import annotations

import itertools

import pytest

from rlock.model import Code, Fault, FaultKind, Verdict, Vote
from rlock.rules.quorum import Ballot, Settle

YES = Vote(Code.YES, "me:1")
NO = Vote(Code.FOREIGN, "them:1", 1, 5000)
FAULT = Vote(Code.FAULT, fault=Fault(FaultKind.DOWN, "refused"))
ANSWERS = (YES, NO, FAULT)
OTHER = Vote(Code.FOREIGN, "other:1", 1, 5000)
ODD = Vote(Code.NOT_A_LOCK)
YOUNG = Vote(Code.FAULT, "me:1", fault=Fault(FaultKind.GUARDED, "it restarted"), guarded=True)
YOUNG_NO = NO._replace(guarded=True)


def cast(votes: tuple[Vote | None, ...], settle: Settle = Settle.VERDICT) -> Ballot:
    ballot = Ballot(len(votes), settle)
    for i, vote in enumerate(votes):
        if vote is not None:
            ballot.cast(i, vote)
    return ballot


@pytest.mark.rule("3.1")
@pytest.mark.parametrize("masters", [1, 2, 3, 4, 5])
def test_all_complete_ballots_get_the_verdict_of_their_counts(masters: int) -> None:
    """HELD needs a quorum that names one owner, SPLIT a quorum that may vote.

    A junk key, a fault and a young master are no votes; the refusal of a young master names an owner.
    """
    needed = masters // 2 + 1
    no_votes = (FAULT, ODD, YOUNG)
    for votes in itertools.product((YES, NO, OTHER, YOUNG_NO, *no_votes), repeat=masters):
        named = max(votes.count(NO) + votes.count(YOUNG_NO), votes.count(OTHER))
        if votes.count(YES) >= needed:
            expected = Verdict.WON
        elif named >= needed:
            expected = Verdict.HELD
        elif masters - sum(votes.count(vote) for vote in (*no_votes, YOUNG_NO)) >= needed:
            expected = Verdict.SPLIT
        else:
            expected = Verdict.UNREACHABLE
        ballot = cast(votes, Settle.HOLDER)
        assert ballot.settled
        assert ballot.judge(now=1.0, valid_until=2.0) is expected, votes
        late = Verdict.TOO_LATE if expected is Verdict.WON else expected
        assert ballot.judge(now=2.0, valid_until=2.0) is late
        certain = max(votes.count(NO), votes.count(OTHER)) >= needed
        assert (ballot.foreign_holder(voters_only=True) is not None) == certain


@pytest.mark.parametrize("masters", [1, 2, 3, 4, 5])
def test_of_a_split_all_contenders_name_one_leader_whoever_counts(masters: int) -> None:
    """As each of them sees it: its own votes are YES, those of the others name them."""
    owners = ("web/1:0b", "web/2:0a", "web/3:0c")
    for holders in itertools.product((*owners, None), repeat=masters):
        leaders = set()
        for me in owners:
            said = [Vote(Code.YES if one == me else Code.FOREIGN, one) if one else FAULT for one in holders]
            leaders.add(cast(tuple(said), Settle.HOLDER).leader(frozenset()))
        (leader,) = leaders
        votes = {owner: holders.count(owner) for owner in holders if owner}
        if leader is None:
            assert not votes
            continue
        assert votes[leader] == max(votes.values())
        equals = [owner for owner in votes if votes[owner] == votes[leader]]
        assert leader == min(equals, key=lambda owner: owner[-2:]), "the oldest"
        assert cast(tuple(said), Settle.HOLDER).leader({leader}) != leader, "which did not move"


@pytest.mark.parametrize("masters", [1, 2, 3, 4, 5])
def test_a_round_settles_exactly_when_no_further_answer_can_change_its_verdict(masters: int) -> None:
    for votes in itertools.product((*ANSWERS, None), repeat=masters):
        open_masters = [i for i, vote in enumerate(votes) if vote is None]
        outcomes = set()
        for rest in itertools.product(ANSWERS, repeat=len(open_masters)):
            full = list(votes)
            for i, vote in zip(open_masters, rest, strict=True):
                full[i] = vote
            verdict = cast(tuple(full)).judge(now=1.0, valid_until=2.0)
            outcomes.add("refused" if verdict in (Verdict.HELD, Verdict.SPLIT) else verdict)
        assert cast(votes).settled == (len(outcomes) == 1), votes


@pytest.mark.parametrize("settle", Settle)
@pytest.mark.parametrize("masters", [1, 2, 3, 4])
def test_a_ballot_that_is_amended_is_the_one_that_is_cast_anew(masters: int, settle: Settle) -> None:
    for votes in itertools.product((*ANSWERS, None), repeat=masters):
        for master, vote in itertools.product(range(masters), (*ANSWERS, YOUNG)):
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
    assert not cast((first, second, FAULT, FAULT, YES)).split()
    # and so may masters that have lost their memory have had them
    assert not cast((first, YOUNG_NO, YOUNG, YES, YES)).split()
    assert cast((first, second, second, YES, None)).split() is False
    # our own votes are given back: they count for nobody
    assert cast((first, second, YES, YES, YES)).split()


@pytest.mark.rule("3.9")
def test_a_server_under_two_names_spoils_the_count() -> None:
    twin = Vote(Code.FAULT, fault=Fault(FaultKind.DUPLICATE, "the same server"))
    assert cast((YES, YES, twin)).duplicated
    assert not cast((YES, YES, FAULT)).duplicated
