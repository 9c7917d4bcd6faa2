"""`rlock doctor` on masters that were set up wrongly: each fault is found by name, on the right master."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import rlock
from rlock.rules.keys import NOTE

from ..faults.clock import Clock
from ..faults.conftest import _clock_library as _clock_library
from ..faults.conftest import clocked as clocked
from ..lock.conftest import eventually
from ..servers import Fleet, left, raw
from .doctoring import Seen, doctor, label
from .doctoring import good as good  # a fixture


def tell(master: Any, *words: str) -> Any:
    with raw(master.url) as admin:
        return admin.execute_command(*words)


def told(seen: Seen, check: str, severity: str, url: str | None) -> dict[str, Any]:
    """The one finding of this check, as bad and as far as it is meant to be."""
    found = seen.one(check)
    assert found["severity"] == severity
    assert found["master"] == (None if url is None else label(url))
    assert seen.code == (1 if any(each["severity"] == "error" for each in seen.findings) else 0)
    return found


def test_three_masters_that_are_set_up_well_have_no_error_and_no_warning(good: Fleet) -> None:
    seen = doctor(good.urls, measure=1)
    assert seen.bad() == []
    assert {finding["check"] for finding in seen.findings} <= {"hosts"}
    assert seen.code == 0
    assert [master["master"] for master in seen.masters] == [label(url) for url in good.urls]
    for master in seen.masters:
        assert master["durable"] is True
        assert abs(master["clock_rate"]) < 0.01
        assert master["latency"] < 0.5


def test_nothing_is_left_behind_and_nothing_is_changed(good: Fleet) -> None:
    def state() -> list[Any]:
        return [(sorted(raw(url).keys()), raw(url).config_get("*"), raw(url).get(NOTE)) for url in good.urls]

    with rlock.Client(good.urls) as client, client.lock("orders:42"):
        assert eventually(lambda: all("orders:42" in left(url) for url in good.urls))
        assert eventually(lambda: all(str(raw(url).get(NOTE)).endswith(" 10000") for url in good.urls))
        before = state()
        assert doctor(good.urls, "--name", "orders:*").bad() == []
        assert doctor(good.urls, "--name", "orders:42").bad() == []
        assert state() == before, "keys with their fencing tokens, settings, the note"


SETTINGS: dict[str, tuple[list[tuple[str, ...]], str, str, str]] = {
    "evicts": (
        [("maxmemory", "1gb"), ("maxmemory-policy", "volatile-ttl")],
        "eviction", "error", "CONFIG SET maxmemory-policy noeviction",
    ),
    "full": ([("maxmemory", "1")], "writes", "error", ""),
    "keeps nothing": ([("appendonly", "no")], "durability", "note", "CONFIG SET appendonly yes"),
    "no keepalive": ([("tcp-keepalive", "0")], "connections", "warning", "CONFIG SET tcp-keepalive 300"),
}  # fmt: skip


@pytest.mark.parametrize("fault", SETTINGS)
def test_a_setting_of_one_master_is_found_and_the_printed_command_mends_it(good: Fleet, fault: str) -> None:
    settings, check, severity, remedy = SETTINGS[fault]
    for name, value in settings:
        tell(good[1], "CONFIG", "SET", name, value)
    found = told(doctor(good.urls), check, severity, good.urls[1])
    if not remedy:
        return
    assert remedy in found["commands"]
    for command in found["commands"]:
        if command != "CONFIG REWRITE":  # the file of a test's master
            words = command.replace("'", "").split(" ", 3)
            tell(good[1], *words)
    if check == "durability" and settings[0][0] == "appendonly":
        assert eventually(lambda: raw(good.urls[1]).info("persistence")["aof_rewrite_in_progress"] == 0)
    assert not doctor(good.urls).of(check)


def test_a_replica_is_found_with_its_master_and_its_master_is_told_of_it(good: Fleet) -> None:
    host, port = "127.0.0.1", good.urls[0].rpartition(":")[2]
    tell(good[1], "REPLICAOF", host, port)
    assert eventually(lambda: raw(good.urls[0]).info("replication")["connected_slaves"] == 1, 20)
    seen = doctor(good.urls)
    (found,) = [each for each in seen.of("role") if each["master"] == label(good.urls[1])]
    assert found["severity"] == "error"
    assert f"{host}:{port}" in found["what"]
    assert found["commands"] == ["REPLICAOF NO ONE"]
    (note,) = [each for each in seen.of("role") if each["master"] == label(good.urls[0])]
    assert (note["severity"], "1 replica" in note["what"]) == ("note", True)
    tell(good[1], *found["commands"][0].split())
    assert not doctor(good.urls).of("role")


Clocked = Callable[[int], tuple[Fleet, list[Clock]]]


def test_a_clock_that_is_off_is_found(clocked: Clocked) -> None:
    fleet, clocks = clocked(3)
    clocks[1].step(5.0)
    tell(fleet[1], "DEL", NOTE)  # the next note is of that time
    seen = doctor(fleet.urls)
    found = told(seen, "clock-offset", "warning", fleet.urls[1])
    assert "ahead of" in found["what"]
    assert abs(seen.masters[1]["clock_offset"] - 5.0) < 0.1
    clocks[1].step(-5.0)
    seen = doctor(fleet.urls)
    assert not seen.of("clock-offset")
    (found,) = [each for each in seen.of("guard") if "clock was set back" in each["what"]]
    assert found["master"] == label(fleet.urls[1])
