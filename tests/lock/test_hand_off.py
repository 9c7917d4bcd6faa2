"""Hand-off between threads of one process, and what becomes of one that fails half-way."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

import rlock._client.subscriptions
from rlock.errors import RLockError
from rlock.procedures.contender import Contender, LocalGrant
from rlock.procedures.port import WaitGenerator, Wake

from ..servers import Fleet, left
from .conftest import MakeClient, eventually, own_wire, threads_only

pytestmark = own_wire


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
