"""Many clients and one bad master of three: how often they connect to it, and how many lines they log.

Each client takes and releases a lock of its own twice a second, and holds another one all the time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack

import rlock
from rlock.testing.local.binaries import find_servers
from rlock.testing.local.embedded import Master
from tests.faults.proxy import Proxy

from .faults import LATER, Neighbour, replies
from .report import Log

PAUSE_S = 0.5
HEAD = ["one master of three", "clients", "connections a second", "log lines a minute", "of each client"]


FAULTS: dict[str, Callable[[Neighbour, Proxy], object]] = {
    "flapping: all connections are reset twice a second": lambda bad, proxy: bad.again_and_again(
        proxy.reset, 0.5
    ),
    "silent: it swallows all": LATER["swallows all"],
    "hostile: it answers anything": LATER["answers anything"],
}


def measure(fault: str, clients: int, seconds: float) -> list[str]:
    ended, errors = threading.Event(), list[BaseException]()
    with ExitStack() as stack:
        servers = [stack.enter_context(Master(next(iter(find_servers())))) for _ in range(3)]
        bad = Neighbour(servers[0].url, 1)
        stack.enter_context(bad.open)
        proxy = bad.behind_proxy()
        urls = [proxy.url, servers[1].url, servers[2].url]

        def run(number: int) -> None:
            try:
                # A long lease: so many threads may keep a renewal from running for seconds.
                client = rlock.Client(urls, 60.0, max_ttl=60.0, request_timeout=0.5, restart_guard=0)
                with client, client.lock(f"held-{number}") as held:
                    while not ended.wait(PAUSE_S):
                        with client.lock(f"own-{number}"):
                            pass
                    held.check()
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=run, args=(number,)) for number in range(clients)]
        for thread in threads:
            thread.start()
            time.sleep(0.01)
        time.sleep(2.0)
        log = Log(proxy.url)
        before, began = proxy.accepted, time.monotonic()
        FAULTS[fault](bad, proxy)
        time.sleep(seconds)
        took, connections, count = time.monotonic() - began, proxy.accepted - before, len(log.lines)
        log.close()
        ended.set()
        for thread in threads:
            thread.join(30.0)
    if errors:
        raise errors[0]
    minute = count * 60 / took
    return [fault, str(clients), f"{connections / took:.0f}", f"{minute:.0f}", f"{minute / clients:.1f}"]


def report(clients: int, seconds: float) -> None:
    replies()  # first: it takes seconds
    print(f"| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}")
    for fault in FAULTS:
        print(f"| {' | '.join(measure(fault, clients, seconds))} |", flush=True)
