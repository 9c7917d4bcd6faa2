"""Release with a scripted driver: what a quorum says; and the end of an acquire."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest

from rlock.model import Code, Vote
from rlock.procedures.acquire import FOR_EVER, acquire
from rlock.procedures.attempt import take_place
from rlock.procedures.contender import Contender
from rlock.procedures.port import WaitGenerator
from rlock.procedures.release import Released, outcome, release
from rlock.procedures.withdraw import withdraw
from rlock.rules import scripts
from rlock.rules.quorum import Ballot

from .world import ABSENT, DOWN, FORGETFUL, YES, Call, Send, World, a_hold, cast, held_by, named


@pytest.mark.parametrize("masters", [1, 2, 3, 4, 5])
def test_a_release_is_judged_by_what_a_quorum_says(masters: int) -> None:
    world = World(masters)
    needed = masters // 2 + 1
    for votes in itertools.product((YES, ABSENT, held_by(), DOWN), repeat=masters):
        freed = votes.count(YES)
        denied = sum(1 for vote in votes if vote.code in (Code.ABSENT, Code.FOREIGN))
        expected = Released.NOT_OURS if denied >= needed else Released.UNSURE
        assert outcome(world.context, cast(votes)) is (Released.DONE if freed >= needed else expected)


@pytest.mark.parametrize(
    ("answers", "expected"),
    [([ABSENT], Released.NOT_OURS), ([FORGETFUL], Released.DONE), ([DOWN, ABSENT], Released.DONE)],
    ids=["absent", "absent where the memory was lost", "absent for the second delivery"],
)
def test_absent_is_a_loss_unless_the_lease_stood_to_the_end(answers: list[Vote], expected: Released) -> None:
    """The guard keeps everybody else out; and the first delivery may have released it."""
    ballot = Ballot(3)
    for i, vote in itertools.product(range(3), answers):
        if i in ballot.votes:
            ballot.recall(i)
        ballot.cast(i, vote)
    assert outcome(World(3).context, ballot) is expected


READS = YES._replace(ttl_ms=9_000)


@pytest.mark.parametrize(
    ("votes", "since"),
    [
        ([READS, READS, ABSENT], 1000.0),
        # It may have voted for another owner before it lost its memory.
        ([READS, READS._replace(guarded=True), YES], math.inf),
        ([ABSENT, ABSENT, READS], -math.inf),
    ],
    ids=["a quorum", "a restarted master", "a loss"],
)
def test_a_writer_reads_on_since_its_release_if_a_quorum_says_so(votes: list[Vote], since: float) -> None:
    world = World(3, votes, call_takes=0.5)
    writer = a_hold()
    writer.reader = a_hold(owner="me+shared:1")
    world.run(release(world, writer))
    (call,) = world.sent(scripts.RELEASE)
    assert (named(call, "reader"), named(call, "reader_ms")) == ("me+shared:1", "10000")
    assert writer.read_since == since


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
