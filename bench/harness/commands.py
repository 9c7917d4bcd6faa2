"""What one acquire and one release of the lock send to each master: what the floors send, too."""

from __future__ import annotations

from rlock.rules import scripts

#: As long as those of real owners.
OWNER = "bench-host/12345/MainThread:" + "0" * 32

#: What the floor in C puts in their place: the name of the lock, and the lease.
LOCK, TTL = "@LOCK@", "@TTL@"


def pair(name: str, ttl_ms: int) -> tuple[scripts.Command, scripts.Command]:
    """The same scripts with arguments of the same shape as those of `rlock.Client.lock(name)`."""
    return scripts.acquire(name, OWNER, ttl_ms), scripts.release(name, OWNER)


def template() -> bytes:
    """The pair for a program that cannot import it: for each command the script, then all of its EVALSHA.

    Each text stands behind its length, the arguments behind their number.
    """
    unlikely_ms = 987_654_321
    out = b""
    for command in pair(LOCK, unlikely_ms):
        arguments = [TTL if text == str(unlikely_ms) else text for text in command.by_sha()]
        out += _text(command.script.source) + b"%d\n" % len(arguments)
        out += b"".join(map(_text, arguments))
    return out


def _text(text: str) -> bytes:
    return b"%d\n%b\n" % (len(text.encode()), text.encode())
