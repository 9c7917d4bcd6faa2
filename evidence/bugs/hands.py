"""Rules of a hold that changes hands, broken: the masters in memory, and real ones beside them."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

from rlock.procedures import transfer
from rlock.procedures.contender import Grant
from rlock.rules import scripts
from rlock.testing.memory.masters import Master, Reply

from .registry import bug, rewrite
from .rules import model

_STANDS = "local stands = entry[1] == owner\n"


@bug("adopted from anybody", "3.12")
def adopted_from_anybody(stack: ExitStack) -> None:
    """An adopter replaces the owner token of whoever has the lock by then."""
    rewrite(stack, scripts.TRANSFER, _STANDS, "local stands = true\npresent = entry[1]\n")

    def anybody(
        genuine: Any, self: Master, keys: Any, lease: str, count: str, token: str, *words: str
    ) -> Reply:
        waiter, present, owner = words
        held = self._holder(keys[0]) if token and self._fields(keys[0]) == 1 else None
        present = present if held is None else held[0]
        return genuine(self, keys, lease, count, token and str(10**15 * 8), waiter, present, owner)  # type: ignore[no-any-return]

    model(stack, "_transfer", anybody)


@bug("adopted by a minority", "3.12")
def adopted_by_a_minority(stack: ExitStack) -> None:
    """An adopter takes the word of one master."""
    taken = transfer.take

    def take(masters: Any, options: Any, handle: Any, owner: str) -> Any:
        grant, verdict, ballot = yield from taken(masters, options, handle, owner)
        if grant is None and ballot.granted:
            grant = Grant(owner, ballot.sent_at, token=handle.token)
        return grant, verdict, ballot

    stack.enter_context(patch.object(transfer, "take", take))


@bug("free lock adopted", "3.12")
def free_lock_adopted(stack: ExitStack) -> None:
    """An adopter takes a lock that nobody holds any more, as an acquire does."""
    old = "if fields == 0 then\n    return {0, '', 0, -2, 0, 0, 0, note, 0}\n"
    new = "if fields == 0 and token ~= '' then\n    fields = redis.call('hset', lock, present, count)\nend\n"
    rewrite(stack, scripts.TRANSFER, old, new + old)

    def taken(
        genuine: Any, self: Master, keys: Any, lease: str, count: str, token: str, *words: str
    ) -> Reply:
        if token and not self._fields(keys[0]):
            self._set(keys[0], words[1], count)
            self._pexpire(keys[0], "1000")
        return genuine(self, keys, lease, count, token, *words)  # type: ignore[no-any-return]

    model(stack, "_transfer", taken)
