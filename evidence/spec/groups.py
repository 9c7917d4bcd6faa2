"""The rows of Groups.tla: masters that are groups, and each rule of groups left out in turn."""

from __future__ import annotations

from collections.abc import Mapping

from .scopes import ALL, MODULES, Case

#: One master: a primary with one replica. Leases of two ticks. Any promotions, one loss of any kind.
GROUP = {
    "Masters": "{m1}",
    "Bare": "{}",
    "Servers": "{s1, s2}",
    "Clients": "{c1, c2}",
    "NoOne": "NoOne",
    "Only": "Only",
    "Ended": "Ended",
    "T": "2",
    "D": "1",
    "Guard": "2",
    "Replicas": "1",
    "Moves": "99",
    "Losses": "1",
    "Kinds": '{"empty", "older", "flush"}',
    "Tokens": "0",
    "Broken": "{}",
}
MODULES["Groups"] = (GROUP, ("TypeOK", "Exclusion"), "SYMMETRY Symmetry")
#: Leases of one tick, as in `spec.scopes.ONE_TICK`.
SHORT = {"T": "1", "D": "0", "Guard": "1"}
ONE_TICK = {**GROUP, **SHORT}
LONG_TWO = {**GROUP, "Servers": "{s1, s2, s3}", "Replicas": "2"}
TWO = {**LONG_TWO, **SHORT}
#: A fleet of three masters; those in ``Bare`` are one server each.
FLEET = {**ONE_TICK, "Masters": ALL}
LONG_ONE_GROUP = {**GROUP, "Masters": ALL, "Bare": "{m2, m3}"}
ONE_GROUP = {**LONG_ONE_GROUP, **SHORT}
TWO_GROUPS = {**FLEET, "Bare": "{m3}"}


def group(
    name: str, base: Mapping[str, str], violates: str = "", *, full: bool = False, **changes: str
) -> Case:
    """A case of masters with replicas, with other constants than ``base``."""
    return Case(f"group: {name}", "Groups", {**base, **changes}, violates, full=full)


def without(rule: str, base: Mapping[str, str], steps: int = 0) -> Case:
    """A rule left out: TLC must find two holders."""
    name = f"group without: {rule}{', T=1' if base['T'] == '1' else ''}"
    return Case(name, "Groups", {**base, "Broken": f'{{"{rule}"}}'}, "Exclusion", steps)


TOKENS = Case(
    "group: tokens, one replica, any promotions, no loss",
    "Groups",
    {"Tokens": "2", "Losses": "0"},
    invariants=("TypeOK", "TokensGrow"),
)
#: The first replica to acknowledge copies an older memory before the second one acknowledges.
LIMIT = Case(
    "group: limit: tokens, two replicas, any promotions, no loss, T=1",
    "Groups",
    {**TWO, "Tokens": "2", "Losses": "0"},
    "TokensGrow",
    full=True,
    invariants=("TypeOK", "TokensGrow"),
)
STALE = Case(
    "group: reached: two primaries with old memories",
    "Groups",
    {"Moves": "1", "Losses": "0"},
    "NoTwoPrimaries",
    invariants=("NoTwoPrimaries",),
)
GROUPS = (
    group("one replica, any promotions, one loss", GROUP),
    group("one replica, any promotions and losses", GROUP, Losses="99"),
    group("two replicas, one promotion, one loss, T=1", TWO, Moves="1"),
    group("two replicas, one promotion, one loss", LONG_TWO, full=True, Moves="1"),
    group("two replicas, any promotions, no loss, T=1", TWO, full=True, Losses="0"),
    group("one group and two servers, any promotions, no loss, T=1", ONE_GROUP, Losses="0"),
    group("one group and two servers, one promotion, one loss", LONG_ONE_GROUP, full=True, Moves="1"),
    group(
        "two groups and a server, one promotion, no loss, T=1", TWO_GROUPS, full=True, Moves="1", Losses="0"
    ),
    group("three groups, one promotion, no loss, T=1", FLEET, full=True, Moves="1", Losses="0"),
    TOKENS,
    group("nobody waits for the replica, T=1", ONE_TICK, "Exclusion", Replicas="0", Losses="0"),
    group("two replicas, one acknowledges, T=1", TWO, "Exclusion", Replicas="1", Losses="0"),
    without("3.6 guard", ONE_TICK),
    without("2.4 the note names the replication id", ONE_TICK, 12),
    without("2.4 INFO behind the WAIT", ONE_TICK, 12),
    without("2.4 a note of another term is young", ONE_TICK),
    without("2.4 renewals are acknowledged", {**GROUP, "Losses": "0"}),
    STALE,
    LIMIT,
)
