"""The end of an acquire: whatever it has asked for is given back, in which order, and only once."""

from __future__ import annotations

from typing import Any

import pytest

from rlock.procedures.acquire import AT_ONCE, FOR_EVER, acquire
from rlock.procedures.contender import Contender, LocalGrant, leave_queue, withdraw
from rlock.procedures.port import WaitGenerator
from rlock.rules import scripts
from rlock.rules.timing import SETTLE_TRIES

from ..interrupts import interrupted
from .world import YES, Call, Send, World, held_by, named, said, steps_of


class Line(World):
    """A world with a line of its process: `leave` is one of the steps."""

    comes = True

    def enter(self, contender: Contender) -> WaitGenerator[bool]:
        yield from ()
        return self.comes

    def leave(self, contender: Contender) -> None:
        self.steps.append("leave")


def test_ctrl_c_before_any_line_of_leaving_the_queue_leaves_nothing() -> None:
    for at in range(1, 100):
        world = World(3, [YES] * 3)
        contender = world.contend(FOR_EVER)
        place = contender.take_place(world.context)
        contender.receive(LocalGrant("a:77", world.now, 1, [9] * 3))
        with interrupted(at, "contender.py") as tracer:
            leave_queue(world, contender)
        withdraw(world, contender)
        assert contender.owners == [], tracer.where
        assert {said(send)[-1] for send in world.sent(scripts.RELEASE)} >= {place.token, "a:77"}, tracer.where
        if not tracer.where:
            break
    assert at > 10


def test_an_owner_whose_time_ended_in_the_line_leaves_it_before_its_last_try() -> None:
    """That try may take long, and the owners behind it would wait for it."""
    world = Line(3, [YES] * 3)
    world.comes = False
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
    assert named(world.steps[1], "owner") == named(world.steps[0], "owner")


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
    place = contender.take_place(world.context)
    contender.owners.append("a:9")
    with pytest.raises(KeyboardInterrupt):
        withdraw(world, contender)
    assert contender.owners == []
    undone = [named(step, "owner") or named(step, "waiter") for step in world.steps if isinstance(step, Send)]
    assert any(place.token in name for name in undone)
    assert "a:9" in undone
    assert world.steps[-1] == "leave"


def test_after_a_second_ctrl_c_the_owners_in_line_see_that_the_first_one_has_left() -> None:
    """The traceback of the first one may keep it alive, and they would wait for ever."""
    world = Line(3, [YES] * 3)
    contender = interrupted_in_its_first_round(world)
    assert contender.has_left, "before any undo"


def test_an_acquire_that_begins_again_may_settle_split_votes_again() -> None:
    """Its grant came too late, and the votes were split both times."""
    split, won = [YES, held_by("b:ff"), held_by("d:fe")], [YES, YES, held_by("d:fe")]
    world = World(3, *[split] * SETTLE_TRIES, won, split, won)
    contender = world.contend(AT_ONCE)
    for _ in steps_of(acquire(world, contender)):
        world.admits = contender.findings.settling < SETTLE_TRIES
    assert (world.grant is not None, world.rounds) == (True, [won])
