"""Link: a connection to a master in memory. The answer is there when `send` returns."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import hiredis

from ..._client.connection import Connection, HandshakeResult

if TYPE_CHECKING:
    from .server import MemoryMaster


class WakePipe:
    """A descriptor that can be read while it rings."""

    __slots__ = ("__weakref__", "_close", "_rope", "fileno")

    def __init__(self) -> None:
        if hasattr(os, "eventfd"):
            self.fileno = self._rope = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
            # A client that is dropped without close() must not leak descriptors.
            self._close = weakref.finalize(self, _close_all, self.fileno)
        else:
            self.fileno, self._rope = os.pipe()
            os.set_blocking(self.fileno, False)
            os.set_blocking(self._rope, False)
            self._close = weakref.finalize(self, _close_all, self.fileno, self._rope)

    def ring(self) -> None:
        """Make the descriptor readable."""
        try:
            os.write(self._rope, _ONE)
        except BlockingIOError:
            pass  # full of rings that nobody has answered yet

    def answer(self) -> None:
        """Take note of all rings so far."""
        try:
            os.read(self.fileno, 4096)
        except BlockingIOError:
            pass

    def close(self) -> None:
        """Give the descriptors back. Twice is once."""
        self._close()


#: What an eventfd wants to be written; a pipe takes anything.
_ONE = (1).to_bytes(8, sys.byteorder)


def _close_all(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


class Inbox:
    """In the place of the parser: the replies that have arrived."""

    __slots__ = ("replies",)

    def __init__(self) -> None:
        self.replies: deque[Any] = deque()

    def gets(self) -> Any:
        """The next reply; False: there is none yet."""
        return self.replies.popleft() if self.replies else False


class MemoryConnection(Connection):
    """For both drivers: a thread polls ``fileno``, an event loop is told.

    ``on_arrival`` is called when there is something to read, or when the master has hung up (``ended``).

    That is in the thread that sends or publishes. It must not block, nor use a lock: the master waits for it.
    Who sets it needs no descriptor: there is none before somebody asks for ``fileno``.
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
        self.outbox = b""  # the master takes everything at once
        self.on_arrival: Callable[[], None] | None = None
        #: What the asyncio driver wants to be called, in its event loop.
        self.arrived: Callable[[bytes], object] | None = None

    def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        """Tell an event loop when something has arrived."""
        here = threading.get_ident()

        def tell() -> None:
            # From its own thread there is no need to wake it.
            soon = loop.call_soon if threading.get_ident() == here else loop.call_soon_threadsafe
            try:
                soon(self._look)
            except RuntimeError:
                pass  # it was closed, and this link with it

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
                    self._wake_pipe.ring()
            return self._wake_pipe.fileno

    def send(self, packed: bytes) -> bool:
        """Have a command executed. Raises OSError when the master is down, or has hung up."""
        self._parser.feed(packed)
        while (words := self._parser.gets()) is not False:
            self._master.receive(self, words)
        return False

    def fetch(self) -> bytes:
        """Take note of what has arrived. Nothing: the reader has it already."""
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
                # With the mutex: a thread that publishes must not ring a descriptor that is somebody
                # else's by now.
                self._wake_pipe.close()

    # -- for the master, with its mutex ------------------------------------------------------------

    def arrive(self, reply: Any) -> None:
        """An answer, or a message, has come."""
        if self.ended:
            return
        replies = self._inbox.replies
        first = not replies
        replies.append(reply)
        if first:
            self._tell()

    def hear(self, channel: str, payload: str) -> None:
        """Something was published."""
        self.arrive([b"message", channel.encode(), payload.encode()])

    def end(self) -> None:
        """The master hangs up."""
        if not self.ended:
            self.ended = True
            self._tell()

    def _tell(self) -> None:
        if self._wake_pipe is not None:
            self._wake_pipe.ring()
        if self.on_arrival is not None:
            self.on_arrival()
