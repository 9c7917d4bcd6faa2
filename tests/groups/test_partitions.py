"""Partitions of a group, in both directions and in one: between hosts that are network namespaces."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Barrier, Event
from typing import NamedTuple

import pytest

import rlock
from rlock.rules.timing import drift, renew_period
from rlock.testing.contention.checker import judge_safety
from rlock.testing.contention.history import History
from rlock.testing.contention.journal import SECOND, Journal, now_ns
from rlock.testing.contention.recorder import Hold, Recorder
from rlock.testing.local.embedded import ServerBinary

from ..faults import netns
from ..faults.netns import Bridge, Host
from .conftest import GroupOf
from .group import Place, ReplicatedGroup, until


class Divided(NamedTuple):
    """A group and two clients: each server, Sentinel and client has a host of its own."""

    bridge: Bridge
    group: ReplicatedGroup
    primary: Host
    replica: Host
    sentinel: Host
    stale: Host
    other: Host

    def split(self, island: Collection[Host], *, between: Collection[Host] = ()) -> None:
        """Cut an island off, in both directions. The hosts ``between`` reach both sides."""
        for far in self.bridge.hosts:
            if far not in (*island, *between):
                for near in island:
                    near.cut(far)
                    far.cut(near)


@pytest.fixture
def divided(group_of: GroupOf, server: ServerBinary, tmp_path: Path) -> Iterator[Divided]:
    if reason := netns.why_not():
        pytest.skip(reason)
    bridge = Bridge()
    hosts = [bridge.host() for _ in range(7)]
    places = [Place(host.binary(server, tmp_path), host.address, host.inside) for host in hosts[:5]]
    with bridge.inside():
        group = group_of(1, 3, places)
        yield Divided(bridge, group, *hosts[:2], *hosts[4:])


def contend(name: str, host: Host, url: str, ttl: float, folder: Path, begun: Barrier, over: Event) -> None:
    """Keep the lock of this name, and contend for "x"."""
    recorder = Recorder(Journal(folder, name), ttl)
    with host.inside(), rlock.Client([url], ttl, max_ttl=ttl) as client:

        def work(own: Hold) -> None:
            begun.wait()
            while not over.is_set():
                recorder.attempt(client.lock("x"), lambda hold: hold.keep(0.05, lambda: True), timeout=0.3)
                own.look()

        recorder.attempt(client.lock(name), work)


@contextmanager
def contending(divided: Divided, url: str, ttl: float, folder: Path) -> Iterator[None]:
    begun, over = Barrier(3, timeout=20.0), Event()
    with ThreadPoolExecutor(2) as threads:
        clients = [
            threads.submit(contend, name, host, url, ttl, folder, begun, over)
            for name, host in (("stale", divided.stale), ("other", divided.other))
        ]
        try:
            begun.wait()
            yield
        finally:
            over.set()
    for client in clients:
        client.result()


def granted(folder: Path, after: int, before: int) -> set[str]:
    """The clients that asked for "x" and got it between two instants."""
    holds = [hold for hold in History().take(folder).holds if hold.lock == "x"]
    return {hold.process for hold in holds if after < hold.grant.sent_after and hold.grant.at < before}


def island(divided: Divided) -> None:
    """The old primary goes on for one client and one Sentinel."""
    divided.split([divided.primary, divided.sentinel, divided.stale])


def one_client(divided: Divided) -> None:
    """The old primary goes on for one client, which reaches all others, too."""
    divided.split([divided.primary], between=[divided.stale])


BOTH = {"stale", "other"}
#: The cuts, the ttl, and the clients that get no vote meanwhile. TCP repeats a lost packet after 0.2, 0.6,
#: 1.4, 3 and 6.2 s, so the leases outlast 3 s.
CUTS: dict[str, tuple[Callable[[Divided], None], float, set[str]]] = {
    "island": (island, 9.0, BOTH),
    "one client": (one_client, 9.0, BOTH),
    "no answers": (lambda divided: divided.stale.cut(divided.primary), 6.5, {"stale"}),
    "no requests": (lambda divided: divided.primary.cut(divided.stale), 6.5, {"stale"}),
    "no replication": (lambda divided: divided.replica.cut(divided.primary), 6.5, BOTH),
    "no acknowledgements": (lambda divided: divided.primary.cut(divided.replica), 6.5, BOTH),
}


@pytest.mark.rule("2.4")
@pytest.mark.parametrize("cut", CUTS)
def test_across_a_cut_nobody_gets_a_vote_and_a_hold_with_validity_left_survives(
    divided: Divided, cut: str, tmp_path: Path
) -> None:
    make, ttl, without = CUTS[cut]
    group, old = divided.group, divided.group.primary
    with contending(divided, group.url, ttl, tmp_path):
        make(divided)
        cut_at = now_ns()
        time.sleep(renew_period(ttl) + 0.6)  # each holder renews, and looks
        if promotes := make in (island, one_client):
            until(lambda: group.promoted(old) and group.primary is not old, "a replica is promoted")
        healed_at = now_ns()
        divided.bridge.mend()
        if promotes:
            group.mend()  # as the Sentinels do ten seconds later
        until(lambda: granted(tmp_path, healed_at, now_ns()) == BOTH, "both clients get the lock again")
    history = History().take(tmp_path)
    assert judge_safety(history) == []
    assert not granted(tmp_path, cut_at, healed_at) & without
    for hold in history.holds:
        if hold.lock != "x":
            assert not hold.lost
            told = max(look.valid_until for look in hold.looks if cut_at < look.at < healed_at)
            renewed = told > cut_at + (ttl - drift(ttl)) * SECOND
            assert renewed == (hold.process not in without)
