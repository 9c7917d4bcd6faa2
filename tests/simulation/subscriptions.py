"""The subscriber connections of a simulated client: `rlock/_client/subscriptions.py` in virtual time.

Messages are read only while some thread of the client is parked (or subscribes), and now and then by the one
that keeps house.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rlock._client import subscriptions
from rlock._client.notifications import Inbox
from rlock._client.subscriptions import LOOK_S
from rlock.procedures.contender import Contender
from rlock.procedures.port import WaitGenerator, Wake

from .connections import Connection, Connections
from .driver import Bench, Runtime, Wait

if TYPE_CHECKING:
    from .client import Client


class Subscriptions(subscriptions.Subscriptions[Connection]):
    """What one client hears."""

    _connections: Connections

    def __init__(self, client: Client, request_timeout: float) -> None:
        self._bench = Bench(self._read)
        super().__init__(client)
        self._runtime = Runtime(client, self._bench)
        self._client = client
        self._connections = Connections(
            client, self._mutex, self._welcome, self._bench, timeout=request_timeout, subscriber=True
        )
        self._keeping_house = False

    @property
    def connections(self) -> Connections:
        return self._connections

    def subscribe(self, contender: Contender, timeout: float) -> WaitGenerator[int]:
        """Its thread may be kept from running behind it."""
        return (yield from self._client.kept_behind(super().subscribe(contender, timeout)))

    def wait(self, contender: Contender, until: float) -> WaitGenerator[Wake]:
        return (yield from self._client.kept_behind(super().wait(contender, until)))

    def _read_until(self, inbox: Inbox, done: Callable[[], bool], timeout: float) -> WaitGenerator[None]:
        until = self._context.clock() + timeout
        inbox.asleep = True
        try:
            while True:
                with self._mutex:
                    now = self._context.clock()
                    if done() or now >= until or self._connections.closed:
                        return
                    self._connections.connect_due()
                    until_due = min(until, self._due())

                def look(due: float = until_due) -> bool:
                    # Also if there is something to do sooner: it heard from some masters, and hopes for
                    # the rest.
                    return done() or self._connections.closed or self._due() < due

                yield Wait(until_due - now, self._bench, look)
                self._read()
        finally:
            inbox.asleep = False

    def _read(self) -> None:
        with self._mutex:
            for server, connection in self._connections.readable():
                while (message := connection.reader.gets()) is not False:
                    self._receive(server, message)
                if connection.ended:
                    self._drop(server, "the server closed the connection")
            self._wake_partial()
        self._pass_on_unclaimed()
        self._bench.poke()

    # -- who keeps house ---------------------------------------------------------------------------------

    def _run(self) -> None:
        if not self._keeping_house:
            self._keeping_house = True
            self._client.after(self._client.lasts(LOOK_S), self._look)

    def _look(self) -> None:
        with self._mutex:
            if not self._tidy():
                self._keeping_house = False
                return
        if not self._bench:
            self._read()
        self._client.after(self._client.lasts(LOOK_S), self._look)
