"""A model of one master: what the scripts of lua/ do, on a dictionary, with a clock that is given.

`test_model.py` compares it with real servers. Left out, because no simulation meets it: errors that a server
raises inside a script (ACL, maxmemory), a queue's key that holds another type, NOSCRIPT.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from rlock.rules.scripts import Command


class Subscriber(Protocol):
    """A connection that listens."""

    def hear(self, channel: str, payload: str) -> None: ...


class Message(NamedTuple):
    """What a script published, and who listened at that instant; nobody, perhaps."""

    channel: str
    payload: str
    receivers: tuple[Subscriber, ...]


@dataclass
class Entry:
    """One key."""

    kind: str  # "hash", "zset"; anything else is a stranger's
    fields: dict[str, str] = field(default_factory=dict)
    scores: dict[str, float] = field(default_factory=dict)
    expires_ms: int | None = None


Reply = list[Any]
_NOT_A_LOCK: Reply = [-2, b"", 0, -1]


class Master:
    """``time_us`` is its wall clock: it tells it, and it expires keys by it."""

    def __init__(self, time_us: Callable[[], int]) -> None:
        self.time_us = time_us
        self.keys: dict[str, Entry] = {}
        self.subscribers: dict[str, list[Subscriber]] = {}
        self._published: list[Message] = []
        self._scripts: dict[str, Callable[..., Reply]] = {
            "acquire": self._acquire,
            "release": self._release,
            "renew": self._renew,
            "status": self._status,
            "wait": self._wait,
        }

    def run(self, command: Command) -> tuple[Reply, list[Message]]:
        """The raw reply, as hiredis would read it, and what was published."""
        _, _, numkeys, *rest = command.by_sha()
        keys, words = rest[: int(numkeys)], rest[int(numkeys) :]
        return self.call(command.script.name, keys, words)

    def call(self, script: str, keys: Sequence[str], words: Sequence[str]) -> tuple[Reply, list[Message]]:
        self._published = []
        reply = self._scripts[script](list(keys), *words)
        return reply, self._published

    def subscribe(self, channel: str, subscriber: Subscriber) -> None:
        there = self.subscribers.setdefault(channel, [])
        if subscriber not in there:
            there.append(subscriber)

    def unsubscribe(self, channel: str, subscriber: Subscriber) -> None:
        there = self.subscribers.get(channel, [])
        if subscriber in there:
            there.remove(subscriber)
        if not there:
            self.subscribers.pop(channel, None)

    def forget(self) -> None:
        """What a restart without memory leaves of it."""
        self.keys.clear()
        self.subscribers.clear()

    # -- what the scripts call ---------------------------------------------------------------------------

    def find(self, key: str) -> Entry | None:
        """A key that has not expired."""
        entry = self.keys.get(key)
        if entry is not None and entry.expires_ms is not None and self._now_ms() > entry.expires_ms:
            del self.keys[key]
            return None
        return entry

    def pttl(self, key: str) -> int:
        entry = self.find(key)
        if entry is None:
            return -2
        return -1 if entry.expires_ms is None else entry.expires_ms - self._now_ms()

    def line(self, key: str) -> list[tuple[str, float]]:
        """A queue in its order: by score, then by the bytes of the member."""
        entry = self.find(key)
        if entry is None:
            return []
        return sorted(entry.scores.items(), key=lambda item: (item[1], item[0].encode()))

    def _now_ms(self) -> int:
        return self.time_us() // 1000

    def _pexpire(self, key: str, ms: str) -> None:
        entry = self.find(key)
        if entry is not None:
            entry.expires_ms = self._now_ms() + int(ms)

    def _set(self, key: str, owner: str, count: str) -> None:
        entry = self.find(key)
        if entry is None:
            entry = self.keys[key] = Entry("hash")
        entry.fields[owner] = count

    def _fields(self, key: str) -> int:
        """HLEN; -1 for another type."""
        entry = self.find(key)
        if entry is None:
            return 0
        return len(entry.fields) if entry.kind == "hash" else -1

    def _holder(self, key: str) -> tuple[str, int] | None:
        """The one field of a lock; None if its value is no number."""
        ((owner, count),) = self.keys[key].fields.items()
        return (owner, int(count)) if count.lstrip("-").isdigit() else None

    def _first(self, key: str) -> str | None:
        entry = self.find(key)
        if entry is None:
            return None
        scores = entry.scores
        return min(scores, key=lambda member: (scores[member], member.encode()))

    def _zadd(self, key: str, score: float, member: str) -> None:
        entry = self.find(key)
        if entry is None:
            entry = self.keys[key] = Entry("zset")
        entry.scores[member] = score

    def _zrem(self, key: str, member: str) -> None:
        entry = self.find(key)
        if entry is not None and entry.scores.pop(member, None) is not None and not entry.scores:
            del self.keys[key]

    def _publish(self, channel: str, payload: str) -> int:
        receivers = tuple(self.subscribers.get(channel, ()))
        self._published.append(Message(channel, payload, receivers))
        return len(receivers)

    # -- the scripts, each as its file reads -------------------------------------------------------------

    def _acquire(
        self,
        keys: list[str],
        owner: str,
        lease_ms: str,
        count: str,
        order: str,
        waiter: str,
        ticket: str,
        rank: str,
        queue_ms: str,
    ) -> Reply:
        lock, queue = keys
        fields = self._fields(lock)
        if fields not in (0, 1):
            return [*_NOT_A_LOCK, 0, 0]
        found = self._holder(lock) if fields else ("", 0)
        if found is None:
            return [*_NOT_A_LOCK, 0, 0]
        holder, held = found
        if fields and holder == owner:
            self._pexpire(lock, lease_ms)
            return [1, owner.encode(), held, int(lease_ms), 0, 0]
        handed = holder != "" and waiter.startswith(f"{holder}|")
        first = self._first(queue) if not fields and order == "fair" else None
        if handed or (not fields and first in (None, waiter)):
            self.keys.pop(lock, None)
            self._set(lock, owner, count)
            self._pexpire(lock, lease_ms)
            self._zrem(queue, waiter)
            return [1, owner.encode(), int(count), int(lease_ms), 0, 0]
        code, ttl_ms = (-1, self.pttl(lock)) if fields else (-3, 0)
        holder = holder or first or ""
        if waiter == "" or ticket == "":
            return [code, holder.encode(), held, ttl_ms, 0, 0]
        time_us = self.time_us()
        entry = self.find(queue)
        place = None if entry is None else entry.scores.get(waiter)
        if place is None or rank == "kept":
            place = float(time_us if ticket == "0" else ticket)
            if entry is not None and rank == "last":
                place = max(place, max(entry.scores.values()) + 1)
            self._zadd(queue, place, waiter)
        self._pexpire(queue, queue_ms)
        return [code, holder.encode(), held, ttl_ms, int(place), time_us]

    def _release(
        self,
        keys: list[str],
        owner: str,
        waiter: str,
        channel: str,
        claim_ms: str,
        heir: str,
        under: str,
        heir_ms: str,
        order: str,
        message: str,
    ) -> Reply:
        lock, queue = keys
        if waiter != "":
            self._zrem(queue, waiter)
        fields = self._fields(lock)
        if fields < 0:
            return list(_NOT_A_LOCK)
        holders = self.keys[lock].fields if fields else {}
        held = owner in holders or (waiter != "" and _token(waiter) in holders)
        if held:
            del self.keys[lock]
        elif fields:
            found = self._holder(lock) if fields == 1 else None
            if found is None:
                return list(_NOT_A_LOCK)
            return [-1, found[0].encode(), found[1], self.pttl(lock)]
        elif owner != "":
            return [0, b"", 0, -2]
        code = 1 if held else 0
        if channel == "":
            return [code, owner.encode(), 0, 0]
        if heir != "" and (order == "barging" or self._first(queue) in (None, heir)):
            self._give(lock, under, heir_ms)
            self._zrem(queue, heir)
            return [code, owner.encode(), 1, int(heir_ms)]
        while (first := self._first(queue)) is not None:
            self._zrem(queue, first)
            self._give(lock, _token(first), claim_ms)
            told = self._publish(f"{channel}|{first.rpartition('|')[2]}", _token(first))
            if told > 0:
                return [code, owner.encode(), told, 0]
            del self.keys[lock]
        if message == "":
            return [code, owner.encode(), 0, 0]
        return [code, owner.encode(), self._publish(channel, message), 0]

    def _give(self, lock: str, holder: str, lease_ms: str) -> None:
        self._set(lock, holder, "1")
        self._pexpire(lock, lease_ms)

    def _renew(self, keys: list[str], lease_ms: str, *leases: str) -> Reply:
        codes = []
        for lock, owner, count in zip(keys, leases[::2], leases[1::2], strict=True):
            entry = self.find(lock)
            if entry is not None and entry.kind == "hash" and owner in entry.fields:
                entry.fields[owner] = count
                self._pexpire(lock, lease_ms)
                codes.append(1)
            else:
                codes.append(0 if entry is None else -1)
        return [leases[0].encode(), codes]

    def _status(self, keys: list[str], last: str) -> Reply:
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

    def _wait(self, keys: list[str], waiter: str, ticket: str, queue_ms: str) -> Reply:
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
