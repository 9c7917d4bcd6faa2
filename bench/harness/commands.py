"""The commands of one acquire and one release of the lock, as the floors send them."""

from __future__ import annotations

import itertools
import os
import time

from rlock.rules import commands
from rlock.rules.keys import OWN

#: Placeholders for the values that differ from pair to pair, or from lock to lock.
LOCK, OWNER, TOKEN, TTL = "@LOCK@", "@OWNER@", "@TOKEN@", "@TTL@"
_TOKEN, _TTL_MS = 987_654_321_000_001, 987_654_321


def template() -> list[tuple[str, list[str]]]:
    """The acquire and the release: the script, and all of its EVALSHA with the marks in it.

    The same scripts, with arguments of the same shape, as a pair of `rlock.Client.lock(name)` has: a test
    compares them.
    """
    marks = {str(_TOKEN): TOKEN, str(_TTL_MS): TTL}
    acquire = commands.acquire(LOCK, OWNER, _TTL_MS, token=_TOKEN)
    release = commands.free(OWN, LOCK, OWNER, token=_TOKEN)
    return [
        (command.script.source, [marks.get(text, text) for text in command.by_sha()])
        for command in (acquire, release)
    ]


class Pairs:
    """The commands of one lock's pairs. Each has an owner of its own, as a hold has.

    With one owner for all, the script would not have to store a new fencing token: less than the lock's.
    """

    def __init__(self, name: str, ttl_ms: int) -> None:
        self._texts = [
            [text.replace(LOCK, name).replace(TTL, str(ttl_ms)) for text in arguments]
            for _, arguments in template()
        ]
        self._owners = [_places(texts, OWNER) for texts in self._texts]
        self._tokens = [_places(texts, TOKEN) for texts in self._texts]
        self._client = f"bench/{os.getpid()}/MainThread"
        self._count = itertools.count()

    def next(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The acquire and the release of a pair."""
        owner, token = f"{self._client}:{next(self._count):032x}", str(time.time_ns() // 1000)
        for texts, owners, tokens in zip(self._texts, self._owners, self._tokens, strict=True):
            for place in owners:
                texts[place] = owner
            for place in tokens:
                texts[place] = token
        return tuple(self._texts[0]), tuple(self._texts[1])


def _places(texts: list[str], mark: str) -> list[int]:
    return [place for place, text in enumerate(texts) if text == mark]
