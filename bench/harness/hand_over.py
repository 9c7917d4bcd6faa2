"""A lock that goes from one process to another process that waits for it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from .turns import PATIENCE_S, Runner

#: How long the waiter may wait: less than the patience with its reply.
WAIT_MS = 10_000


class HandOver(NamedTuple):
    """Of the holder's acquire; and from its call of release to the return of the waiter's acquire."""

    acquire_ns: int
    hand_off_ns: int


@dataclass(eq=False)
class Pair:
    """A holder and a waiter of one contestant."""

    holder: Runner
    waiter: Runner
    error: str | None = None

    @property
    def runs(self) -> bool:
        return self.holder.runs and self.waiter.runs

    def hand_over(self, lock: str, wait_s: float) -> HandOver | None:
        """The holder releases when the waiter has waited for this time. None: it failed, or never waited."""
        acquired = self.holder.ask("acquire", lock=lock, wait_ms=WAIT_MS)
        if acquired is None:
            return None
        self.waiter.send("acquire", lock=lock, wait_ms=WAIT_MS)
        time.sleep(wait_s)
        self.holder.send("release", lock=lock)
        # The waiter's reply first: reading the holder's would take a core from the waiter.
        got = self.waiter.answer(PATIENCE_S)
        released = self.holder.answer()
        if released is None or got is None:
            return None
        if not acquired["acquired"] or not got["acquired"]:
            self.error = f"TimeoutError: not acquired within {WAIT_MS / 1000:g} s"
            return None
        self.waiter.ask("release", lock=lock)
        if got["asked"] >= released["began"]:
            return None
        return HandOver(acquired["entered"] - acquired["asked"], got["entered"] - released["began"])


def pairs_of(runners: Sequence[Runner]) -> list[Pair]:
    """Each two runners that follow each other belong together."""
    return [Pair(holder, waiter) for holder, waiter in zip(runners[::2], runners[1::2], strict=True)]
