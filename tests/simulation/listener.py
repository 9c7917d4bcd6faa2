"""The subscriber connections of a simulated client: those of `rlock/_sync/listener.py`, in virtual time.

What is heard, and what comes of it, is the real code. Messages are read only while some thread of the client
is parked (or subscribes), and now and then by the one that keeps house.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from rlock._sync import listener
from rlock._sync.ears import Ear
from rlock._sync.listener import LOOK_S
from rlock.procedures.steps import Wake
from rlock.rules.places import Bequest, Place
from rlock.rules.quorum import quorum

from .driver import Bench, Wait, Waits
from .links import Roster

if TYPE_CHECKING:
    from .client import Client


class Listener(listener.Listener):
    """What one client hears."""

    def __init__(self, client: Client, request_timeout: float) -> None:
        terms = client.terms
        self.bench = Bench()
        self._client = client
        self._clock = terms.clock
        self._station = terms.station
        self._stray = client._pass_on
        self._strays = []
        self._quorum = quorum(len(terms.masters))
        self._mutex = threading.Lock()
        self.roster = Roster(
            client,
            self._mutex,
            self._welcome,
            timeout=request_timeout,
            serve=self.arrived,
            changed=self.bench.poke,
            subscriber=True,
        )
        self._roster = self.roster
        self._subscriptions = {}
        self._by_channel = {}
        self._deaf = set()
        self._reader = None
        self._hoping = set()
        self._thread = None
        self._end = threading.Event()
        self._keeping_house = False

    # -- as in the real one, but that they yield where a thread would block ----------------------------------

    def listening(self, ear: Ear, timeout: float) -> Waits[int]:
        heard_by = self.listen(ear, 0.0)
        found = self._subscriptions[ear.name]
        if timeout > 0:
            yield from self._reading_until(ear, lambda: self._settled(found), timeout)
            return len(found.confirmed)
        return heard_by

    def parking(self, ear: Ear, timeout: float) -> Waits[Wake]:
        yield from self._reading_until(ear, lambda: ear.wake_for is not Wake.TIME, timeout)
        with self._mutex:
            return ear.take_wake()

    def _reading_until(self, ear: Ear, done: Callable[[], bool], timeout: float) -> Waits[None]:
        until = self._clock() + timeout
        ear.parked = True
        try:
            while True:
                with self._mutex:
                    now = self._clock()
                    if done() or now >= until or self._roster.closed:
                        return
                    self._roster.dial_due()
                    until_due = min(until, self._due())
                # Also if there is something to do sooner: it heard from some masters, and hopes for the rest.
                sooner = partial(self._due_before, until_due)
                yield Wait(until_due - now, self.bench, lambda sooner=sooner: done() or sooner())  # type: ignore[misc]
                self.read()
        finally:
            ear.parked = False

    def _due_before(self, instant: float) -> bool:
        return self._due() < instant

    def bequeath(self, place: Place, bequest: Bequest) -> bool:
        given = super().bequeath(place, bequest)
        self.bench.poke()
        return given

    # -- reading -----------------------------------------------------------------------------------------

    def arrived(self) -> None:
        """Something can be read; somebody may be there to do it."""
        if self.bench:
            self.read()

    def read(self) -> None:
        self._take_in(self._roster.poll(0.0))
        self.bench.poke()

    # -- the thread --------------------------------------------------------------------------------------

    def _run(self) -> None:
        if self._roster.closed:
            return
        if not self._keeping_house:
            self._keeping_house = True
            self._client.after(self._client.lasts(LOOK_S), self._look)
        self._roster.dial_due()

    def _look(self) -> None:
        with self._mutex:
            if not self._tidy():
                self._keeping_house = False
                return
        if not self.bench:
            self.read()
        self._client.after(self._client.lasts(LOOK_S), self._look)
