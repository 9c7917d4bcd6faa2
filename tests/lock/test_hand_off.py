"""Hand-off between processes and between threads of one, and what becomes of one that fails half-way."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import rlock
import rlock._client.subscriptions
from rlock.procedures.contender import Contender
from rlock.procedures.port import WaitGenerator, Wake, new_owner
from rlock.rules import keys, scripts
from rlock.rules.timing import CLAIM_S

from ..faults.conftest import proxies as proxies  # a fixture
from ..faults.proxy import Proxy
from ..servers import Fleet, raw
from .conftest import MakeClient, StartChild, eventually, in_background, own_wire
from .test_fencing import DEAD, stamp

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
    raw(master.url).hset("x", new_owner("host/1/dead"), "1")


def usable(client: Any) -> None:
    """Use another lock, until the client is connected to all masters."""

    def connected() -> bool:
        with client.lock("y"):
            connections = client._engine().masters._connections
            return bool(connections.up == len(connections.servers))

    assert eventually(connected)


#: A waiter in another process. It says its fencing token, and on each line that it is told: its belief.
WAITER = """
import sys, rlock

def belief(ask):
    try:
        return ask()
    except rlock.LeaseLostError:
        return "lost"

with rlock.Client(sys.argv[1:], ttl=10.0) as client:
    lock = client.lock("x")
    lock.acquire()
    print(lock.fencing_token)
    sys.stdin.readline()
    print(lock.is_owned(), belief(lock.check), belief(lock.release))
"""


@pytest.mark.kinds("blocking")
@pytest.mark.real_masters
def test_a_lease_that_has_lapsed_is_proven_by_no_late_confirmation(
    masters3: Fleet, proxies: Proxies, make_client: MakeClient, child: StartChild
) -> None:
    """The token of a hand-off is the one that its confirmation proposes; another owner came in between."""
    first, second, third = masters3
    lossy, slow = proxies([first.url] * 2)
    holder, another = (make_client([lossy.url, second.url, third.url], 10.0) for _ in range(2))
    usable(holder)
    usable(another)
    ahead = raw(first.url).time()[0] * 10**6 + 30 * 10**6
    stamp([second.url, third.url], ahead, ahead)
    take(third)
    lossy.lose_request(scripts.FENCE, "reset")
    holder.lock("x").acquire()
    waiter = child(WAITER, slow.url, second.url, third.url)
    asleep(masters3)
    slow.hold(replies=False)
    holder.lock("x").release()

    def confirmed() -> bool:
        (owner,), left_ms = raw(second.url).hkeys("x") or [""], raw(second.url).pttl("x")
        return f"/{waiter.process.pid}/" in owner and left_ms > 1000 * CLAIM_S

    assert eventually(confirmed), "it has asked master 2, one way or the other"
    time.sleep(0.05)
    waiter.process.send_signal(signal.SIGSTOP)
    raw(third.url).delete("x")  # the dead one's lease ends
    assert gone(first)
    lossy.lose_request(scripts.FENCE, "reset")
    lock = another.lock("x")
    assert lock.acquire(timeout=3)
    token = lock.fencing_token
    lock.release()
    assert lossy.losses == 2
    assert gone(first)
    slow.let_go()
    time.sleep(0.1)
    waiter.process.send_signal(signal.SIGCONT)
    given = int(waiter.line())
    waiter.say()
    belief = waiter.line()
    # A waiter that asks the masters again has the lock after the other one.
    assert given > token or belief == "False lost lost"
    assert waiter.end() == 0


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


def test_an_eviction_stays_done_when_the_confirmation_of_a_hand_off_comes_after_it(
    masters3: Fleet, proxies: Proxies, make_client: MakeClient
) -> None:
    slow = proxies(masters3.urls)
    # With a short time-out: the longer one is, the younger a message must be to grant the lock.
    waiter = make_client([proxy.url for proxy in slow], request_timeout=0.1)
    holder = make_client(masters3.urls)
    holder.lock("x").acquire()

    def be_evicted() -> Any:
        lock = waiter.lock("x")
        assert lock.acquire(timeout=5)
        assert holder.evict("x")
        for proxy in slow:
            proxy.let_go()
        return eventually(lambda: not lock.is_owned(), 2 * CLAIM_S)

    ended = in_background(be_evicted)
    asleep(masters3)
    for proxy in slow:
        proxy.hold(replies=False)
    holder.lock("x").release()
    assert ended.result(10), "it owns the lock again, and renews it"
    assert all(gone(master) for master in masters3)
