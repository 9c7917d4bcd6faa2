"""The roster of the asyncio driver: links call when something has arrived, tasks dial."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any

from .._driver import roster
from .._driver.roster import Slot
from .._driver.waits import Waits
from ..clock import Clock
from .links import StreamLink
from .masters import Endpoint
from .waits import Parker


class Roster(roster.Roster[StreamLink]):
    """``on_arrival``: a link has something to read, or has ended; ``on_change``: a dial has ended."""

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        mutex: threading.Lock,
        clock: Clock,
        random: Random,
        on_link: Callable[[Slot[StreamLink], StreamLink], None],
        on_arrival: Callable[[Slot[StreamLink], StreamLink, bytes], None],
        on_change: Callable[[], None] = lambda: None,
        **options: Any,
    ) -> None:
        super().__init__(
            endpoints,
            mutex,
            clock,
            random,
            on_link,
            **options,
        )
        self._on_arrival = on_arrival
        self._on_change = on_change
        self._waiting: list[Parker] = []
        #: The event loop keeps no task alive.
        self._dials: set[asyncio.Task[None]] = set()

    def _register(self, slot: Slot[StreamLink], link: StreamLink) -> None:
        link.arrived = partial(self._on_arrival, slot, link)
        if link.ended:
            # Between the greeting and now; not at once, because the caller has the mutex.
            asyncio.get_running_loop().call_soon(link.arrived, b"")

    def _unregister(self, link: StreamLink) -> None:
        link.arrived = None

    # -- connecting --------------------------------------------------------------------------------

    def _until(self, done: Callable[[], bool], timeout: float) -> Waits[None]:
        until, parker = self._clock() + timeout, Parker()
        self._waiting.append(parker)
        try:
            while not done() and (left := until - self._clock()) > 0:
                yield from parker.sleeping(left)
        finally:
            self._waiting.remove(parker)

    def _tell(self) -> None:
        for parker in self._waiting:
            parker.stir()
        self._on_change()

    def _start(self, slot: Slot[StreamLink]) -> None:
        loop = asyncio.get_running_loop()
        # Not by the loop's factory: an eager one would run it here, into the mutex that the caller has.
        task = asyncio.Task(self._dial_on(slot), loop=loop, name="rlock-dial")
        self._dials.add(task)
        task.add_done_callback(partial(self._ended, slot))

    def _ended(self, slot: Slot[StreamLink], task: asyncio.Task[None]) -> None:
        self._dials.discard(task)
        if task.cancelled() or task.exception() is not None:
            # No fault of the master's; and it would never be dialled again.
            slot.dialing = False
            self._tell()
            if not self.closed and self._clock() < slot.wanted_until:
                # It is owed something, and nobody else may dial it. By a timer: no task may outlive its loop.
                pause = max(0.0, slot.probe_at - self._clock()) + 0.01
                task.get_loop().call_later(pause, self._dial_again)

    def _dial_again(self) -> None:
        with self._mutex:
            if not self.closed:
                self.dial_due()

    async def _dial_on(self, slot: Slot[StreamLink]) -> None:
        """Dial once; or, if the master is owed something, until that is over."""
        while (pause := await self._dial(slot)) is not None:
            await asyncio.sleep(pause)
            if not self._redial(slot):
                return

    async def _dial(self, slot: Slot[StreamLink]) -> float | None:
        outcome: StreamLink | Exception
        call = self._call(slot)
        try:
            outcome = await slot.endpoint.dial_async(call)
        except Exception as error:  # a fault, no descriptor, no memory: that master has no vote
            outcome = error
        with self._mutex:
            pause = self._dialled(slot, call, outcome)
        self._tell_news()
        return pause

    # -- the end -----------------------------------------------------------------------------------

    def close(self) -> None:
        """Close all links for good, and end the dials."""
        super().close()
        for task in self._dials:
            task.cancel()
