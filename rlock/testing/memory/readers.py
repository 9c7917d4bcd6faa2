"""The part of the model of a master that is about readers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...rules.keys import READERS, is_shared
from ...rules.timing import MAX_TTL_S
from .keyspace import Keyspace

#: Places in which a reader looks for an exclusive waiter ahead of it, as in lua/acquire.lua.
LOOKED_AT = 100


class Readers(Keyspace):
    """Shared holds: the deadlines of the readers, and the readers in the queue."""

    def _reads(self, readers: str, owner: str) -> bool:
        entry = self.find(readers)
        return entry is not None and entry.scores.get(owner, -1.0) >= self._us // 1000

    def _add_reader(self, readers: str, owner: str, lease_ms: str) -> None:
        self._zadd(readers, float(self._us // 1000 + int(lease_ms)), owner)

    def _remove_reader(self, readers: str, owner: str) -> int:
        there = owner in dict(self.line(readers))
        self._zrem(readers, owner)
        return int(there)

    def _drop_ended(self, readers: str) -> None:
        for owner, until_ms in self.line(readers):
            if until_ms < self._us // 1000:
                self._zrem(readers, owner)

    def _expire_readers(self, lock: str, readers: str) -> bool:
        """Let both keys end with the last lease. False: there is no reader."""
        day_ms = self._us // 1000 + round(MAX_TTL_S * 1000)
        line = [(owner, until_ms) for owner, until_ms in self.line(readers) if until_ms <= day_ms]
        if line:
            rest_ms = str(int(line[-1][1]) - self._us // 1000)
            self._pexpire(readers, rest_ms)
            self._pexpire(lock, rest_ms)
        return bool(line)

    def _ahead(self, queue: str, waiter: str, rank: str, ticket: str, channel: str) -> str | None:
        """The exclusive waiter ahead of a reader. ``channel``: dead ones are removed."""
        for other, score in self.line(queue)[:LOOKED_AT]:
            if other == waiter or (rank == "kept" and score >= float(ticket)):
                return None
            if not is_shared(other):
                if not channel or self._publish(channel + _client(other), "") > 0:
                    return other
                self._zrem(queue, other)
        return None

    def _join(self, lock: str, queue: str, readers: str, owner: str, lease_ms: str, waiter: str) -> None:
        self._add_reader(readers, owner, lease_ms)
        self._drop_ended(readers)
        self._set(lock, READERS, "0")
        self._expire_readers(lock, readers)
        self._zrem(queue, waiter)

    def _invite(
        self, queue: str, readers: str, channel: str, owner: str, claim_ms: str, left: int
    ) -> tuple[int, int]:
        """Invite the readers at the head of the queue: how many hear it, and how many more may be passed."""
        invited = 0
        while left and (first := self._first(queue)) is not None and is_shared(first):
            left -= 1
            self._zrem(queue, first)
            to, bar, _ = first.rpartition("|")
            if bar and to != owner and self._publish(channel + _client(first), to) > 0:
                invited += 1
                self._add_reader(readers, to, claim_ms)
        return invited, left

    def _readers(
        self, keys: Sequence[str], lease_ms: str, fence_ms: str, task: str, *leases: str
    ) -> list[Any]:
        codes = []
        locks = len(leases) // 2
        for i in range(locks):
            lock, fence, evicted, readers = keys[4 * i : 4 * i + 4]
            owner, token = leases[2 * i : 2 * i + 2]
            entry = self.find(lock)
            reading = entry is not None and entry.kind == "hash" and READERS in entry.fields
            code = 0 if entry is None else -1
            if reading:
                code = int(self._reads(readers, owner))
            if code == 0 and task == "heal":
                code = -1 if self.find(evicted) is not None else 2
            if code > 0:
                self._add_reader(readers, owner, lease_ms)
                self._drop_ended(readers)
                if not reading:
                    self._set(lock, READERS, "0")
                self._expire_readers(lock, readers)
            if code == 2 and self._last(fence)[0] < int(token):
                self._remember(fence, int(token), owner, fence_ms)
            codes.append(code)
        changed = lease_ms if max(codes) > 0 else ""
        return [leases[0].encode(), codes, self._note(keys, 4 * locks, changed)]

    def _with_readers(self, reply: list[Any], readers: str) -> list[Any]:
        line = self.line(readers)
        listed = [word.encode() for owner, until_ms in line[:1000] for word in (owner, str(int(until_ms)))]
        return [*reply[:2], len(line), *reply[3:], listed]

    def _joins(self, queue: str, channel: str) -> bool:
        """Whether the next waiter may join the readers, as in lua/wait.lua."""
        first = self._first(queue)
        if first is None or is_shared(first):
            return first is not None
        if self._publish(channel + _client(first), "") > 0:
            return False
        self._zrem(queue, first)
        return True


def _client(place: str) -> str:
    _, bar, client_id = place.rpartition("|")
    return bar + client_id if bar else ""
