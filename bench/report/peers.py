"""What each lock does beside being fast, and where that is written. No figures: those are measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_COMPARED = "[comparison](comparison.md#python-libraries)"
_NODE_REDLOCK = "[its page](https://github.com/mike-marcacci/node-redlock)"
_REDSYNC = "[its page](https://github.com/go-redsync/redsync)"
_REDISSON = "[its manual](https://redisson.pro/docs/data-and-services/locks-and-synchronizers/)"


@dataclass(frozen=True)
class Facts:
    """In the words of a table. `returns`: whom an acquire waits for; `waits`: how a waiter learns of it."""

    reentrant: str
    renewed: str
    fencing: str
    returns: str
    waits: str
    source: str


_OURS = Facts("yes", "yes", "yes", "majority", "queue, handed over", "[guarantees](guarantees.md)")
_REDIS_PY = Facts("no", "by hand", "no", "its only one", "polls", _COMPARED)
_REDLOCK_NG = Facts("no", "by hand", "no", "all", "polls", _COMPARED)
_RLOCK_OF_JAVA = Facts("yes", "yes", "in `RFencedLock`", "its only one", "pub/sub", _REDISSON)

FACTS: Mapping[str, Facts] = {
    "rlock": _OURS,
    "rlock-fair": _OURS,
    "rlock-asyncio": _OURS,
    "redis-py": _REDIS_PY,
    "redis-py-asyncio": _REDIS_PY,
    "python-redis-lock": Facts("no", "optional", "no", "its only one", "BLPOP", _COMPARED),
    "redis-lock-py": Facts(
        "no",
        "by hand",
        "no",
        "its only one",
        "pub/sub",
        "[its page](https://github.com/miintto/redis-lock-py)",
    ),
    "pottery": Facts("no", "by hand, thrice", "no", "majority", "polls", _COMPARED),
    "redlock-ng": _REDLOCK_NG,
    "redlock-ng-asyncio": _REDLOCK_NG,
    "redlock-plus": Facts("in a way", "optional", "no", "all, in turn", "polls", _COMPARED),
    "aioredlock": Facts("no", "without lock_timeout", "no", "all", "polls", _COMPARED),
    "node-redlock": Facts("no", "in `using()`", "no", "majority", "polls", _NODE_REDLOCK),
    "node-redlock-4": Facts("no", "by hand", "no", "all", "polls", _NODE_REDLOCK),
    "redisson-rlock": _RLOCK_OF_JAVA,
    "redisson-fairlock": _RLOCK_OF_JAVA,
    "redisson-redlock": Facts("yes", "yes", "no", "all, in turn", "pub/sub", _REDISSON),
    "redsync": Facts("no", "by hand", "no", "all", "polls", _REDSYNC),
    "redsync-failfast": Facts("no", "by hand", "no", "majority", "polls", _REDSYNC),
}
