"""A connection to a master in memory. The reply has arrived when `send` returns."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import hiredis

from ..._client.connection import Connection, HandshakeResult
from ..._sync.connections import WakePipe

if TYPE_CHECKING:
    from .server import MemoryMaster


class Inbox:
    """The replies that have arrived. It replaces the parser."""

    __slots__ = ("replies",)

    def __init__(self) -> None:
        self.replies: deque[Any] = deque()

    def gets(self) -> Any:
        """The next reply; False: there is none yet."""
        return self.replies.popleft() if self.replies else False


class MemoryConnection(Connection):
    """For both drivers: a thread polls ``fileno``, an event loop sets ``on_arrival``.

    ``on_arrival`` is called when there is something to read, or when the master has hung up (``ended``). The
    thread that sends or publishes calls it, so it must not block, nor use a lock. Without a reader of
    ``fileno`` there is no descriptor.
    """

    __slots__ = (
        "__weakref__",
        "_inbox",
        "_master",
        "_parser",
        "_wake_pipe",
        "arrived",
        "on_arrival",
        "outbox",
    )

    def __init__(self, master: MemoryMaster, greeted: HandshakeResult) -> None:
        super().__init__(greeted)
        self._master = master
        self._parser = hiredis.Reader(encoding="utf-8")
        self._wake_pipe: WakePipe | None = None
        self._inbox = self.reader = Inbox()  # type: ignore[assignment]
        self.outbox = b""  # always empty: the master reads at once
        self.on_arrival: Callable[[], None] | None = None
        #: Set by the asyncio driver; called in its event loop.
        self.arrived: Callable[[bytes], object] | None = None

    def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        """Call `arrived` in this event loop when something arrives."""
        here = threading.get_ident()

        def tell() -> None:
            # In its own thread the event loop is awake.
            soon = loop.call_soon if threading.get_ident() == here else loop.call_soon_threadsafe
            try:
                soon(self._look)
            except RuntimeError:
                pass  # the event loop is closed, and this connection with it

        self.on_arrival = tell

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

    def send(self, packed: bytes) -> bool:
        """Run a command on the master. Raises OSError if the master is down, or has hung up."""
        self._parser.feed(packed)
        while (words := self._parser.gets()) is not False:
            self._master.receive(self, words)
        return False

    def fetch(self) -> bytes:
        """Clear the descriptor. Returns nothing: the reader has the replies already."""
        if self._wake_pipe is not None:
            self._wake_pipe.answer()
        self.answered = self.answered or bool(self._inbox.replies)
        return b""

    def close(self) -> None:
        """Hang up."""
        with self._master.mutex:
            self._master.forget(self)
            self.ended = True
            if self._wake_pipe is not None:
                # With the mutex: otherwise a thread that publishes could write to a descriptor that was
                # opened anew for another purpose.
                self._wake_pipe.close()

    # -- for the master, with its mutex ------------------------------------------------------------

    def arrive(self, reply: Any) -> None:
        """A reply or a message has arrived."""
        if self.ended:
            return
        replies = self._inbox.replies
        first = not replies
        replies.append(reply)
        if first:
            self._tell()

    def hear(self, channel: str, payload: str) -> None:
        """A script has published a message."""
        self.arrive([b"message", channel.encode(), payload.encode()])

    def end(self) -> None:
        """The master hangs up."""
        if not self.ended:
            self.ended = True
            self._tell()

    def _tell(self) -> None:
        if self._wake_pipe is not None:
            self._wake_pipe.wake()
        if self.on_arrival is not None:
            self.on_arrival()
