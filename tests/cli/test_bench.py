"""`rlock bench`: figures of real masters; and its arithmetic."""

from __future__ import annotations

import json
import time

from ..servers import AnyMaster, left, raw
from .shell import rlock


def test_it_measures_a_master_and_leaves_nothing(master: AnyMaster) -> None:
    began = time.monotonic()
    found = rlock("bench", "--json", "--seconds", "2", "--processes", "3", masters=[master.url])
    assert (found.code, found.err) == (0, "")
    assert time.monotonic() - began < 30
    rows = [json.loads(line) for line in found.out.splitlines()]
    assert [row["measured"] for row in rows] == [
        "setup",
        "latency",
        "pair",
        "hand-off",
        "contended",
        "contended",
    ]
    setup, latency, pair, hand_off, default, fair = rows
    assert setup["masters"][0]["fault"] is None
    assert setup["python"]
    for row in (latency, pair, hand_off):
        assert row["count"] > 0, row
        assert 0 < row["p50"] <= row["p90"] <= row["p99"] <= row["max"]
    assert latency["p50"] < pair["p50"], "a pair is two round trips and more"
    assert pair["pairs_per_second"] > 1
    for row in (default, fair):
        assert row["overlaps"] == 0
        assert row["sections"] > 10
        assert 0 < row["owner_changes_per_second"] <= row["sections_per_second"]
        assert 1 / 3 <= row["jain"] <= 1
    assert (default["fair"], fair["fair"]) == (False, True)
    assert left(master.url) == []
    assert not [key for key in raw(master.url).keys() if "bench" in str(key)]  # noqa: SIM118


def test_masters_on_other_machines_are_not_loaded_without_a_yes() -> None:
    found = rlock("bench", masters=["redis://127.0.0.1:1", "redis://192.0.2.1", "unix:///nowhere.sock"])
    assert (found.code, found.out) == (64, "")
    assert "redis://192.0.2.1:6379 as much as it can: say --yes" in found.err
    assert "127.0.0.1" not in found.err
