"""A TCP proxy in front of one master, which does to it what networks do.

One thread serves all connections. It knows where a command and a reply end, so that it can lose a single one:
what is lost on a connection is the end of that direction, as with TCP. It changes replies only as `lie`.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from rlock.rules.scripts import Script

#: What comes after a loss: nothing any more on that connection; its end with a RST; a half of it and a RST.
Then = Literal["silence", "reset", "torn"]
#: Which connections: those that are subscribed, those that are not.
Of = Literal["all", "commands", "messages"]


@dataclass(eq=False)
class _Loss:
    script: Script
    of: Literal["request", "reply"]
    then: Then

    def matches(self, request: bytes) -> bool:
        return self.script.sha.encode() in request or self.script.source.encode() in request


@dataclass(eq=False)
class _Way:
    """One direction of one connection."""

    source: socket.socket
    target: socket.socket
    to_master: bool
    buffer: bytearray = field(default_factory=bytearray)
    queue: deque[tuple[float, bytes]] = field(default_factory=deque)
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
        self._master = ("127.0.0.1", int(url.rpartition(":")[2]))
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"{url.rpartition(':')[0]}:{self._listening.getsockname()[1]}"
        #: Seconds that a request and its reply take on top, half of it each way.
        self.delay_s = 0.0
        #: In the place of each reply and message; empty, or None: they pass.
        self.lie: bytes | Callable[[], bytes] = b""
        #: Replies and messages arrive a byte at a time, with so many seconds in between.
        self.trickle_s = 0.0
        #: Losses that have happened, and connections that were taken.
        self.losses = self.accepted = 0
        self._losses: list[_Loss] = []
        self._cut_requests = self._cut_replies = self._closed = False
        self._held_requests = self._held_replies = False
        self._deaf = False
        self._held_of: Of = "all"
        self._connections: set[_Connection] = set()
        self._mutex = threading.RLock()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listening, selectors.EVENT_READ)
        self._wake_pipe, self._rope = socket.socketpair()
        self._selector.register(self._wake_pipe, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._serve, name="proxy", daemon=True)
        self._thread.start()

    def cut(self, *, requests: bool = True, replies: bool = True) -> None:
        """Keep all sockets open, take new ones, and swallow what comes: a half-open connection."""
        with self._mutex:
            self._cut_requests, self._cut_replies = requests, replies

    def hold(self, *, requests: bool = True, replies: bool = True, of: Of = "all") -> None:
        """Keep what comes, also the end of connections, for `let_go`. Messages are replies."""
        with self._mutex:
            self._held_requests, self._held_replies, self._held_of = requests, replies, of

    def let_go(self) -> None:
        """Deliver what was held, late."""
        self.hold(requests=False, replies=False)
        self._ring()

    def forget_subscribers(self, *, later_ones: bool = False) -> None:
        """Swallow what comes on the present subscriber connections, as a firewall that forgot them.

        ``later_ones``: and what comes from the master on those that are opened from now on.
        """
        with self._mutex:
            self._deaf = later_ones
            for way in (way for one in self._connections if one.subscriber for way in one.ways):
                way.lost = True

    def mend(self) -> None:
        """No loss, no delay; connections that have lost something end with a RST."""
        with self._mutex:
            self._cut_requests = self._cut_replies = self._deaf = False
            self._held_requests = self._held_replies = False
            self.delay_s, self.trickle_s, self.lie = 0.0, 0.0, b""
            self._losses.clear()
            for connection in [one for one in self._connections if any(way.lost for way in one.ways)]:
                self._reset(connection)
        self._ring()

    def lose_request(self, script: Script, then: Then = "silence") -> None:
        """The next request of this script does not reach the master."""
        with self._mutex:
            self._losses.append(_Loss(script, "request", then))

    def lose_reply(self, script: Script, then: Then = "silence") -> None:
        """The next request of this script is carried out, and its reply does not come back."""
        with self._mutex:
            self._losses.append(_Loss(script, "reply", then))

    def reset(self) -> int:
        """End all live connections with a RST; how many there were."""
        with self._mutex:
            live = list(self._connections)
            for connection in live:
                self._reset(connection)
        return len(live)

    def close(self) -> None:
        """End the thread and all sockets. Twice is once."""
        with self._mutex:
            self._closed = True
        self._ring()
        self._thread.join(5.0)

    def _serve(self) -> None:
        while not self._closed:
            events = self._selector.select(self._patience())
            with self._mutex:
                for key, _ in events:
                    if key.fileobj is self._listening:
                        self._accept()
                    elif key.fileobj is self._wake_pipe:
                        self._wake_pipe.recv(4096)
                    elif key.data[0] in self._connections:  # not reset by the event before this one
                        self._take(*key.data)
                for connection in list(self._connections):
                    self._deliver(connection)
        with self._mutex:
            for connection in list(self._connections):
                self._reset(connection)
        for end in (self._listening, self._wake_pipe, self._rope):
            end.close()
        self._selector.close()

    def _patience(self) -> float | None:
        with self._mutex:
            ways = [(one, way) for one in self._connections for way in one.ways]
            due = [way.queue[0][0] for one, way in ways if way.queue and not self._holds(one, way)]
        return max(0.0, min(due) - time.monotonic()) if due else None

    def _accept(self) -> None:
        near, _ = self._listening.accept()
        self.accepted += 1
        try:
            far = socket.create_connection(self._master, timeout=5.0)
        except OSError:
            _end(near, abruptly=True)
            return
        near.settimeout(5.0)
        connection = _Connection((_Way(near, far, True), _Way(far, near, False)))
        self._connections.add(connection)
        for way in connection.ways:
            way.source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._selector.register(way.source, selectors.EVENT_READ, (connection, way))

    def _take(self, connection: _Connection, way: _Way) -> None:
        try:
            data = way.source.recv(1 << 16)
        except OSError:
            data = b""
        due = time.monotonic() + self.delay_s / 2
        if not data:
            self._selector.unregister(way.source)
            way.queue.append((due, b""))
            return
        way.buffer += data
        for frame in _frames(way.buffer):
            if self._passes(connection, way, frame):
                lie = self.lie() if callable(self.lie) else self.lie
                way.queue.append((due, frame if way.to_master else lie or frame))
            if connection not in self._connections:
                return

    def _passes(self, connection: _Connection, way: _Way, frame: bytes) -> bool:
        """Whether it gets through; resets the connection where that is what the loss looks like."""
        if self._cut_requests if way.to_master else self._cut_replies:
            way.lost = True
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
            with contextlib.suppress(OSError):
                way.target.sendall(frame[: len(frame) // 2])
        if loss.then == "silence":
            way.lost = True
        else:
            self._reset(connection)
        return False

    def _holds(self, connection: _Connection, way: _Way) -> bool:
        held = self._held_requests if way.to_master else self._held_replies
        return held and self._held_of in ("all", "messages" if connection.subscriber else "commands")

    def _deliver(self, connection: _Connection) -> None:
        for way in connection.ways:
            while way.queue and not self._holds(connection, way) and way.queue[0][0] <= time.monotonic():
                _, data = way.queue.popleft()
                if not data:
                    self._forget(connection)
                    for one in connection.ways:
                        _end(one.source)
                    return
                if self.trickle_s and not way.to_master and len(data) > 1:
                    way.queue.appendleft((time.monotonic() + self.trickle_s, data[1:]))
                    data = data[:1]
                with contextlib.suppress(OSError):  # its end will be read
                    way.target.sendall(data)

    def _reset(self, connection: _Connection) -> None:
        self._forget(connection)
        for way in connection.ways:
            _end(way.source, abruptly=True)

    def _forget(self, connection: _Connection) -> None:
        self._connections.discard(connection)
        for way in connection.ways:
            with contextlib.suppress(KeyError):
                self._selector.unregister(way.source)

    def _ring(self) -> None:
        with contextlib.suppress(OSError):
            self._rope.send(b"!")


def _end(end: socket.socket, *, abruptly: bool = False) -> None:
    with contextlib.suppress(OSError):
        if abruptly:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        end.close()


def _frames(buffer: bytearray) -> list[bytes]:
    """The complete commands or replies (RESP2) at the beginning of ``buffer``, taken out of it."""
    found: list[bytes] = []
    while (end := _frame_end(buffer, 0)) is not None:
        found.append(bytes(buffer[:end]))
        del buffer[:end]
    return found


def _frame_end(data: bytearray, at: int) -> int | None:
    line_end = data.find(b"\r\n", at)
    if line_end < 0:
        return None
    after: int | None = line_end + 2
    if data[at : at + 1] == b"$" and (length := int(data[at + 1 : line_end])) >= 0:
        after = line_end + 2 + length + 2
        return after if len(data) >= after else None
    if data[at : at + 1] == b"*":
        for _ in range(int(data[at + 1 : line_end])):
            after = None if after is None else _frame_end(data, after)
    return after
