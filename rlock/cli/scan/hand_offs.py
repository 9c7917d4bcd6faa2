"""Counts hand-offs, on one master at a time, without anybody noticing.

Not by listening to the channels of locks: PUBLISH counts a subscriber to a pattern as a receiver, and a
release would take a waiter that is dead for one that listens. A master can tell, too, which keys have changed
(CLIENT TRACKING with BCAST and a prefix, in Redis since 6.0): each new owner changes the last fencing token
of its lock, and if somebody waited, the queue has changed before. What we need for it is a second connection,
to which the changes are redirected, because on the first one they would need another protocol.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from redis.connection import AbstractConnection

from ..._sync.endpoints import Endpoint
from .names import given, waited_for

CHANNEL = "__redis__:invalidate"
#: How often the thread looks whether it is to end.
PULSE_S = 0.25
#: How long to wait before the masters are tried again, if none of them lets us listen.
PAUSE_S = 3.0
#: Queues that have changed and whose lock has not; more than there can be in a fleet that is well.
MOST = 100_000


class HandOffs(threading.Thread):
    """Listens to one master, and to another one when it is lost."""

    def __init__(self, endpoints: Sequence[Endpoint], matches: Callable[[str], bool], timeout: float) -> None:
        super().__init__(name="rlock-hand-offs", daemon=True)
        self._endpoints = endpoints
        self._matches = matches
        self._timeout = timeout
        self._touched: set[str] = set()
        self._end = threading.Event()
        self._first = 0
        #: Seen so far.
        self.count = 0
        #: Since when without a gap, on the monotonic clock; None: nobody lets us listen now.
        self.since: float | None = None

    def close(self) -> None:
        """End soon."""
        self._end.set()

    def run(self) -> None:
        """Listen to the first master that lets us, until it does so no more; then to the next."""
        while not self._end.is_set():
            for _ in self._endpoints:
                endpoint = self._endpoints[self._first]
                try:
                    self._listen(endpoint)
                except Exception:
                    pass  # down, or it does not allow it, or says something else: the others may not
                self.since = None
                if self._end.is_set():
                    return
                self._first = (self._first + 1) % len(self._endpoints)
            self._end.wait(PAUSE_S)

    def _listen(self, endpoint: Endpoint) -> None:
        ear, mouth = endpoint.connection(self._timeout), endpoint.connection(self._timeout)
        try:
            for connection in (ear, mouth):
                connection.connect()
            ident = str(_ask(ear, "CLIENT", "ID"))
            _ask(ear, "SUBSCRIBE", CHANNEL)
            _ask(mouth, "CLIENT", "TRACKING", "ON", "REDIRECT", ident, "BCAST", "PREFIX", "rlock:")
            self._touched.clear()
            self.since = time.monotonic()
            while not self._end.is_set():
                if not ear.can_read(timeout=PULSE_S):
                    # Without it changes are told no more, and nobody says so.
                    _ask(mouth, "TIME")
                    continue
                *_, keys = ear.read_response()
                # None: everything has gone, by FLUSHALL.
                self._heard(keys if isinstance(keys, list) else [])
        finally:
            for connection in (ear, mouth):
                connection.disconnect()

    def _heard(self, keys: Sequence[bytes]) -> None:
        """Keys have changed; one message tells of many, in no order."""
        touched = self._touched
        if len(touched) > MOST:
            touched.clear()
        touched.update(name for key in keys if (name := waited_for(key)) is not None)
        for key in keys:
            name = given(key)
            if name is not None and name in touched:
                touched.discard(name)
                self.count += self._matches(name)


def _ask(connection: AbstractConnection, *words: str) -> Any:
    connection.send_command(*words)
    return connection.read_response()
