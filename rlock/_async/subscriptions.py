"""The listener of the asyncio driver: what is published is read at once."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence

import hiredis

from .._client import notifications as base
from .._client import subscriptions
from .._client.connections import MasterConnection
from .._client.subscriptions import LOOK_S
from .._client.waits import Waits
from ..procedures.steps import ClientContext
from ..rules.tickets import Place
from .connection import StreamConnection
from .connections import Connections
from .endpoints import Endpoint
from .waits import Parker


class Ear(base.Ear):
    """What one waiting task hears."""

    __slots__ = ("parker",)

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.parker = Parker()

    def stir(self) -> None:
        """Let the waiter look round."""
        self.parker.stir()

    def settle(self) -> None:
        """Nothing: only one who sleeps is stirred."""


class Subscriptions(subscriptions.Subscriptions[StreamConnection]):
    """The subscriber connections of one client in one event loop."""

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        request_timeout: float,
        context: ClientContext,
        stray: Callable[[str, str], None],
    ) -> None:
        super().__init__(context, stray)
        self._loop = asyncio.get_running_loop()
        self._connections = Connections(
            endpoints,
            self._mutex,
            context.clock,
            context.random,
            self._welcome,
            self._arrived,
            self._changed,
            timeout=request_timeout,
            subscriber=True,
        )
        self._look_timer: asyncio.TimerHandle | None = None
        self._dial_timer: asyncio.TimerHandle | None = None

    def ear(self, place: Place) -> Ear:
        """What a waiting task hears with."""
        return Ear(place)

    def _reading_until(self, ear: base.Ear, done: Callable[[], bool], timeout: float) -> Waits[None]:
        assert isinstance(ear, Ear)
        until = self._clock() + timeout
        ear.parked = True
        try:
            while not done() and not self._connections.closed and (now := self._clock()) < until:
                yield from ear.parker.sleeping(min(until, ear.grace_at) - now)
                with self._mutex:
                    self._hope_no_more()
        finally:
            ear.parked = False

    def _hope(self, ear: base.Ear, patience: float) -> None:
        super()._hope(ear, patience)
        ear.stir()  # it has to sleep for less long

    # -- connections -------------------------------------------------------------------------------

    def _arrived(
        self, server: MasterConnection[StreamConnection], connection: StreamConnection, data: bytes
    ) -> None:
        with self._mutex:
            try:
                self._take(server, connection, data)
                if connection.ended and server.connection is connection:
                    self._drop(server, "the server closed the connection")
            except (OSError, hiredis.HiredisError) as error:
                self._drop(server, str(error) or type(error).__name__)
        if self._strays:
            self._pass_on_strays()

    def _changed(self) -> None:
        """A link came, or a dial ended: some may wait for no confirmation any more, some be dialled again."""
        for found in self._by_name.values():
            for ear in found.ears:
                ear.stir()
        self._dial_later()

    def _drop(self, server: MasterConnection[StreamConnection], why: str) -> None:
        super()._drop(server, why)
        self._dial_later()

    def _dial_later(self) -> None:
        """Have masters dialled again when it is time, as long as somebody waits."""
        if self._dial_timer is not None:
            self._dial_timer.cancel()
            self._dial_timer = None
        due_at = self._connections.next_probe()
        if self._by_name and not self._connections.closed and due_at < math.inf:
            self._dial_timer = self._loop.call_later(max(0.0, due_at - self._clock()), self._connect)

    def _connect(self) -> None:
        self._dial_timer = None
        with self._mutex:
            if self._by_name and not self._connections.closed:
                self._connections.connect_due()

    # -- keeping house -----------------------------------------------------------------------------

    def _run(self) -> None:
        if self._look_timer is None:
            self._look_timer = self._loop.call_later(LOOK_S, self._look)

    def _look(self) -> None:
        with self._mutex:
            needed = self._tidy()
            self._look_timer = self._loop.call_later(LOOK_S, self._look) if needed else None
        self._pass_on_strays()

    def close(self) -> None:
        """End the connections; waiters are woken. Twice is once."""
        super().close()
        for timer in (self._look_timer, self._dial_timer):
            if timer is not None:
                timer.cancel()
