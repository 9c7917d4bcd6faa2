"""A client with a long lease, and a close in the middle of a hand-off between threads."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

import rlock
import rlock._client.subscriptions
from rlock.errors import RLockError
from rlock.procedures.contender import Contender, LocalGrant
from rlock.procedures.port import WaitGenerator, Wake
from rlock.rules import keys

from ..servers import Fleet, left, raw
from .conftest import MakeClient, eventually, own_wire, threads_only

pytestmark = own_wire


@pytest.mark.kinds("blocking")
@pytest.mark.real_masters
def test_a_client_with_a_long_lease_raises_the_guard_of_others_only_with_a_lock(
    masters3: Fleet, make_client: MakeClient
) -> None:
    """The masters are older than the guard of the fleet, and younger than that of the long lease."""
    for master in masters3:
        server = raw(master.url)
        since_us = (server.time()[0] - 60) * 10**6
        server.set(keys.NOTE, f"{server.info('server')['run_id']} {since_us} 3000")
    careless = make_client(masters3.urls, 86_400.0, max_ttl=86_400.0)
    fleet = make_client(masters3.urls, 3.0, max_ttl=3.0)
    held = fleet.lock("held")
    held.acquire()
    with pytest.raises(rlock.QuorumUnreachableError, match="it has no vote for"):
        careless.lock("x").acquire(blocking=False)
    assert fleet.lock("y").acquire(blocking=False)
    end = time.monotonic() + held.remaining()
    assert eventually(lambda: time.monotonic() + held.remaining() > end + 0.1), "it is not renewed"
    careless.init()
    assert careless.lock("x").acquire(blocking=False)
    noted = [str(raw(master.url).get(keys.NOTE)).rpartition(" ")[2] for master in masters3]
    assert noted.count("86400000") >= 2


@threads_only
@pytest.mark.parametrize("kept", ["releaser", "heir"])
def test_close_in_the_middle_of_a_hand_off_leaves_nothing_of_the_heir(
    masters3: Fleet, make_client: MakeClient, monkeypatch: pytest.MonkeyPatch, kept: str
) -> None:
    """The masters gave it the lock; one of the two threads is kept from running until close() is over."""
    client = make_client(masters3.urls, ttl=10.0)
    where = rlock._client.subscriptions.Subscriptions
    hand_over, wait_for = where.hand_over, where.wait
    found: list[list[str]] = []

    def close() -> None:
        client.close()
        found.extend(left(master.url) for master in masters3)

    def tell_late(self: Any, contender: Contender, grant: LocalGrant) -> bool:
        close()
        return hand_over(self, contender, grant)

    def go_on_late(self: Any, contender: Contender, until: float) -> WaitGenerator[Wake]:
        wake = yield from wait_for(self, contender, until)
        if wake is Wake.GRANTED:
            close()
        return wake

    if kept == "releaser":
        monkeypatch.setattr(where, "hand_over", tell_late)
    else:
        monkeypatch.setattr(where, "wait", go_on_late)
    ends: list[object] = []

    def wait() -> None:
        try:
            ends.append(client.lock("x").acquire())
        except RLockError as error:
            ends.append(str(error))

    next_waiter = threading.Thread(target=wait)
    with client.lock("x"):
        next_waiter.start()
        assert eventually(lambda: client.status("x").queue_length == 1)
        time.sleep(0.1)
    next_waiter.join(20)
    assert found == [[], [], []]
    assert ends == ["the client was closed"] or ends == ["the client is closed"]
