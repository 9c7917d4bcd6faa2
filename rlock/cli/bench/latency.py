"""The measurements of one process alone: round trips, and pairs of acquire and release."""

from __future__ import annotations

import time
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


class Probe:
    """A connection of our own to one master, beside those of the lock."""

    def __init__(self, endpoint: Any) -> None:
        self.master: str = endpoint.label
        self.fault: str | None = None
        self.times: list[float] = []
        self._connection = endpoint.connection(CONNECT_S)
        try:
            self._connection.connect()
        except Exception as error:
            self._failed(error)

    def ping(self) -> None:
        """Measure one round trip."""
        began = time.perf_counter()
        if self._ask("PING"):
            self.times.append(time.perf_counter() - began)

    def forget(self, names: list[str]) -> None:
        """Remove what measured locks have left: their last fencing tokens, which would stay for an hour."""
        self._ask("DEL", *(key for name in names for key in (name, queue(name), fence(name))))

    def close(self) -> None:
        """End the connection."""
        self._connection.disconnect()

    def _ask(self, *words: str) -> bool:
        """Whether it answers. After a failure it is asked no more."""
        if self.fault is None:
            try:
                self._connection.send_command(*words)
                self._connection.read_response()
            except Exception as error:
                self._failed(error)
        return self.fault is None

    def _failed(self, error: Exception) -> None:
        self.fault = " ".join(str(error).split()) or type(error).__name__


def measure(client: Client, probes: list[Probe], name: str, seconds: float) -> list[float]:
    """The times of pairs in seconds, each behind a round trip to each master: noise hits all alike."""
    lock = client.lock(name)
    for _ in range(WARM_UP):
        _acquire(lock)
        lock.release()
    pairs: list[float] = []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until or not pairs:
        for probe in probes:
            probe.ping()
        began = time.perf_counter()
        _acquire(lock)
        lock.release()
        pairs.append(time.perf_counter() - began)
    return pairs


def _acquire(lock: RLock) -> None:
    # Masters may vanish: without a time-out the measurement would wait for them for ever.
    if not lock.acquire(timeout=PATIENCE_S):
        raise RLockError(f"lock {lock.name!r}, which is nobody else's, was held by another owner")
