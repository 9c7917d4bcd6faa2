"""The fan-out of the asyncio driver: what arrives is read at once, and wakes the task that waits for it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence

import hiredis

from .._driver import fanout
from .._driver.roster import Slot
from .._driver.rounds import Round
from .._driver.waits import Waits
from ..errors import RLockError
from ..model import Fault, FaultKind
from ..procedures.steps import Terms
from .links import StreamLink
from .masters import Endpoint
from .roster import Roster
from .waits import Parker


class Fanout(fanout.Fanout[StreamLink]):
    """The command connections of one client in one event loop."""

    def __init__(self, endpoints: Sequence[Endpoint], terms: Terms, request_timeout: float) -> None:
        super().__init__(terms, request_timeout)
        self._roster = Roster(
            endpoints,
            self._mutex,
            terms.clock,
            terms.random,
            self._welcome,
            self._arrived,
            timeout=request_timeout,
            guarded=terms.guard.on,
            news=terms.news,
        )
        self._waiting: set[Round] = set()
        self._patience = request_timeout / 4
        #: When those who wait look round, whether or not anything has arrived: one timer for all of them,
        #: since one for each round costs as much as the round.
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0

    def _caller(self) -> object:
        return asyncio.current_task()

    def _finishing(self, turn: Round) -> Waits[None]:
        ballot = turn.ballot
        parker = turn.parker = Parker()
        self._waiting.add(turn)
        try:
            while not ballot.settled:
                if self._roster.closed:
                    raise RLockError("the client was closed")
                left = turn.deadline - self._clock()
                if left <= 0:
                    break
                self._look_round_within(min(left, self._patience))
                stirred = yield from parker.sleeping(math.inf)
                if ballot.outstanding and (not stirred or self._clock() >= self._look_at):
                    if stirred and self._overdue(self._clock()):
                        # Another task may have kept the loop from running since we were stirred: what has
                        # arrived meanwhile has to count.
                        yield
                        yield
                    with self._mutex:
                        self._expire(self._clock())
        finally:
            turn.over = True
            self._waiting.discard(turn)
        self._news.tell()

    def _look_round_within(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        at = loop.time() + seconds
        if self._timer is not None:
            if self._timer_at <= at:
                return
            self._timer.cancel()
        # Noted here: uvloop's handle of a time that has passed does not tell when it is due.
        self._timer, self._timer_at = loop.call_at(at, self._look_round), at

    def _look_round(self) -> None:
        self._timer = None
        for turn in self._waiting:
            turn.parker.expire()

    def _wake(self, turn: Round) -> None:
        if turn.parker is not None:
            turn.parker.stir()

    def _arrived(self, slot: Slot[StreamLink], link: StreamLink, data: bytes) -> None:
        with self._mutex:
            try:
                self._take(slot, link, data)
                if link.ended and slot.link is link:
                    self._drop(slot, Fault(FaultKind.BROKEN, "the server closed the connection"))
            except (OSError, hiredis.HiredisError) as error:
                self._drop(slot, Fault(FaultKind.BROKEN, str(error) or type(error).__name__))
            except BaseException:
                # Ctrl-C between a reply and what it answers: the next one would be read for another command.
                self._drop(slot, Fault(FaultKind.BROKEN, "interrupted"))
                raise

    def _close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for turn in self._waiting:
            self._wake(turn)
