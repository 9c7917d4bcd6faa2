"""Masters of the simulation: the in-memory ones of the package, and those that break a rule on purpose."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rlock.testing.memory import masters
from rlock.testing.memory.masters import Reply

#: Rules of safety that masters break on purpose, by the names of evidence/sabotage.py.
BROKEN: set[str] = set()
INCREMENT, INCR_TOKENS, RELEASE_ANYBODY = "increment", "INCR + max tokens", "release without owner check"
LIFE_NOT_COMPARED, NO_NOTE_IS_OLD = "life not compared", "no note is old"
ALL = (INCREMENT, INCR_TOKENS, RELEASE_ANYBODY, LIFE_NOT_COMPARED, NO_NOTE_IS_OLD)


@contextmanager
def broken(rule: str) -> Iterator[None]:
    """Masters break a rule until the end of the block, if it is one of theirs."""
    if rule in ALL:
        BROKEN.add(rule)
    try:
        yield
    finally:
        BROKEN.discard(rule)


class Master(masters.Master):
    """One that keeps the rules, but for those in ``BROKEN``."""

    def _stamp(self, fence: str, owner: str, proposal: str, fence_ms: str, *, anew: bool = False) -> int:
        if INCR_TOKENS in BROKEN and self._last(fence)[1] != owner:
            token = self._last(fence)[0] + 1
            self.write(fence, f"{token} {owner}", fence_ms)
            return token
        return super()._stamp(fence, owner, proposal, fence_ms, anew=anew)

    def _handshake(self, keys: Sequence[str], run_id: str, memory: str, known: str) -> Reply:
        note = self.text(keys[0])
        if LIFE_NOT_COMPARED in BROKEN and note and memory in ("volatile", "durable"):
            return [1, note.encode(), 0, 0, self._us]
        reply = super()._handshake(keys, run_id, memory, known)
        if NO_NOTE_IS_OLD in BROKEN and not note:
            self.write(keys[0], f"{run_id} 1 0")
            reply[1] = self.text(keys[0]).encode()
        return reply

    def _acquire(self, keys: Sequence[str], *words: str) -> Reply:
        owner = words[-2]
        again = self._holds(keys[0], owner)
        reply = super()._acquire(keys, *words)
        if INCREMENT in BROKEN and again:
            self._add(keys[0], owner, 1)
        return reply

    def _release(self, keys: Sequence[str], *words: str) -> Reply:
        *options, _, owner = words
        lock, waiter, ban_ms = keys[0], "".join(options[4:5]), "".join(options[5:6])
        if RELEASE_ANYBODY in BROKEN and owner != "" and self._fields(lock) > 0:
            self.keys[lock].fields = {owner: "1"}
        if INCREMENT in BROKEN and self._holds(lock, owner) and self._add(lock, owner, -1) >= 1:
            if ban_ms != "":
                self.write(keys[4], owner, ban_ms)
            if waiter != "":
                self._zrem(keys[1], waiter)
            return [1, owner.encode(), 0, 0, 0]
        return super()._release(keys, *words)

    def _holds(self, lock: str, owner: str) -> bool:
        return self._fields(lock) > 0 and owner in self.keys[lock].fields

    def _add(self, lock: str, owner: str, number: int) -> int:
        """HINCRBY."""
        fields = self.keys[lock].fields
        fields[owner] = str(int(fields[owner]) + number)
        return int(fields[owner])
