"""Renewal and healing, with a scripted driver: what counts, and until when."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import pytest

from rlock.model import Code, Fault, FaultKind, Vote
from rlock.procedures.renew import BATCH, RenewalOutcome, RenewalRound, heal, judge, renew
from rlock.rules import replies, scripts
from rlock.rules.holds import Hold
from rlock.rules.keys import fence
from rlock.rules.lease import LeaseEvent, LockVotes
from rlock.rules.quorum import Settle
from rlock.rules.timing import heals_until

from .world import DOWN, Call, World, a_hold, cast, words


def told(*codes: int, guarded: bool = False, first: str = "me:1") -> Vote:
    whole = Code.YES if set(codes) == {1} and not guarded else Code.FOREIGN
    return Vote(whole, first, codes=codes, guarded=guarded)


YES, ABSENT, FOREIGN = told(1), told(0), told(-1)
YOUNG_FOREIGN = told(-1, guarded=True)
YOUNG, HEALED, EVICTED = told(1, guarded=True), told(2), told(-1)


def renewal(world: World, *holds: Hold) -> dict[str, LeaseEvent]:
    """Both halves of a renewal; what became of each lock."""
    round_: RenewalRound = world.run(renew(world, holds))
    healed: list[RenewalOutcome] = world.run(heal(world, round_, math.inf))
    found = [(r.hold.name, r.event) for r in [*round_.decided, *healed]]
    assert len(found) == len(dict(found)) == len(holds), "each lock is judged once"
    return dict(found)


@pytest.mark.parametrize("masters", [1, 3, 4, 5])
def test_a_renewal_is_judged_lock_by_lock(masters: int) -> None:
    needed = masters // 2 + 1
    world, hold = World(masters), a_hold()
    for codes in itertools.product((1, 0, -1, None), repeat=masters):
        # the second lock of the batch is well everywhere
        votes = [
            DOWN if code is None else replies.decode_batch([b"me:1", [code, 1], b""], 2) for code in codes
        ]
        ballot = cast(votes, Settle.WON_OR_ALL)
        first, second = (judge(world.context, hold, LockVotes(ballot, i)).event for i in range(2))
        if codes.count(1) >= needed:
            assert first is LeaseEvent.RENEWED
        elif codes.count(-1) >= needed:
            assert first is LeaseEvent.DISOWNED
        else:
            assert first is LeaseEvent.FAILED, "absent is no denial: the master may have lost its memory"
        answered = masters - codes.count(None)
        assert second is (LeaseEvent.RENEWED if answered >= needed else LeaseEvent.FAILED)


@pytest.mark.parametrize(
    ("renewed", "healed", "event"),
    [
        ([YES, YES, ABSENT], [HEALED], LeaseEvent.RENEWED),
        ([ABSENT, ABSENT, ABSENT], [HEALED] * 3, LeaseEvent.RENEWED),
        ([ABSENT, ABSENT, DOWN], [HEALED] * 2, LeaseEvent.RENEWED),
        ([ABSENT, ABSENT, ABSENT], [EVICTED] * 3, LeaseEvent.DISOWNED),
        ([FOREIGN, FOREIGN, ABSENT], [HEALED], LeaseEvent.DISOWNED),
        ([FOREIGN, YES, ABSENT], [HEALED], LeaseEvent.RENEWED),
        ([FOREIGN, YES, ABSENT], [FOREIGN], LeaseEvent.DISOWNED),
        ([FOREIGN, YES, DOWN], [], LeaseEvent.FAILED),
        ([ABSENT, DOWN, DOWN], [HEALED], LeaseEvent.FAILED),
        ([ABSENT, ABSENT, ABSENT], [ABSENT] * 3, LeaseEvent.FAILED),  # no memory for it
        ([YES, YOUNG, DOWN], [], LeaseEvent.RENEWED),
        ([YOUNG_FOREIGN] * 3, [], LeaseEvent.FAILED),  # votes of contenders that do not count
    ],
)
def test_what_is_missing_is_put_back_and_counted(
    renewed: Sequence[Vote], healed: Sequence[Vote], event: LeaseEvent
) -> None:
    answers, world = iter(healed), World(3, renewed)
    world.replies[scripts.HEAL] = lambda *_: next(answers)
    assert renewal(world, a_hold()) == {"x": event}
    absent = [i for i, vote in enumerate(renewed) if vote is ABSENT]
    needed = [(step.targets[0]) for step in world.sent(scripts.HEAL)]
    assert needed == absent, "each master that lacks it, and no other"
    for step in world.sent(scripts.HEAL):
        assert words(step)[3] == "x"
        assert words(step)[-3:] == ("me:1", "1", "77"), "with its owner, its count and its fencing token"


@pytest.mark.rule("3.7")
@pytest.mark.parametrize(
    ("vote", "late"), [(YOUNG, LeaseEvent.FAILED), (HEALED, LeaseEvent.FAILED), (YES, LeaseEvent.RENEWED)]
)
def test_a_master_without_memory_counts_while_somebody_else_could_not_have_won_in_time(
    vote: Vote, late: LeaseEvent
) -> None:
    """The naive form, which counts it to the last, gives one lock to two."""
    hold = a_hold()
    end = heals_until(hold.lease.valid_until, 10.0)
    assert end == pytest.approx(hold.lease.valid_until - 1.0 - 0.102)
    for now, expected in ((end - 0.001, LeaseEvent.RENEWED), (end + 0.001, late)):
        world = World(3)
        world.now = now
        ballot = cast((YES, vote, None), Settle.WON_OR_ALL)
        assert judge(world.context, hold, LockVotes(ballot, 0)).event is expected


@pytest.mark.parametrize("late", [YES, YOUNG])
def test_a_master_that_answers_renewal_and_healing_has_one_vote(late: Vote) -> None:
    """It lacked the lock in the round before. Its answer to this round comes after the time-out."""
    hold, world = a_hold(), World(3, [YES, YES, ABSENT], [DOWN, DOWN, None])
    codes = iter((HEALED, late))

    def healed(_: Call, master: int) -> Vote:
        world.last.cast(master, late)
        return next(codes)

    world.replies[scripts.HEAL] = healed
    assert renewal(world, hold) == {"x": LeaseEvent.RENEWED}
    assert renewal(world, hold) == {"x": LeaseEvent.FAILED}, "one master of three is no quorum"
    assert len(world.sent(scripts.HEAL)) == 2


def test_many_locks_share_few_commands_and_keep_their_ttl() -> None:
    world = World(3, [Vote(Code.YES, codes=[1] * BATCH)] * 3)
    ten = [a_hold(f"l{i}", owner=f"o{i}") for i in range(250)]
    three = [a_hold(f"s{i}", ttl=3.0, owner=f"p{i}") for i in range(2)]
    round_ = world.run(renew(world, [*three, *ten]))
    assert {id(r.hold) for r in round_.decided} == {id(hold) for hold in [*ten, *three]}
    asks = world.sent(scripts.RENEW)
    assert sorted(int(words(ask)[2]) for ask in asks) == [3, 51, 101, 101], "the locks, and the note"
    for ask in asks:
        keys = int(words(ask)[2])
        assert words(ask)[3 + keys] == ("3000" if keys == 3 else "10000")
    assert world.run(heal(world, round_, math.inf)) == []
    assert not world.sent(scripts.HEAL)


def refusing(refused: dict[int, str], *, empty: int | None = None) -> World:
    """Masters of which some refuse a script for a key, as an ACL has it. The others renew and heal."""
    world = World(3)

    def reply(step: Call, master: int) -> Vote:
        count = int(words(step)[2])
        if refused.get(master) in words(step)[3 : 3 + count]:
            return NOPERM
        heals = step.command.script is scripts.HEAL
        return told(*[2] * ((count - 1) // 3) if heals else [int(master != empty)] * (count - 1))

    world.replies = {scripts.RENEW: reply, scripts.HEAL: reply}
    return world


NOPERM = Vote(Code.FAULT, fault=Fault(FaultKind.DENIED, "NOPERM"))


def asked(world: World, holds: Sequence[Hold]) -> tuple[int, list[str]]:
    """How many commands a renewal sent to master 0, and which locks it did not prolong."""
    world.steps.clear()
    found = renewal(world, *holds)
    sent = [step for step in world.sent(scripts.RENEW) if step.targets is None or 0 in step.targets]
    return len(sent), [name for name, event in found.items() if event is not LeaseEvent.RENEWED]


def test_a_refused_lock_is_found_by_asking_for_each_lock_alone_and_that_once_a_ttl() -> None:
    holds = [a_hold(f"x{i}") for i in range(BATCH)]
    world = refusing(dict.fromkeys(range(3), "x42"))
    assert asked(world, holds) == (1 + 100, ["x42"])
    assert asked(world, holds) == (2, ["x42"]), "it stands in a batch of its own from then on"


def test_a_lock_whose_token_is_refused_keeps_no_other_from_being_put_back() -> None:
    world = refusing({0: fence("x1")}, empty=0)
    renewal(world, *(a_hold(f"x{i}") for i in range(3)))
    heals = [words(step) for step in world.sent(scripts.HEAL)]
    asked = ["".join(name for name in ("x0", "x1", "x2") if name in heal) for heal in heals]
    assert asked == ["x0x1x2", "x0", "x1", "x2"]
