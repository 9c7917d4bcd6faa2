"""MemoryMaster: a master without a server. It runs the scripts on a dictionary, behind one mutex."""

from __future__ import annotations

import os
import threading
import time
import weakref
from typing import Any

import hiredis

from ... import clock
from ..._client.endpoints import Endpoint
from ..._client.handshake import ConnectError, ConnectOptions, HandshakeResult
from ..._client.runtime import NO_WAIT
from ...model import Fault, FaultKind
from ...procedures.port import WaitGenerator
from ...rules import commands, scripts
from ...rules.keys import NOTE
from ...rules.restart_guard import MemoryReport
from .connection import MemoryConnection
from .keyspace import Message
from .masters import Master


class _Subscriber:
    """A connection that has subscribed. Weak: a client that is dropped without close() hears nothing more."""

    __slots__ = ("_connection",)

    def __init__(self, connection: MemoryConnection) -> None:
        self._connection = weakref.ref(connection)

    @property
    def alive(self) -> bool:
        return self._connection() is not None

    def hear(self, channel: str, payload: str) -> None:
        connection = self._connection()
        if connection is not None:
            connection.hear(channel, payload)


class _Keys(Master):
    """The data and the scripts; a subscriber may be gone without a close()."""

    def prune(self) -> None:
        """Forget the subscribers that are gone."""
        for channel in list(self.subscribers):
            self._prune(channel)

    def _prune(self, channel: str) -> None:
        for subscriber in list(self.subscribers.get(channel, ())):
            if isinstance(subscriber, _Subscriber) and not subscriber.alive:
                self.unsubscribe(channel, subscriber)

    def _publish(self, channel: str, payload: str) -> int:
        # Otherwise a release would hand the lock to a waiter that is gone, and the others would wait for it.
        self._prune(channel)
        return super()._publish(channel, payload)


class MemoryMaster(Endpoint):
    """One master in memory, for clients of this process. Thread-safe; no threads of its own.

    Its faults: ``down()`` and ``up()``, ``pause()`` and ``resume()``, ``flush()``.
    """

    def __init__(self, label: str) -> None:
        self.label = label
        #: Reentrant: it is held during a fork, and the child closes connections then.
        self.mutex = threading.RLock()
        self._run_id = os.urandom(20).hex()
        self._up, self._paused = True, False
        self._began_us, self._began_at = time.time_ns() // 1000, clock.now()
        self._keys = _Keys(self._time_us)
        self._by_sha = {script.sha: script.name for script in scripts.ALL}
        self._by_source = {script.source: script.name for script in scripts.ALL}
        self._connections_by_id: weakref.WeakValueDictionary[int, MemoryConnection] = (
            weakref.WeakValueDictionary()
        )
        self._subscribers: weakref.WeakKeyDictionary[MemoryConnection, _Subscriber] = (
            weakref.WeakKeyDictionary()
        )
        self._serial = 0
        #: Commands that arrived during a pause.
        self._unread: list[tuple[MemoryConnection, list[str]]] = []
        self._init()
        _all.add(self)

    # -- faults ------------------------------------------------------------------------------------

    def down(self) -> None:
        """Break all connections and refuse new ones. The data stays; leases run out meanwhile."""
        with self.mutex:
            self._up, self._paused = False, False
            self._unread.clear()
            for connection in list(self._connections_by_id.values()):
                connection.end()
                self.forget(connection)

    def up(self) -> None:
        """Accept connections again; clients notice within a second or two."""
        with self.mutex:
            self._up = True

    def pause(self) -> None:
        """Answer nothing, like a server that hangs; commands run after `resume`."""
        with self.mutex:
            self._paused = True

    def resume(self) -> None:
        """Run the commands of the pause, and go on."""
        with self.mutex:
            self._paused = False
            unread, self._unread = self._unread, []
            for connection, words in unread:
                self._execute(connection, words)

    def flush(self) -> None:
        """Drop all locks and queues. Holders that still renew put theirs back."""
        with self.mutex:
            self._keys.keys.clear()
            self._init()

    # -- for clients -------------------------------------------------------------------------------

    @property
    def place(self) -> tuple[str, ...]:
        """Equal for two names of one master."""
        return ("memory", self._run_id)

    @property
    def source(self) -> object:
        """Always raises: it cannot be pickled."""
        raise TypeError("a client on in-memory masters cannot be pickled: they stay in their process")

    @source.setter
    def source(self, _: object) -> None: ...

    def connect(self, call: ConnectOptions) -> WaitGenerator[MemoryConnection]:
        """Connect. Never waits; raises `ConnectError` while the master is down or paused.

        ``call.kill`` is not needed: when a client can connect again, all its earlier commands have run.
        """
        yield from NO_WAIT
        with self.mutex:
            if not self._up:
                raise ConnectError(Fault(FaultKind.DOWN, "connection refused: it was told to be down"))
            if self._paused:
                raise ConnectError(Fault(FaultKind.DOWN, "no answer: it was told to pause"))
            self._keys.prune()
            self._serial += 1
            report = MemoryReport()
            if not call.subscriber:
                report = MemoryReport(self._run_id)
            if call.guarded and not call.subscriber:
                reply, _ = self._keys.run(commands.handshake(self._run_id, "volatile"))
                report = MemoryReport(self._run_id, "volatile", reply[1].decode(), reply[4])
            connection = self._connections_by_id[self._serial] = MemoryConnection(
                self, HandshakeResult(report, self._serial)
            )
            return connection

    def receive(self, connection: MemoryConnection, words: list[str]) -> None:
        """Run a command. Raises OSError on a connection that has ended."""
        with self.mutex:
            if connection.ended:
                raise ConnectionResetError("connection reset by the in-memory master")
            if self._paused:
                self._unread.append((connection, words))
            else:
                self._execute(connection, words)

    def forget(self, connection: MemoryConnection) -> None:
        """Drop a connection that has ended. Called with the mutex."""
        self._connections_by_id.pop(connection.connection_id, None)
        subscriber = self._subscribers.pop(connection, None)
        if subscriber is not None:
            for channel in list(self._keys.subscribers):
                self._keys.unsubscribe(channel, subscriber)

    def __repr__(self) -> str:
        return f"<rlock.testing.MemoryMaster {self.label}>"

    # -- with the mutex ----------------------------------------------------------------------------

    def _time_us(self) -> int:
        # Not the time of day: tests that set or stop it must not stop a lease.
        return self._began_us + round((clock.now() - self._began_at) * 1e6)

    def _init(self) -> None:
        # Like `rlock init`: no client has to wait for the restart guard.
        self._keys.write(NOTE, f"{self._run_id} 0 0")

    def _execute(self, connection: MemoryConnection, words: list[str]) -> None:
        verb = words[0].upper()
        if verb in ("SUBSCRIBE", "UNSUBSCRIBE"):
            self._subscribe(connection, verb, words[1:])
        elif verb in ("EVALSHA", "EVAL"):
            self._run(connection, verb, words)
        elif verb == "SCRIPT" and words[1].upper() == "LOAD":
            connection.arrive(scripts.Script("", words[2]).sha.encode())
        else:
            connection.arrive(hiredis.ReplyError(f"ERR an in-memory master knows no {verb}"))

    def _run(self, connection: MemoryConnection, verb: str, words: list[str]) -> None:
        name = (self._by_sha if verb == "EVALSHA" else self._by_source).get(words[1])
        if name is None:
            connection.arrive(
                hiredis.ReplyError("ERR an in-memory master knows no scripts but those of rlock")
            )
            return
        count = int(words[2])
        keys, arguments = words[3 : 3 + count], words[3 + count :]
        messages: list[Message]
        reply: Any
        reply, messages = self._keys.call(name, keys, arguments)
        for message in messages:
            for receiver in message.receivers:
                receiver.hear(message.channel, message.payload)
        connection.arrive(reply)

    def _subscribe(self, connection: MemoryConnection, verb: str, channels: list[str]) -> None:
        if connection.ended:
            return  # closed during a pause: nobody would hear a hand-off
        subscriber = self._subscribers.setdefault(connection, _Subscriber(connection))
        change = self._keys.subscribe if verb == "SUBSCRIBE" else self._keys.unsubscribe
        for channel in channels:
            change(channel, subscriber)
            connection.arrive([verb.lower().encode(), channel.encode(), 1])


# -- fork ----------------------------------------------------------------------------------------------

_all: weakref.WeakSet[MemoryMaster] = weakref.WeakSet()
_held: list[MemoryMaster] = []


def _before_fork() -> None:
    # The child gets a copy. Without the mutex another thread could be in the middle of a script, or hold a
    # mutex that nobody in the child can release.
    for master in list(_all):
        master.mutex.acquire()
        _held.append(master)


def _after_fork() -> None:
    while _held:
        _held.pop().mutex.release()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
