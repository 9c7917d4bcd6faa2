"""Polling: ``select.poll``, and what stands in for it where there is none."""

from __future__ import annotations

import select
from typing import Protocol

#: The numbers of POSIX; eventlet takes the names away together with ``select.poll``.
POLLIN: int = getattr(select, "POLLIN", 1)
POLLOUT: int = getattr(select, "POLLOUT", 4)


class Poll(Protocol):
    """What the roster uses of ``select.poll``."""

    def register(self, fd: int, events: int, /) -> object:
        """Wait for these events of a descriptor from now on."""

    def modify(self, fd: int, events: int, /) -> object:
        """Wait for other events of it."""

    def unregister(self, fd: int, /) -> object:
        """Wait for it no more; KeyError if nobody did."""

    def poll(self, timeout_ms: float, /) -> list[tuple[int, int]]:
        """All that is ready; waits if nothing is."""


def poller() -> Poll:
    """The one of this process. gevent puts its own in the place of ``select.poll``."""
    made: Poll = select.poll() if hasattr(select, "poll") else Select()
    return made


class Select:
    """For eventlet, which leaves of `select` only ``select.select``."""

    def __init__(self) -> None:
        self._events: dict[int, int] = {}
        self._busy = False

    def register(self, fd: int, events: int) -> None:
        """Wait for these events of a descriptor from now on."""
        self._events[fd] = events

    modify = register

    def unregister(self, fd: int) -> None:
        """Wait for it no more; KeyError if nobody did."""
        del self._events[fd]

    def poll(self, timeout_ms: float) -> list[tuple[int, int]]:
        """All that is ready; waits if nothing is. RuntimeError: another thread is in here."""
        if self._busy:
            # As ``select.poll`` refuses it. eventlet would refuse it half-way, and forget to take back what
            # it has registered: the caller would be woken by it later, out of something else.
            raise RuntimeError("concurrent poll() invocation")
        self._busy = True
        try:
            return self._ready(timeout_ms / 1000)
        finally:
            self._busy = False

    def _ready(self, wait_s: float) -> list[tuple[int, int]]:
        found: dict[int, int] = {}
        while True:
            left = [(fd, events) for fd, events in self._events.items() if fd not in found]
            readers = [fd for fd, events in left if events & POLLIN]
            writers = [fd for fd, events in left if events & POLLOUT]
            try:
                readable, writable, _ = select.select(readers, writers, [], wait_s)
            except OSError:
                break  # one of them is being closed by somebody who has dropped it
            if not readable and not writable:
                break
            for fd in readable:
                found[fd] = POLLIN
            for fd in writable:
                found[fd] = found.get(fd, 0) | POLLOUT
            # eventlet tells of one descriptor at a time. A link whose answer is there, but was not told,
            # would be dropped for not answering.
            wait_s = 0.0
        return list(found.items())
