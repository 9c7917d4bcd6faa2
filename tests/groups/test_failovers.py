"""Failovers by real Sentinels: holds, contenders and error texts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from statistics import median

import pytest

from rlock._client.sentinel import Service

from ..faults.conftest import Waiter
from ..servers import Fleet
from .conftest import TTL, ClientFor, one_kind, refused, usable
from .group import ReplicatedGroup, Server, until

#: How the old primary ends, or goes on.
HARMS: dict[str, Callable[[ReplicatedGroup, Server], None]] = {
    "command": lambda group, _: group.fail_over(),
    "kill": lambda _, old: old.kill(),
    "stop": lambda _, old: old.pause(),
    "partition": lambda group, old: group.shut_out(old),
}
#: Beyond the lease and the restart guard: Sentinels, and a look of a waiter.
SLACK_S = 6.0


def fail_over(group: ReplicatedGroup, kind_of_harm: str) -> Server:
    """Have a replica promoted; the old primary."""
    old = group.primary
    HARMS[kind_of_harm](group, old)
    until(lambda: group.promoted(old), "a replica is promoted")
    until(lambda: group.primary is not old, "the Sentinels name the new primary")
    return old


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.rule("3.6")
def test_nobody_gets_a_lock_beside_its_holder(
    client_for: ClientFor, watched: ReplicatedGroup, harm: str
) -> None:
    holder, other = client_for(watched.url, ttl=3.0), client_for(watched.url, ttl=3.0)
    usable(other)
    lock = holder.lock("x", renew=False)
    assert lock.acquire()
    token, until_s = lock.fencing_token, time.monotonic() + lock.remaining()
    waiter = Waiter(other)
    old = fail_over(watched, harm)
    while time.monotonic() < until_s - 0.1:
        lock.check()
        assert not waiter.done
        time.sleep(0.05)
    if old.running:
        old.resume()
    watched.mend()
    assert waiter.got(3.0 + SLACK_S)
    assert usable(other) > token


def test_one_group_of_three_fails_over_and_nobody_notices(
    client_for: ClientFor, watched: ReplicatedGroup, masters3: Fleet
) -> None:
    masters = (watched.url, *masters3(2).urls)
    holder, other = client_for(*masters), client_for(*masters)
    pairs: list[float] = []
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            began = time.monotonic()
            with other.lock("y"):
                pass
            pairs.append(time.monotonic() - began)

    usable(holder)
    worker = threading.Thread(target=work)
    worker.start()
    try:
        with holder.lock("x") as lock:
            fail_over(watched, "kill")
            deadline = time.monotonic() + 2 * TTL
            while time.monotonic() < deadline:
                lock.check()
                time.sleep(0.05)
    finally:
        over.set()
        worker.join()
    # A client that needs the vote of the promoted server waits for its guard, which is longer than the ttl.
    assert max(pairs) < TTL, f"median {median(pairs):.4f}, longest {max(pairs):.3f} s"


def test_the_newest_answer_of_the_sentinels_counts() -> None:
    """One that is cut off from the others names the old primary."""
    answers = [
        ["ip", "10.0.0.1", "port", "1", "config-epoch", "4"],
        ["ip", "10.0.0.2", "port", "2", "config-epoch", "5"],
    ]
    service = Service("mymaster", [], ConnectionError)
    for each in (answers, answers[::-1]):
        assert service.newest([*each, TimeoutError()]) == ("10.0.0.2", 2)


@one_kind
def test_an_unknown_service_is_an_error_that_names_it(
    client_for: ClientFor, watched: ReplicatedGroup
) -> None:
    client = client_for(watched.url.replace("/mymaster", "/nobody"))
    refused(client, "its Sentinels know no service 'nobody': check the name in the URL")


def test_unreachable_sentinels_are_an_error_that_names_them(
    client_for: ClientFor, watched: ReplicatedGroup
) -> None:
    client = client_for(watched.url)
    usable(client)
    for sentinel in watched.sentinels:
        sentinel.pause()
    usable(client)  # on the connection that there is
    told = refused(client_for(watched.url), "no Sentinel of 'mymaster' answers")
    assert str(watched.sentinels[0].port) in told
