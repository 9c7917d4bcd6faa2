"""The command connections of a simulated client: those of `rlock/_driver/fanout.py`, in virtual time.

Replies are read only while some thread of the client waits for a round: a vote that comes after its round was
decided lies unread until the next one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlock._driver import fanout
from rlock._driver.rounds import Round
from rlock._driver.waits import Waits
from rlock.errors import RLockError
from rlock.model import Fault, FaultKind
from rlock.procedures.steps import Ask
from rlock.rules.quorum import Ballot

from .driver import Bench, Wait
from .links import Link, Roster

if TYPE_CHECKING:
    from .client import Client


class Fanout(fanout.Fanout[Link]):
    """One connection to each master."""

    _roster: Roster

    def __init__(self, client: Client, request_timeout: float) -> None:
        super().__init__(client.terms, request_timeout)
        self._client = client
        self._bench = Bench(self._read)
        self._roster = Roster(
            client,
            self._mutex,
            self._welcome,
            self._bench,
            timeout=request_timeout,
            guarded=client.terms.guard.on,
            news=client.terms.news,
        )

    def asking(self, ask: Ask) -> Waits[Ballot]:
        """Its thread may be kept from running behind it."""
        self._client.current.asked[ask.command.script.name] += 1
        return (yield from self._client.kept_behind(super().asking(ask)))

    @property
    def roster(self) -> Roster:
        return self._roster

    def _caller(self) -> object:
        return self._client.current

    def _finishing(self, turn: Round) -> Waits[None]:
        def done() -> bool:
            return turn.ballot.settled or self._roster.closed

        try:
            while not turn.ballot.settled:
                if self._roster.closed:
                    raise RLockError("the client was closed")
                left = turn.deadline - self._clock()
                yield Wait(min(left, self._timeout / 4), self._bench, done)
                self._read()
                if turn.ballot.outstanding:
                    with self._mutex:
                        self._expire(self._clock())
                # Also when the time is over: a thread that was kept from running has answers to read.
                if left <= 0:
                    break
        finally:
            turn.over = True
        self._news.tell()

    def _wake(self, turn: Round) -> None:
        self._bench.poke()

    def _read(self) -> None:
        with self._mutex:
            for slot, link in self._roster.readable():
                self._deliver(slot, link)
                if link.ended and slot.link is link:
                    self._drop(slot, Fault(FaultKind.BROKEN, "the server closed the connection"))

    def _close(self) -> None:
        self._bench.poke()
