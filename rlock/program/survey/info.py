"""What a master tells of itself: the replies to INFO, CONFIG GET appendfsync and TIME."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def parse(reply: Any) -> dict[str, str]:
    """The fields of INFO; none where it was refused."""
    if not isinstance(reply, bytes):
        return {}
    lines = reply.decode("utf-8", "replace").splitlines()
    pairs = (line.partition(":") for line in lines if line and not line.startswith("#"))
    return {key: value for key, _, value in pairs}


def time_of(reply: Any) -> float | None:
    """Unix time in seconds."""
    if isinstance(reply, list) and len(reply) == 2:
        return int(reply[0]) + int(reply[1]) / 1e6
    return None


def fsync_of(reply: Any) -> str | None:
    """The value of appendfsync; None where it was refused."""
    if isinstance(reply, list) and len(reply) == 2:
        return bytes(reply[1]).decode("utf-8", "replace")
    return None


def health(info: Mapping[str, str], appendfsync: str | None) -> dict[str, Any]:
    """What INFO says, in the words of `MasterHealth`."""
    role = info.get("role")
    return {
        "flavour": _flavour(info),
        "version": info.get("valkey_version") or info.get("redis_version"),
        "role": "replica" if role == "slave" else role,
        "uptime": _number(info.get("uptime_in_seconds")),
        "durable": _durable(info.get("aof_enabled"), appendfsync),
        "memory": _whole(info.get("used_memory")),
        "max_memory": _whole(info.get("maxmemory")),
        "clients": _whole(info.get("connected_clients")),
        "commands_per_second": _number(info.get("instantaneous_ops_per_sec")),
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


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None
