"""The contestants: every lock that is measured, and how its worker is started."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from bench.harness import builds
from bench.harness.worker import ROOT, Worker

WORKER = ROOT / "bench" / "contestants" / "python" / "worker.py"
#: How often the tuned contestants look for a free lock.
TUNED_POLL_MS = 3.0

Family = Literal["rlock", "peer", "floor"]
Masters = Literal["one", "many"]


@dataclass(frozen=True)
class Contestant:
    """One of them. ``adapter`` is the argument that tells the environment's program which lock to use."""

    key: str
    title: str
    family: Family
    language: str
    #: "one": a lock on the first master alone; it knows no others.
    masters: Masters
    environment: str
    adapter: str
    tuned: bool = False
    #: Those in which it takes part; None: all.
    scenarios: Collection[str] | None = None
    #: Whether a waiter looks for the lock at times; else a message wakes it.
    polls: bool = False

    def start(self) -> Worker:
        """Its process. Raises `Failed` with the reason if its environment could not be built."""
        command = builds.command(self.environment)
        if self.environment == "own":
            return Worker([*command, str(WORKER), self.adapter], {"PYTHONPATH": str(ROOT)})
        if self.environment.startswith("python/"):
            # -E, -s: nothing of the project's environment or the user's reaches a peer.
            return Worker([*command, "-E", "-s", str(WORKER), self.adapter])
        return Worker([*command, self.adapter])

    def opening(self, masters: Sequence[str], ttl_ms: int) -> dict[str, Any]:
        poll_ms = TUNED_POLL_MS if self.tuned else None
        return {"masters": list(masters), "ttl_ms": ttl_ms, "poll_ms": poll_ms}


def _own(key: str, title: str, family: Family, adapter: str) -> Contestant:
    return Contestant(key, title, family, "Python", "many", "own", adapter)


def _python(key: str, title: str, masters: Masters, adapter: str, package: str = "") -> Contestant:
    """A peer that polls, in a virtualenv of its own."""
    environment = f"python/{package or key}"
    return Contestant(key, title, "peer", "Python", masters, environment, f"adapters.{adapter}", polls=True)


def _foreign(key: str, title: str, language: str, masters: Masters, adapter: str) -> Contestant:
    environment = {"JavaScript": "node", "Java": "java", "Go": "go"}[language]
    polls = language in ("JavaScript", "Go")
    return Contestant(key, title, "peer", language, masters, environment, adapter, polls=polls)


def _and_tuned(usual: Contestant) -> tuple[Contestant, Contestant]:
    return usual, replace(usual, key=f"{usual.key}-tuned", title=f"{usual.title}, tuned", tuned=True)


ALL: tuple[Contestant, ...] = (
    _own("rlock", "rlock", "rlock", "adapters.rlock_blocking:Ours"),
    _own("rlock-fair", "rlock, fair", "rlock", "adapters.rlock_blocking:Fair"),
    _own("rlock-asyncio", "rlock.asyncio", "rlock", "adapters.rlock_asyncio:OursAsyncio"),
    *_and_tuned(_python("redis-py", "redis-py Lock", "one", "redis_py:RedisPy")),
    _python("redis-py-asyncio", "redis.asyncio Lock", "one", "redis_py_asyncio:RedisPyAsyncio", "redis-py"),
    replace(
        _python("python-redis-lock", "python-redis-lock", "one", "python_redis_lock:PythonRedisLock"),
        polls=False,
    ),
    *_and_tuned(_python("sherlock", "sherlock", "one", "sherlock_redis:Sherlock")),
    *_and_tuned(_python("pottery", "pottery", "many", "pottery_redlock:Pottery")),
    *_and_tuned(_python("redlock-ng", "redlock-ng", "many", "redlock_ng:RedlockNg")),
    *_and_tuned(_python("redlock-plus", "redlock-plus", "many", "redlock_plus:RedlockPlus")),
    *_and_tuned(_foreign("node-redlock", "node-redlock", "JavaScript", "many", "redlock5")),
    _foreign("redisson-rlock", "Redisson RLock", "Java", "one", "rlock"),
    _foreign("redisson-fairlock", "Redisson FairLock", "Java", "one", "fairlock"),
    _foreign("redisson-redlock", "Redisson RedLock", "Java", "many", "redlock"),
    *_and_tuned(_foreign("redsync", "redsync", "Go", "many", "redsync")),
    # An option of redsync that does not wait for all masters: measured where that makes a difference.
    replace(
        _foreign("redsync-failfast", "redsync, fail fast", "Go", "many", "redsync-failfast"),
        scenarios=("pair", "degraded", "wide_area"),
    ),
    replace(
        _own("rlock-readers", "rlock, read-write", "rlock", "adapters.rlock_blocking:ReadWrite"),
        scenarios=("read_write",),
    ),
    replace(
        _foreign("redisson-rwlock", "Redisson RReadWriteLock", "Java", "one", "rwlock"),
        scenarios=("read_write",),
    ),
    replace(
        _python("portalocker", "portalocker RedisLock", "one", "portalocker_redis:Portalocker"),
        scenarios=("read_write",),
    ),
    _own("floor-all", "floor: fan-out, all replies", "floor", "floors.fan_out:All"),
    _own("floor-majority", "floor: bare sockets, majority", "floor", "floors.fan_out:Majority"),
)
BY_KEY = {contestant.key: contestant for contestant in ALL}


def title(key: str) -> str:
    """Its name; a document of another version may have keys that are unknown here."""
    return BY_KEY[key].title if key in BY_KEY else key


def family(key: str) -> str:
    first = key.split("-")[0]
    return first if first in ("rlock", "floor") else "peer"


def tuned(key: str) -> bool:
    """Whether it looks for the lock every few milliseconds."""
    return key.endswith("-tuned")


def order(key: str) -> int:
    return [*BY_KEY].index(key) if key in BY_KEY else len(BY_KEY)


def select(only: Collection[str] | None = None) -> list[Contestant]:
    """The contestants, all or those with these keys, in the order of the tables.

    A contestant that is named by its key takes part in every scenario.
    """
    if only is None:
        return list(ALL)
    if unknown := sorted(set(only) - set(BY_KEY)):
        raise ValueError(f"no such contestant: {', '.join(unknown)}; there are {', '.join(BY_KEY)}")
    return [replace(contestant, scenarios=None) for contestant in ALL if contestant.key in only]


def taking_part(scenario: str, contestants: Sequence[Contestant]) -> list[Contestant]:
    return [one for one in contestants if one.scenarios is None or scenario in one.scenarios]


def prepare(contestants: Sequence[Contestant]) -> dict[str, str]:
    """Build the environments of these. Returns the reasons of those that cannot run, by key."""
    reasons = builds.prepare(contestant.environment for contestant in contestants)
    return {one.key: reasons[one.environment] for one in contestants if one.environment in reasons}
