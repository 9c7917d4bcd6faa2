"""A model of one master: what the scripts of lua/ do, on a dictionary, with a clock that is given.

tests/simulation/test_model.py compares it with real servers. Left out: errors that a server raises inside a
script (ACL, maxmemory), and keys of ours that hold another type than ours.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from ...rules.scripts import Command
from .keyspace import Keyspace, Message

Reply = list[Any]
_NOT_A_LOCK: Reply = [-2, b"", 0, -1]
_TOKEN = re.compile(r"^(\d+) (.*)$")
_MARKER = re.compile(r"^(\S*) (\d+) (\d+)$")


class Master(Keyspace):
    """``time_us`` is its wall clock: it tells it, and it expires keys by it."""

    def __init__(self, time_us: Callable[[], int]) -> None:
        super().__init__(time_us)
        self._scripts: dict[str, Callable[..., Reply]] = {
            "acquire": self._acquire,
            "release": self._release,
            "renew": self._renew,
            "status": self._status,
            "wait": self._wait,
            "heal": self._heal,
            "fence": self._fence,
            "mark": self._mark,
        }

    def run(self, command: Command) -> tuple[Reply, list[Message]]:
        """The raw reply, as hiredis would read it, and what was published."""
        _, _, numkeys, *rest = command.by_sha()
        count = int(numkeys)
        return self.call(command.script.name, rest[:count], rest[count:])

    def call(self, script: str, keys: Sequence[str], words: Sequence[str]) -> tuple[Reply, list[Message]]:
        """The same for a script by its name."""
        self._published = []
        self._us = self.time_us()
        reply = self._scripts[script](keys, *words)
        return reply, self._published

    def _last(self, fence: str) -> tuple[int, str]:
        """The last fencing token, and to whom it was given."""
        found = _TOKEN.match(self.text(fence))
        return (0, "") if found is None else (int(found[1]), found[2])

    def _stamp(self, fence: str, owner: str, proposal: str, fence_ms: str) -> int:
        token, given_to = self._last(fence)
        if given_to != owner:
            token = max(token + 1, int(proposal) or self._us)
            self.write(fence, f"{token} {owner}", fence_ms)
        return token

    def _marker(self, keys: Sequence[str], index: int) -> bytes:
        return self.text(keys[index]).encode() if len(keys) > index else b""

    # -- the scripts, each as its file reads -------------------------------------------------------------

    def _acquire(
        self,
        keys: Sequence[str],
        owner: str,
        lease_ms: str,
        proposal: str,
        fence_ms: str,
        count: str = "1",
        order: str = "barging",
        waiter: str = "",
        ticket: str = "",
        rank: str = "",
        queue_ms: str = "",
        told: str = "",
    ) -> Reply:
        lock, queue, fence = keys[:3]
        marker = self._marker(keys, 3)
        fields = self._fields(lock)
        found = self._holder(lock) if fields == 1 else ("", 0)
        if fields not in (0, 1) or found is None:
            return [*_NOT_A_LOCK, 0, 0, 0, marker, 0]
        holder, held = found
        if fields and holder == owner:
            self._pexpire(lock, lease_ms)
            token = self._stamp(fence, owner, proposal, fence_ms)
            return [1, owner.encode(), held, int(lease_ms), 0, 0, token, marker, 0]
        handed = holder != "" and waiter.startswith(f"{holder}|")
        first = self._first(queue) if not fields and order == "fair" else None
        if handed or (not fields and first in (None, waiter)):
            token = self._stamp(fence, owner, proposal, fence_ms)
            self.keys.pop(lock, None)
            self._set(lock, owner, count)
            self._pexpire(lock, lease_ms)
            self._zrem(queue, waiter)
            return [1, owner.encode(), int(count), int(lease_ms), 0, 0, token, marker, 0]
        code, ttl_ms = (-1, self.pttl(lock)) if fields else (-3, 0)
        if told == "brief" and ttl_ms > 0:
            ttl_ms += -ttl_ms % 10
        holder = holder or first or ""
        if waiter == "" or ticket == "":
            return [code, holder.encode(), held, ttl_ms, 0, 0, 0, marker, 0]
        time_us = self._us
        entry = self.find(queue)
        place = None if entry is None else entry.scores.get(waiter)
        if place is None or rank == "kept":
            place = float(time_us if ticket == "0" else ticket)
            if entry is not None and rank == "last":
                place = max(place, max(entry.scores.values()) + 1)
            self._zadd(queue, place, waiter)
        self._pexpire(queue, queue_ms)
        length = len(self.line(queue))
        if told == "brief":
            time_us, length = (time_us if ticket == "0" else 0), 0
        return [code, holder.encode(), held, ttl_ms, int(place), time_us, 0, marker, length]

    def _release(
        self,
        keys: Sequence[str],
        owner: str,
        channel: str,
        message: str,
        claim_ms: str,
        waiter: str = "",
        heir: str = "",
        under: str = "",
        heir_ms: str = "",
        order: str = "",
        proposal: str = "",
        fence_ms: str = "",
        ban_ms: str = "",
    ) -> Reply:
        lock, queue = keys[:2]
        if ban_ms != "":
            self.write(keys[3], owner, ban_ms)
        if waiter != "":
            self._zrem(queue, waiter)
        fields = self._fields(lock)
        if fields < 0:
            return [*_NOT_A_LOCK, 0]
        holders = self.keys[lock].fields if fields else {}
        held = owner in holders or (waiter != "" and _token(waiter) in holders)
        if held:
            del self.keys[lock]
        elif fields:
            found = self._holder(lock) if fields == 1 else None
            if found is None:
                return [*_NOT_A_LOCK, 0]
            return [-1, found[0].encode(), found[1], self.pttl(lock), 0]
        elif owner != "":
            return [0, b"", 0, -2, 0]
        code = 1 if held else 0
        if channel == "":
            return [code, owner.encode(), 0, 0, 0]
        if heir != "" and (order == "barging" or self._first(queue) in (None, heir)):
            token = self._stamp(keys[2], under, proposal, fence_ms)
            self._give(lock, under, heir_ms)
            self._zrem(queue, heir)
            return [code, owner.encode(), 1, int(heir_ms), token]
        while claim_ms == "0" and (first := self._first(queue)) is not None:
            if "|" in first and self._publish(f"{channel}|{first.rpartition('|')[2]}", "") > 0:
                break
            self._zrem(queue, first)
        while claim_ms != "0" and (first := self._first(queue)) is not None:
            self._zrem(queue, first)
            if "|" not in first:
                continue
            self._give(lock, _token(first), claim_ms)
            told = self._publish(f"{channel}|{first.rpartition('|')[2]}", _token(first))
            if told > 0:
                return [code, owner.encode(), told, 0, 0]
            del self.keys[lock]
        if message == "":
            return [code, owner.encode(), 0, 0, 0]
        return [code, owner.encode(), self._publish(channel, message), 0, 0]

    def _give(self, lock: str, holder: str, lease_ms: str) -> None:
        self._set(lock, holder, "1")
        self._pexpire(lock, lease_ms)

    def _renew(self, keys: Sequence[str], lease_ms: str, *leases: str) -> Reply:
        codes = []
        locks = len(leases) // 2
        for lock, owner, count in zip(keys[:locks], leases[::2], leases[1::2], strict=True):
            entry = self.find(lock)
            if entry is not None and entry.kind == "hash" and owner in entry.fields:
                entry.fields[owner] = count
                self._pexpire(lock, lease_ms)
                codes.append(1)
            else:
                codes.append(0 if entry is None else -1)
        return [leases[0].encode(), codes, self._marker(keys, locks)]

    def _heal(self, keys: Sequence[str], lease_ms: str, fence_ms: str, *leases: str) -> Reply:
        codes = []
        locks = len(leases) // 3
        for i in range(locks):
            lock, fence, evicted = keys[3 * i : 3 * i + 3]
            owner, count, token = leases[3 * i : 3 * i + 3]
            entry = self.find(lock)
            if entry is not None and entry.kind == "hash" and owner in entry.fields:
                self._pexpire(lock, lease_ms)
                codes.append(1)
            elif entry is not None or self.text(evicted) == owner:
                codes.append(-1)
            else:
                self._set(lock, owner, count)
                self._pexpire(lock, lease_ms)
                codes.append(2)
                if self._last(fence)[0] < int(token):
                    self.write(fence, f"{token} {owner}", fence_ms)
        return [leases[0].encode(), codes, self._marker(keys, 3 * locks)]

    def _fence(self, keys: Sequence[str], owner: str, token: str, fence_ms: str) -> Reply:
        last, given_to = self._last(keys[0])
        if last > int(token) or (last == int(token) and given_to != owner):
            return [-1, owner.encode(), 0, 0, last]
        if last < int(token):
            self.write(keys[0], f"{token} {owner}", fence_ms)
        return [1, owner.encode(), 0, 0, int(token)]

    def _mark(self, keys: Sequence[str], life: str, age_us: str, max_ttl_ms: str) -> Reply:
        found = _MARKER.match(self.text(keys[0]))
        since, longest = None, 0
        if found is not None and found[1] == life:
            since, longest = int(found[2]), int(found[3])
        if age_us == "":
            since, longest = 0, 0
        elif since is None:
            since = max(1, self._us - int(age_us))
        note = f"{life} {since} {max(longest, int(max_ttl_ms))}"
        self.write(keys[0], note)
        return [1, note.encode(), 0, 0]

    def _status(self, keys: Sequence[str], last: str) -> Reply:
        lock, queue = keys
        fields = self._fields(lock)
        found = self._holder(lock) if fields == 1 else None
        if fields not in (0, 1) or (fields == 1 and found is None):
            return [*_NOT_A_LOCK, 0, []]
        line = self.line(queue)
        told = line if last == "-1" else line[: int(last) + 1]
        waiters = [word.encode() for member, score in told for word in (member, str(int(score)))]
        if found is None:
            return [0, b"", 0, -2, len(line), waiters]
        return [1, found[0].encode(), found[1], self.pttl(lock), len(line), waiters]

    def _wait(self, keys: Sequence[str], waiter: str, ticket: str, queue_ms: str) -> Reply:
        lock, queue = keys
        fields = self._fields(lock)
        found = self._holder(lock) if fields == 1 else None
        if fields not in (0, 1) or (fields == 1 and found is None):
            return list(_NOT_A_LOCK)
        if found is None or not waiter.startswith(f"{found[0]}|"):
            self._zadd(queue, float(ticket), waiter)
            self._pexpire(queue, queue_ms)
        if found is None:
            return [0, b"", 0, -2]
        return [1, found[0].encode(), found[1], self.pttl(lock)]


def _token(place: str) -> str:
    return place.rpartition("|")[0]
