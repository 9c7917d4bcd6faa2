"""A TCP proxy in front of one master, which does to it what networks do.

One thread serves all connections. It knows where a command and a reply end, so that it can lose a single one:
what is lost on a connection is the end of that direction, as with TCP. It changes replies only as `lie`.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from rlock.rules.scripts import Script

#: What comes after a loss: nothing any more on that connection; its end with a RST; a half of it and a RST.
Then = Literal["silence", "reset", "torn"]
#: Which connections: those that are subscribed, those that are not.
Of = Literal["all", "commands", "messages"]
LOOK_S = 0.003  # the interval at which a direction that is held looks whether it may go on


@dataclass(eq=False)
class _Loss:
    script: Script
    of: Literal["request", "reply"]
    then: Then

    def matches(self, request: bytes) -> bool:
        return self.script.sha.encode() in request or self.script.source.encode() in request


class _Directions(NamedTuple):
    """Those that a fault concerns."""

    requests: bool = False
    replies: bool = False
    of: Of = "all"

    def have(self, connection: _Connection, way: _Way) -> bool:
        which = "messages" if connection.subscriber else "commands"
        return (self.requests if way.to_master else self.replies) and self.of in ("all", which)


@dataclass(eq=False)
class _Way:
    """One direction of one connection."""

    source: asyncio.StreamReader
    target: asyncio.StreamWriter
    to_master: bool
    #: The frames under way, each with the time at which it is due; an empty frame is the end.
    queue: asyncio.Queue[tuple[float, bytes]] = field(default_factory=asyncio.Queue)
    lost: bool = False  # nothing gets through any more


@dataclass(eq=False)
class _Connection:
    ways: tuple[_Way, _Way]
    #: For each request under way, the loss that its reply is to suffer.
    owed: deque[_Loss | None] = field(default_factory=deque)
    subscriber: bool = False  # what comes in is no reply


class Proxy:
    """``proxy.url`` instead of the master's. Without further orders it passes everything on at once."""

    def __init__(self, url: str) -> None:
        self._port = int(url.rpartition(":")[2])
        listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"{url.rpartition(':')[0]}:{listening.getsockname()[1]}"
        self.delay_s = 0.0  # seconds that a request and its reply take on top, half of it each way
        #: In the place of each reply and message; empty, or None: they pass.
        self.lie: bytes | Callable[[], bytes] = b""
        self.trickle_s = 0.0  # replies and messages arrive a byte at a time, with so many seconds in between
        self.losses = self.accepted = 0  # losses that have happened, and connections that were taken
        self._losses: list[_Loss] = []
        self._swallowed = self._held = _Directions()
        self._deaf = False
        self._connections: set[_Connection] = set()
        self._closed = asyncio.Event()
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._loop = self._runner.get_loop()
        self._thread = threading.Thread(target=self._run, args=(listening,), name="proxy", daemon=True)
        self._thread.start()

    def cut(self, *, requests: bool = True, replies: bool = True) -> None:
        """Keep all sockets open, take new ones, and swallow what comes: a half-open connection."""
        self._swallowed = _Directions(requests, replies)

    def hold(self, *, requests: bool = True, replies: bool = True, of: Of = "all") -> None:
        """Keep what comes, also the end of connections, for `let_go`. Messages are replies."""
        self._held = _Directions(requests, replies, of)

    def let_go(self) -> None:
        """Deliver what was held, late."""
        self._held = _Directions()

    def forget_subscribers(self, *, later_ones: bool = False) -> None:
        """Swallow what comes on the present subscriber connections, as a firewall that forgot them.

        ``later_ones``: and what comes from the master on those that are opened from now on.
        """
        self._deaf = later_ones
        for way in (way for one in self._connections.copy() if one.subscriber for way in one.ways):
            way.lost = True

    def mend(self) -> None:
        """No loss, no delay; connections that have lost something end with a RST."""
        self._swallowed = self._held = _Directions()
        self._deaf = False
        self.delay_s, self.trickle_s, self.lie = 0.0, 0.0, b""
        self._losses.clear()
        self._reset_all(lambda one: any(way.lost for way in one.ways))

    def lose_request(self, script: Script, then: Then = "silence") -> None:
        """The next request of this script does not reach the master."""
        self._losses.append(_Loss(script, "request", then))

    def lose_reply(self, script: Script, then: Then = "silence") -> None:
        """The next request of this script is carried out, and its reply does not come back."""
        self._losses.append(_Loss(script, "reply", then))

    def reset(self) -> int:
        """End all live connections with a RST; how many there were."""
        return self._reset_all(lambda _: True)

    def close(self) -> None:
        """End the thread and all sockets. Twice is once."""
        with contextlib.suppress(RuntimeError):  # its loop is closed
            self._loop.call_soon_threadsafe(self._closed.set)
        self._thread.join(5.0)

    def _run(self, listening: socket.socket) -> None:
        with self._runner:
            self._runner.run(self._main(listening))

    async def _main(self, listening: socket.socket) -> None:
        server = await asyncio.start_server(self._serve, sock=listening)
        await self._closed.wait()
        server.close()
        for connection in self._connections.copy():
            self._end(connection, abruptly=True)

    async def _serve(self, near_in: asyncio.StreamReader, near_out: asyncio.StreamWriter) -> None:
        self.accepted += 1
        try:
            far_in, far_out = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            _close(near_out, abruptly=True)
            return
        connection = _Connection((_Way(near_in, far_out, True), _Way(far_in, near_out, False)))
        self._connections.add(connection)
        takes = [asyncio.create_task(self._take(connection, way)) for way in connection.ways]
        delivers = [asyncio.create_task(self._deliver(connection, way)) for way in connection.ways]
        with contextlib.suppress(asyncio.CancelledError):  # the proxy is closed
            await asyncio.wait(delivers, return_when=asyncio.FIRST_COMPLETED)
        for task in (*takes, *delivers):
            task.cancel()
        self._end(connection)

    async def _take(self, connection: _Connection, way: _Way) -> None:
        buffer = bytearray()
        with contextlib.suppress(OSError):
            while data := await way.source.read(1 << 16):
                buffer += data
                while connection in self._connections and (end := _frame_end(buffer, 0)):
                    frame = bytes(buffer[:end])
                    del buffer[:end]
                    if self._passes(connection, way, frame):
                        lie = self.lie() if callable(self.lie) else self.lie
                        self._send(way, frame if way.to_master else lie or frame)
        self._send(way, b"")

    def _send(self, way: _Way, data: bytes) -> None:
        way.queue.put_nowait((self._loop.time() + self.delay_s / 2, data))

    def _passes(self, connection: _Connection, way: _Way, frame: bytes) -> bool:
        """Whether it gets through; resets the connection where that is what the loss looks like."""
        way.lost = way.lost or self._swallowed.have(connection, way)
        if way.lost or (self._deaf and connection.subscriber and not way.to_master):
            return False
        if way.to_master:
            loss = next((loss for loss in self._losses if loss.matches(frame)), None)
            if loss is not None:
                self._losses.remove(loss)
            if loss is None or loss.of == "reply":
                connection.owed.append(loss)
                connection.subscriber |= b"\r\nSUBSCRIBE\r\n" in frame
                return True
        else:
            loss = None if connection.subscriber or not connection.owed else connection.owed.popleft()
            if loss is None:
                return True
        self.losses += 1
        if loss.then == "torn":
            way.target.write(frame[: len(frame) // 2])
        if loss.then == "silence":
            way.lost = True
        else:
            self._end(connection, abruptly=True)
        return False

    async def _deliver(self, connection: _Connection, way: _Way) -> None:
        """Until the end of what the source sends is due."""
        while True:
            due, data = await way.queue.get()
            if (early_s := due - self._loop.time()) > 0:
                await asyncio.sleep(early_s)
            while self._held.have(connection, way):
                await asyncio.sleep(LOOK_S)
            if not data:
                return
            while self.trickle_s and not way.to_master and len(data) > 1:
                way.target.write(data[:1])
                data = data[1:]
                await asyncio.sleep(self.trickle_s)
            way.target.write(data)

    def _reset_all(self, chosen: Callable[[_Connection], bool]) -> int:
        async def reset() -> int:
            found = [one for one in self._connections if chosen(one)]
            for connection in found:
                self._end(connection, abruptly=True)
            return len(found)

        return asyncio.run_coroutine_threadsafe(reset(), self._loop).result(10)

    def _end(self, connection: _Connection, *, abruptly: bool = False) -> None:
        self._connections.discard(connection)
        for way in connection.ways:
            _close(way.target, abruptly=abruptly)


def _close(end: asyncio.StreamWriter, *, abruptly: bool) -> None:
    if abruptly and not end.is_closing():
        linger = struct.pack("ii", 1, 0)
        end.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        end.transport.abort()
    end.close()


def _frame_end(data: bytearray, at: int) -> int:
    """The end of the command or reply (RESP2) that begins here; 0: it is not whole yet."""
    end = data.find(b"\r\n", at) + 2
    if end < 2:
        return 0
    if data[at : at + 1] == b"$" and (length := int(data[at + 1 : end])) >= 0:
        end += length + 2
    elif data[at : at + 1] == b"*":
        for _ in range(int(data[at + 1 : end])):
            end = end and _frame_end(data, end)
    return end if end <= len(data) else 0
