"""Power cuts: a master comes back without its unsynced bytes. `power_cuts.py` makes hundreds at random."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import rlock
from rlock.rules.keys import NOTE
from rlock.testing.local.embedded import Master, ServerBinary
from tests.faults import clock
from tests.lock.conftest import eventually
from tests.masters.restarting import holders, refused
from tests.servers import label, raw, servers_found

from .disk import SOURCE, Disk

AOF = ("--appendonly", "yes", "--appendfsync")
TTL = 10.0


class Fleet:
    """Three masters, each on a disk of its own."""

    def __init__(self, server: ServerBinary, library: Path, folder: Path, appendfsync: str) -> None:
        self.disks = [Disk(library, folder / str(i)) for i in range(3)]
        self.masters = [
            Master(disk.binary(server), directory=disk.data, args=(*AOF, appendfsync)).start()
            for disk in self.disks
        ]
        self.urls = [master.url for master in self.masters]

    def client(self, **options: object) -> rlock.Client:
        return rlock.Client(self.urls, TTL, max_ttl=TTL, **options)  # type: ignore[arg-type]

    def cut(self, *masters: int, then: str) -> None:
        """Cut the power of these, and start them with this ``appendfsync``."""
        for i in masters:
            self.disks[i].cut(self.masters[i], names=False)
            self.masters[i].args = (*AOF, then)
            self.masters[i].start()

    def set(self, i: int, appendfsync: str) -> None:
        raw(self.urls[i]).config_set("appendfsync", appendfsync)


FleetOn = Callable[..., Fleet]


@pytest.fixture(params=servers_found(), ids=label)
def fleet_on(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FleetOn]:
    """``fleet_on("always")``: masters with this ``appendfsync``; the test is skipped without a compiler."""
    library, missing = clock.build(tmp_path, SOURCE)
    if missing:
        pytest.skip(missing)
    made: list[Fleet] = []

    def make(appendfsync: str) -> Fleet:
        made.append(Fleet(request.param, library, tmp_path, appendfsync))
        return made[-1]

    yield make
    for fleet in made:
        for master in fleet.masters:
            master.close()


def bare_quorum(fleet: Fleet, client: rlock.Client, missed: int) -> rlock.RLock:
    """A fixed lease on all masters but one."""
    lock = client.lock("x", renew=False)
    assert lock.acquire(timeout=5)
    assert eventually(lambda: None not in holders(client))
    raw(fleet.urls[missed]).delete("x")  # as if it had never got there
    return lock


@pytest.mark.rule("3.6")
def test_durable_masters_keep_their_leases_across_a_cut_of_all(fleet_on: FleetOn) -> None:
    fleet = fleet_on("always")
    with fleet.client() as anna, fleet.client() as ben:
        anna.init()
        lock = bare_quorum(fleet, anna, missed=2)
        fleet.cut(0, 1, 2, then="always")
        assert not ben.lock("x").acquire(timeout=0.5)
        lock.check()
        assert ben.lock("y").acquire(timeout=2), "nothing was lost, so nobody waits for the guard"


@pytest.mark.parametrize("guard", [True, False])
def test_a_cut_without_the_guard_doubles_a_lease(fleet_on: FleetOn, guard: bool) -> None:
    fleet = fleet_on("no")
    options = {} if guard else {"restart_guard": 0}
    with fleet.client(**options) as anna:
        if guard:
            anna.init()
        lock = bare_quorum(fleet, anna, missed=2)
        fleet.cut(1, then="no")
        with fleet.client(**options) as ben:
            assert refused(ben.lock("x"), timeout=1.0) == guard
        lock.check()


@pytest.mark.rule("3.6")
@pytest.mark.parametrize("switched", ["at the start", "before the cut"])
def test_a_master_that_becomes_durable_after_a_loss_is_not_trusted(fleet_on: FleetOn, switched: str) -> None:
    """Its note is old and its settings say `always`, but it granted a lease that was never synced."""
    fleet = fleet_on("no")
    with fleet.client() as anna:
        anna.init()
        fleet.set(1, "always")
        raw(fleet.urls[1]).set("synced with the note", 1)
        fleet.set(1, "no")
        lock = bare_quorum(fleet, anna, missed=2)
        if switched == "before the cut":
            fleet.set(1, "always")  # Redis 7.0 and Valkey sync at once, Redis 6.2 with its next write
        fleet.cut(1, then="always")
        assert raw(fleet.urls[1]).get(NOTE), "without a note this shows nothing"
        with fleet.client() as ben:
            assert refused(ben.lock("x"), timeout=0.5)
        lock.check()
