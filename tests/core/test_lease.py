"""The lease's transition table, what the clock does to a lease, its loss, and the schedule of renewals."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from rlock._client import watchdog
from rlock._client.hold_table import HoldTable
from rlock._client.watchdog import OnLost
from rlock.errors import LeaseLostError, OptionsError
from rlock.model import LeaseState
from rlock.rules import timing
from rlock.rules.holds import Hold, RenewalSchedule
from rlock.rules.lease import TRANSITIONS, Lease, LeaseEvent
from rlock.rules.options import ClientOptions, LockOptions, from_env
from rlock.rules.timing import FILL_UP_S, LINGER_S, RENEW_SLACK_S, renew_period

from .world import a_hold

HELD, SUSPECT, LOST, RELEASED = (LeaseState.HELD, LeaseState.SUSPECT, LeaseState.LOST, LeaseState.RELEASED)


@pytest.mark.rule("3.5")
def test_a_failed_renewal_alone_never_loses_a_lease() -> None:
    assert TRANSITIONS[HELD, LeaseEvent.FAILED] is SUSPECT
    assert TRANSITIONS[SUSPECT, LeaseEvent.FAILED] is SUSPECT


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_all_sequences_keep_the_first_reason_and_never_revive(length: int) -> None:
    for events in itertools.product(LeaseEvent, repeat=length):
        lease = Lease(10.0, 0.0)
        lost_at = None
        for i, event in enumerate(events):
            before = lease.state
            lease.on(event, f"reason {i}")
            if lease.state is LOST and before is not LOST:
                lost_at = i
            if before in (LOST, RELEASED):
                assert lease.state is (RELEASED if event is LeaseEvent.RELEASE else before)
        if lost_at is not None:
            assert lease.reason == f"reason {lost_at}"


@pytest.mark.rule("3.2")
def test_loss_needs_nobody_to_notice_it() -> None:
    lease = Lease(10.0, sent_at=0.0)
    assert lease.update(9.897) is HELD
    assert lease.update(9.898) is LOST
    assert lease.remaining(9.898) == 0.0
    assert "validity ended" in lease.reason


def test_validity_only_grows() -> None:
    lease = Lease(10.0, sent_at=5.0)
    before = lease.valid_until
    lease.renewed(sent_at=4.0, now=6.0)  # an older round that was answered late
    assert lease.valid_until == before
    lease.renewed(sent_at=6.0, now=6.1)
    assert lease.valid_until == pytest.approx(before + 1.0)


NO_MASTERS: Any = None

# -- the table of holds, the schedule of their renewals, and when the watchdog is woken


def test_fixed_leases_that_were_released_leave_nothing_behind() -> None:
    """Without a watchdog nobody takes them out of the schedule."""
    holds = Watchdog(float).table
    kept = [a_hold(f"kept-{i}", 0.0, renew=False) for i in range(10)]
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
    schedule, hold = RenewalSchedule(), a_hold("x", 100.0, 9.0)
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
    random, schedule, due_at = Random(seed), RenewalSchedule(), dict[Hold, float]()
    table = [a_hold(f"x{i}", 0.0, random.choice([0.5, 3.0, 9.0])) for i in range(30)]
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


class Watchdog(watchdog.Watchdog):
    """It runs no further than a test takes it; ``woken``: the instants at which somebody woke it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.woken: list[float] = []
        parker = SimpleNamespace(wake=lambda: self.woken.append(clock()))
        self.table = HoldTable(clock, SimpleNamespace(parker=lambda: parker), NO_MASTERS, int)
        super().__init__(self.table, NO_MASTERS)

    def _start(self) -> None: ...

    def _ended(self) -> None: ...

    def stop(self) -> None: ...

    def _call_on_lost(self, on_lost: OnLost, error: LeaseLostError) -> None: ...


@pytest.mark.parametrize("ttl", [0.1, 0.2, 0.5, 1.0, 10.0])
def test_a_sleeping_watchdog_renews_a_new_hold_in_the_first_half_of_its_lease(ttl: float) -> None:
    """Otherwise a renewal of a short lease could not fail once and be tried again in time."""
    for hundredth in range(1, 100):
        now = 100.0 + LINGER_S * hundredth / 100
        dog, hold = Watchdog(partial(float, now)), a_hold("x", now, ttl)
        dog._wake_at = 100.0 + LINGER_S
        dog.watch(hold)
        renewed_at = max(now, hold.renewal.due_at) if dog.woken else dog._wake_at
        assert renewed_at - now <= renew_period(ttl) * 5 / 4 + 1e-9 < math.inf


def test_the_watchdog_ends_soon_behind_the_last_hold() -> None:
    now = [1.0]
    dog, hold = Watchdog(lambda: now[0]), a_hold("x", 1.0, 9.0)
    dog.table.add(hold)
    dog.watch(hold)
    now[0] += FILL_UP_S
    assert dog._take_due() == [hold]
    dog._schedule.renew(hold, now[0])
    assert dog._take_due() == []
    dog.woken.clear()
    dog.table.remove(hold)
    assert dog.woken == now
    now[0] += LINGER_S
    assert dog._take_due() is None


@pytest.mark.parametrize("ttl", [0.1, 0.5, 1.0, 3.0, 10.0])
def test_two_more_renewals_fit_after_the_first_that_failed(ttl: float) -> None:
    timeout = timing.default_request_timeout(ttl)
    first = timing.renew_period(ttl) + timeout
    second = first + timing.retry_period(ttl) + timeout
    assert second < timing.valid_until(0.0, ttl)


def test_no_lease_on_the_wire_is_0_which_would_delete_the_key_and_tell_no_waiter() -> None:
    assert timing.lease_ms(5e-10) == 1


def test_expiry_wait_is_the_moment_at_which_a_quorum_is_free() -> None:
    margin = timing.EXPIRY_MARGIN_S
    # all five refuse: three must expire
    assert timing.expiry_wait([5000, 1000, 4000, 2000, 3000], 3) == pytest.approx(3.0 + margin)
    # two granted already: one of the others must expire
    assert timing.expiry_wait([5000, 1000, 4000], 1) == pytest.approx(1.0 + margin)
    # fewer have told than must expire: the last of them is the earliest that is worth a try
    assert timing.expiry_wait([5000, 1000], 3) == pytest.approx(5.0 + margin)
    # keys without expiry never free the lock, and the poll cap bounds the sleep
    assert timing.expiry_wait([-1, -1, -1], 2) == math.inf
    assert timing.expiry_wait([-1, 700, 900], 2) == pytest.approx(0.9 + margin)
    # nothing is known to be missing: no reason to ask again and again
    assert timing.expiry_wait([500], 0) == math.inf


def lock_options(name: Any = "x", **options: Any) -> LockOptions:
    return LockOptions(name, ClientOptions().lease(None), **options)


DAY = 86_400.0
MASTERS = {"RLOCK_MASTERS": "redis://a:1, redis://b:2\nredis://c:3"}
NO_DURATIONS = (0, -1, math.inf, -math.inf, math.nan, True, "10", b"1")
#: Options that are refused, and the words of the error.
REFUSED: list[tuple[Callable[[], object], str]] = [
    *(
        (lambda option=option, value=value: ClientOptions(**{option: value}), option)
        for option in ("ttl", "max_ttl", "request_timeout")
        for value in NO_DURATIONS
    ),
    (lambda: ClientOptions(ttl=0.05), "too short"),
    (lambda: ClientOptions(ttl=11.0), "max_ttl"),
    (lambda: ClientOptions(ttl=2.0, request_timeout=0.8), "request_timeout"),
    (lambda: ClientOptions(ttl=3.0, request_timeout=1.0), "use ttl over 3.05 s"),
    (lambda: ClientOptions(request_timeout=1.1), "request_timeout=1.1 s is too long.*1 s or less"),
    (lambda: ClientOptions().lease(30.0), "fleet"),
    (lambda: ClientOptions(max_ttl=DAY + 0.1), r"max_ttl=.*over a day \(86400 s\)"),
    (lambda: ClientOptions(ttl=DAY, max_ttl=DAY).lease(DAY + 0.1), "is over a day"),
    (lambda: ClientOptions(restart_guard=5.0), r"takes 10\.102 s"),
    (lambda: ClientOptions(restart_guard="off"), "restart_guard must be a finite number"),  # type: ignore[arg-type]
    *(
        (lambda name=name: lock_options(name), "name")
        for name in ("", None, 7, b"x", ["x"], "\ud800", "x" * 1025, "rlock:{x}:queue")
    ),
    (lambda: lock_options(renew=False, max_hold=5), "renew=False"),
    (lambda: lock_options(max_hold=math.nan), "max_hold"),
    (lambda: lock_options(on_lost="no"), "callable"),
    (lambda: from_env({}), "rlock up"),
    (lambda: from_env({"RLOCK_OWNER": "as in a command of rlock run"}), "--pass-masters"),
    *(
        (lambda option=option, bad=bad: from_env({**MASTERS, option: bad}), option)
        for option in ("RLOCK_TTL", "RLOCK_RESTART_GUARD")
        for bad in ("ten", "-1", "inf", "nan")
    ),
]


@pytest.mark.parametrize(("make", "told"), REFUSED, ids=[str(number) for number in range(len(REFUSED))])
def test_an_option_that_cannot_work_is_refused_with_its_reason(make: Callable[[], object], told: str) -> None:
    with pytest.raises(OptionsError, match=told) as caught:
        make()
    assert isinstance(caught.value, ValueError)


def test_the_options_next_to_these_are_taken() -> None:
    ClientOptions(ttl=3.06, request_timeout=1.0)
    assert [ClientOptions(restart_guard=each).restart_guard for each in (0, 30.0)] == [0, 30.0]


def test_masters_and_options_come_out_of_the_environment() -> None:
    given = {**MASTERS, "RLOCK_TTL": "5", "RLOCK_MAX_TTL": " ", "RLOCK_RESTART_GUARD": "0"}
    masters, options = from_env(given)
    assert masters == ["redis://a:1", "redis://b:2", "redis://c:3"]
    assert options == {"ttl": 5.0, "restart_guard": 0.0}
