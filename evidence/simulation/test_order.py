"""Fair mode without faults: nobody gets the lock before a waiter that had arrived when it asked."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from rlock.procedures.contender import Contender
from rlock.rules.waiting import Step
from tests.seeds import first_seed

from .play import Play
from .schedules import Setup, drawn

SCHEDULES = 150


@pytest.mark.rule("4.5")
def test_without_faults_no_fair_waiter_is_overtaken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not after a claim that took too long, either, nor after a hand-over that was taken back."""
    found = Counter[str]()
    first = first_seed()
    for seed in range(first, first + SCHEDULES):
        with monkeypatch.context() as patch:
            found += played(seed, patch)
    assert found["waits"] > 3 * SCHEDULES
    assert not found["overtaken"], f"RLOCK_SEED={first}: {found}"


def played(seed: int, patch: pytest.MonkeyPatch) -> Counter[str]:
    """How many owners of one schedule waited, and how many of them were overtaken."""
    schedule = drawn(seed, setup=Setup(clients=4, jitter=0.005, locks=2))
    schedule = replace(schedule, setup=replace(schedule.setup, readers=0.0))  # which pass waiting writers
    takes = tuple(step for step in schedule.steps if step.what == "take")
    init, step, options = Contender.__init__, Contender.step, Play.options
    patch.setattr(Play, "options", lambda *args, **how: options(*args, **{**how, "fair": True}))
    play = Play(replace(schedule, steps=takes))
    events = play.world.events
    asked, arrived = dict[Contender, float](), dict[Contender, float]()
    #: By lock: when each owner so far began to ask.
    served: dict[str, list[float]] = {}
    found = Counter[str]()

    def begin(self: Contender, *args: Any) -> None:
        init(self, *args)
        asked[self] = events.now

    def note(self: Contender, what: Step) -> None:
        step(self, what)
        if what is Step.TICKET:
            arrived[self] = events.now
        elif what is Step.GRANT:
            before = served.setdefault(self.name, [])
            # Not one whose time was over: it has left the queue, and may still get the lock (`settle`).
            waited = self in arrived and self.place is not None
            found["waits"] += waited
            found["overtaken"] += waited and any(at > arrived[self] for at in before)
            before.append(asked[self])

    patch.setattr(Contender, "__init__", begin)
    patch.setattr(Contender, "step", note)
    assert play.play().violations == []
    return found
