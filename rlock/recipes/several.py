"""Several names: all of them or none.

One round trip asks for all names. If one is refused, the caller gives back the others and waits for that one.
Otherwise two callers could wait for each other for ever. With that name it asks for the others. After another
refusal it gives all back, and pauses at random. Otherwise two crossed sets could fail in step for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from typing import Any

from .._client.engine import Engine
from ..base import OnLost
from ..errors import LeaseLostError, OptionsError, RLockError
from ..model import LeaseState
from ..procedures.acquire import AT_ONCE
from ..procedures.attempt import attempt
from ..procedures.port import WaitGenerator
from ..rules.options import LockOptions
from ..rules.waiting import Step
from .holding import Blocking, ForTasks, Holding, Packed, together

PAUSE_S, PAUSE_CAP_S = 0.005, 0.2  # the longest first pause after an incomplete set, and any; it doubles
LOOK_S = 0.1  # how often a thread that waits for `lost` looks at the leases; it sends nothing


class HoldsOfAll(Holding):
    """The part that threads and tasks share."""

    def __init__(self, client: Any, names: Iterable[str], ttl: float | None, on_lost: OnLost) -> None:
        if isinstance(names, str) or not isinstance(names, Iterable):
            raise OptionsError(f"names must be a list of names, not {names!r}: client.lock takes one name")
        locks = [client.lock(name, ttl=ttl, on_lost=on_lost) for name in names]
        locks.sort(key=lambda lock: lock.name)
        if not locks:
            raise OptionsError("names is empty: give at least one name")
        for before, lock in pairwise(locks):
            if lock.name == before.name:
                raise OptionsError(f"names has {lock.name!r} twice: give each name once")
        super().__init__(client, locks, str([lock.name for lock in locks]))

    @property
    def names(self) -> list[str]:
        """The names, sorted."""
        return [lock.name for lock in self._locks]

    @property
    def fencing_tokens(self) -> dict[str, int]:
        """The fencing token of each name, also after a loss; see `rlock.RLock.fencing_token`.

        :raises LeaseLostError: the caller does not hold all names; ``name`` says which one.
        """
        return {lock.name: lock.fencing_token for lock in self._locks}

    @property
    def lost(self) -> Any:
        """Set when one of the caller's present holds is lost; see `rlock.RLock.lost`."""
        engine, holds = self._client._engine(), self._holds()
        all_of_them = holds if len(holds) == len(self._locks) else []
        return self._locks[0]._signal_type(engine.holds, all_of_them, LOOK_S)

    def _acquire_gen(self, engine: Engine, until: float) -> WaitGenerator[bool]:
        nested, on_lost, once = self._holds(), self._locks[0]._options.on_lost, _Once()
        names = {hold.name for hold in nested}  # not looked up: a signal handler may have acquired one since
        wanted = [lock._options for lock in self._locks if lock.name not in names]
        if on_lost is not None:
            wanted = [replace(options, on_lost=once) for options in wanted]
        got = yield from _acquire_all(engine, wanted, until)
        once.on_lost = on_lost
        for hold in self._holds() if got else ():
            if hold in nested:
                if not engine.holds.nested(hold):
                    raise LeaseLostError(hold.name, "a signal handler or a finalizer has released it")
            elif engine.holds.state(hold) is LeaseState.LOST:  # while it asked for the others
                raise LeaseLostError(hold.name, hold.reason)
        return got

    def _release_gen(self, engine: Engine) -> WaitGenerator[None]:
        holds = [engine.held(lock.name) for lock in self._locks]  # first: all of them, or nothing is released
        after = {hold.name: hold.count - 1 for hold in holds if hold.count > 1}
        packed = Packed(engine)
        releases = [packed.release_gen(hold) for hold in holds]
        try:
            yield from together(engine.masters, releases)
        except BaseException:
            self._restore(after)  # otherwise names whose release had not begun would stay held
            raise


class Locks(HoldsOfAll, Blocking):
    """Several locks that a thread acquires and releases as one, made by ``client.locks([...])``.

    All or nothing: while it waits, the caller keeps none of the names that it did not have before. A name
    that the caller holds already nests.
    """


class AsyncLocks(HoldsOfAll, ForTasks):
    """Several locks that a task acquires and releases as one; see `Locks`."""


class _Once:
    """The callback of all names of one acquire: only the first loss after its return calls it."""

    def __init__(self) -> None:
        self.on_lost: OnLost = None  # not during the acquire: it may lose a name, and go on

    def __call__(self, error: LeaseLostError) -> object:
        on_lost, self.on_lost = self.on_lost, None
        return None if on_lost is None else on_lost(error)


def _acquire_all(engine: Engine, wanted: Sequence[LockOptions], until: float) -> WaitGenerator[bool]:
    """Acquire all names, or none. False: the time is over, and another owner had one of them."""
    pause, refused = PAUSE_S, (yield from _try_all(engine, wanted))
    while refused is not None:
        if not (yield from engine.acquire(refused, until)):
            return False
        kept = engine.held(refused.name)
        refused = yield from _try_all(engine, [each for each in wanted if each.name != kept.name])
        if refused is None:
            return True
        with suppress(LeaseLostError):  # it is given back all the same
            yield from engine.release_gen(kept)
        left = until - engine.clock()
        if left <= 0:
            return False
        yield from engine.runtime.sleep(min(engine.context.random.uniform(0.0, pause), left))
        pause = min(2 * pause, PAUSE_CAP_S)
    return True


def _try_all(engine: Engine, wanted: Sequence[LockOptions]) -> WaitGenerator[LockOptions | None]:
    """Ask for all names in one round trip. Returns the first name that was refused; then none is held."""
    for options in wanted:
        if engine.taken(options.name):
            return options
    key, packed = engine.key(), Packed(engine)
    contenders = [engine.contender(key, options, AT_ONCE) for options in wanted]
    try:
        for contender in contenders:
            yield from engine.prepare(contender)
        attempts = [attempt(packed, each, each.options.lease.request_timeout) for each in contenders]
        grants = yield from together(engine.masters, attempts)
        pairs = list(zip(contenders, grants, strict=True))
        refused = next((each for each, grant in pairs if grant is None), None)
        if refused is None:  # but the validity of one may have ended meanwhile
            refused = next((each for each, grant in pairs if not engine.admit(each, grant)), None)
        for contender in contenders:
            if refused is None:
                contender.step(Step.GRANT)
                engine.finish(contender, got=True)
            else:
                contender.told_end = True  # no event: the acquire goes on
                engine.give_back(contender, RLockError("refused"))
        return None if refused is None else refused.options
    except BaseException as error:
        for contender in contenders:
            engine.give_back(contender, error)
        raise
