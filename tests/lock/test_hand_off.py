"""Hand-off between processes and between threads of one, and what becomes of one that fails half-way."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import rlock
import rlock._client.subscriptions
from rlock.errors import RLockError
from rlock.procedures.contender import Contender, LocalGrant
from rlock.procedures.port import WaitGenerator, Wake
from rlock.rules import keys

from ..faults.conftest import proxies as proxies  # a fixture
from ..faults.proxy import Proxy
from ..servers import Fleet, left, raw
from .conftest import MakeClient, eventually, in_background, own_wire, threads_only
from .test_fencing import DEAD

Proxies = Callable[..., list[Proxy]]

pytestmark = own_wire


def asleep(masters: Fleet) -> None:
    """Return when a waiter has its place on all masters, and sleeps."""
    queue = keys.queue("x")
    assert eventually(lambda: all(raw(master.url).zcard(queue) == 1 for master in masters)), "nobody waits"
    time.sleep(0.1)


def gone(master: Any) -> bool:
    """Wait until nobody has the lock on this master."""
    return bool(eventually(lambda: not raw(master.url).exists("x"), 3.0))


def take(master: Any) -> None:
    """A contender that is dead has the vote of this master."""
    raw(master.url).hset("x", keys.owner_token("host/1/dead"), "1")


def usable(client: Any) -> None:
    """Use another lock, until the client is connected to all masters."""

    def connected() -> bool:
        with client.lock("y"):
            connections = client._engine().masters._connections
            return bool(connections.up == len(connections.servers))

    assert eventually(connected)


@pytest.mark.real_masters
def test_a_message_that_is_too_old_for_the_lease_gives_no_token(
    masters3: Fleet, proxies: Proxies, make_client: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The waiter does not run until the first message is long over, and others are not."""
    first, second, third = masters3
    (slow,) = proxies([second.url])
    holder, another = rlock.Client([first.url, slow.url, DEAD[0]], 3.0), rlock.Client(masters3.urls, 3.0)
    waiter = make_client(masters3.urls)
    where, stopped, go_on = rlock._client.subscriptions.Subscriptions, threading.Event(), threading.Event()
    wait = where.wait

    def stop_and_wait(self: Any, contender: Contender, until: float) -> WaitGenerator[Wake]:
        if len(self._by_name["x"].confirmed) == 3:
            stopped.set()
            go_on.wait(10.0)
        return (yield from wait(self, contender, until))

    def token() -> int:
        with waiter.lock("x") as lock:
            return lock.fencing_token

    with holder, another:
        assert holder.lock("x").acquire(blocking=False)
        usable(another)
        usable(waiter)
        take(third)  # otherwise the waiter would have no place there
        monkeypatch.setattr(where, "wait", stop_and_wait)
        given = in_background(token)
        assert stopped.wait(5.0)
        asleep(masters3)
        raw(third.url).delete("x")
        slow.hold(replies=False)
        holder.lock("x").release()
        assert gone(first)
        lock = another.lock("x")
        assert lock.acquire(blocking=False)
        earlier = lock.fencing_token
        lock.release()
        slow.let_go()
        assert eventually(lambda: raw(third.url).exists("x"))
        time.sleep(0.1)
        go_on.set()
        assert given.result(10) > earlier


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
