"""Rules of a hold that changes hands, broken."""

from __future__ import annotations

from typing import Any

from rlock._client import closing, engine, transfers
from rlock.procedures import transfer
from rlock.procedures.contender import Grant
from rlock.testing.memory.masters import Master

from .registry import Patches, bug


@bug("adopted from anybody", "3.12")
def adopted_from_anybody(patches: Patches) -> None:
    """An adopter replaces the owner token of whoever has the lock by then."""

    def adopt(genuine: Any, self: Master, keys: Any, count: str, mark: str, present: str, owner: str) -> Any:
        held = self._holder(keys[0]) if mark and self._fields(keys[0]) == 1 else None
        present = present if held is None else held[0]
        return genuine(self, keys, count, mark and str(10**15 * 8), present, owner)

    patches.wrap(Master, "_transfer", adopt)


@bug("adopted by a minority", "3.12")
def adopted_by_a_minority(patches: Patches) -> None:
    """An adopter takes the word of one master."""

    def take(taken: Any, masters: Any, options: Any, handle: Any, owner: str) -> Any:
        grant, verdict, ballot = yield from taken(masters, options, handle, owner)
        if grant is None and ballot.granted:
            grant = Grant(owner, ballot.sent_at, token=handle.token)
        return grant, verdict, ballot

    patches.wrap(transfer, "take", take)


@bug("free lock adopted", "3.12")
def free_lock_adopted(patches: Patches) -> None:
    """An adopter takes a lock that nobody holds any more, as an acquire does."""

    def taken(genuine: Any, self: Master, keys: Any, count: str, mark: str, present: str, owner: str) -> Any:
        if mark and not self._fields(keys[0]):
            self._set(keys[0], present, count)
            self._pexpire(keys[0], "1000")
        return genuine(self, keys, count, mark, present, owner)

    patches.wrap(Master, "_transfer", taken)


@bug("place kept by a detach", "3.12")
def place_kept_by_a_detach(patches: Patches) -> None:
    """A detach did not pass on the lock where a master had handed it to the holder's place in the queue. It
    stayed taken there for the claim time."""

    def detach(genuine: Any, port: Any, hold: Any, handle: Any) -> Any:
        waiter, hold.waiter = hold.waiter, ""
        try:
            return (yield from genuine(port, hold, handle))
        finally:
            hold.waiter = waiter

    patches.wrap(engine, "detach", detach)


@bug("closed while it detaches", "3.12")
def closed_while_it_detaches(patches: Patches) -> None:
    """A client that was closed in the middle of a detach undid no handle that nobody had. The lock stayed
    taken until the end of its lease."""
    detaching: set[str] = set()

    def handle_of(genuine: Any, *args: Any) -> Any:
        handle = genuine(*args)
        detaching.add(handle.owner)
        return handle

    def undo(genuine: Any, masters: Any, options: Any, owner: str) -> None:
        if owner not in detaching:
            genuine(masters, options, owner)

    patches.wrap(transfers, "handle_of", handle_of)
    patches.wrap(closing, "undo", undo)
