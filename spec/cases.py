"""What TLC checks: the rules in several scopes, each rule left out in turn, and what the models can do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

#: Three masters, two clients, leases of three ticks; each acquire ends within one.
LOCK = {
    "Masters": "{m1, m2, m3}",
    "Clients": "{c1, c2}",
    "NoOne": "NoOne",
    "Over": "Over",
    "T": "3",
    "D": "1",
    "Guard": "3",
    "Drift": "0",
    "Losses": "2",
    "Durable": "{}",
    "Faults": '{"flush"}',
    "Broken": "{}",
}
FENCE = {
    "Masters": "{m1, m2, m3}",
    "Owners": "{o1, o2}",
    "Nobody": "Nobody",
    "Proposals": "{0}",
    "Rounds": "1",
    "InTurn": "FALSE",
    "Late": "TRUE",
    "Broken": "{}",
}
MODULES: dict[str, tuple[dict[str, str], tuple[str, ...], str]] = {
    "Lock": (LOCK, ("TypeOK", "Exclusion", "NoneRevived"), "SYMMETRY Symmetry"),
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
    #: More than a minute on two cores: with ``--full`` only.
    full: bool = False
    #: Instead of those of the module.
    invariants: tuple[str, ...] = ()


def lock(name: str, violates: str = "", steps: int = 0, *, full: bool = False, **changes: str) -> Case:
    """A case of the lock with other constants than ``LOCK``."""
    return Case(name, "Lock", changes, violates, steps, full)


def small(name: str, violates: str = "", *, full: bool = False, **changes: str) -> Case:
    """A case with leases of two ticks, and acquires that take none."""
    return Case(name, "Lock", {"T": "2", "D": "0", "Guard": "2", **changes}, violates, 0, full)


def without(rule: str, steps: int, violates: str = "Exclusion", **changes: str) -> Case:
    """The lock with one rule left out: TLC must find two holders, by a way of so many steps."""
    return Case(f"without: {rule}", "Lock", {"Broken": f'{{"{rule}"}}', **changes}, violates, steps)


#: Memory is lost in every way, and handshakes come at any time.
LATE = '{"flush", "late", "handshake"}'
OLDER = '{"flush", "late", "handshake", "older"}'
ALL = "{m1, m2, m3}"

SAFE = (
    lock("as designed"),
    small("as designed, T=2, any number of losses", Losses="99"),
    lock("commands outlive restarts", T="3", Losses="1", Faults='{"flush", "late"}'),
    lock("commands outlive restarts, two losses", Faults='{"flush", "late"}', full=True),
    small("any loss, handshake at any time", Losses="1", Faults=OLDER),
    small("any two losses, handshake at any time", Faults=OLDER, full=True),
    lock("any loss, T=3", Losses="1", Faults=OLDER, full=True),
    small("one durable master", full=True, Losses="1", Faults=OLDER, Durable="{m1}"),
    small("all masters durable", full=True, Losses="1", Faults=OLDER, Durable=ALL),
    small("the note is evicted", Losses="1", Faults=OLDER[:-1] + ', "evict"}', full=True),
    small("remains of dead attempts", Losses="1", Faults='{"flush", "late", "remains"}'),
    lock("clocks of clients lose a tick", Losses="1", Drift="1", D="0", full=True),
    lock("clocks of clients lose a tick, no loss", Losses="0", Drift="1", D="1"),
    small("three clients", Losses="1", Clients="{c1, c2, c3}"),
    lock("T=4", T="4", Guard="4", Losses="1"),
    lock("T=4, D=2", T="4", D="2", Guard="4", Losses="1", full=True),
    small("five masters", Losses="1", Masters="{m1, m2, m3, m4, m5}", full=True),
    Case("tokens, two owners", "Fence"),
    Case("tokens, two owners, two rounds", "Fence", {"Rounds": "2", "Proposals": "{0, 3}"}, full=True),
    Case("tokens, three in turn", "Fence", {"Owners": "{o1, o2, o3}", "InTurn": "TRUE"}, full=True),
)

BROKEN = (
    without("3.1 quorum", 4),
    without("3.1 stamp before sending", 9),
    without("3.1 drift", 9, Drift="1", D="0", Losses="0"),
    without("3.4 release checks the owner", 7, Faults='{"flush", "remains"}'),
    without("3.5 before the old validity ends", 14, "NoneRevived"),
    lock("without: 3.6 guard", "Exclusion", 7, Guard="0", Faults='{"flush", "late"}'),
    lock("without: 3.6 guard of a whole lease", "Exclusion", 9, Guard="2", Faults='{"flush", "late"}'),
    without("3.6 look", 7, Faults=LATE),
    without("3.6 no note is young", 7, Faults=LATE),
    without("3.6 judged by this note", 11, Faults=LATE),
    without("3.6 handshake", 10, Faults=OLDER, Losses="1"),
    without("3.6 foreign note", 11, Faults=OLDER, Losses="1"),
    without("3.6 first use needs a clean server", 16, Faults=LATE),
    without("3.6 durable needs a note", 11, Faults=LATE, Durable=ALL),
    without("3.6 successor", 15),
    without("3.7 healed votes wait", 13),
    without("3.7 young yes waits", 14),
    without("3.7 limit D", 13),
    without("3.7 less, not equal", 13),
    Case(
        "without: 3.8 proposals and one token from a quorum",
        "Fence",
        {"Broken": '{"one token from a quorum", "a proposal above the own counter"}'},
        "TokensGrow",
        8,
    ),
    Case(
        "without: 3.8 an equal token of the same owner only",
        "Fence",
        {"Broken": '{"an equal token of the same owner only"}'},
        "TokensGrow",
        13,
    ),
)


#: Not promised: docs/guarantees.md says so.
LIMITS = (
    small(
        "limit: a promoted durable replica restarts before any handshake",
        "Exclusion",
        Losses="1",
        Faults=OLDER[:-1] + ', "forgets"}',
        Durable="{m1}",
    ),
)


def reached(name: str, module: str, invariant: str, **changes: str) -> Case:
    """A state that the model must reach: the invariant says that it never does."""
    return Case(f"reached: {name}", module, changes, invariant, invariants=(invariant,))


ALIVE = (
    reached("a client holds the lock", "Lock", "NobodyHolds"),
    reached("a renewal that needs healed votes", "Lock", "NoHealedQuorum"),
    reached("a local hand-over", "Lock", "NoSuccession"),
    reached("a token in one round", "Fence", "NobodyTakes"),
    reached("a token that is written back", "Fence", "NobodyWroteBack"),
    reached("all owners have tokens", "Fence", "NotAllDone"),
)

EVERY = (*SAFE, *BROKEN, *LIMITS, *ALIVE)
