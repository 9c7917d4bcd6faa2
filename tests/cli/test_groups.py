"""The leader and the replicas of a group, as the CLI and the metrics show them during a failover."""

from __future__ import annotations

import json
import time
from contextlib import closing
from typing import Any

import pytest

import rlock
from rlock.cli.scan.look import Scan
from rlock.cli.scan.snapshot import GroupHealth
from rlock.testing.local.embedded import Master, ServerBinary

from ..groups.group import ReplicatedGroup, until
from .shell import rlock as run


def address(server: Master) -> str:
    return f"127.0.0.1:{server.port}"


def test_the_views_of_masters_and_the_metrics_follow_the_leader_of_a_group(server: ServerBinary) -> None:
    prometheus_client = pytest.importorskip("prometheus_client")
    from rlock.telemetry import prometheus

    registry: Any = prometheus_client.CollectorRegistry()
    handle = prometheus.enable(registry=registry)
    with (
        ReplicatedGroup(server, replicas=1, sentinels=3) as group,
        rlock.Client([group.url], 1.0) as client,
        closing(Scan(client)) as scan,
    ):
        client.init()
        (label,) = client.masters

        def look() -> Any:
            return scan.look().masters[0]

        def measured() -> list[float | None]:
            names = ("master_up", "group_replicas", "group_replicas_acknowledged", "group_promotions_total")
            return [registry.get_sample_value(f"redlock_{name}", {"master": label}) for name in names]

        old = group.primary
        assert client.lock("x").acquire()
        assert look().group == GroupHealth(address(old), None, replicas=1, online=1, acknowledged=1)
        until(lambda: measured() == [1, 1, 1, 0], "the replica acknowledged the grant")
        group.fail_over()
        until(lambda: (now := look().group) and now.leader == address(group.primary) and now.since, "B leads")
        until(lambda: look().guarded > 0, "the look asks the server that leads for locks")
        until(lambda: measured()[:3] == [0, 1, 0], "no replica acknowledges the renewals")
        shown = run("watch", "--once", masters=[group.url], COLUMNS="250").out
        assert " no vote " in shown
        assert f"{address(group.primary)} leads for " in shown
        assert "0 of 1 replicas acknowledge: no vote without exactly all of them" in shown
        told = json.loads(run("status", "y", "--json", masters=[group.url]).out)
        assert told["groups"][label]["leader"] == address(group.primary)
        group.mend()
        until(lambda: look().group.votes, "all replicas acknowledge")
        assert 0 < time.time() - look().group.since < 60
        client.init()  # otherwise the restart guard would take ten seconds
        assert client.lock("y").acquire()
        until(lambda: measured() == [1, 1, 1, 1], "the replica acknowledged, and one promotion was seen")
        shown = run("status", "y", masters=[group.url]).out
        assert f"\n    {address(group.primary)} leads" in shown
        assert shown.endswith(", 1 of 1 replicas acknowledge\n")
        handle.disable()
