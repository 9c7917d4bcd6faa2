"""Which keys of a master are locks: names out of keys, owners out of fields, patterns as Redis has them."""

from __future__ import annotations

import re
from collections.abc import Callable

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


def queues(pattern: str) -> str:
    """A pattern for the keys of the queues of all locks that ``pattern`` matches, and of some more."""
    return f"{_OWN}[{{:]{pattern}*:queue"


def _text(key: bytes) -> str | None:
    # 14 bytes more for what surrounds the name in the key of a queue.
    if not key or len(key) > MAX_NAME_BYTES + 14:
        return None
    try:
        return key.decode()
    except UnicodeDecodeError:
        return None  # no name of a lock: names are text


def matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a name matches a pattern of KEYS and SCAN: ``*``, ``?``, ``[abc]``, ``[^a-c]``, ``\\x``.

    What is odd in a pattern is taken as the servers take it: a bracket that nobody closes ends with it.
    """
    found, i, pattern = "", 0, _bytes(pattern)
    while i < len(pattern):
        c = pattern[i]
        i += 1
        if c == "*":
            # Runs of stars would take a regular expression for ever.
            found += "" if found.endswith(".*") else ".*"
        elif c == "?":
            found += "."
        elif c == "[":
            told, i = _bracket(pattern, i)
            found += told
        else:
            if c == "\\" and i < len(pattern):
                c = pattern[i]
                i += 1
            found += re.escape(c)
    regex = re.compile(found, re.DOTALL)
    return lambda name: regex.fullmatch(_bytes(name)) is not None


def _bytes(text: str) -> str:
    # One character for each byte: that is what a question mark stands for on a server.
    return text.encode().decode("latin-1")


def _bracket(pattern: str, i: int) -> tuple[str, int]:
    """One character out of a set, and where the set ends."""
    negated = pattern[i : i + 1] == "^"
    i += negated
    parts = ""
    while i < len(pattern) and pattern[i] != "]":
        if pattern[i] == "\\" and i + 1 < len(pattern):
            parts += re.escape(pattern[i + 1])
            i += 2
        elif pattern[i + 1 : i + 2] == "-" and i + 2 < len(pattern):
            low, high = sorted((pattern[i], pattern[i + 2]))
            parts += f"{re.escape(low)}-{re.escape(high)}"
            i += 3
        else:
            parts += re.escape(pattern[i])
            i += 1
    if not parts:
        return ("." if negated else "(?!)"), i + 1
    return f"[{'^' if negated else ''}{parts}]", i + 1
