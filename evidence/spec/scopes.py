"""A case that TLC checks, and the constants from which the cases of `evidence.spec.cases` differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

#: Faults. In OLDER memory is lost in every way.
IN_ORDER = '{"flush"}'
LATE = '{"flush", "late"}'
ANY_TIME = '{"flush", "late", "handshake"}'
OLDER = '{"flush", "late", "handshake", "older"}'
EVICTED = '{"flush", "late", "handshake", "older", "evict"}'
MIXED = '{"flush", "late", "handshake", "older", "mixed"}'
SET_BACK = '{"flush", "late", "set back"}'
ALL = "{m1, m2, m3}"

#: Three masters, two clients, leases of three ticks; each acquire ends within one. 99: any number of losses.
LOCK = {
    "Masters": ALL,
    "Clients": "{c1, c2}",
    "NoOne": "NoOne",
    "Over": "Over",
    "T": "3",
    "D": "1",
    "Guard": "3",
    "Short": "{}",
    "ShortT": "0",
    "ShortD": "0",
    "ShortGuard": "0",
    "Second": "{}",
    "Drift": "0",
    "Losses": "99",
    "Durable": "{}",
    "Faults": LATE,
    "Broken": "{}",
    "Variants": "{}",
}
#: Leases of two ticks, and acquires that take none.
SMALL = {**LOCK, "T": "2", "D": "0", "Guard": "2"}
#: Leases of one tick: no lease is renewed for longer than it lasts. For the restart guard this is enough.
ONE_TICK = {**LOCK, "T": "1", "D": "0", "Guard": "1"}
FENCE = {
    "Masters": ALL,
    "Owners": "{o1, o2}",
    "Nobody": "Nobody",
    "Proposals": "{0}",
    "Rounds": "1",
    "InTurn": "FALSE",
    "Late": "TRUE",
    "MayGiveUp": "TRUE",
    "Broken": "{}",
}
MODULES: dict[str, tuple[dict[str, str], tuple[str, ...], str]] = {
    "Lock": (LOCK, ("TypeOK", "Exclusion", "NoneRevived", "NoteIsEarned"), "SYMMETRY Symmetry"),
    "Fence": (FENCE, ("TokensGrow",), "SYMMETRY Symmetry"),
}


@dataclass(frozen=True)
class Case:
    """One search. ``violates``: the invariant that it must violate; empty: none."""

    name: str
    module: str = "Lock"
    changes: Mapping[str, str] = field(default_factory=dict)
    violates: str = ""
    #: Of the shortest counter-example; 0: not fixed.
    steps: int = 0
    #: More than half a minute on two cores: with ``--full`` only.
    full: bool = False
    #: Instead of those of the module.
    invariants: tuple[str, ...] = ()
    #: Lines of the configuration, instead of those of the module.
    more: str = ""
    #: Random walks instead of a search to the end: each takes 80 steps.
    walks: int = 0


def lock(
    name: str,
    violates: str = "",
    steps: int = 0,
    *,
    full: bool = False,
    base: Mapping[str, str] = LOCK,
    **changes: str,
) -> Case:
    """A case of the lock with other constants than ``base``."""
    return Case(name, "Lock", {**base, **changes}, violates, steps, full)


def small(name: str, violates: str = "", steps: int = 0, *, full: bool = False, **changes: str) -> Case:
    """A case with leases of two ticks, and acquires that take none."""
    return lock(name, violates, steps, full=full, base=SMALL, **changes)


def one_tick(name: str, violates: str = "", steps: int = 0, *, full: bool = False, **changes: str) -> Case:
    """A case with leases of one tick, for what happens within one tick: losses, handshakes and votes."""
    return lock(f"{name}, T=1", violates, steps, full=full, base=ONE_TICK, **changes)


def variant(name: str, *forms: str, full: bool = False, **changes: str) -> Case:
    """The lock with other forms of its rules, which are safe, too."""
    chosen = ", ".join(f'"{form}"' for form in forms)
    return Case(f"variant: {name}", "Lock", {"Variants": f"{{{chosen}}}", **changes}, full=full)


def without(rule: str, steps: int, violates: str = "Exclusion", **changes: str) -> Case:
    """The lock with one rule left out: TLC must find two holders, by a way of so many steps."""
    return Case(f"without: {rule}", "Lock", {"Broken": f'{{"{rule}"}}', **changes}, violates, steps)


def fence(
    name: str,
    *broken: str,
    steps: int = 0,
    full: bool = False,
    owners: str = "{o1, o2}",
    **changes: str,
) -> Case:
    """The tokens, without the rules in ``broken``."""
    left_out = ", ".join(f'"{rule}"' for rule in broken)
    violates = "TokensGrow" if broken else ""
    return Case(
        name, "Fence", {"Owners": owners, "Broken": f"{{{left_out}}}", **changes}, violates, steps, full
    )


def reached(name: str, module: str, invariant: str, **changes: str) -> Case:
    """A state that the model must reach: the invariant says that it never does."""
    return Case(f"reached: {name}", module, changes, invariant, invariants=(invariant,))
