"""The queue: one waiter is handed the lock, in order; fencing tokens rise with each holder."""

from __future__ import annotations

import itertools
import random
import threading
import time
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest

import rlock
from rlock import Client
from rlock._client.calls import Calls
from rlock.procedures.port import Request, WaitGenerator
from rlock.rules import scripts
from rlock.rules.command_templates import Command
from rlock.rules.keys import queue
from rlock.rules.quorum import Ballot
from rlock.rules.timing import QUEUE_TTL_S

from ..servers import Fleet, raw
from .conftest import WAITER, Child, MakeClient, StartChild, eventually, in_background, running


def queue_of(client: rlock.Client) -> list[str]:
    """The processes in the queue, in order."""
    return [waiter.owner.split("/")[1] for waiter in client.status("x").waiters]


def started(child: StartChild, client: rlock.Client, urls: list[str], mode: str = "fair") -> Child:
    """A process that stands in the queue."""
    before = client.status("x").queue_length
    one = child(WAITER, mode, "5", *urls)
    assert one.line() == "waiting"
    assert eventually(lambda: client.status("x").queue_length == before + 1)
    return one


@pytest.mark.rule("4.5")
@pytest.mark.parametrize("mode", ["fair", "default"])
def test_processes_get_the_lock_in_the_order_in_which_they_came(
    client: Client, mode: str, urls: list[str], child: StartChild
) -> None:
    with client.lock("x"):
        waiters = [started(child, client, urls, mode) for _ in range(5)]
        assert queue_of(client) == [str(waiter.process.pid) for waiter in waiters]
    entered = []
    for waiter in waiters:
        entered.append(int(waiter.line()))
        waiter.say()
        waiter.line()
    assert entered == sorted(entered)


@pytest.mark.rule("4.4")
def test_a_release_wakes_one_waiter_and_the_others_sleep_on(
    masters: Fleet, make_client: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients = [make_client(masters.urls, ttl=10.0) for _ in range(8)]
    done, asked, call = threading.Event(), list[Command](), Calls.call

    def count(self: Calls[Any], request: Request) -> WaitGenerator[Ballot]:
        if request.command.script is scripts.ACQUIRE:
            asked.append(request.command)
        return call(self, request)

    def wait(client: rlock.Client) -> None:
        with client.lock("x"):
            done.wait(20)

    waiters: list[Any] = []
    with clients[0].lock("x"):
        for client in clients[1:]:
            waiters.append(in_background(partial(wait, client)))
            assert eventually(lambda: clients[0].status("x").queue_length == len(waiters))
        first = clients[0].status("x").waiters[0].owner.rpartition(":")[0]
        monkeypatch.setattr(Calls, "call", count)
        clients[0].lock("x").release()
        assert eventually(lambda: first in (clients[0].status("x").holder or ""))
        time.sleep(0.3)
        assert asked == [], "the messages are the grant, so nobody asks"
        clients[0].lock("y").acquire()  # for the `with`
        assert clients[0].status("x").queue_length == 6
        clients[0].lock("y").release()
        done.set()
        clients[0].lock("x").acquire()
    for waiter in waiters:
        waiter.result(20)


@pytest.mark.real_masters
@pytest.mark.parametrize("mode", ["fair", "default"])
def test_thousands_of_dead_places_stop_neither_a_release_nor_those_who_wait(
    mode: str, masters3: Fleet, connect3: MakeClient
) -> None:
    holder, other = connect3(ttl=10.0), connect3(ttl=10.0)
    dead = {f"dead:{i}|gone": i for i in range(5_000)}
    lock, got = holder.lock("x"), threading.Event()

    def wait() -> None:
        with other.lock("x", fair=mode == "fair"):
            got.set()

    lock.acquire()
    for url in masters3.urls:
        raw(url).zadd(queue("x"), dead)
    with running(wait):
        assert eventually(lambda: holder.status("x").queue_length > len(dead))
        lock.release()
        assert got.wait(10.0), "the dead stand before it"
    assert holder.lock("x", fair=True).acquire(blocking=False), "a free lock is not refused for the dead"
    assert holder.status("x").queue_length == 0


def test_a_release_hands_the_lock_to_a_thread_of_its_own_client(client: Client) -> None:
    told: list[rlock.events.Event] = []
    with ExitStack() as stack:
        stack.callback(rlock.events.observe(told.append))
        with client.lock("x"):
            waiter = in_background(partial(take, client))
            assert eventually(lambda: client.status("x").queue_length == 1)
        waiter.result(20)
    assert [event.handed for event in told if type(event) is rlock.events.Acquired] == [False, True]


def test_a_forgotten_waiter_takes_its_place_again(client: Client, urls: list[str], child: StartChild) -> None:
    with client.lock("x"):
        first, second = started(child, client, urls), started(child, client, urls)
        for url in urls:
            assert 0 < raw(url).pttl("rlock:{x}:queue") <= QUEUE_TTL_S * 1000
            raw(url).delete("rlock:{x}:queue")
        # Each polls one master in a second or so.
        assert eventually(lambda: client.status("x").queue_length == 2, within=15.0)
        assert queue_of(client) == [str(first.process.pid), str(second.process.pid)]
    first.line()
    first.say()
    second.line()
    second.say()


DEAD = ("redis://127.0.0.1:1", "redis://127.0.0.1:2")  # nobody listens there: masters that are dead


def take(client: rlock.Client, **options: Any) -> int:
    """The token of one hold."""
    with client.lock("x", **options) as lock:
        return lock.fencing_token


def without(urls: list[str], *dead: int) -> list[str]:
    """The same masters, as one sees them for whom a minority is dead."""
    return [DEAD[dead.index(i)] if i in dead else url for i, url in enumerate(urls)]


def test_it_is_an_int_of_at_most_53_bits_that_begins_at_the_masters_time(connect: MakeClient) -> None:
    token = take(connect())
    assert type(token) is int
    assert 0 < token < 2**53
    assert token / 1e6 == pytest.approx(time.time(), abs=10)


@pytest.mark.rule("3.8")
@pytest.mark.parametrize("count", [3, 5])
def test_it_rises_from_majority_to_majority_without_any_clock(
    count: int, masters: Fleet, make_client: MakeClient
) -> None:
    """With counters and their maximum {1,2}, {1,3}, {2,3} give 1, 2, 2."""
    urls = masters(count).urls
    ahead = int(time.time() + 86400) * 10**6  # so that nobody's time plays a part
    for url in urls:
        raw(url).set("rlock:{x}:fence", f"{ahead} somebody:else", px=3600_000)
    minorities = itertools.combinations(range(count), count // 2)
    clients = [make_client(without(urls, *dead)) for dead in minorities]
    tokens = [ahead] + [take(client) for client in clients]
    chance = random.Random(11)
    tokens += [take(chance.choice(clients)) for _ in range(60)]
    assert tokens == sorted(set(tokens))
    assert tokens[-1] <= ahead + 2 * len(tokens), "one more each time, or the one that a minority was given"
