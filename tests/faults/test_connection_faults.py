"""Connections that servers close or hold up, names that move; single requests and replies that are lost."""

from __future__ import annotations

import logging
import socket
import statistics
import time
from typing import Any

import pytest

import rlock
from rlock.events import MasterFailed
from rlock.rules import scripts
from rlock.testing.local.embedded import ServerBinary

from ..lock.conftest import eventually
from ..servers import Fleet, name_of, raw, tell
from ..telemetry.happenings import Ledger
from .conftest import (
    ClientFor,
    FreshMasters,
    Proxies,
    Waiter,
    everywhere,
    excluded,
    holders,
    usable,
    waiting,
    within,
)
from .proxy import Proxy, Then

#: How a request or a reply is lost, and what comes after it on that connection.
LOSSES: list[tuple[str, Then]] = [
    ("request", "silence"),
    ("request", "reset"),
    ("request", "torn"),
    ("reply", "silence"),
    ("reply", "reset"),
]


def counts(urls: list[str], name: str = "x") -> list[str]:
    """The hold counts that the masters know."""
    found: list[str] = []
    for url in urls:
        with raw(url) as server:
            found += list(server.hvals(name))
    return found


def subscribers(url: str) -> int:
    with raw(url) as server:
        return str(server.execute_command("CLIENT", "LIST", "TYPE", "pubsub")).count("id=")


def test_a_master_that_flaps_is_told_once_and_then_not_until_it_is_steady(
    masters3: Fleet,
    client_for: ClientFor,
    proxies: Proxies,
    ledger: Ledger,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (bad,) = proxies(masters3.urls[:1])
    label, client = name_of(bad.url), client_for([bad.url, *masters3.urls[1:]])
    with caplog.at_level(logging.INFO, "rlock"):
        while sum(event.connected for event in ledger.of(MasterFailed)) < 8:
            usable(client)
            bad.reset()
            time.sleep(0.1)  # until it is connected again
        lines = [record.getMessage() for record in caplog.records if label in record.getMessage()]
        assert ["flapping" in line for line in lines] == [False] * (len(lines) - 1) + [True]
        assert len(lines) < 10
        caplog.clear()
        monkeypatch.setattr("rlock._client.connections.FLAPS_S", 0.5)
        until = time.monotonic() + 10.0
        while not (said := f"{label} answers again" in caplog.messages) and time.monotonic() < until:
            usable(client)
        assert said


def test_of_three_masters_of_which_one_is_down_the_others_are_not_called_so(
    masters3: Fleet, client_for: ClientFor, caplog: pytest.LogCaptureFixture
) -> None:
    client = client_for([*masters3.urls[:2], "redis://127.0.0.1:1"])
    until = time.monotonic() + 2.5  # more than two request time-outs
    while time.monotonic() < until:
        usable(client)
    assert {record.getMessage().partition(" ")[0] for record in caplog.records} == {"redis://127.0.0.1:1"}


def test_a_master_that_accepts_and_says_nothing_is_told_as_such(client_for: ClientFor) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        client = client_for([f"redis://127.0.0.1:{mute.getsockname()[1]}"])
        with pytest.raises(rlock.QuorumUnreachableError, match="has not answered the first attempt"):
            client.lock("x").acquire(timeout=0.3)


@pytest.mark.parametrize("what", ["ALL", "WRITE"])
def test_a_pause_of_all_masters_shorter_than_the_lease_delays_and_hurts_nobody(
    what: str, masters3: Fleet, client_for: ClientFor
) -> None:
    urls = masters3.urls
    holder, other = client_for(urls, 1.8), client_for(urls, 1.8)
    usable(other)
    with holder.lock("x") as lock:
        tell(urls, "CLIENT", "PAUSE", "900", what)  # the first renewal fails
        with within(2.0), pytest.raises(rlock.QuorumUnreachableError, match="no answer"):
            other.lock("x").acquire(blocking=False)
        time.sleep(1.7)  # past the end of the first lease
        lock.check()
        excluded(other)
    tell(urls, "CLIENT", "PAUSE", "600", what)
    with within(4.0):
        usable(other)  # waits for the masters


def test_scripts_that_all_masters_forgot_are_sent_again_within_the_call(
    masters3: Fleet, client_for: ClientFor
) -> None:
    urls = masters3.urls
    holder, other = client_for(urls, 1.5), client_for(urls, 1.5)
    usable(other)
    tell(urls, "SCRIPT", "FLUSH")
    lock = holder.lock("x")
    assert lock.acquire(blocking=False)
    waiter = Waiter(other)
    waiting(holder)
    tell(urls, "SCRIPT", "FLUSH")
    time.sleep(1.7)  # renewed, and looked at
    lock.check()
    tell(urls, "SCRIPT", "FLUSH")
    with within(1.0):
        lock.release()
        assert waiter.got()


def test_a_name_that_moves_to_another_address_is_looked_up_again(
    fresh_masters: FreshMasters, server: ServerBinary, monkeypatch: pytest.MonkeyPatch, client_for: ClientFor
) -> None:
    before, after = fresh_masters(1, binary=server)[0], fresh_masters(1, binary=server)[0]
    look_up, now = socket.getaddrinfo, [before]

    def moving(host: Any, port: Any, *args: Any, **options: Any) -> Any:
        if host != "moves.test":
            return look_up(host, port, *args, **options)
        return look_up("127.0.0.1", int(now[0].url.rpartition(":")[2]), *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", moving)
    client = client_for([f"{before.url.rpartition('@')[0]}@moves.test:6379"])
    usable(client)
    now[0] = after
    before.kill()
    usable(client)
    with raw(after.url) as known:
        assert known.exists("rlock:fleet")


def test_after_a_kill_of_all_connections_no_time_out_is_waited_for(
    masters3: Fleet, client_for: ClientFor
) -> None:
    client, took = client_for(masters3.urls, 10.0, request_timeout=1.0), list[float]()
    usable(client)
    for _ in range(5):
        tell(masters3.urls, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        began = time.monotonic()
        usable(client)
        took.append(time.monotonic() - began)
    assert statistics.median(took) < 0.5
    assert eventually(lambda: client.lock("x").locked() is False)


@pytest.fixture
def lossy(masters3: Fleet, proxies: Proxies) -> list[Proxy]:
    """Proxies in front of a majority: what is lost on both leaves no quorum."""
    return proxies(masters3.urls[1:])


def lose(lossy: list[Proxy], script: scripts.Script, what: str, then: Then) -> None:
    for proxy in lossy:
        (proxy.lose_request if what == "request" else proxy.lose_reply)(script, then)


def paths(masters: Fleet, lossy: list[Proxy]) -> list[str]:
    return [masters.urls[0], *(proxy.url for proxy in lossy)]


@pytest.mark.parametrize(("what", "then"), LOSSES)
def test_an_acquire_of_which_the_request_or_the_reply_is_lost_leaves_no_vote_behind(
    what: str, then: Then, masters3: Fleet, lossy: list[Proxy], client_for: ClientFor
) -> None:
    client, other = client_for(paths(masters3, lossy), 10.0), client_for(masters3.urls, 10.0)
    usable(client)
    usable(other)
    lock = client.lock("x")
    lose(lossy, scripts.ACQUIRE, what, then)
    if then != "silence":
        # Noticed at once, and asked again under the same token: a second delivery counts once.
        assert lock.acquire(blocking=False)
        assert everywhere(masters3.urls)
        assert counts(masters3.urls) == ["1"] * 3
        lock.release()
    else:
        with within(2.0), pytest.raises(rlock.QuorumUnreachableError, match=r"no answer within 0\.5 s"):
            lock.acquire(blocking=False)
        # Far under the lease of 10 s: undone, on the masters that had carried it out, too.
        with within(2.0):
            usable(other, 2.0)
    assert [proxy.losses for proxy in lossy] == [1, 1]
    lose(lossy, scripts.ACQUIRE, what, then)
    with within(3.0):
        usable(client)  # with time to wait it is only slower
    assert [proxy.losses for proxy in lossy] == [2, 2]
    assert eventually(lambda: holders(masters3.urls) == [None] * 3, 2.0)


def test_renewals_of_which_the_request_or_the_reply_is_lost_are_tried_again_in_time(
    masters3: Fleet, lossy: list[Proxy], client_for: ClientFor
) -> None:
    client, other = client_for(paths(masters3, lossy), 1.5), client_for(masters3.urls)
    usable(other)
    lock = client.lock("x")
    lock.acquire()
    lock.acquire()
    for times, (what, then) in enumerate(LOSSES, 1):
        lose(lossy, scripts.RENEW, what, then)
        until = time.monotonic() + 2.0
        while [proxy.losses for proxy in lossy] != [times, times]:
            assert time.monotonic() < until, "it is not renewed"
            time.sleep(0.02)
        assert eventually(lambda: lock.remaining() > 1.2, 2.0), (what, then)
        lock.check()
        excluded(other)
    assert set(counts(masters3.urls)) == {"2"}
    lock.release()
    lock.release()
    with within(1.0):
        usable(other)


@pytest.mark.parametrize(("what", "then"), LOSSES)
def test_a_release_of_which_the_request_or_the_reply_is_lost_is_no_error_and_frees_the_lock(
    what: str,
    then: Then,
    masters3: Fleet,
    lossy: list[Proxy],
    client_for: ClientFor,
    caplog: pytest.LogCaptureFixture,
) -> None:
    client, other = client_for(paths(masters3, lossy), 10.0), client_for(masters3.urls, 10.0)
    usable(client)
    usable(other)
    lock = client.lock("x")
    lock.acquire()
    lose(lossy, scripts.RELEASE, what, then)
    with within(2.0), caplog.at_level(logging.WARNING, "rlock"):
        lock.release()
    assert [proxy.losses for proxy in lossy] == [1, 1]
    assert ("fewer than a quorum confirmed" in caplog.text) == (then == "silence")
    assert lock.hold_count == 0
    usable(client, name="y")
    # Far under the lease of 10 s: what was lost is delivered with the next connection.
    with within(2.5):
        usable(other, 2.5)
    usable(client)


def test_a_release_that_was_lost_in_a_short_partition_is_delivered_although_its_client_is_idle(
    masters3: Fleet, lossy: list[Proxy], client_for: ClientFor
) -> None:
    client, other = client_for(paths(masters3, lossy), 10.0), client_for(masters3.urls, 10.0)
    usable(other)
    lock = client.lock("x")
    lock.acquire()
    for proxy in lossy:
        proxy.cut()
    lock.release()
    for proxy in lossy:
        proxy.mend()
    usable(other, 2.5)
