"""Which keys of a master are locks: names out of keys."""

from __future__ import annotations

from ...rules.keys import queue
from ...rules.options import MAX_NAME_BYTES

_OWN = "rlock:"


def lock_of(key: bytes) -> str | None:
    """The name of the lock whose hash this may be."""
    name = _text(key)
    return None if name is None or name.startswith(_OWN) else name


def waited_for(key: bytes) -> str | None:
    """The name of the lock whose queue this is; the reverse of `rules.keys.queue`."""
    text, end = _text(key), ":queue"
    if text is None or not (text.startswith(_OWN) and text.endswith(end)):
        return None
    inside = text[len(_OWN) : -len(end)]
    name = inside[1:] if inside.startswith(":") else inside[1:-1]
    return name if name and queue(name) == text else None


def queues(pattern: str) -> tuple[str, str]:
    """Patterns for the queues of all locks that ``pattern`` matches: names without and with a brace."""
    return f"{_OWN}{{{pattern}}}:queue", f"{_OWN}:{pattern}:queue"


def _text(key: bytes) -> str | None:
    # 14 bytes more for what surrounds the name in the key of a queue.
    if not key or len(key) > MAX_NAME_BYTES + 14:
        return None
    try:
        return key.decode()
    except UnicodeDecodeError:
        return None  # no name of a lock: names are text
