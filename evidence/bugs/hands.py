"""Rules of a hold that changes hands, broken."""

from __future__ import annotations

from typing import Any

from rlock.procedures import transfer
from rlock.procedures.contender import Grant
from rlock.testing.memory.masters import Master

from .registry import Patches, bug


@bug("adopted from anybody", "3.12")
def adopted_from_anybody(patches: Patches) -> None:
    """An adopter replaces the owner token of whoever has the lock by then."""

    def adopt(genuine: Any, self: Master, keys: Any, lease: str, count: str, token: str, *words: str) -> Any:
        waiter, present, owner = words
        held = self._holder(keys[0]) if token and self._fields(keys[0]) == 1 else None
        present = present if held is None else held[0]
        return genuine(self, keys, lease, count, token and str(10**15 * 8), waiter, present, owner)

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

    def taken(genuine: Any, self: Master, keys: Any, lease: str, count: str, token: str, *words: str) -> Any:
        if token and not self._fields(keys[0]):
            self._set(keys[0], words[1], count)
            self._pexpire(keys[0], "1000")
        return genuine(self, keys, lease, count, token, *words)

    patches.wrap(Master, "_transfer", taken)
