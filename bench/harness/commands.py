"""What one acquire and one release of the lock send to each master: what the floors send, too."""

from __future__ import annotations

from rlock.rules import scripts

#: As long as those of real owners.
OWNER = "bench-host/12345/MainThread:" + "0" * 32


def pair(name: str, ttl_ms: int) -> tuple[scripts.Command, scripts.Command]:
    """The same scripts with arguments of the same shape as those of `rlock.Client.lock(name)`."""
    return scripts.acquire(name, OWNER, ttl_ms), scripts.release(name, OWNER)
