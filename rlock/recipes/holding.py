"""Holding: the parts that recipes with several locks share.

A procedure asks for one lock. `together` runs many procedures, and sends the calls that they make at the same
time in one round trip. So each lock has a ballot, an owner token and a fencing token of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeVar

from .._client.engine import Engine
from ..base import BaseLock, log_failed_release
from ..errors import RLockError
from ..procedures.acquire import acquire
from ..procedures.contender import Contender
from ..procedures.port import Masters, Request, WaitGenerator
from ..procedures.release import Outcome, release
from ..rules.command_templates import Command
from ..rules.holds import Hold
from ..rules.options import LockOptions
from ..rules.quorum import Ballot, Settle

Self = TypeVar("Self", bound="Holding")


class Holding:
    """Several locks of one caller that are acquired and released by common rules."""

    def __init__(self, client: Any, name: str, locks: Sequence[BaseLock[Any]]) -> None:
        self._client = client
        self._name = name
        self._locks = locks

    def _before(self, engine: Engine) -> dict[str, tuple[Hold, int]]:
        """The caller's holds, with their hold counts."""
        holds = (engine.hold(lock.name) for lock in self._locks)
        return {hold.name: (hold, hold.count) for hold in holds if hold is not None}

    def _restore(self, engine: Engine, before: dict[str, tuple[Hold, int]]) -> None:
        """Give back the acquires of a call that an exception ended. Waits for nothing."""
        for lock in self._locks:
            hold = engine.hold(lock.name)
            if hold is None:
                continue
            known, count = before.get(lock.name, (None, 0))
            if hold is known:
                hold.count = count
            else:
                engine._forget(hold)

    def _acquire_gen(self, engine: Engine, until: float) -> WaitGenerator[bool]:
        raise NotImplementedError

    def _release_gen(self, engine: Engine) -> WaitGenerator[None]:
        raise NotImplementedError


class Blocking(Holding):
    """The methods for threads."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Acquire: True, or False when the time is over. Arguments and errors as `rlock.RLock.acquire`."""
        until = self._locks[0]._until(blocking, timeout)
        engine = self._client._engine()
        before = self._before(engine)
        try:
            got: bool = engine.perform(self._acquire_gen(engine, until))
            return got
        except BaseException:
            self._restore(engine, before)
            raise

    def release(self) -> None:
        """Release. Errors as `rlock.RLock.release`."""
        engine = self._client._engine()
        engine.perform(self._release_gen(engine))

    def __enter__(self: Self) -> Self:
        assert isinstance(self, Blocking)
        engine = self._client._engine()
        before = self._before(engine)
        try:
            self.acquire()
        except BaseException:
            # Ctrl-C after the grant: `with` calls no __exit__ then, and the locks would stay held.
            self._restore(engine, before)
            raise
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        try:
            self.release()
        except RLockError as failure:
            if error is None:
                raise
            log_failed_release(failure, error)


class ForTasks(Holding):
    """The methods for tasks."""

    async def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Acquire: True, or False when the time is over. Arguments and errors as `rlock.RLock.acquire`."""
        until = self._locks[0]._until(blocking, timeout)
        engine = self._client._engine()
        before = self._before(engine)
        try:
            got: bool = await engine.perform(self._acquire_gen(engine, until))
            return got
        except BaseException:
            self._restore(engine, before)
            raise

    async def release(self) -> None:
        """Release. Errors as `rlock.RLock.release`."""
        engine = self._client._engine()
        await engine.perform(self._release_gen(engine))

    async def __aenter__(self: Self) -> Self:
        assert isinstance(self, ForTasks)
        await self.acquire()
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        try:
            await self.release()
        except RLockError as failure:
            if error is None:
                raise
            log_failed_release(failure, error)


def take(engine: Engine, options: LockOptions, until: float) -> WaitGenerator[bool]:
    """Acquire one lock, as `Engine.acquire` does."""
    key = engine.key()
    hold = engine.holds.find(key, options.name)
    if hold is not None:
        return engine.nested(hold)
    contender = Contender(key, options, until, engine.clock())
    try:
        return engine.finish(contender, got=(yield from acquire(engine, contender)))
    except BaseException as error:
        engine.give_back(contender, error)
        raise


class PackedMasters:
    """Masters whose calls `together` makes: a call yields its request, and gets its ballot."""

    def __init__(self, masters: Masters) -> None:
        self._masters = masters
        self.context = masters.context
        self.send = masters.send

    def call(
        self,
        command: Command,
        timeout: float,
        settle: Settle = Settle.VERDICT,
        targets: Sequence[int] | None = None,
        *,
        resend_for: float = 0.0,
        late: Command | None = None,
    ) -> WaitGenerator[Ballot]:
        """See `Masters.call`."""
        ballot: Ballot = yield Request(command, timeout, settle, targets, resend_for, late)
        return ballot

    def collect(self, ballots: Sequence[Ballot], until: float = math.inf) -> WaitGenerator[None]:
        """See `Masters.collect`."""
        yield self._masters.collect(ballots, until)


class Packed:
    """The engine as the port of procedures that run together."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.masters = PackedMasters(engine.masters)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def release_gen(self, hold: Hold, left: int) -> WaitGenerator[None]:
        """See `Engine.release_gen`."""
        return Engine.release_gen(self, hold, left)  # type: ignore[arg-type]

    def _give_up(self, hold: Hold) -> WaitGenerator[Outcome]:
        return release(self, hold)  # type: ignore[arg-type]


def together(masters: Masters, procedures: Sequence[WaitGenerator[Any]]) -> WaitGenerator[list[Any]]:
    """The results of procedures whose port is `Packed`; an `RLockError` in the place of a result.

    The first calls of all share one round trip, then their second calls, and so on.
    """
    results: list[Any] = [None] * len(procedures)
    answers: dict[int, Any] = dict.fromkeys(range(len(procedures)))
    try:
        while answers:
            requests: dict[int, Request] = {}
            for i, answer in answers.items():
                procedure = procedures[i]
                try:
                    failed = isinstance(answer, RLockError)
                    wanted = procedure.throw(answer) if failed else procedure.send(answer)
                    while not isinstance(wanted, Request):
                        wanted = procedure.send((yield from wanted))
                    requests[i] = wanted
                except StopIteration as stop:
                    results[i] = stop.value
                except RLockError as error:
                    results[i] = error
            if not requests:
                break
            try:
                answers = dict(
                    zip(requests, (yield from masters.call_many([*requests.values()])), strict=True)
                )
            except RLockError as error:
                answers = dict.fromkeys(requests, error)
    finally:
        # After an interrupt this sends the undo of each release that is under way.
        for procedure in procedures:
            procedure.close()
    return results
