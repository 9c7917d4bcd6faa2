"""Many locks asked for at once, and the removal of one owner and no other."""

from __future__ import annotations

from rlock.model import Code, Vote
from rlock.procedures.inspect import evict, status, statuses
from rlock.rules import scripts

from .world import ABSENT, DOWN, YES, World, named, said, words

THEIRS = Vote(Code.YES, "them:1", 1, 500)
OTHERS = Vote(Code.YES, "others:2", 1, 400)


def test_many_locks_are_asked_for_side_by_side_and_told_as_one_is() -> None:
    world = World(3, [THEIRS, THEIRS, DOWN], [ABSENT] * 3, [OTHERS, THEIRS, ABSENT])
    found = world.run(statuses(world, ["a", "b", "c"], 0.5, 7))
    assert world.batches == [3]
    assert [words(call)[3] for call in world.steps] == ["a", "b", "c"]
    assert {said(call)[0] for call in world.steps} == {"6"}, "the rank of the seventh waiter"
    alone = World(3, [THEIRS, THEIRS, DOWN])
    assert found[0] == alone.run(status(alone, "a", 0.5))
    assert [each.holder for each in found] == ["them:1", None, None]


def test_a_lock_of_which_too_few_tell_is_no_error_among_many() -> None:
    world = World(3, [THEIRS, DOWN, DOWN])
    (found,) = world.run(statuses(world, ["a"], 0.5))
    assert found.holder is None
    assert [view.fault for view in found.masters] == [None, "connection refused", "connection refused"]
    assert found.masters[0].holder == "them:1"


def test_only_the_owners_that_are_named_are_evicted() -> None:
    world = World(3, [THEIRS, THEIRS, OTHERS], [ABSENT, ABSENT, YES])
    assert world.run(evict(world, "x", 0.5, {"others:2"})) == ["others:2"]
    (command,) = world.sent(scripts.RELEASE)
    assert named(command, "owner") == "others:2"
    nobody = World(3, [THEIRS] * 3)
    assert nobody.run(evict(nobody, "x", 0.5, {"others:2"})) == []
    assert not nobody.sent(scripts.RELEASE)
