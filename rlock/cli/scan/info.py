"""What a master tells of itself in INFO."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import numbers


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
