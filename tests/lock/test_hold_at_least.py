"""`hold_at_least`: a lock that stays taken for a time, also after an earlier release."""

from __future__ import annotations

import time
from unittest.mock import patch

import pytest

import rlock
from rlock import Client
from rlock._sync.runtime import run
from rlock.procedures.renew import renew

from ..servers import Fleet
from .conftest import MakeClient, acquired, in_background, threads_only


def test_the_lock_stays_taken_for_everybody_until_the_time_is_over(client: Client, other: Client) -> None:
    lock = client.lock("x", hold_at_least=0.7)
    began = time.monotonic()
    lock.acquire()
    token = lock.fencing_token
    lock.release()
    assert lock.hold_count == 0
    assert not lock.is_owned()
    assert not client.lock("x").acquire(blocking=False)
    assert other.lock("x").acquire(timeout=5)
    assert time.monotonic() - began >= 0.68
    assert other.lock("x").fencing_token > token


def test_a_work_that_took_longer_frees_the_lock_at_once(client: Client) -> None:
    with client.lock("x", hold_at_least=0.05):
        time.sleep(0.06)
    assert not client.lock("x").locked()


def test_the_outermost_acquire_decides(client: Client) -> None:
    with client.lock("x"), client.lock("x", hold_at_least=8):
        pass
    assert not client.lock("x").locked()
    with client.lock("y", hold_at_least=8):
        with client.lock("y"):
            pass
        assert client.status("y").hold_count == 1
    assert client.lock("y").locked()


@pytest.mark.parametrize("fair", [False, True])
def test_waiters_get_it_when_the_time_is_over(client: Client, other: Client, fair: bool) -> None:
    def wait() -> float:
        with other.lock("x", fair=fair):
            return time.monotonic()

    lock = client.lock("x", hold_at_least=0.6)
    began = time.monotonic()
    with lock:
        waiters = [in_background(wait) for _ in range(2)]
    assert min(waiter.result(20) for waiter in waiters) - began >= 0.58
    # It was its turn, and its place is gone.
    assert client.status("x").queue_length == 0


def test_a_lock_that_its_client_closes_stays_taken(client: Client, other: Client) -> None:
    client.lock("x", hold_at_least=8).acquire()
    client.close()
    assert other.status("x").hold_count == 0
    assert other.lock("x").locked()


def test_a_wrong_time_is_refused(client: Client) -> None:
    for seconds in (-1, float("nan"), "60", True):
        with pytest.raises(rlock.OptionsError, match="hold_at_least must be a finite number"):
            client.lock("x", hold_at_least=seconds)  # type: ignore[arg-type]
    with pytest.raises(rlock.OptionsError, match=r"least=60 s is over max_ttl=10 s.*RLOCK_MAX_TTL=60"):
        client.lock("x", hold_at_least=60)
    with pytest.raises(rlock.OptionsError, match="is over max_hold=5 s"):
        client.lock("x", hold_at_least=8, max_hold=5)


@threads_only
def test_a_release_that_too_few_masters_kept_is_told(
    masters3: Fleet, connect3: MakeClient, caplog: pytest.LogCaptureFixture
) -> None:
    client = connect3(ttl=1.5, request_timeout=0.2)
    lock = acquired(client, hold_at_least=8)
    with masters3[:2].paused():
        lock.release()
    assert "fewer than a quorum keeps it after its release: it may be free" in caplog.text


@threads_only
def test_a_time_that_ends_in_the_middle_of_the_release_is_over(client: Client, other: Client) -> None:
    lock = acquired(client, hold_at_least=8)
    with patch("rlock.rules.holds.Hold.rest", side_effect=[0.001, *[0.0] * 9]):
        lock.release()
    assert other.lock("x").acquire(timeout=2)


@threads_only
def test_a_renewal_that_was_under_way_cannot_undo_it(client: Client) -> None:
    lock, engine = client.lock("x", hold_at_least=8), client._engine()
    lock.acquire()
    hold = engine.held("x")
    lock.release()
    run(renew(engine.masters, [hold]))  # the watchdog had chosen it before
    kept = client.status("x")
    assert kept.hold_count == 0
    assert kept.remaining is not None
    assert kept.remaining > 4, "it has the lease of the renewal"
