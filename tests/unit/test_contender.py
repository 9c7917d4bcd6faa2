"""The end of an acquire: whatever it has asked for is given back, in which order, and only once."""

from __future__ import annotations

import pytest

from rlock.procedures.acquire import FOR_EVER, acquire
from rlock.procedures.contender import Contender, LocalGrant, leave_queue, withdraw
from rlock.procedures.port import WaitGenerator
from rlock.rules import scripts

from ..interrupts import interrupted
from .world import YES, Call, Send, World, held_by, named, said


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
