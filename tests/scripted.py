"""One master, and the scripts of lua/ as functions on it, sent once each through a plain client."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis

from rlock.rules import keys
from rlock.rules.keys import OWN

from .servers import acl_user, raw

LUA = Path(__file__).parents[1] / "lua"
LOCK = "job"
QUEUE = keys.queue(LOCK)
FENCE = keys.fence(LOCK)
NOTE = keys.NOTE
CHANNEL = OWN.channel(LOCK)
MINE, THEIRS = "me:3", "you:1"
EVICTED = keys.evicted(LOCK, MINE)
ANNA, BEN, CARA = "anna:1|s1", "ben:1|s2", "cara:1|s3"  # waiters, each in a process of its own
LEASE_MS = 60_000
QUEUE_MS = 30_000
CLAIM_MS = 1_000
FENCE_MS = 172_800_000
#: Microseconds since 1970, as tickets are: no number of 32 bits, and one that has to come back exactly.
TICKET = 1_790_000_000_123_457
#: A fencing token to propose: the last midnight, for masters take none that is older than what they remember.
#: Tests have it in their names: it must be the same in each process that collects them.
TOKEN = int(time.time()) // 86_400 * 86_400_000_000 + 654_321

LIFE = "d0e1" * 10  # a run_id, as a server calls one of its lives

READER = "me+shared:3"  # the owner token with which MINE reads on


def owner_of(waiter: str) -> str:
    """The owner under which the lock is handed to this waiter."""
    return waiter.rpartition("|")[0]


def client_id(waiter: str) -> str:
    """The channel on which this waiter is told."""
    return f"{CHANNEL}|{waiter.rpartition('|')[2]}"


class Box:
    def __init__(self, url: str) -> None:
        self.url = url
        self.client = raw(url)
        self._others: list[Box] = []
        self._pubsub = self.client.pubsub()
        self._waiters = {CHANNEL: ""}  # by channel, the waiter that it is of

    def close(self) -> None:
        for box in (self, *self._others):
            box._pubsub.close()
            box.client.close()

    def listen(self, *waiters: str) -> None:
        """Subscribe to the channel of the lock, and to those of waiters."""
        self._waiters |= {client_id(waiter): waiter for waiter in waiters}
        self._pubsub.subscribe(*self._waiters)
        for _ in self._waiters:
            assert self._pubsub.get_message(timeout=5), "a subscription is not confirmed"

    def heard(self) -> dict[str, list[str]]:
        """Since the last call: the tokens that each waiter was told, and under "" the messages to all."""
        self.client.publish(CHANNEL, "mark")  # it spares the wait for silence
        told: dict[str, list[str]] = {}
        while message := self._pubsub.get_message(timeout=5):
            if message["data"] == "mark":
                return told
            waiter = self._waiters[message["channel"]]
            told.setdefault(waiter, []).append(message["data"].partition(" ")[0])
        raise AssertionError("the mark did not arrive")

    def restricted(self, *rules: str) -> Box:
        """Another way into the same master, for a user with these ACL rules on top of everything allowed."""
        self._others.append(Box(acl_user(self.url, "joe", "~*", "&*", "+@all", *rules)))
        return self._others[-1]

    def fill(self) -> None:
        """From here on every command that may need memory is refused; the janitor lifts that."""
        self.client.config_set("maxmemory-policy", "noeviction")
        self.client.config_set("maxmemory", "1")
        with pytest.raises(redis.OutOfMemoryError):
            self.client.set("anything", "1")

    def call(self, script: str, keys: list[str], *words: str | int) -> Any:
        source = (LUA / f"{script}.lua").read_text(encoding="utf-8")
        return self.client.eval(source, len(keys), *keys, *words)

    def acquire(
        self,
        owner: str = MINE,
        lease_ms: int | str = LEASE_MS,
        *,
        order: str = "barging",
        waiter: str = "",
        ticket: int | str = 0,
        rank: str = "last",
        token: int = TOKEN,
        guarded: bool = True,
    ) -> Any:
        words: list[str | int] = [lease_ms, FENCE_MS]
        if waiter:
            words += [order, rank, QUEUE_MS, waiter, ticket]
        elif order == "fair":
            words += [order]
        keys = [LOCK, QUEUE, FENCE, *([NOTE] if guarded else [])]
        return self.call("acquire", keys, *words, owner, token)

    def hold(self, owner: str = MINE, count: int = 2, **options: Any) -> None:
        """The lock is the owner's, with this hold count."""
        assert self.granted(owner, **options)
        assert self.renew(owner, options.get("lease_ms", LEASE_MS), count) == [1]

    def granted(self, owner: str = MINE, **options: Any) -> int:
        """The fencing token of an acquire that is granted."""
        code, holder, _, _, _, _, given, *_ = self.acquire(owner, **options)
        assert (code, holder) == (1, owner)
        assert isinstance(given, int)
        return given

    def release(
        self,
        owner: str = MINE,
        channel: str = "",
        message: str = "0",
        *,
        waiter: str = "",
        claim_ms: int = CLAIM_MS,
        reader: str = "",
        reader_ms: int = LEASE_MS,
        token: int = TOKEN,
        ban_ms: int | str = "",
    ) -> Any:
        names = [LOCK, QUEUE, FENCE, NOTE, keys.readers(LOCK)]
        words: list[str | int] = [channel, claim_ms, FENCE_MS, message]
        if reader or ban_ms != "":
            names += [_ban(owner)]
            words += [waiter, ban_ms]
        elif waiter:
            words += [waiter]
        if reader:
            words += [reader, reader_ms]
        return self.call("release", names, *words, token, owner)

    def hand_on(self, owner: str = MINE, **options: Any) -> Any:
        """A release of the ordinary kind."""
        return self.release(owner, CHANNEL, **options)

    def wait(self, waiter: str = ANNA) -> Any:
        return self.call("wait", [LOCK, QUEUE], QUEUE_MS, waiter, TICKET)

    def renew(self, owner: str = MINE, lease_ms: int = LEASE_MS, count: int = 1) -> Any:
        echo, codes, _ = self.call("renew", [LOCK, NOTE], lease_ms, owner, count)
        assert echo == owner
        return codes

    def heal(self, owner: str = MINE, lease_ms: int = LEASE_MS, count: int = 1, token: int = TOKEN) -> Any:
        keys = [LOCK, FENCE, _ban(owner), NOTE]
        echo, codes, _ = self.call("renew", keys, lease_ms, FENCE_MS, owner, count, token)
        assert echo == owner
        return codes

    def confirm(self, owner: str = MINE, lease_ms: int = LEASE_MS, token: int = TOKEN) -> Any:
        echo, codes, note = self.call("confirm", [LOCK, FENCE, NOTE], lease_ms, token, owner)
        assert (echo, note) == (owner, self.client.get(NOTE))
        return codes

    def transfer(self, owner: str = THEIRS, present: str = MINE, token: int | str = TOKEN) -> Any:
        *told, note, _ = self.call("transfer", [LOCK, FENCE, NOTE], 2, token, present, owner)
        assert note == (self.client.get(NOTE) or "")
        return told

    def fence(self, owner: str = MINE, token: int = TOKEN) -> Any:
        return self.call("fence", [LOCK, FENCE], owner, token, FENCE_MS)

    def handshake(self, run_id: str = LIFE, memory: str = "volatile", known: str = "") -> Any:
        return self.call("handshake", [NOTE], run_id, memory, known)

    def status(self, last: int = -1) -> Any:
        *told, _ = self.call("status", [LOCK, QUEUE, NOTE], last)
        return told

    def enqueue(self, *waiters: str, expiry: bool = True) -> None:
        """Places in this order, as some earlier acquires could have left them."""
        self.client.zadd(QUEUE, {waiter: TICKET + 10 * i for i, waiter in enumerate(waiters)})
        if expiry:
            self.client.pexpire(QUEUE, QUEUE_MS)

    def content(self, key: str = LOCK) -> Any:
        """The key's type and value; None for no key."""
        kind = str(self.client.type(key))
        if kind == "none":
            return None
        if kind == "zset":
            return kind, self.line()
        readers = {"hash": ("HGETALL", key), "string": ("GET", key), "list": ("LRANGE", key, 0, -1)}
        return kind, self.client.execute_command(*readers[kind])

    def fenced(self) -> tuple[int, str] | None:
        """The last fencing token, and to whom it was given."""
        found = self.client.get(FENCE)
        if found is None:
            return None
        number, _, owner = str(found).partition(" ")
        return int(number), owner

    def line(self) -> dict[str, int]:
        """Who stands in the queue, in order, with the tickets."""
        found: Any = self.client.zrange(QUEUE, 0, -1, withscores=True)
        return {waiter: int(ticket) for waiter, ticket in found}

    def waiters(self) -> list[str]:
        return [*self.line()]

    def handed_to(self, waiter: str, within_ms: int = CLAIM_MS) -> bool:
        """Whether the lock is this waiter's, once, for so long."""
        found = self.content() == ("hash", {owner_of(waiter): "1"})
        return found and within_ms - 500 < self.pttl() <= within_ms

    def time_us(self) -> int:
        seconds, micros = self.client.time()
        return int(seconds) * 1_000_000 + int(micros)

    def pttl(self, key: str = LOCK) -> int:
        """Milliseconds until it expires; -1: never, -2: no key."""
        left = self.client.pttl(key)
        assert isinstance(left, int)
        return left

    @contextmanager
    def nothing_written(self) -> Iterator[None]:
        """The server counts each change of its data; an expiry that is set again, too."""

        def seen() -> tuple[Any, ...]:
            told = self.client.info("persistence")
            return told["rdb_changes_since_last_save"], self.content(), self.content(QUEUE)

        before = seen()
        yield
        assert seen() == before

    def cost(self, call: Callable[[Box], Any]) -> Counter[str]:
        """The commands that a script runs inside, and how often."""
        self.client.config_resetstat()
        call(self)
        told = self.client.info("commandstats")
        spent = Counter({name.removeprefix("cmdstat_"): int(stat["calls"]) for name, stat in told.items()})
        assert spent.pop("eval") == 1
        del spent["config|resetstat"], spent["config"]
        return spent


def _ban(owner: str) -> str:
    return keys.evicted(LOCK, owner)
