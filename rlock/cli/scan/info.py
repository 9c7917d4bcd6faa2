"""What a master tells of itself in INFO."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ...rules import replies
from ...rules.restart_guard import MemoryReport, Note
from .. import numbers
from .snapshot import GroupHealth

#: A replica acknowledges once a second. Later it is stopped, or cut off.
LATE_S = 2
_LAG = re.compile(r"state=online,offset=\d+,lag=(\d+)")


def time_of(reply: Any) -> float | None:
    """Unix time in seconds, out of the reply to TIME."""
    told = numbers.time_us(reply)
    return None if told is None else told / 1e6


def health(info: Mapping[str, str], appendfsync: str | None) -> dict[str, Any]:
    """What INFO says, in the words of `MasterHealth`."""
    role = info.get("role")
    return {
        "flavour": _flavour(info),
        "version": info.get("valkey_version") or info.get("redis_version"),
        "role": "replica" if role == "slave" else role,
        "uptime": numbers.number(info.get("uptime_in_seconds")),
        "durable": _durable(info.get("aof_enabled"), appendfsync),
        "memory": numbers.whole(info.get("used_memory")),
        "max_memory": numbers.whole(info.get("maxmemory")),
        "clients": numbers.whole(info.get("connected_clients")),
        "commands_per_second": numbers.number(info.get("instantaneous_ops_per_sec")),
    }


def group(info: Mapping[str, str], note: Any, replicas: int, leader: str, clock: float) -> GroupHealth:
    """A group by the INFO and the note of its primary, whose clock is ``clock`` seconds ahead."""
    life = MemoryReport(info.get("run_id", "")).of_group(info.get("master_replid", "")).run_id
    known = Note.parse(replies.text(note))
    since = None
    # Otherwise it is a copy from the last primary: no client has met this one yet.
    if known is not None and known.run_id == life and known.since_us:
        since = known.since_us / 1e6 - clock
    return GroupHealth(leader, since, replicas, len(replies.online(info)), acknowledging(info))


def acknowledging(info: Mapping[str, str]) -> int:
    """How many replicas are connected, and have acknowledged a short time ago."""
    lags = [int(found[1]) for line in info.values() if (found := _LAG.search(line))]
    return min(len(replies.online(info)), sum(lag <= LATE_S for lag in lags))


def _flavour(info: Mapping[str, str]) -> str | None:
    if not info:
        return None
    return "Valkey" if "valkey_version" in info or info.get("server_name") == "valkey" else "Redis"


def _durable(aof_enabled: str | None, appendfsync: str | None) -> bool | None:
    if aof_enabled is None:
        return None
    if aof_enabled != "1":
        return False
    return None if appendfsync is None else appendfsync == "always"
