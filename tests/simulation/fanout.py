"""The command connections of a simulated client: those of `rlock/_sync/fanout.py`, in virtual time.

Sending, delivering, the guard, what is owed and what is resent are the real code; only what waits is written
again here, line by line. Replies are read only while some thread of the client waits for a round: a vote that
comes after its round was decided lies unread until the next one.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from rlock._sync import fanout
from rlock._sync.fanout import RESENDS
from rlock._sync.roster import FIRST_CONTACT_S
from rlock._sync.rounds import Debts, Round
from rlock.errors import RLockError
from rlock.procedures.steps import Ask, AskMany, Rest
from rlock.rules.quorum import Ballot, Settle

from .driver import Bench, Wait, Waits
from .links import Roster

if TYPE_CHECKING:
    from .client import Client


class Fanout(fanout.Fanout):
    """One connection to each master."""

    def __init__(self, client: Client, request_timeout: float) -> None:
        terms = client.terms
        self.bench = Bench()
        self._clock = terms.clock
        self._timeout = request_timeout
        self._quorum = terms.quorum
        self._guard = terms.guard
        self._time = terms.time
        self._mutex = threading.Lock()
        self.roster = Roster(
            client,
            self._mutex,
            self._welcome,
            timeout=request_timeout,
            serve=self.arrived,
            changed=self.bench.poke,
            guarded=terms.guard.on,
        )
        self._roster = self.roster
        self._masters = len(terms.masters)
        self._leader = None
        self._followers = deque()
        self._refusing = 0
        self._debts = Debts(len(terms.masters))

    def join(self) -> None:
        """Be connected to every master, as after an earlier use."""
        self.roster.join()
        self.roster.fresh = False

    # -- as in the real one, but that they yield where a thread would block ----------------------------------

    def asking(self, ask: Ask) -> Waits[Ballot]:
        yield from self._connecting(ask.timeout)
        turn = Round(ask, self._masters)
        self._send(turn, turn.targets)
        yield from self._finishing(turn)
        for _ in range(RESENDS):
            if turn.ballot.answered >= turn.ballot.quorum or not turn.broken():
                break
            yield from self._connecting(ask.timeout, all_of_them=True)
            self._send(turn, turn.unanswered(), again=True)
            yield from self._finishing(turn)
        return turn.ballot

    def asking_many(self, many: AskMany) -> Waits[list[Ballot]]:
        yield from self._connecting(max(ask.timeout for ask in many.asks))
        many.rounds = turns = [Round(ask, self._masters) for ask in many.asks]
        for turn in turns:
            self._send(turn, turn.targets)
        for turn in turns:
            yield from self._finishing(turn)
        return [turn.ballot for turn in turns]

    def resting(self, rest: Rest) -> Waits[None]:
        for turn in rest.many.rounds:
            with self._mutex:
                turn.ballot.settle, turn.over = Settle.ALL, False
                turn.deadline = min(turn.deadline, rest.until)
            yield from self._finishing(turn)

    def _finishing(self, turn: Round) -> Waits[None]:
        patience = self._timeout / 4
        try:
            while not turn.ballot.settled:
                if self._roster.closed:
                    raise RLockError("the client was closed")
                left = turn.deadline - self._clock()
                yield from self._until(lambda: turn.ballot.settled, min(left, patience))
                self.read()
                if turn.ballot.outstanding:
                    with self._mutex:
                        self._expire(self._clock())
                    self.bench.poke()
                if left <= 0:
                    break
        finally:
            turn.over = True

    def meeting(self) -> Waits[None]:
        if self._roster.fresh:
            yield from self._connecting(0.0)

    def _connecting(self, patience: float, *, all_of_them: bool = False) -> Waits[None]:
        roster = self._roster
        if roster.up == self._masters:
            return
        enough = self._masters if all_of_them else self._quorum
        with self._mutex:
            self._check()
            roster.dial_due()
            if roster.up >= enough and not roster.fresh:
                return
        began = self._clock()
        yield from self._until(
            lambda: roster.up >= enough or not roster.dialing or roster.closed,
            max(patience, FIRST_CONTACT_S) if roster.fresh else patience,
        )
        if roster.fresh and roster.up >= self._quorum:
            spent = self._clock() - began
            yield from self._until(lambda: not roster.dialing or roster.closed, 2 * spent + 0.02)
        roster.fresh = False

    def _until(self, done: Callable[[], bool], timeout: float) -> Waits[None]:
        if not done():
            yield Wait(timeout, self.bench, done)

    # -- reading -----------------------------------------------------------------------------------------

    def arrived(self) -> None:
        """Something can be read; somebody may be there to do it."""
        if self.bench:
            self.read()

    def read(self) -> None:
        events = self._roster.poll(0.0)
        if events:
            with self._mutex:
                for fd, event in events:
                    self._serve(fd, event)
            self.bench.poke()
