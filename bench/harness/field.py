"""The field: every contestant, and how it is started."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from bench.harness import environments
from bench.harness.contestant import ROOT, Contestant, Failed

WORKER = ROOT / "bench" / "contestants" / "python" / "worker.py"
#: How often the tuned ones look for a free lock.
TUNED_POLL_MS = 3.0


@dataclass(frozen=True)
class Entry:
    """One contestant. ``adapter`` is the argument that tells the environment's program which one."""

    key: str
    title: str
    family: Literal["rlock", "peer", "floor"]
    language: str
    #: "one": a lock on the first master alone; it knows no others.
    masters: Literal["one", "many"]
    tuned: bool
    environment: str
    adapter: str
    #: Those in which it takes part; None: all.
    scenarios: Collection[str] | None = None
    #: Whether one that waits looks for the lock at times; else it is told of a release.
    polls: bool = False

    @property
    def poll_ms(self) -> float | None:
        """What `open` is to be asked with."""
        return TUNED_POLL_MS if self.tuned else None

    def start(self) -> Contestant:
        """Its process. Raises `Failed` with the reason if its environment could not be made."""
        command = environments.made(self.environment)
        if self.environment == "own":
            return Contestant([*command, str(WORKER), self.adapter], {"PYTHONPATH": str(ROOT)})
        if self.environment.startswith("python/"):
            # -E, -s: nothing of the project's environment or the user's reaches a peer.
            return Contestant([*command, "-E", "-s", str(WORKER), self.adapter])
        return Contestant([*command, self.adapter])

    def open(self, masters: Sequence[str], ttl_ms: int, timeout: float = 30.0) -> Contestant:
        """Its process, connected to the masters. What it said of itself is in `opened` of the contestant."""
        contestant = self.start()
        try:
            contestant.ask("open", timeout, **self.opening(masters, ttl_ms))
        except BaseException:
            contestant.close()
            raise
        return contestant

    def opening(self, masters: Sequence[str], ttl_ms: int) -> dict[str, Any]:
        """The fields of its `open` request."""
        return {"masters": list(masters), "ttl_ms": ttl_ms, "poll_ms": self.poll_ms}


def _own(key: str, title: str, family: Literal["rlock", "floor"], adapter: str) -> Entry:
    return Entry(key, title, family, "Python", "many", False, "own", adapter)


def _c(key: str, title: str, adapter: str) -> Entry:
    return Entry(key, title, "floor", "C", "many", False, "c", adapter)


def _peer(
    key: str,
    title: str,
    language: str,
    masters: Literal["one", "many"],
    environment: str,
    adapter: str,
    tuned: bool = False,
    scenarios: Collection[str] | None = None,
    polls: bool = True,
) -> list[Entry]:
    usual = Entry(key, title, "peer", language, masters, False, environment, adapter, scenarios, polls)
    return [usual, replace(usual, key=f"{key}-tuned", title=f"{title}, tuned", tuned=True)][: 1 + tuned]


ALL: tuple[Entry, ...] = (
    _own("rlock", "rlock", "rlock", "adapters.rlock_blocking:Ours"),
    _own("rlock-fair", "rlock, fair", "rlock", "adapters.rlock_blocking:Fair"),
    _own("rlock-asyncio", "rlock.asyncio", "rlock", "adapters.rlock_asyncio:OursAsyncio"),
    *_peer(
        "redis-py", "redis-py Lock", "Python", "one", "python/redis-py", "adapters.redis_py:RedisPy", True
    ),
    *_peer(
        "redis-py-asyncio",
        "redis.asyncio Lock",
        "Python",
        "one",
        "python/redis-py",
        "adapters.redis_py_asyncio:RedisPyAsyncio",
    ),
    *_peer(
        "python-redis-lock",
        "python-redis-lock",
        "Python",
        "one",
        "python/python-redis-lock",
        "adapters.python_redis_lock:PythonRedisLock",
        polls=False,
    ),
    *_peer(
        "redis-lock-py",
        "redis-lock-py",
        "Python",
        "one",
        "python/redis-lock-py",
        "adapters.redis_lock_py:RedisLockPy",
        polls=False,
    ),
    *_peer(
        "pottery", "pottery", "Python", "many", "python/pottery", "adapters.pottery_redlock:Pottery", True
    ),
    *_peer(
        "redlock-ng",
        "redlock-ng",
        "Python",
        "many",
        "python/redlock-ng",
        "adapters.redlock_ng:RedlockNg",
        True,
    ),
    *_peer(
        "redlock-ng-asyncio",
        "redlock-ng, asyncio",
        "Python",
        "many",
        "python/redlock-ng",
        "adapters.redlock_ng:RedlockNgAsyncio",
    ),
    *_peer(
        "redlock-plus",
        "redlock-plus",
        "Python",
        "many",
        "python/redlock-plus",
        "adapters.redlock_plus:RedlockPlus",
        True,
    ),
    *_peer(
        "aioredlock",
        "aioredlock",
        "Python",
        "many",
        "python/aioredlock",
        "adapters.aio_redlock:AioRedlock",
        True,
    ),
    *_peer("node-redlock", "node-redlock", "JavaScript", "many", "node", "redlock5", True),
    # What `npm install redlock` gives. In what takes long to measure one of the two releases is enough.
    *_peer(
        "node-redlock-4",
        "node-redlock 4",
        "JavaScript",
        "many",
        "node",
        "redlock4",
        True,
        ("pair", "contention", "wake_up"),
    ),
    *_peer("redisson-rlock", "Redisson RLock", "Java", "one", "java", "rlock", polls=False),
    *_peer("redisson-fairlock", "Redisson FairLock", "Java", "one", "java", "fairlock", polls=False),
    *_peer("redisson-redlock", "Redisson RedLock", "Java", "many", "java", "redlock", polls=False),
    *_peer("redsync", "redsync", "Go", "many", "go", "redsync", True),
    # An option of it, for those who do not want to wait for all masters: where that makes a difference.
    *_peer(
        "redsync-failfast",
        "redsync, fail fast",
        "Go",
        "many",
        "go",
        "redsync-failfast",
        scenarios=("pair", "degraded", "wide_area"),
    ),
    _own("floor-all", "floor: fan-out, all replies", "floor", "floors.fan_out:All"),
    _own("floor-majority", "floor: bare sockets, majority", "floor", "floors.fan_out:Majority"),
    _c("floor-c", "floor: C with hiredis, all replies", "all"),
    _c("floor-c-majority", "floor: C with hiredis, majority", "majority"),
)


def field(only: Collection[str] | None = None) -> list[Entry]:
    """The contestants, all or those with these keys, in the order of the tables.

    Who is asked for by its key takes part in every scenario.
    """
    if only is None:
        return list(ALL)
    known = {entry.key for entry in ALL}
    if unknown := sorted(set(only) - known):
        raise ValueError(
            f"no such contestant: {', '.join(unknown)}; there are {', '.join(e.key for e in ALL)}"
        )
    return [replace(entry, scenarios=None) for entry in ALL if entry.key in only]


def of(scenario: str, entries: Sequence[Entry]) -> list[Entry]:
    """Those that take part in it."""
    return [entry for entry in entries if entry.scenarios is None or scenario in entry.scenarios]


def prepare(entries: Sequence[Entry]) -> dict[str, str]:
    """Build the environments of these. Returns the reasons of those that cannot run, by key."""
    reasons = environments.prepare(entry.environment for entry in entries)
    return {entry.key: reasons[entry.environment] for entry in entries if entry.environment in reasons}


__all__ = ["ALL", "Entry", "Failed", "field", "of", "prepare"]
