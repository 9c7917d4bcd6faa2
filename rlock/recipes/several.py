"""Several names: all of them or none.

One round trip asks for all names. If one is refused, the caller waits for that one, and has none of the
others. Then it asks for those. While it waits again, it keeps only names before the refused one in the
alphabet, so no callers wait in a circle. And not for long: an owner of single locks may want one of these.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

from .._client.engine import Engine
from ..base import OnLost
from ..errors import LeaseLostError, OptionsError, QuorumUnreachableError, RLockError
from ..procedures.acquire import AT_ONCE, time_for
from ..procedures.attempt import attempt
from ..procedures.contender import Contender
from ..procedures.port import WaitGenerator
from ..rules.holds import Hold
from ..rules.options import LockOptions
from ..rules.waiting import Step
from .holding import Blocking, ForTasks, Holding, Packed, together

PATIENCE_S = 0.25  # how long a caller keeps a part of its names while it waits for another one
CHECK_S = 0.1  # how often a thread that waits for `lost` checks the leases; it sends nothing


class HoldsOfAll(Holding):
    """The part that threads and tasks share."""

    def __init__(
        self, client: Any, names: Iterable[str], shared: Iterable[str], ttl: float | None, on_lost: OnLost
    ) -> None:
        for option, given in ("names", names), ("shared", shared):
            if isinstance(given, str) or not isinstance(given, Iterable):
                raise OptionsError(f"{option} must be a list, not {given!r}: client.lock takes one name")
        locks = [client.lock(name, ttl=ttl, on_lost=on_lost) for name in names]
        locks += [client.read_write_lock(name, ttl=ttl, on_lost=on_lost).reader for name in shared]
        locks.sort(key=lambda lock: lock.name)
        if not locks:
            raise OptionsError("names and shared are empty: give at least one name")
        for before, lock in pairwise(locks):
            if lock.name == before.name:
                raise OptionsError(f"{lock.name!r} stands twice in names and shared: give each name once")
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
        return self._locks[0]._signal_type(engine.holds, all_of_them, CHECK_S)

    def _acquire_gen(self, engine: Engine, until: float) -> WaitGenerator[bool]:
        on_lost, once = self._locks[0]._options.on_lost, list[Any]()
        wanted = [lock._options for lock in self._locks]
        if on_lost is not None:
            # Only the first loss calls it, and none during the acquire, which may lose a name and go on.
            wanted = [replace(each, on_lost=lambda error: once and once.pop()(error)) for each in wanted]
        # These need no master. A reader that asks for the writer is refused before anything is sent.
        beside = partial(engine.holds.beside, engine.key())
        mine = {each.name for each in wanted if engine.hold(each.hold_name) or beside(each)}
        got = yield from _acquire_all(engine, [each for each in wanted if each.name not in mine], until)
        once.append(on_lost)
        for options in wanted if got else ():
            if options.name in mine and not (yield from engine.acquire(options, AT_ONCE)):
                raise LeaseLostError(options.name, "a signal handler or a finalizer has released it")
        if got:
            self.check()  # one may be lost since
        return got

    def _release_gen(self, engine: Engine) -> WaitGenerator[None]:
        # First: all of them, or nothing is released.
        holds = [engine.held(lock._options.hold_name) for lock in self._locks]
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

    All or nothing. While it waits, the caller keeps a part of the names for a quarter of a second at most. A
    name that the caller holds already nests.
    """


class AsyncLocks(HoldsOfAll, ForTasks):
    """Several locks that a task acquires and releases as one; see `Locks`."""


def _acquire_all(engine: Engine, wanted: Sequence[LockOptions], until: float) -> WaitGenerator[bool]:
    """Acquire all names, or none. False: the time is over, and another owner had one of them."""
    kept: dict[str, Hold] = {}
    patient_until = until
    while refused := (yield from _try_all(engine, [each for each in wanted if each.name not in kept], until)):
        if kept and refused.name < max(kept):
            yield from _give_back(engine, kept)
        limit = min(until, patient_until) if kept else until
        try:
            got = yield from engine.acquire(refused.options, limit)
        except QuorumUnreachableError:
            if limit == until:
                raise
            got = False
        if not got:
            yield from _give_back(engine, kept)
            # With none of the names: otherwise such callers would pass the first one round.
            if limit == until or not (yield from engine.acquire(refused.options, until)):
                return False
        patient_until = patient_until if kept else engine.clock() + PATIENCE_S
        kept[refused.name] = engine.held(refused.options.hold_name)
    return True


def _give_back(engine: Engine, kept: dict[str, Hold]) -> WaitGenerator[None]:
    packed = Packed(engine)
    with suppress(LeaseLostError):  # it is given back all the same
        yield from together(engine.masters, [packed.release_gen(hold) for hold in kept.values()])
    kept.clear()


def _try_all(engine: Engine, wanted: Sequence[LockOptions], until: float) -> WaitGenerator[Contender | None]:
    """Ask for all names in one round trip. Returns the first one that was refused; then none is held."""
    key, packed = engine.key(), Packed(engine)
    contenders = [engine.contender(key, options, AT_ONCE) for options in wanted]
    for contender in contenders:
        if engine.taken(contender.name):
            return contender
    try:
        for contender in contenders:
            yield from engine.prepare(contender)
        attempts = [attempt(packed, one, time_for(until - engine.clock(), one.options)) for one in contenders]
        grants = yield from together(engine.masters, attempts)
        pairs = list(zip(contenders, grants, strict=True))
        refused = next((each for each, grant in pairs if grant is None), None)
        if refused is None:  # the validity of a grant may have ended meanwhile
            refused = next((each for each, grant in pairs if not engine.admit(each, grant)), None)
        for contender in contenders:
            if refused is None:
                contender.step(Step.GRANT)
                engine.finish(contender, got=True)
            else:
                contender.told_end = True  # no event: the acquire goes on
                engine.give_back(contender, RLockError("refused"))
        return refused
    except BaseException as error:
        for contender in contenders:
            engine.give_back(contender, error)
        raise
