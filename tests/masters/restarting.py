"""What the tests of the restart guard and of healing share."""

from __future__ import annotations

from typing import Any

import rlock
from rlock.rules.timing import guard_time

from ..servers import Fleet

#: Short, so that a test can wait for the end of it; long enough that a renewal can be late.
TTL = 2.0
GUARD = guard_time(TTL)


def a_client(fleet: Fleet, **options: Any) -> rlock.Client:
    return rlock.Client(fleet.urls, TTL, max_ttl=TTL, **options)


def holders(client: rlock.Client, name: str = "x") -> list[str | None]:
    return [master.holder for master in client.status(name).masters]


def refused(lock: rlock.RLock, **how: Any) -> bool:
    """Not granted: somebody has it, or a master that may have had the holder's vote has lost its memory."""
    try:
        return not lock.acquire(**how)
    except rlock.QuorumUnreachableError:
        return True


def everywhere(client: rlock.Client, name: str = "x") -> bool:
    """Whether one holder has all masters."""
    found = set(holders(client, name))
    return len(found) == 1 and None not in found
