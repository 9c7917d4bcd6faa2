"""Masters that come back without their memory: the restart guard."""

from __future__ import annotations

import logging
import threading
import time

import pytest
from click.testing import CliRunner

import rlock
from rlock.program.main import cli
from rlock.rules.keys import MARKER

from ..contract.conftest import eventually
from ..servers import raw
from .restarting import GUARD, TTL, FreshMasters, a_client, holders

DURABLE = ("--appendonly", "yes", "--appendfsync", "always")


def test_a_lease_that_a_restarted_master_has_forgotten_is_not_given_to_a_second_owner(
    fresh_masters: FreshMasters,
) -> None:
    """The hole of Redlock in six steps: A holds {1, 2}; 2 restarts empty; B gets {2, 3}."""
    fleet = fresh_masters(3)
    with a_client(fleet) as anna, a_client(fleet) as ben:
        with ben.lock("other"):
            pass  # so that it is connected
        fleet[2].pause()
        assert anna.lock("x", renew=False).acquire(timeout=5)
        fleet[2].resume()
        began = time.monotonic()
        fleet[1].restart(empty=True)
        assert not ben.lock("x").acquire(timeout=0.5)
        assert anna.lock("x").is_owned()
        assert ben.lock("x").acquire(timeout=10)
        assert not anna.lock("x").is_owned(), "two valid leases"
        assert time.monotonic() - began > TTL - 0.5


def test_without_the_guard_it_is_and_so_the_test_above_can_fail(fresh_masters: FreshMasters) -> None:
    fleet = fresh_masters(3)
    with a_client(fleet, restart_guard=0) as anna, a_client(fleet, restart_guard=0) as ben:
        fleet[2].pause()
        assert anna.lock("x", renew=False).acquire(timeout=5)
        fleet[2].resume()
        fleet[1].restart(empty=True)
        assert ben.lock("x").acquire(timeout=1.0)
        assert anna.lock("x").is_owned()


def test_the_error_and_the_log_name_the_master_and_the_seconds(
    fresh_masters: FreshMasters, caplog: pytest.LogCaptureFixture
) -> None:
    fleet = fresh_masters(3)
    for master in fleet[1:]:
        master.restart(empty=True)
    with rlock.Client(fleet.urls) as client, caplog.at_level(logging.WARNING, "rlock"):
        with pytest.raises(rlock.QuorumUnreachableError) as caught:
            client.lock("x").acquire(blocking=False)
        for url in fleet.urls[1:]:
            assert (
                "no vote for 11." in caught.value.faults[url] or "no vote for 10." in caught.value.faults[url]
            )
            assert f"{url}: " in caplog.text
        assert fleet.urls[0] not in caught.value.faults
        assert not client.lock("x").locked(), "whether somebody has it can be asked all the same"
        assert [master.guarded for master in client.status("x").masters] == [False, True, True]


def test_a_new_deployment_can_be_used_within_max_ttl_and_a_margin(fresh_masters: FreshMasters) -> None:
    fleet = fresh_masters(3)
    for master in fleet:
        master.restart(empty=True)
    born = time.monotonic()
    with a_client(fleet) as client:
        assert client.lock("x").acquire()
        took = time.monotonic() - born
        # They were started one after another, and uptimes are whole seconds.
        assert TTL < took < GUARD + 2.0
    with a_client(fleet) as later:
        assert later.lock("y").acquire(blocking=False), "nobody waits twice for one life of a master"


def test_a_new_deployment_can_be_used_at_once_after_rlock_init(fresh_masters: FreshMasters) -> None:
    fleet = fresh_masters(3)
    for master in fleet:
        master.restart(empty=True)
    with rlock.Client(fleet.urls) as waiting:
        got: list[bool] = []
        thread = threading.Thread(target=lambda: got.append(waiting.lock("x").acquire(timeout=8)))
        thread.start()
        time.sleep(0.5)
        assert thread.is_alive()
        result = CliRunner().invoke(cli, ["init", "--masters", ",".join(fleet.urls)], standalone_mode=False)
        assert result.return_value == 0
        assert result.output.splitlines() == [f"{url}: ready" for url in fleet.urls]
        began = time.monotonic()
        thread.join(8)
        assert got == [True]
        assert time.monotonic() - began < 4, "those who wait already hear of it"
    with rlock.Client(fleet.urls) as client:
        assert client.lock("y").acquire(blocking=False)


def test_init_holds_for_this_life_of_a_master_only(fresh_masters: FreshMasters) -> None:
    fleet = fresh_masters(1)
    with a_client(fleet) as client:
        assert client.init() == {fleet.urls[0]: None}
        assert client.lock("x").acquire(blocking=False)
        client.lock("x").release()
        fleet[0].restart(empty=True)
        with pytest.raises(rlock.QuorumUnreachableError, match="no vote for"):
            client.lock("x").acquire(blocking=False)


def test_init_tells_which_masters_did_not_take_note(fresh_masters: FreshMasters) -> None:
    fleet = fresh_masters(3)
    fleet[1].kill()
    with a_client(fleet) as client:
        told = client.init()
    assert [told[url] is None for url in fleet.urls] == [True, False, True]
    assert "refused" in str(told[fleet.urls[1]])
    command = ["init", "--masters", ",".join(fleet.urls)]
    assert CliRunner().invoke(cli, command, standalone_mode=False).return_value == 69
    assert (
        CliRunner().invoke(cli, ["init", "--masters", fleet.urls[1]], standalone_mode=False).return_value
        == 69
    )
    with a_client(fleet, restart_guard=0) as client, pytest.raises(rlock.OptionsError, match="turned"):
        client.init()


def test_masters_that_forget_nothing_are_not_waited_for(fresh_masters: FreshMasters) -> None:
    fleet = fresh_masters(3, args=DURABLE)
    with a_client(fleet) as client:
        lock = client.lock("x")
        assert lock.acquire(timeout=5)
        owner = client.status("x").holder
        for master in fleet:
            master.restart(empty=False)
        assert client.lock("y").acquire(blocking=False)
        assert eventually(lambda: holders(client) == [owner] * 3, within=3)
        time.sleep(TTL)
        lock.check()
        lock.release()


@pytest.mark.parametrize("flushed", [0, 1, 2])
def test_one_who_comes_after_a_flush_is_guarded_by_the_marks_on_the_other_masters(
    fresh_masters: FreshMasters, flushed: int
) -> None:
    fleet = fresh_masters(3)
    third = next(i for i in range(3) if i != flushed)
    with a_client(fleet) as anna:
        time.sleep(GUARD)  # else their uptime alone would keep them out
        assert anna.lock("x", renew=False).acquire(timeout=5)
        raw(fleet[flushed].url).flushall()
        raw(fleet[third].url).delete("x")  # as if it had never got there
        for _ in range(2):
            # Also the next one: who comes first must not note that the flushed one is old.
            with a_client(fleet) as ben:
                assert not ben.lock("x").acquire(blocking=False) or not anna.lock("x").is_owned()
                assert [master.guarded for master in ben.status("x").masters] == [
                    i == flushed for i in range(3)
                ]
        with a_client(fleet, restart_guard=0) as cara:
            assert cara.lock("x").acquire(blocking=False), "else the guard had nothing to do with it"
        assert anna.lock("x").is_owned()


def test_one_who_was_there_notices_a_flush_and_writes_the_mark_again(fresh_masters: FreshMasters) -> None:
    fleet = fresh_masters(3)
    with a_client(fleet) as anna, a_client(fleet) as ben:
        with ben.lock("other"):
            pass
        assert anna.lock("x", renew=False).acquire(timeout=5)
        raw(fleet[1].url).flushall()
        raw(fleet[2].url).delete("x")
        assert not ben.lock("x").acquire(blocking=False)
        assert [master.guarded for master in ben.status("x").masters] == [False, True, False]
        assert eventually(lambda: raw(fleet[1].url).get(MARKER) is not None)


def test_without_the_permission_for_info_the_marker_guards_all_the_same(fresh_masters: FreshMasters) -> None:
    fleet = fresh_masters(1)
    server = raw(fleet[0].url)
    server.flushall()  # also what `rlock init` wrote
    server.execute_command("ACL", "SETUSER", "joe", "on", ">pw", "~*", "&*", "+@all", "-info", "-config")
    url = fleet[0].url.replace("redis://", "redis://joe:pw@")
    with rlock.Client(url, TTL, max_ttl=TTL) as first:
        with pytest.raises(rlock.QuorumUnreachableError, match="no vote for"):
            first.lock("x").acquire(blocking=False)  # how old it is, nobody can tell
        assert first.lock("x").acquire(timeout=2 * GUARD)
        first.lock("x").release()
        with rlock.Client(url, TTL, max_ttl=TTL) as second:
            assert second.lock("x").acquire(blocking=False), "the marker tells"
            second.lock("x").release()
        server.flushall()
        third = rlock.Client(url, TTL, max_ttl=TTL)
        with third, pytest.raises(rlock.QuorumUnreachableError, match="no vote for"):
            third.lock("x").acquire(blocking=False)
