"""Connections to a master in memory. The reply is there when `write` returns."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import hiredis

from ..._client.connection import Connection
from ..._client.handshake import HandshakeResult
from ..._sync.connections import WakePipe

if TYPE_CHECKING:
    from .server import MemoryMaster


class Inbox:
    """In the place of the parser: the replies that have arrived."""

    __slots__ = ("replies",)

    def __init__(self) -> None:
        self.replies: deque[Any] = deque()

    def gets(self) -> Any:
        """The next reply; False: there is none yet."""
        return self.replies.popleft() if self.replies else False


class MemoryConnection(Connection):
    """For both drivers: threads poll ``fileno``, an event loop sets ``on_arrival``.

    ``on_arrival`` is called when there is something to read, or when the master has closed (``ended``), by
    the thread that writes or publishes. It must not block or take a lock, because the master waits for it.
    """

    def __init__(self, master: MemoryMaster, result: HandshakeResult) -> None:
        super().__init__(result)
        self._master = master
        self._parser = hiredis.Reader(encoding="utf-8")
        #: Made when ``fileno`` is asked for: an event loop needs no descriptor.
        self._wake_pipe: WakePipe | None = None
        self._inbox = self.reader = Inbox()  # type: ignore[assignment]
        self.on_arrival: Callable[[], None] | None = None
        self._arrived: Callable[[bytes], object] | None = None

    @property
    def arrived(self) -> Callable[[bytes], object] | None:
        """See `StreamConnection.arrived`. The event loop in which it is set calls it."""
        return self._arrived

    @arrived.setter
    def arrived(self, arrived: Callable[[bytes], object] | None) -> None:
        self._arrived = arrived
        if arrived is None:
            return
        here, loop = threading.get_ident(), asyncio.get_running_loop()

        def on_arrival() -> None:
            # In its own thread there is no need to wake the loop.
            soon = loop.call_soon if threading.get_ident() == here else loop.call_soon_threadsafe
            try:
                soon(self._look)
            except RuntimeError:
                pass  # the loop was closed, and this connection with it

        self.on_arrival = on_arrival

    def _look(self) -> None:
        self.fetch()
        if self.arrived is not None:
            self.arrived(b"")

    @property
    def fileno(self) -> int:
        """A descriptor that is readable when something has arrived."""
        with self._master.mutex:
            if self._wake_pipe is None:
                self._wake_pipe = WakePipe()
                if self._inbox.replies or self.ended:
                    self._wake_pipe.wake()
            return self._wake_pipe.fileno

    def write(self, packed: bytes) -> int:
        """Have a command executed. Raises OSError when the master is down, or has closed."""
        self._parser.feed(packed)
        while (words := self._parser.gets()) is not False:
            self._master.receive(self, words)
        return len(packed)

    def fetch(self) -> bytes:
        """Nothing: the reader has the replies already."""
        if self._wake_pipe is not None:
            self._wake_pipe.clear()
        self.answered = self.answered or bool(self._inbox.replies)
        return b""

    def close(self) -> None:
        """Close without a word to the master."""
        with self._master.mutex:
            self._master.forget(self)
            self.ended = True
            if self._wake_pipe is not None:
                # With the mutex: otherwise a thread that publishes could write to a closed descriptor, which
                # may be another file's.
                self._wake_pipe.close()

    # -- for the master, with its mutex ------------------------------------------------------------

    def arrive(self, reply: Any) -> None:
        """A reply, or a message, has come."""
        if not self.ended:
            self._inbox.replies.append(reply)
            if len(self._inbox.replies) == 1:
                self._signal()

    def hear(self, channel: str, payload: str) -> None:
        """Something was published."""
        self.arrive([b"message", channel.encode(), payload.encode()])

    def end(self) -> None:
        """The master closes the connection."""
        if not self.ended:
            self.ended = True
            self._signal()

    def _signal(self) -> None:
        if self._wake_pipe is not None:
            self._wake_pipe.wake()
        if self.on_arrival is not None:
            self.on_arrival()
