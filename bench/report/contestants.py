"""Names and places of contestants in tables and plots. Needs none of their environments."""

from __future__ import annotations

from bench.harness.contestants import ALL, BY_KEY

_ORDER = {contestant.key: place for place, contestant in enumerate(ALL)}


def title(key: str) -> str:
    """Its name; a document of another version may have keys that are unknown here."""
    return BY_KEY[key].title if key in BY_KEY else key


def one_master(key: str) -> bool:
    """Whether it is a lock on one master."""
    return key in BY_KEY and BY_KEY[key].masters == "one"


def family(key: str) -> str:
    """rlock, peer or floor."""
    first = key.split("-")[0]
    return first if first in ("rlock", "floor") else "peer"


def tuned(key: str) -> bool:
    """Whether it polls more often than by default."""
    return key.endswith("-tuned")


def order(key: str) -> int:
    """Its place in the list of contestants."""
    return _ORDER.get(key, len(_ORDER))
