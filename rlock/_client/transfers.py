"""Transfers: the two ends of a hold that changes hands, for the locks of both drivers."""

from collections.abc import Mapping
from typing import Any

from ..errors import NOT_HERE, OptionsError, RLockError
from ..procedures.acquire import AT_ONCE
from ..procedures.port import WaitGenerator
from ..procedures.transfer import adopt, handle_of
from ..rules import commands
from ..rules.handles import MAX_CHARACTERS, Handle
from ..rules.keys import MAX_TOKEN, hold_name


def detach_gen(lock: Any, ttl: float | None) -> WaitGenerator[str]:
    engine, name = lock._client._engine(), lock.name
    hold = engine.held(lock._options.hold_name)
    if (reader := engine.holds.find(hold.owner_key, hold_name(name, shared=True))) is not None:
        why = "a reader" if reader is hold else "the caller holds the reader, too, which"
        raise OptionsError(f"lock {name!r} was not detached: {why} cannot change hands; release it first")
    ttl = hold.lease.ttl if ttl is None else lock._client._options.kept("ttl", ttl)
    if engine.interrupted():
        raise RLockError(f"lock {name!r} was not detached: {NOT_HERE}")
    began = engine.clock()
    handle = handle_of(engine.context, hold, max(ttl, hold.rest(began)))
    if len(handle._replace(mark=MAX_TOKEN).text()) > MAX_CHARACTERS:
        most = f"a handle has {MAX_CHARACTERS} characters at the most: shorten its name"
        raise OptionsError(f"lock {name!r} was not detached: {most}")
    # close() undoes it: nobody else has the handle before the caller.
    owners, acquiring = [handle.owner], engine.under_way.acquiring
    acquiring[id(owners)] = lock._options, owners
    try:
        outcome = yield from engine._release_held(hold, handle)
        if outcome is None or engine.holds.closed:
            raise RLockError(f"lock {name!r} was not detached, but released: the client was closed")
        acquiring.pop(id(owners))
        engine._report_release(hold, began, outcome)
        return handle._replace(mark=hold.mark).text()
    except BaseException:
        # Nobody gets the handle, which has the rest of the hold's lease at first.
        free = commands.free(engine.context.wire, name, handle.owner)
        engine.masters.send(free, resend_for=max(handle.lease_ms / 1000, hold.lease.ttl))
        if not engine.holds.closed:
            acquiring.pop(id(owners), None)
        raise


def adopt_gen(client: Any, text: str, options: Mapping[str, Any]) -> WaitGenerator[Any]:
    engine = client._engine()
    handle = Handle.parse(text, len(client.masters))
    lock, key = client.lock(handle.name, **options), engine.key()
    if engine.holds.find(key, lock.name) is not None:
        raise RLockError(f"lock {lock.name!r} was not adopted: the caller has to release a hold of it first")
    contender = engine.contender(key, lock._options, AT_ONCE)
    try:
        yield from adopt(engine, contender, handle)
        engine.finish(contender, got=True)
    except BaseException as error:
        engine.give_back(contender, error)
        raise
    return lock
