"""One master, and the scripts of lua/ as functions on it, sent once each through a plain client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import redis

from .servers import raw

LUA = Path(__file__).parents[1] / "lua"
LOCK = "job"
CHANNEL = "rlock:{job}:free"
MINE, OLDER, THEIRS = "me:3", "me:2", "you:1"
LEASE_MS = 60_000


class Box:
    """``user`` and ``password`` are of an ACL user; without them everything is allowed."""

    def __init__(self, url: str, user: str | None = None, password: str | None = None) -> None:
        self.url = url
        self.client = raw(url)
        if user is not None:
            self.client.connection_pool.connection_kwargs.update(username=user, password=password)

    def close(self) -> None:
        self.client.close()

    def call(self, script: str, keys: list[str], *words: str | int) -> Any:
        source = (LUA / f"{script}.lua").read_text(encoding="utf-8")
        return self.client.eval(source, len(keys), *keys, *words)

    def acquire(self, owner: str = MINE, lease_ms: int | str = LEASE_MS, count: int = 1) -> Any:
        return self.call("acquire", [LOCK], owner, lease_ms, count)

    def release(self, owner: str = MINE, channel: str = "", message: str = "0") -> Any:
        return self.call("release", [LOCK], owner, channel, message)

    def renew(self, owner: str = MINE, lease_ms: int = LEASE_MS, count: int = 1) -> Any:
        echo, codes = self.call("renew", [LOCK], lease_ms, owner, count)
        assert echo == owner
        return codes

    def status(self) -> Any:
        return self.call("status", [LOCK])

    def evict(self, holder: str = MINE, channel: str = CHANNEL, message: str = "0") -> Any:
        return self.call("evict", [LOCK], holder, channel, message)

    def content(self, key: str = LOCK) -> Any:
        """The key's type and value; None for no key."""
        kind = self.client.type(key)
        if kind == "none":
            return None
        readers = {"hash": ("HGETALL", key), "string": ("GET", key), "list": ("LRANGE", key, 0, -1)}
        return kind, self.client.execute_command(*readers[str(kind)])

    def pttl(self, key: str = LOCK) -> int:
        """Milliseconds until it expires; -1: never, -2: no key."""
        left = self.client.pttl(key)
        assert isinstance(left, int)
        return left

    def writes(self) -> int:
        """How often the data of the server has been changed; an expiry that is set again counts too."""
        changes = self.client.info("persistence")["rdb_changes_since_last_save"]
        assert isinstance(changes, int)
        return changes

    @contextmanager
    def nothing_written(self) -> Iterator[None]:
        before = self.writes(), self.content()
        yield
        assert (self.writes(), self.content()) == before

    def put(self, kind: str) -> None:
        """Something under the lock's name that no lock wrote; STRANGERS lists what there is."""
        if kind == "string":
            self.client.set(LOCK, "1")
        elif kind == "list":
            self.client.rpush(LOCK, MINE, "1")
        elif kind == "two fields":
            self.client.hset(LOCK, mapping={OLDER: "1", THEIRS: "1"})
        else:
            self.client.hset(LOCK, THEIRS, "not a number")


STRANGERS = ("string", "list", "two fields", "not a number")


class Ear:
    """A subscriber to the lock's channel."""

    def __init__(self, client: redis.Redis, channel: str = CHANNEL) -> None:
        self._pubsub = client.pubsub()
        self._pubsub.subscribe(channel)
        confirmed = self._pubsub.get_message(timeout=5)
        assert confirmed is not None
        assert confirmed["type"] == "subscribe"
        self._client = client

    def close(self) -> None:
        self._pubsub.close()

    def heard(self) -> list[str]:
        """All messages so far; a mark of our own behind them spares the wait for silence."""
        self._client.publish(CHANNEL, "mark")
        messages: list[str] = []
        while True:
            message = self._pubsub.get_message(timeout=5)
            assert message is not None, "the mark did not arrive"
            if message["data"] == "mark":
                return messages
            messages.append(message["data"])
