"""The subscriber connections of a simulated client: `rlock/_client/subscriptions.py` in virtual time.

Messages are read only while some thread of the client is parked (or subscribes), and now and then by the one
that keeps house.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING

from rlock._client import notifications, subscriptions
from rlock._client.subscriptions import LOOK_S
from rlock._client.waits import Waits
from rlock.rules.tickets import Place

from .connections import Connection, Connections
from .driver import Bench, Wait

if TYPE_CHECKING:
    from .client import Client


class Ear(notifications.Ear):
    """In sets, in one order for one seed: by its number instead of by its address."""

    __slots__ = ("_bench", "_number")

    def __init__(self, place: Place, number: int, bench: Bench) -> None:
        super().__init__(place)
        self._number = number
        self._bench = bench

    def __hash__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other

    def stir(self) -> None:
        self._bench.poke()

    def settle(self) -> None: ...


class Subscriptions(subscriptions.Subscriptions[Connection]):
    """What one client hears."""

    _connections: Connections

    def __init__(self, client: Client, request_timeout: float) -> None:
        context = client.context
        super().__init__(context, client._pass_on)
        self._client = client
        self._bench = Bench(self._read)
        self._connections = Connections(
            client, self._mutex, self._welcome, self._bench, timeout=request_timeout, subscriber=True
        )
        self._keeping_house = False
        self._numbers = itertools.count(1)

    @property
    def connections(self) -> Connections:
        return self._connections

    def ear(self, place: Place) -> Ear:
        return Ear(place, next(self._numbers), self._bench)

    def _reading_until(self, ear: notifications.Ear, done: Callable[[], bool], timeout: float) -> Waits[None]:
        until = self._clock() + timeout
        ear.parked = True
        try:
            while True:
                with self._mutex:
                    now = self._clock()
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
            ear.parked = False

    def _read(self) -> None:
        with self._mutex:
            for server, connection in self._connections.readable():
                while (message := connection.reader.gets()) is not False:
                    self._hear(server, message)
                if connection.ended:
                    self._drop(server, "the server closed the connection")
            self._hope_no_more()
        self._pass_on_strays()
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
