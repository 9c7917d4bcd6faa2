"""The measurements of one process alone: round trips, pairs of acquire and release, nested pairs."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from ...client import Client
from ...errors import RLockError
from ...lock import RLock
from ...rules.keys import fence, queue

#: For each step of opening a connection, and for its answers.
CONNECT_S = 2.0
#: Pairs before anything counts: connections are made, scripts are loaded.
WARM_UP = 5
#: For one acquire.
PATIENCE_S = 5.0
#: Nested pairs for each pair: one alone is shorter than the clock is fine.
NESTED = 50


class Probe:
    """A connection of our own to one master, beside those of the lock."""

    def __init__(self, endpoint: Any) -> None:
        self.master: str = endpoint.label
        self.fault: str | None = None
        self.server: str | None = None
        self.times: list[float] = []
        self._connection = endpoint.connection(CONNECT_S)
        try:
            self._connection.connect()
        except Exception as error:
            self._failed(error)
            return
        self.server = self._identity()

    def ping(self) -> None:
        """Measure one round trip."""
        if self.fault is not None:
            return
        began = time.perf_counter()
        try:
            self._ask("PING")
        except Exception as error:
            self._failed(error)
            return
        self.times.append(time.perf_counter() - began)

    def forget(self, names: list[str]) -> None:
        """Remove what measured locks have left: their last fencing tokens, which would stay for an hour."""
        if self.fault is not None:
            return
        keys = [key for name in names for key in (name, queue(name), fence(name))]
        try:
            self._ask("DEL", *keys)
        except Exception as error:
            self._failed(error)

    def close(self) -> None:
        """End the connection."""
        self._connection.disconnect()

    def _ask(self, *words: str) -> Any:
        self._connection.send_command(*words)
        return self._connection.read_response()

    def _identity(self) -> str | None:
        """Flavour and version; None when it does not tell."""
        try:
            told = self._ask("INFO", "server").decode("utf-8", "replace")
        except Exception:
            return None
        found = dict(line.split(":", 1) for line in told.splitlines() if ":" in line)
        if "valkey_version" in found:
            return f"Valkey {found['valkey_version']}"
        return f"Redis {found['redis_version']}" if "redis_version" in found else None

    def _failed(self, error: Exception) -> None:
        self.fault = " ".join(str(error).split()) or type(error).__name__


@dataclass
class Laps:
    """Times in seconds, measured in turn."""

    pairs: list[float] = field(default_factory=list)
    nested: list[float] = field(default_factory=list)


def measure(client: Client, probes: list[Probe], name: str, seconds: float) -> Laps:
    """A round trip to each master, a pair, nested pairs, and again: noise hits all alike."""
    lock = client.lock(name)
    for _ in range(WARM_UP):
        _acquire(lock)
        lock.release()
    laps = Laps()
    until = time.perf_counter() + seconds
    while time.perf_counter() < until or not laps.pairs:
        for probe in probes:
            probe.ping()
        began = time.perf_counter()
        _acquire(lock)
        lock.release()
        laps.pairs.append(time.perf_counter() - began)
        _acquire(lock)
        began = time.perf_counter()
        for _ in range(NESTED):
            lock.acquire()
            lock.release()
        laps.nested.append((time.perf_counter() - began) / NESTED)
        lock.release()
    return laps


def _acquire(lock: RLock) -> None:
    # Masters may vanish: without a time-out the measurement would wait for them for ever.
    if not lock.acquire(timeout=PATIENCE_S):
        raise RLockError(f"lock {lock.name!r}, which is nobody else's, was held by another owner")
