"""Several names: all of them or none.

1. One round trip asks for all names. If one is refused, those that were won are given back (`_try_all`).
2. The caller waits for the refused name, and keeps nothing meanwhile. Otherwise two callers could wait for
   each other for ever.
3. With that name, one round trip asks for the others. If one is refused, the caller gives all back, and goes
   on with 2. A random pause comes first. Otherwise two crossed sets could fail in step for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from .._client.engine import Engine
from ..clock import Clock
from ..errors import LeaseLostError, OptionsError, RLockError
from ..model import LeaseState
from ..procedures.acquire import AT_ONCE
from ..procedures.attempt import attempt
from ..procedures.contender import Contender, take_back
from ..procedures.port import WaitGenerator
from ..rules.holds import Hold
from ..rules.options import LockOptions
from ..rules.waiting import Step
from .holding import Blocking, ForTasks, Holding, Packed, take, together

#: The first pause after a set that was not complete is up to this long; each further one up to twice as long.
PAUSE_S = 0.005
PAUSE_CAP_S = 0.2
#: How often a thread that waits for `lost` looks at the leases. It sends nothing.
LOOK_S = 0.1


class HoldsOfAll(Holding):
    """The part that threads and tasks share."""

    def __init__(
        self,
        client: Any,
        names: Iterable[str],
        ttl: float | None,
        on_lost: Callable[[LeaseLostError], object] | None,
    ) -> None:
        if isinstance(names, str):
            raise OptionsError(f"names must be a list of names, not the one name {names!r}: use client.lock")
        locks = [client.lock(name, ttl=ttl, on_lost=on_lost) for name in names]
        locks.sort(key=lambda lock: lock.name)
        if not locks:
            raise OptionsError("names is empty: give at least one name")
        for i, lock in enumerate(locks[1:]):
            if lock.name == locks[i].name:
                raise OptionsError(f"names has {lock.name!r} twice: give each name once")
        super().__init__(client, locks[0].name, locks)

    @property
    def names(self) -> list[str]:
        """The names, sorted."""
        return [lock.name for lock in self._locks]

    @property
    def fencing_tokens(self) -> dict[str, int]:
        """The fencing token of each name, see `rlock.RLock.fencing_token`.

        :raises LeaseLostError: the caller does not hold all names; ``name`` says which one.
        """
        return {lock.name: lock.fencing_token for lock in self._locks}

    def is_owned(self) -> bool:
        """Whether the caller holds all names with validity left, at this moment. No network."""
        return self.remaining() > 0.0

    def remaining(self) -> float:
        """Seconds of validity left for all names, the least of them; 0.0 when one is not held. No network."""
        return min(lock.remaining() for lock in self._locks)

    def check(self) -> None:
        """Raise `LeaseLostError` unless the caller holds all names with validity left. No network.

        :raises LeaseLostError: ``name`` and ``reason`` say which name is lost, and why.
        """
        for lock in self._locks:
            lock.check()

    @property
    def lost(self) -> Any:
        """Set when one of the caller's present holds is lost; see `rlock.RLock.lost`."""
        engine: Engine = self._client._engine()
        holds = [hold for lock in self._locks if (hold := engine.hold(lock.name)) is not None]
        complete = len(holds) == len(self._locks)
        return self._locks[0]._signal_type(_Weakest(holds, engine.clock) if complete else None, engine.clock)

    def _acquire_gen(self, engine: Engine, until: float) -> WaitGenerator[bool]:
        options = [lock._options for lock in self._locks]
        on_lost = options[0].on_lost
        if on_lost is not None:
            once = _Once(on_lost)
            options = [replace(each, on_lost=once) for each in options]
        wanted = [each for each in options if engine.hold(each.name) is None]
        if not (yield from _acquire_all(engine, wanted, until)):
            return False
        for each in options:
            if each not in wanted and (hold := engine.hold(each.name)) is not None:
                engine.nested(hold)
        return True

    def _release_gen(self, engine: Engine) -> WaitGenerator[None]:
        # First: without one of the names nothing is released.
        holds = [engine.held(lock.name) for lock in self._locks]
        packed = Packed(engine)
        procedures = [packed.release_gen(hold, hold.count - 1) for hold in holds]
        for error in (yield from together(engine.masters, procedures)):
            if isinstance(error, RLockError):
                raise error

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.names!r}>"


class Locks(HoldsOfAll, Blocking):
    """Several locks that a thread acquires and releases as one, made by ``client.locks([...])``.

    All or nothing: while it waits, the caller keeps none of the names that it did not have before. A name
    that the caller holds already nests.
    """


class AsyncLocks(HoldsOfAll, ForTasks):
    """Several locks that a task acquires and releases as one; see `Locks`."""


class _Once:
    """The callback of all names of one acquire: the first loss is told, the others are not."""

    def __init__(self, on_lost: Callable[[LeaseLostError], object]) -> None:
        self._on_lost: Callable[[LeaseLostError], object] | None = on_lost

    def __call__(self, error: LeaseLostError) -> object:
        on_lost, self._on_lost = self._on_lost, None
        return None if on_lost is None else on_lost(error)


class _Weakest:
    """The leases of all names as one, for a loss signal: it needs the ``lease`` of a hold only."""

    state = LeaseState.HELD

    def __init__(self, holds: Sequence[Hold], clock: Clock) -> None:
        self._holds = holds
        self._clock = clock
        self.lease = self

    def state_at(self, now: float) -> LeaseState:
        lost = any(hold.lease.state_at(now) is LeaseState.LOST for hold in self._holds)
        return LeaseState.LOST if lost else LeaseState.HELD

    @property
    def valid_until(self) -> float:
        ends = min(hold.lease.valid_until for hold in self._holds)
        return min(ends, self._clock() + LOOK_S)


def _acquire_all(engine: Engine, wanted: Sequence[LockOptions], until: float) -> WaitGenerator[bool]:
    """Acquire all names, or none. False: the time is over, and another owner had one of them."""
    context, pause = engine.context, PAUSE_S
    refused = yield from _try_all(engine, wanted)
    while refused is not None:
        if not (yield from take(engine, refused, until)):
            return False
        others = [each for each in wanted if each is not refused]
        following = yield from _try_all(engine, others)
        if following is None:
            return True
        kept = engine.hold(refused.name)
        if kept is not None:
            try:
                yield from engine.release_gen(kept, 0)
            except LeaseLostError:
                pass  # it is given back all the same
        left = until - engine.clock()
        if left <= 0:
            return False
        yield from engine.runtime.sleep(min(context.random.uniform(0.0, pause), left))
        refused, pause = following, min(2 * pause, PAUSE_CAP_S)
    return True


def _try_all(engine: Engine, wanted: Sequence[LockOptions]) -> WaitGenerator[LockOptions | None]:
    """Ask for all names in one round trip. Returns the first name that was refused; then none is held."""
    for options in wanted:
        if engine.taken(options.name):
            return options
    key, began_at, packed = engine.key(), engine.clock(), Packed(engine)
    contenders = [Contender(key, options, AT_ONCE, began_at) for options in wanted]
    try:
        for contender in contenders:
            yield from engine.prepare(contender)
        attempts = [attempt(packed, each, each.options.lease.request_timeout) for each in contenders]  # type: ignore[arg-type]
        grants = yield from together(engine.masters, attempts)
        refused: LockOptions | None = None
        for contender, grant in zip(contenders, grants, strict=True):
            if isinstance(grant, RLockError):
                raise grant
            if grant is None and refused is None:
                refused = contender.options
        if refused is None:
            for contender, grant in zip(contenders, grants, strict=True):
                if not engine.admit(contender, grant):
                    refused = contender.options  # its validity has ended meanwhile
                    break
        for contender in contenders:
            if refused is None:
                contender.step(Step.GRANT)
                engine.finish(contender, got=True)
            else:
                _undo(engine, contender)
        return refused
    except BaseException as error:
        for contender in contenders:
            engine.give_back(contender, error)
        raise


def _undo(engine: Engine, contender: Contender) -> None:
    hold = engine.holds.find(contender.key, contender.name)
    if hold is not None and hold.owner in contender.owners:
        engine._forget(hold)
    take_back(engine, contender)
    engine.under_way.acquiring.pop(id(contender.owners), None)
