"""The fan-out of the blocking driver: of the threads that wait for a round, one reads for all.

The caller writes its command to every master and then waits, with no thread in between. The one that reads
(the leader) hands that role on when its own round is settled.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

import hiredis

from .._driver import fanout
from .._driver.rounds import Round
from .._driver.waits import NOTHING, Waits
from ..errors import RLockError
from ..model import Fault, FaultKind
from ..procedures.steps import Terms
from .links import SocketLink
from .masters import Endpoint
from .polling import POLLIN
from .roster import Roster


class Fanout(fanout.Fanout[SocketLink]):
    """The command connections of one client in one process. Thread-safe."""

    _roster: Roster

    def __init__(self, endpoints: Sequence[Endpoint], terms: Terms, request_timeout: float) -> None:
        super().__init__(terms, request_timeout)
        self._roster = Roster(
            endpoints,
            self._mutex,
            terms.clock,
            terms.random,
            self._welcome,
            timeout=request_timeout,
            guarded=terms.guard.on,
            news=terms.news,
        )
        #: The round whose thread reads for all. It may have been interrupted on the way out, so others
        #: go by whether it is over, not by its word.
        self._leader: Round | None = None
        self._followers: deque[Round] = deque()
        #: For so long the others trust that a leader does its work.
        self._patience = request_timeout / 4

    def _caller(self) -> object:
        return threading.get_ident()

    def _finishing(self, turn: Round) -> Waits[None]:
        """Wait until the round is settled or its time is over, leading or following.

        Interrupts may come between any two lines, so nothing here relies on a `finally` having run: a
        leader whose round is over is none, and followers look after a while even if nobody wakes them.
        """
        ballot = turn.ballot
        try:
            if self._leader is turn and not ballot.settled:
                self._lead(turn)
            while not ballot.settled:
                parker = self._join(turn)
                if parker is None:
                    self._lead(turn)
                else:
                    parker.acquire(timeout=max(0.0, min(turn.deadline - self._clock(), self._patience)))
                # Not before: who was kept from running until its time was over has answers to read.
                if not ballot.settled and self._clock() >= turn.deadline:
                    break
        finally:
            turn.over = True
            # Misses nobody: who follows has seen, with the mutex, a leader whose round was not over.
            if self._leader is turn or self._followers or self._roster.closed:
                self._quit(turn)
        self._news.tell()
        yield from NOTHING

    def _sent(self, turn: Round) -> None:
        if self._leader is None:
            self._leader = turn

    def _join(self, turn: Round) -> threading.Lock | None:
        """What to wait for as a follower; None: this thread leads."""
        with self._mutex:
            if self._roster.closed:
                raise RLockError("the client was closed")
            leader = self._leader
            if (
                leader is None
                or leader is turn
                or leader.over
                or self._clock() > leader.deadline + self._patience
            ):
                self._leader = turn
                return None
            parker = turn.parker = threading.Lock()
            parker.acquire()
            if turn not in self._followers:
                self._followers.append(turn)
            return parker

    def _quit(self, turn: Round) -> None:
        with self._mutex:
            if turn in self._followers:
                self._followers.remove(turn)
            if self._leader is turn or self._leader is None:
                self._leader = None
                if self._followers:
                    # It was this thread's turn to read for the others: another one goes on.
                    self._wake(self._followers[0])
                if self._roster.closed:
                    self._roster.close_bell()

    def _lead(self, turn: Round) -> None:
        """Read for everybody until this round is settled or out of time."""
        ballot, roster, patience = turn.ballot, self._roster, self._patience
        now = self._clock()
        while True:
            left = turn.deadline - now
            # Also when the time is over: a thread that was kept from running has answers to read.
            events = roster.poll(patience if left > patience else left)
            with self._mutex:
                for fd, event in events:
                    self._serve(fd, event)
                now = self._clock()
                if now >= self._look_at or left <= 0:
                    self._expire(now)
                if ballot.settled and not self._followers:
                    self._leader = None
                    return
                if ballot.settled or roster.closed or left <= 0:
                    return

    def _wake(self, turn: Round) -> None:
        if self._followers and turn in self._followers:
            self._followers.remove(turn)
            if turn.parker is not None and turn.parker.locked():
                turn.parker.release()

    # -- one connection; all with the mutex held ---------------------------------------------------

    def _serve(self, fd: int, event: int) -> None:
        try:
            slot = self._roster.by_fd.get(fd)
            if event != POLLIN or slot is None or (link := slot.link) is None:
                served = self._roster.serve(fd, event)
                if served is None:
                    return
                slot, link = served
            self._take(slot, link, link.fetch())
            if link.ended and slot.link is link:
                self._drop(slot, Fault(FaultKind.BROKEN, "the server closed the connection"))
        except (OSError, hiredis.HiredisError) as error:
            self._drop_fd(fd, Fault(FaultKind.BROKEN, str(error) or type(error).__name__))
        except BaseException:
            self._drop_fd(fd, Fault(FaultKind.BROKEN, "interrupted"))
            raise

    def _drop_fd(self, fd: int, fault: Fault) -> None:
        slot = self._roster.by_fd.get(fd)
        if slot is not None:
            self._drop(slot, fault)

    def _close(self) -> None:
        for turn in list(self._followers):
            self._wake(turn)
        if self._leader is None:
            self._roster.close_bell()
