"""Holding: the parts that recipes with several locks share.

A procedure asks for one lock. `together` runs many procedures, and sends the calls that they make at the same
time in one round trip. So each lock has a ballot, an owner token and a fencing token of its own.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, Self

from .._client.engine import Engine
from ..base import AsyncLock, raise_or_log
from ..errors import RLockError
from ..lock import BaseLock
from ..procedures.acquire import acquire
from ..procedures.contender import Contender
from ..procedures.port import Masters, Request, WaitGenerator
from ..rules.holds import Hold
from ..rules.quorum import Ballot


class Holding:
    """Several locks of one caller that are acquired and released by common rules."""

    _acquire_gen: Callable[[Engine, float], WaitGenerator[bool]]
    _release_gen: Callable[[Engine], WaitGenerator[None]]

    def __init__(self, client: Any, locks: Sequence[BaseLock[Any]], text: str) -> None:
        self._client = client
        self._locks = locks
        self._text = text

    @property
    def _needed(self) -> Sequence[BaseLock[Any]]:
        """The locks that the caller works under."""
        return self._locks

    def remaining(self) -> float:
        """Seconds of validity left of the last permit, or least of all names; 0.0: none. Sends nothing."""
        return min(lock.remaining() for lock in self._needed)

    def check(self) -> None:
        """Raise `LeaseLostError` unless the last permit, or each name, is valid. Sends nothing."""
        for lock in self._needed:
            lock.check()

    def _holds(self) -> list[Hold]:
        return [hold for lock in self._locks if (hold := lock._hold()) is not None]

    def _before(self) -> dict[str, int]:
        """The hold count of each lock that the caller holds."""
        return {hold.name: hold.count for hold in self._holds()}

    def _restore(self, before: dict[str, int]) -> None:
        """Give back the acquires of a call that an exception ended. Waits for nothing."""
        for hold in self._holds():
            if hold.name in before:
                hold.count = before[hold.name]
            else:
                self._client._engine().holds.give_up(hold)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._text}>"


class Blocking(Holding):
    """The methods for threads."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Acquire: True, or False when the time is over. Arguments and errors as `rlock.RLock.acquire`."""
        engine, until = self._client._engine(), self._locks[0]._until(blocking, timeout)
        before = self._before()
        try:
            return bool(engine.perform(self._acquire_gen(engine, until)))
        except BaseException:
            self._restore(before)
            raise

    def release(self) -> None:
        """Release. Errors as `rlock.RLock.release`."""
        engine = self._client._engine()
        engine.perform(self._release_gen(engine))

    def __enter__(self) -> Self:
        before = self._before()
        try:
            self.acquire()
            return self
        except BaseException:
            # Ctrl-C after the grant: `with` calls no __exit__ then, and the locks would stay held.
            self._restore(before)
            raise

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        before = None
        try:
            before = self._before()
            self.release()
        except RLockError as failure:
            raise_or_log(failure, error)
        except BaseException:
            # Ctrl-C before the release: without this the locks would stay held.
            if before in (None, self._before()):
                self.release()
            raise


class ForTasks(Holding, AsyncLock):
    """The methods for tasks."""

    async def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Acquire: True, or False when the time is over. Arguments and errors as `rlock.RLock.acquire`."""
        engine, until = self._client._engine(), self._locks[0]._until(blocking, timeout)
        before = self._before()
        try:
            return bool(await engine.perform(self._acquire_gen(engine, until)))
        except BaseException:
            self._restore(before)
            raise

    async def release(self) -> None:
        """Release. Errors as `rlock.RLock.release`."""
        engine = self._client._engine()
        await engine.perform(self._release_gen(engine))


def contend(engine: Engine, contender: Contender) -> WaitGenerator[bool]:
    """Acquire, from the first round to the hold; after any exception nothing is left behind."""
    try:
        return engine.finish(contender, got=(yield from acquire(engine, contender)))
    except BaseException as error:
        engine.give_back(contender, error)
        raise


class Packed:
    """The port, and the masters, of procedures that run `together`: it yields requests, and gets ballots."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self.masters: Any = self
        self.send = engine.masters.send

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    #: These are given this port instead of the engine.
    release_gen: Any = Engine.release_gen
    _release_held: Any = Engine._release_held
    _give_up: Any = Engine._give_up

    def call(self, request: Request) -> WaitGenerator[Ballot]:
        """See `Masters.call`."""
        ballot: Ballot = yield request
        return ballot

    def collect(self, ballots: Sequence[Ballot], until: float = math.inf) -> WaitGenerator[None]:
        """See `Masters.collect`."""
        yield self._engine.masters.collect(ballots, until)


def together(masters: Masters, procedures: Sequence[WaitGenerator[Any]]) -> WaitGenerator[list[Any]]:
    """The results of procedures whose port is `Packed`. Raises the first `RLockError` when all have ended.

    The first calls of all share one round trip, then their second calls, and so on.
    """
    results: list[Any] = [None] * len(procedures)
    errors: dict[int, RLockError] = {}
    answers: dict[int, Any] = dict.fromkeys(range(len(procedures)))
    try:
        while answers:
            requests: dict[int, Request] = {}
            for i, answer in answers.items():
                resume = procedures[i].throw if isinstance(answer, RLockError) else procedures[i].send
                try:
                    wanted = resume(answer)
                    while not isinstance(wanted, Request):
                        wanted = procedures[i].send((yield from wanted))
                    requests[i] = wanted
                except StopIteration as stop:
                    results[i] = stop.value
                except RLockError as error:
                    errors[i] = error
            answers = {}
            try:
                if requests:
                    ballots = yield from masters.call_many([*requests.values()])
                    answers = dict(zip(requests, ballots, strict=True))
            except RLockError as error:
                answers = dict.fromkeys(requests, error)
    finally:
        # After an interrupt this sends each release that is under way, and waits for nothing.
        for procedure in procedures:
            procedure.close()
    if errors:
        raise errors[min(errors)]
    return results
