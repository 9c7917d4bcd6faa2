"""Masters that are killed, come back empty, or are stopped and go on: what a caller sees."""

from __future__ import annotations

import time

import pytest

import rlock

from ..lock.conftest import eventually
from ..servers import AnyMaster, Fleet
from .conftest import ClientFor, FreshMasters, everywhere, excluded, holders, usable, within

HOW = ("killed", "stopped")


def harm(masters: Fleet, how: str) -> None:
    for master in masters:
        master.kill() if how == "killed" else master.pause()


def heal(masters: Fleet) -> None:
    for master in masters:
        master.resume() if master.running else master.start()


def port(master: AnyMaster) -> str:
    return master.url.rpartition(":")[2]


@pytest.mark.parametrize("how", HOW)
def test_a_minority_that_is_gone_is_noticed_by_neither_the_holder_nor_the_others(
    how: str, fresh_masters: FreshMasters, client_for: ClientFor
) -> None:
    fleet = fresh_masters(5)
    holder, other = client_for(fleet.urls, 1.5), client_for(fleet.urls, 1.5)
    usable(other)
    with holder.lock("x") as lock:
        assert everywhere(fleet.urls)
        harm(fleet[3:], how)
        # 0.25 s is the time-out of a request: nobody waits for it, not even the first time.
        for _ in range(5):
            with within(0.2):
                excluded(other)
                usable(other, name="y")
        time.sleep(1.7)
        lock.check()
        excluded(other)
    with within(0.5):
        usable(other)
    heal(fleet[3:])

    def votes_again() -> bool:
        with holder.lock("x"):
            time.sleep(0.05)
            return None not in holders(fleet.urls)

    assert eventually(votes_again)


@pytest.mark.parametrize("how", HOW)
def test_without_a_majority_acquire_raises_and_a_holder_loses_the_lock_when_its_lease_ends(
    how: str, fresh_masters: FreshMasters, client_for: ClientFor
) -> None:
    fleet = fresh_masters(3)
    holder, other = client_for(fleet.urls, 1.5), client_for(fleet.urls, 1.5)
    usable(other)
    told: list[rlock.LeaseLostError] = []
    lock = holder.lock("x", on_lost=told.append)
    assert lock.acquire()
    harm(fleet[1:], how)
    ends_at = time.monotonic() + lock.remaining()
    for arguments in ((False, -1), (True, 0.5)):
        with within(2.5), pytest.raises(rlock.QuorumUnreachableError, match="votes of 2 masters") as caught:
            other.lock("x").acquire(*arguments)
        assert {master.rpartition(":")[2] for master in caught.value.faults} == {*map(port, fleet[1:])}
        assert caught.value.answered < 2
    for ask in (other.lock("x").locked, lambda: other.status("x"), lambda: other.evict("x")):
        with pytest.raises(rlock.QuorumUnreachableError):
            ask()
    assert lock.lost.wait(5.0)
    # Silence is no loss before the validity ends; a renewal that was on its way may have moved the end.
    assert -0.05 < time.monotonic() - ends_at < 2.0
    with pytest.raises(rlock.LeaseLostError, match="another owner may have entered"):
        lock.check()
    assert eventually(lambda: told)
    with pytest.raises(rlock.LeaseLostError) as lost:
        lock.release()
    assert [error.reason for error in told] == [lost.value.reason]
    heal(fleet[1:])
    with within(10.0):
        usable(other, 10.0)
        usable(holder, 10.0)


def test_an_acquire_that_stopped_masters_carry_out_late_does_not_outlive_its_lease(
    fresh_masters: FreshMasters, client_for: ClientFor
) -> None:
    fleet = fresh_masters(3)
    gave_up, other = client_for(fleet.urls, 1.5), client_for(fleet.urls, 1.5)
    usable(gave_up)
    usable(other)
    harm(fleet, "stopped")
    with pytest.raises(rlock.QuorumUnreachableError):
        gave_up.lock("x").acquire(blocking=False)
    heal(fleet)
    # What lay in their sockets is an acquire that nobody waits for any more.
    assert other.lock("x").acquire(timeout=1.5 + 2.0)
    time.sleep(1.7)
    other.lock("x").check()
    assert everywhere(fleet.urls), "what was left of the attempt is gone, or never was"
    other.lock("x").release()
    usable(gave_up)
