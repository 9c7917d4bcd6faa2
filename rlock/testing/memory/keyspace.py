"""The data of a master in memory: keys that expire and subscribers, and the commands that scripts call."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from ...rules.keys import MAX_TOKEN

#: The greatest token that a script takes from a key.
MOST = 9 * 10**15
_TOKEN = re.compile(r"^(\d+) (.*)$")
NOTE = re.compile(r"^(\S*) (\d{1,16}) (\d{1,16})$")


class Subscriber(Protocol):
    """A connection that has subscribed to channels."""

    def hear(self, channel: str, payload: str) -> None:
        """Receive a message."""


class Message(NamedTuple):
    """A message that a script published, with its subscribers at that instant."""

    channel: str
    payload: str
    receivers: tuple[Subscriber, ...]


@dataclass(slots=True)
class Entry:
    """One key."""

    kind: str  # "hash", "zset", "string"; any other type was written by another program
    fields: dict[str, str] = field(default_factory=dict)
    scores: dict[str, float] = field(default_factory=dict)
    expires_ms: int | None = None
    text: str = ""


class Keyspace:
    """``time_us``: its wall clock. Keys expire by it."""

    def __init__(self, time_us: Callable[[], int]) -> None:
        self.time_us = time_us
        self.keys: dict[str, Entry] = {}
        self.subscribers: dict[str, list[Subscriber]] = {}
        #: The time does not advance within a script, as in Redis.
        self._us = 0
        self._published: list[Message] = []

    def subscribe(self, channel: str, subscriber: Subscriber) -> None:
        """SUBSCRIBE. Twice is once."""
        there = self.subscribers.setdefault(channel, [])
        if subscriber not in there:
            there.append(subscriber)

    def unsubscribe(self, channel: str, subscriber: Subscriber) -> None:
        """UNSUBSCRIBE."""
        there = self.subscribers.get(channel, [])
        if subscriber in there:
            there.remove(subscriber)
        if not there:
            self.subscribers.pop(channel, None)

    def forget(self) -> None:
        """Lose everything, as a restart without persistence does."""
        self.keys.clear()
        self.subscribers.clear()

    # -- what the scripts call ---------------------------------------------------------------------------

    def look(self, key: str) -> Entry | None:
        """A key that has not expired by now; for callers outside a script."""
        self._us = self.time_us()
        return self.find(key)

    def find(self, key: str) -> Entry | None:
        """A key that had not expired when the script began."""
        entry = self.keys.get(key)
        if entry is not None and entry.expires_ms is not None and self._us // 1000 > entry.expires_ms:
            del self.keys[key]
            return None
        return entry

    def pttl(self, key: str) -> int:
        """PTTL."""
        entry = self.find(key)
        if entry is None:
            return -2
        return -1 if entry.expires_ms is None else entry.expires_ms - self._us // 1000

    def line(self, key: str) -> list[tuple[str, float]]:
        """A queue in its order: by score, then by the bytes of the member."""
        entry = self.find(key)
        if entry is None:
            return []
        return sorted(entry.scores.items(), key=lambda item: (item[1], item[0].encode()))

    def text(self, key: str) -> str:
        """GET; empty if there is no key."""
        entry = self.find(key)
        return "" if entry is None else entry.text

    def write(self, key: str, text: str, ms: str | None = None) -> None:
        """SET, with PX or without."""
        expires_ms = None if ms is None else self._us // 1000 + int(ms)
        self.keys[key] = Entry("string", text=text, expires_ms=expires_ms)

    def _pexpire(self, key: str, ms: str) -> None:
        entry = self.find(key)
        if entry is not None:
            entry.expires_ms = self._us // 1000 + int(ms)

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

    def _last(self, fence: str) -> tuple[int, str]:
        """The last fencing token and its owner."""
        found = _TOKEN.match(self.text(fence))
        return (0, "") if found is None or int(found[1]) > MOST else (int(found[1]), found[2])

    def _stamp(self, fence: str, owner: str, proposal: str, fence_ms: str, *, anew: bool = False) -> int:
        token, given_to = self._last(fence)
        if anew or given_to != owner:
            least = int(proposal)
            if least < self._us - int(fence_ms) * 1000 or least > MAX_TOKEN:
                least = self._us
            token = max(token + 1, least)
            self._remember(fence, token, owner, fence_ms)
        return token

    def _note(self, keys: Sequence[str], index: int, lease_ms: str = "") -> bytes:
        """The note; its longest lease is at least the one that is granted now."""
        if len(keys) <= index:
            return b""
        found = NOTE.match(self.text(keys[index]))
        if lease_ms and found is not None and int(found[3]) < int(lease_ms):
            self.write(keys[index], f"{found[1]} {found[2]} {lease_ms}")
        return self.text(keys[index]).encode()

    def _remember(self, fence: str, token: int, owner: str, fence_ms: str) -> None:
        ahead_ms = max(0, token - self._us) // 1000
        self.write(fence, f"{token} {owner}", str(int(fence_ms) + ahead_ms))
