"""The table of holds, and the schedule of their renewals."""

from __future__ import annotations

import math
import weakref
from random import Random

import pytest

from rlock.rules.holds import Hold, Holds, OwnerKey, ThreadLiveness
from rlock.rules.options import ClientOptions, LockOptions
from rlock.rules.timing import FILL_UP_S, RENEW_SLACK_S

LIVENESS = ThreadLiveness()
KEY = OwnerKey("host/1/main", weakref.ref(LIVENESS))


def a_hold(name: str, sent_at: float = 0.0, ttl: float = 9.0, *, renew: bool = True) -> Hold:
    return Hold(KEY, LockOptions(name, ClientOptions().lease(ttl), renew=renew), f"o:{name}", sent_at)


def test_fixed_leases_that_were_released_leave_nothing_behind() -> None:
    """Without a watchdog nobody takes them out of the schedule."""
    holds = Holds()
    kept = [a_hold(f"kept-{i}", renew=False) for i in range(10)]
    for hold in kept:
        holds.add(hold)
        holds.schedule.end(hold)
    for i in range(5_000):
        hold = a_hold("x", float(i), renew=False)
        holds.add(hold)
        holds.schedule.end(hold)
        holds.remove(hold)
    assert len(holds.schedule._due) == 1
    assert set(holds.schedule.take_due(10.0)) == set(kept)


def test_renewals_are_due_at_the_fill_up_each_third_of_the_lease_and_soon_after_a_failure() -> None:
    schedule, hold = Holds().schedule, a_hold("x", 100.0)
    end = hold.lease.valid_until
    schedule.renew(hold, hold.acquired_at, FILL_UP_S)
    assert schedule.next_due() == hold.renewal.due_at
    assert 100.0 + FILL_UP_S - RENEW_SLACK_S <= hold.renewal.due_at <= 100.0 + FILL_UP_S
    schedule.renew(hold, 101.0)
    assert 104.0 - RENEW_SLACK_S <= schedule.next_due() <= 104.0
    schedule.retry(hold, 104.0)
    assert schedule.next_due() == 104.25
    schedule.retry(hold, end - 0.1)
    assert schedule.next_due() == end, "no retry fits in before the end of the validity"
    schedule.end(hold)
    assert schedule.next_due() == end
    assert schedule.take_due(end) == [hold]
    assert schedule.next_due() == math.inf


@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_scheduled_and_removed_each_hold_is_due_once_at_its_last_instant(seed: int) -> None:
    random, holds = Random(seed), Holds()
    schedule, due_at = holds.schedule, dict[Hold, float]()
    table = [a_hold(f"x{i}", ttl=random.choice([0.5, 3.0, 9.0])) for i in range(30)]
    now = 0.0
    for _ in range(2_000):
        hold = random.choice(table)
        action = random.randrange(5)
        if action == 0:
            schedule.remove(hold)
            due_at.pop(hold, None)
        elif action < 4:
            (schedule.renew, schedule.retry)[action % 2](hold, now)
            due_at[hold] = hold.renewal.due_at
        else:
            now += random.uniform(0.0, 0.2)
            taken = schedule.take_due(now)
            assert len(set(taken)) == len(taken)
            assert all(due_at.pop(hold) <= now for hold in taken)
            assert all(at > now for at in due_at.values()), "nobody is left behind"
        assert schedule.next_due() == min(due_at.values(), default=math.inf)
