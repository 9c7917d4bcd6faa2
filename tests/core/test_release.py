"""Release with a scripted driver: who gets the lock, and what becomes of it; and the end of an acquire."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from rlock.model import Code, Fault, FaultKind, Vote
from rlock.procedures.acquire import FOR_EVER, acquire
from rlock.procedures.attempt import take_place
from rlock.procedures.contender import Contender, Grant
from rlock.procedures.port import WaitGenerator
from rlock.procedures.release import Released, outcome, release
from rlock.procedures.withdraw import withdraw
from rlock.rules import scripts
from rlock.rules.command_templates import Command
from rlock.rules.keys import REDISSON
from rlock.rules.quorum import Ballot
from rlock.rules.timing import LOCAL_HAND_OFFS
from rlock.rules.waiting import Stage

from .world import ABSENT, DOWN, YES, Call, Send, World, a_hold, held_by, named

FORGETFUL = ABSENT._replace(guarded=True)


@pytest.mark.parametrize("masters", [1, 2, 3, 4, 5])
def test_a_release_is_judged_by_what_a_quorum_says(masters: int) -> None:
    world = World(masters)
    needed = masters // 2 + 1
    for votes in itertools.product((YES, ABSENT, held_by(), DOWN), repeat=masters):
        ballot = Ballot(masters)
        for i, vote in enumerate(votes):
            ballot.cast(i, vote)
        freed = votes.count(YES)
        denied = sum(1 for vote in votes if vote.code in (Code.ABSENT, Code.FOREIGN))
        expected = (
            Released.DONE if freed >= needed else Released.NOT_OURS if denied >= needed else Released.UNSURE
        )
        assert outcome(world.context, ballot) is expected


@pytest.mark.parametrize(
    ("answers", "expected"),
    [([ABSENT], Released.NOT_OURS), ([FORGETFUL], Released.DONE), ([DOWN, ABSENT], Released.DONE)],
    ids=["absent", "absent where the memory was lost", "absent for the second delivery"],
)
def test_absent_is_a_loss_unless_the_lease_was_valid_to_the_end(
    answers: list[Vote], expected: Released
) -> None:
    """The guard keeps everybody else out; and the first delivery may have released it."""
    ballot = Ballot(3)
    for i, vote in itertools.product(range(3), answers):
        if i in ballot.votes:
            ballot.recall(i)
        ballot.cast(i, vote)
    assert outcome(World(3).context, ballot) is expected


def waiter(world: World) -> Contender:
    contender = world.contend(FOR_EVER)
    take_place(world.context, contender)
    contender.owners.clear()
    world.waiter = contender
    return contender


HANDED = YES._replace(ttl_ms=10_000)


def test_a_release_in_favour_of_a_waiter_of_this_process_names_it() -> None:
    world = World(3, [HANDED] * 3, call_takes=0.5)
    contender = waiter(world)
    outcome = world.run(release(world, a_hold()))
    (call,) = world.sent(scripts.RELEASE)
    assert contender.place is not None
    assert contender.local_grant is not None
    assert named(call, "next_waiter") == contender.place.waiter
    assert named(call, "next_owner") == contender.local_grant.owner
    assert contender.owners == [contender.local_grant.owner]
    assert outcome is Released.HANDED
    assert (contender.local_grant.sent_at, contender.local_grant.hops) == (1000.0, 1)
    assert world.under_way.handing_over == {}
    # Delivered late it favours nobody: the waiter may have gone, and the lock would be nobody's for a ttl.
    late = Send(call.late, 0.0)
    assert named(late, "owner") == "me:1"
    assert (named(late, "next_waiter"), named(late, "next_owner")) == ("", "")


#: The replies of the masters to a hand-over that nobody takes, and the masters on which it may stand.
UNTAKEN: dict[str, tuple[list[Vote], list[int] | None]] = {
    "interrupt": ([HANDED, HANDED, ABSENT], None),
    "too few masters": ([HANDED, ABSENT, ABSENT], [0]),
    "the waiter has gone": ([HANDED, HANDED, ABSENT], [0, 1]),
    # It may have voted for another owner before it lost its memory.
    "a master is guarded": ([HANDED, HANDED._replace(guarded=True), ABSENT], [0, 1]),
}


@pytest.mark.parametrize("why", UNTAKEN)
def test_a_hand_over_that_nobody_takes_is_undone_where_it_may_stand(why: str) -> None:
    votes, targets = UNTAKEN[why]
    world = World(3, votes)
    contender, gone = waiter(world), why == "the waiter has gone"
    contender.inbox = None if gone else object()
    world.takes_over = not gone
    procedure = release(world, a_hold())
    procedure.send(None)
    if why == "interrupt":
        with pytest.raises(KeyboardInterrupt):
            procedure.throw(KeyboardInterrupt())
    else:
        with pytest.raises(StopIteration):
            procedure.send(None)
    call, undo = world.sent(scripts.RELEASE)
    assert named(undo, "owner") == named(call, "next_owner")
    assert undo.targets == targets
    # First: the hand-over took the place out of the queue, so the undo would free the lock to a later waiter.
    # But not if it has left: nobody would hear that the lock was handed to its place.
    for kept in world.sent(scripts.WAIT):
        assert world.steps.index(kept) < world.steps.index(undo)
        assert (kept.targets, kept.resend_for) == (undo.targets, undo.resend_for)
    assert len(world.sent(scripts.WAIT)) == (0 if gone else 1)
    assert contender.local_grant is None
    assert world.under_way.handing_over == {}


@pytest.mark.rule("3.4")
def test_the_lock_of_a_waiter_that_got_it_meanwhile_is_not_taken_back() -> None:
    """A late release may have handed it to the place: the command that leaves the queue would release it."""
    world = World(3, [HANDED, ABSENT, ABSENT])
    contender, send = waiter(world), world.send
    contender.inbox = object()

    def ended(command: Command, *targets: Any, **how: Any) -> None:
        contender.inbox, contender.stage = None, Stage.HOLDING
        send(command, *targets, **how)

    world.send = ended  # type: ignore[method-assign]
    world.run(release(world, a_hold()))
    assert len(world.sent(scripts.RELEASE)) == 2, "the hand-over and its undo"


def test_ctrl_c_just_after_the_next_waiter_was_told_takes_nothing_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise the undo would free the lock that the waiter goes on with."""
    world = World(3, [HANDED] * 3)
    contender = waiter(world)

    def interrupted(contender: Contender, grant: Grant) -> bool:
        contender.receive(grant)
        raise KeyboardInterrupt

    monkeypatch.setattr(world, "hand_over", interrupted)
    with pytest.raises(KeyboardInterrupt):
        world.run(release(world, a_hold()))
    assert len(world.sent(scripts.RELEASE)) == 1
    assert contender.local_grant is not None


def test_after_some_hand_overs_a_lock_shared_with_redisson_is_given_to_no_waiter_of_this_process() -> None:
    """Otherwise threads of one process could keep it from Java for ever."""
    world = World(3, [HANDED] * 3)
    world.context = replace(world.context, wire=REDISSON)
    waiter(world)
    often = a_hold()
    often.hops = LOCAL_HAND_OFFS
    world.run(release(world, often))
    (call,) = world.sent(scripts.RELEASE)
    assert named(call, "next_waiter") == ""


def test_a_late_reply_can_complete_the_quorum_of_a_hand_over() -> None:
    world = World(5, [HANDED, HANDED, YES, None, None], stragglers={3: HANDED})
    contender = waiter(world)
    assert world.run(release(world, a_hold())) is Released.HANDED
    assert contender.local_grant is not None


def test_what_a_first_delivery_gave_to_an_heir_is_taken_back() -> None:
    """The second one finds the successor there, and answers that it is somebody else's."""
    ballot = Ballot(3)
    ballot.cast(0, Vote(Code.FAULT, fault=Fault(FaultKind.BROKEN, "reset")))
    ballot.recall(0)
    for i in range(3):
        ballot.cast(i, held_by("heir:1"))
    assert ballot.maybe_granted() == [0]


# -- the end of an acquire: whatever it has asked for is given back, in which order, and only once


class Line(World):
    """A world with a line of its process: `leave` is one of the steps."""

    comes = True

    def enter(self, contender: Contender) -> WaitGenerator[bool]:
        yield from ()
        return self.comes

    def leave(self, contender: Contender) -> None:
        self.steps.append("leave")


def test_an_owner_whose_time_ended_in_the_line_leaves_it_before_its_last_try() -> None:
    """That try may take long, and the owners behind it would wait for it."""
    world = Line(3, [YES] * 3, comes=False)
    world.won(world.now + 1.0)
    assert [type(step) for step in world.steps] == [str, Call, str], "and once more, which does nothing"


def interrupted_in_its_first_round(world: Line) -> Contender:
    """A contender with Ctrl-C while it waits for the answers."""
    contender = world.contend(FOR_EVER)
    procedure = acquire(world, contender)
    assert isinstance(procedure.send(None), Call)
    with pytest.raises(KeyboardInterrupt):
        procedure.throw(KeyboardInterrupt())
    return contender


def test_the_next_owner_in_line_comes_after_the_undo_of_an_interrupted_round() -> None:
    """Otherwise its first round would be refused by votes that nobody wants."""
    world = Line(3, [YES] * 3)
    contender = interrupted_in_its_first_round(world)
    withdraw(world, contender)
    assert [type(step) for step in world.steps] == [Call, Send, str]
    ask, undo, _ = world.steps
    assert named(undo, "owner") == named(ask, "owner")
    assert (undo.targets, undo.resend_for) == (None, 10.0), "also to a stopped master, when it goes on"


@pytest.mark.rule("1.4")
def test_a_second_ctrl_c_during_the_undo_leaves_nothing_behind() -> None:
    class Interrupted(Line):
        left = 1

        def send(self, *args: Any, **options: Any) -> None:
            if self.left:
                self.left -= 1
                raise KeyboardInterrupt
            super().send(*args, **options)

    world = Interrupted(3, [YES] * 3)
    contender = world.contend(FOR_EVER)
    place = take_place(world.context, contender)
    contender.owners.append("a:9")
    with pytest.raises(KeyboardInterrupt):
        withdraw(world, contender)
    assert contender.owners == []
    undone = [named(step, "owner") or named(step, "waiter") for step in world.steps if isinstance(step, Send)]
    assert any(place.owner in name for name in undone)
    assert "a:9" in undone
    assert world.steps[-1] == "leave"


def test_after_a_second_ctrl_c_the_owners_in_line_see_that_the_first_one_has_left() -> None:
    """The traceback of the first one may keep it alive, and they would wait for ever."""
    world = Line(3, [YES] * 3)
    contender = interrupted_in_its_first_round(world)
    assert contender.is_withdrawn, "before any undo"
