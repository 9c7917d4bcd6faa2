"""Wall clocks of masters that jump or run wrong: what a caller sees, and where the promise ends.

Masters expire keys by their wall clock. Of those on which a holder has its key, only a minority may jump
forward past what is left of the lease. A jump back excludes others for longer, and does no other harm.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import rlock

from ..lock.conftest import eventually
from ..servers import Fleet
from .clock import Clock
from .conftest import (
    LOOK_S,
    ClientFor,
    Process,
    Waiter,
    holders,
    unharmed,
    usable,
    waiting,
    within,
)

Clocked = Callable[[int], tuple[Fleet, list[Clock]]]


WRONG: dict[str, Callable[[Clock], None]] = {
    "forward": lambda clock: clock.step(60.0),
    "back": lambda clock: clock.step(-60.0),
    "fast": lambda clock: clock.run(2.0),
    "slow": lambda clock: clock.run(0.5),
}


@pytest.mark.parametrize("masters", [3, 5])
@pytest.mark.parametrize("how", WRONG)
def test_a_minority_whose_clock_jumps_or_runs_wrong_lets_nobody_in_and_costs_a_holder_nothing(
    masters: int, how: str, clocked: Clocked, client_for: ClientFor
) -> None:
    fleet, clocks = clocked(masters)
    holder, other = client_for(fleet.urls, 1.2), client_for(fleet.urls, 1.2)
    with unharmed(holder, other, 1.4):
        assert eventually(lambda: None not in holders(fleet.urls))
        for clock in clocks[: masters // 2]:
            WRONG[how](clock)


def test_a_dead_holders_lock_is_free_after_its_lease_although_the_clock_of_a_minority_went_back(
    clocked: Clocked, client_for: ClientFor, process: Process
) -> None:
    fleet, clocks = clocked(3)
    dead = process('lock.acquire(); print("got"); time.sleep(60)', fleet.urls, 1.2)
    assert dead.line() == "got"
    assert eventually(lambda: len({*holders(fleet.urls)}) == 1), "also on the slowest master"
    clocks[0].step(-60.0)
    dead.process.kill()
    other = client_for(fleet.urls)
    with within(1.2 + LOOK_S):
        assert other.lock("x").acquire()
    assert holders(fleet.urls)[0] != holders(fleet.urls)[1], "there the dead one has it for a minute more"
    other.lock("x").release()
    with within(1.0):
        usable(other)


def test_waiters_in_fair_mode_are_all_served_although_the_masters_clocks_disagree_by_an_hour(
    clocked: Clocked, client_for: ClientFor
) -> None:
    fleet, clocks = clocked(3)
    clocks[0].step(3600.0)
    clocks[1].step(-3600.0)
    holder, others = client_for(fleet.urls), [client_for(fleet.urls) for _ in range(3)]
    lock = holder.lock("x", fair=True)
    lock.acquire()
    queue: list[Waiter] = []
    for i, client in enumerate(others):
        queue.append(Waiter(client, fair=True))
        waiting(holder, i + 1)
        clocks[0].step(-3600.0)  # and while they wait
        clocks[1].step(3600.0)
    with within(2 * LOOK_S):
        if holder.status("x").locked:
            lock.release()
        for waiter in queue:
            assert waiter.got()
    assert sorted(queue, key=lambda waiter: waiter.got_at) == queue, "not in the order of their coming"


HOUR_S = 3600.0
#: Only then a client asks for the masters' time with each connection.
GUARD_ON: dict[str, Any] = {"restart_guard": None}


def token(client: rlock.Client, name: str = "x") -> int:
    """That of a hold that begins and ends here."""
    with client.lock(name) as lock:
        return lock.fencing_token


@pytest.mark.parametrize("seconds", [-2 * HOUR_S, 2 * HOUR_S], ids=["back", "forward"])
def test_tokens_rise_over_an_hour_of_silence_although_clocks_were_set_under_a_client_that_never_waits(
    seconds: float, clocked: Clocked, client_for: ClientFor
) -> None:
    """After an hour the masters forget the token, and each client has its own idea of their time."""
    fleet, clocks = clocked(3)
    old = client_for(fleet.urls, **GUARD_ON)
    old.init()
    usable(old)
    for clock in clocks:
        clock.step(seconds)
    new = client_for(fleet.urls, **GUARD_ON)
    first, second = (old, new) if seconds < 0 else (new, old)
    before = token(first)
    for clock in clocks:
        clock.step(HOUR_S + 1)
    assert token(second) > before
