"""How contestants are called in tables and plots. It needs none of their environments."""

from __future__ import annotations

from bench.harness.field import Entry, field

_FIELD: dict[str, Entry] = {entry.key: entry for entry in field()}
_ORDER: dict[str, int] = {key: place for place, key in enumerate(_FIELD)}


#: Floors of single scenarios, which are no contestants.
_OTHERS = {
    "floor-blpop": "floor: a bare BLPOP, one master",
    "floor-hand-off": "floor: message and claim, majority",
}


def title(key: str) -> str:
    """Its name; results of another version may have some that are unknown here."""
    return _FIELD[key].title if key in _FIELD else _OTHERS.get(key, key)


def alone(key: str) -> bool:
    """Whether it knows one master only."""
    return key in _FIELD and _FIELD[key].masters == "one"


def family(key: str) -> str:
    """rlock, peer or floor."""
    if key in _FIELD:
        return _FIELD[key].family
    return "floor" if key.startswith("floor") else "rlock" if key.startswith("rlock") else "peer"


def tuned(key: str) -> bool:
    """Whether it polls more often than by default."""
    return _FIELD[key].tuned if key in _FIELD else key.endswith("-tuned")


def order(key: str) -> int:
    """Its place in the field."""
    return _ORDER.get(key, len(_ORDER))
