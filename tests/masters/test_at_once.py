"""Acquires that do not wait, at the same instant: one gets the lock, and only they are told False who saw it.

Each contender is a process, near one master and a delay away from the others, as in one zone of three.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection

import pytest

import rlock

from ..faults.proxy import Proxy
from ..servers import Fleet

INSTANTS = 20


def contend(urls: list[str], orders: Connection) -> None:
    """In the process of a contender: ask when told to; release when all have answered."""
    with rlock.Client(urls) as client:
        client.status("x")
        orders.send("connected")
        while (order := orders.recv()) is not None:
            name, at = order
            lock = client.lock(name)
            time.sleep(max(0.0, at - time.monotonic()))  # all wake at once, however few cores there are
            try:
                answer: object = lock.acquire(blocking=False)
            except rlock.QuorumUnreachableError as error:
                answer = str(error)
            orders.send(answer)
            orders.recv()
            if answer is True:
                lock.release()
            orders.send("done")


@contextlib.contextmanager
def contenders(fleet: Fleet, count: int, delay_s: float) -> Iterator[list[Connection]]:
    """So many processes; the masters but one are ``delay_s`` away from each."""
    context = multiprocessing.get_context("spawn")
    with contextlib.ExitStack() as stack:
        ends = []
        for i in range(count):
            urls = list(fleet.urls)
            for m in range(len(urls)):
                if delay_s and m != i % len(urls):
                    proxy = Proxy(urls[m])
                    stack.callback(proxy.close)
                    proxy.delay_s, urls[m] = delay_s, proxy.url
            end, orders = context.Pipe()
            process = context.Process(target=contend, args=(urls, orders), daemon=True)
            process.start()
            stack.callback(process.join, 10)
            stack.callback(end.send, None)
            ends.append(end)
        for end in ends:
            assert end.recv() == "connected"
        yield ends


def instant(ends: Sequence[Connection], name: str) -> list[object]:
    """What each is answered that asks for a free lock at one instant; the lock is free again then."""
    at = time.monotonic() + 0.02
    for end in ends:
        end.send((name, at))
    answers = [end.recv() for end in ends]
    for step in ("release", "done"):
        for end in ends:
            if step == "done":
                assert end.recv() == step
            else:
                end.send(step)
    return answers


@pytest.mark.rule("4.3")
@pytest.mark.parametrize(("count", "delay_ms"), [(5, 0), (3, 2), (3, 10)])
def test_of_acquires_at_the_same_instant_one_gets_the_lock(
    masters3: Fleet, count: int, delay_ms: float
) -> None:
    with contenders(masters3, count, delay_ms / 1000) as ends:
        found = [instant(ends, f"job-{i}") for i in range(INSTANTS)]
    assert [answers.count(True) for answers in found] == [1] * INSTANTS, found
