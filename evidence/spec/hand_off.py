"""The rows of HandOff.tla: the message is the grant, and each rule of it left out in turn."""

from __future__ import annotations

from collections.abc import Mapping

from .scopes import ALL, MODULES, Case

#: Three masters, a waiter and a rival, leases of two ticks. Tokens reach 4, and connections are cut.
HAND_OFF = {
    "Masters": ALL,
    "Clients": "{w, x}",
    "Waiters": "{w}",
    "Renewing": "{}",
    "NoOne": "NoOne",
    "Past": "Past",
    "T": "2",
    "Claim": "1",
    "D": "0",
    "Guard": "2",
    "MaxToken": "4",
    "Proposals": "{0, 3}",
    "Losses": "0",
    "Faults": '{"cut"}',
    "Broken": "{}",
}
PROMISES = ("TypeOK", "Exclusion", "TokensRise", "ProofIsTrue", "NoneComesBack")
#: After a loss of memory tokens rest on clocks and on the guard.
WITHOUT_TOKENS = tuple(promise for promise in PROMISES if promise != "TokensRise")
MODULES["HandOff"] = (HAND_OFF, PROMISES, "SYMMETRY Symmetry")

ONE_LOSS = {"Claim": "2", "MaxToken": "2", "Losses": "1", "Faults": "{}"}
#: The waiter alone: an eviction changes nothing for a rival.
EVICTED = {"Clients": "{w}", "MaxToken": "3", "Faults": '{"cut", "evict"}'}
TWO_WAITERS = {"Clients": "{w, v}", "Waiters": "{w, v}", "MaxToken": "3"}
LONG = {"T": "3", "Claim": "2", "D": "1", "Guard": "3"}
#: All at once, too large for a search to the end.
MANY = {
    **LONG,
    "Clients": "{w, v, x}",
    "Waiters": "{w, v}",
    "Renewing": "{w, v, x}",
    "MaxToken": "9",
    "Proposals": "{0, 6}",
    "Faults": '{"cut", "evict"}',
}
WALKS = 3000
#: The rules that the hand-off lacked until November 2026.
AS_IT_WAS = (
    "3.8 stored where the lock is held",
    "3.10 whole messages",
    "3.10 it never grants",
    "3.10 a fresh token",
)


def safe(
    name: str, changes: Mapping[str, str], *, full: bool = False, walks: int = 0, tokens: bool = True
) -> Case:
    """All rules."""
    invariants = () if tokens else WITHOUT_TOKENS
    return Case(f"hand-off{name}", "HandOff", changes, full=full, walks=walks, invariants=invariants)


def broken(name: str, violates: str, *rules: str, **changes: str) -> Case:
    """Some rules left out. Only the promise that is at stake is checked."""
    left_out = ", ".join(f'"{rule}"' for rule in rules)
    given = {**changes, "Broken": f"{{{left_out}}}"}
    walks = WALKS if "at random" in name else 0
    return Case(f"hand-off {name}", "HandOff", given, violates, invariants=(violates,), walks=walks)


def without(rule: str, violates: str, **changes: str) -> Case:
    """A rule left out."""
    return broken(f"without: {rule}", violates, rule, **changes)


HAND_OFFS = (
    safe("", {}),
    safe(", claim time of a lease", {"Claim": "2"}),
    safe(", T=3 D=1", LONG, full=True),
    safe(", renewal and healing", {"MaxToken": "3", "Renewing": "{w}"}),
    safe(", renewal and healing by both", {"MaxToken": "3", "Renewing": "{w, x}"}, full=True),
    safe(", two waiters", TWO_WAITERS),
    safe(", two waiters and a rival", {**TWO_WAITERS, "Clients": "{w, v, x}", "MaxToken": "4"}, full=True),
    safe(", one loss of any kind", ONE_LOSS, tokens=False),
    safe(", one loss of any kind, three tokens", {**ONE_LOSS, "MaxToken": "3"}, tokens=False, full=True),
    safe(", evictions", EVICTED, full=True),
    safe(", evictions, renewal and healing", {**EVICTED, "Renewing": "{w}"}, full=True),
    safe(", at random: two waiters, a rival, evictions, T=3", MANY, walks=WALKS),
    safe(", at random: any losses, T=3", {**MANY, "Losses": "9"}, walks=WALKS, tokens=False),
    safe(", at random: five masters, T=3", {**MANY, "Masters": "{m1, m2, m3, m4, m5}"}, walks=WALKS),
    broken("as it was: a lapsed lease is proven", "ProofIsTrue", *AS_IT_WAS),
    broken("as it was: a later hold has a lower token", "TokensRise", *AS_IT_WAS[1:]),
    broken("as it was: an evicted hold comes back", "NoneComesBack", *AS_IT_WAS, **EVICTED),
    broken("at random, as it was: an evicted hold comes back", "NoneComesBack", *AS_IT_WAS, **MANY),
    without("3.8 stored where the lock is held", "TokensRise"),
    without("3.10 whole messages", "TokensRise"),
    without("3.10 stamp of the grant", "Exclusion"),
    without("3.10 smallest bound", "Exclusion", Claim="2"),
    without("3.10 claim time", "Exclusion"),
    without("3.10 old memories only", "Exclusion", **ONE_LOSS),
    without("3.10 no attempt before", "Exclusion"),
    without("3.10 a fresh place", "TokensRise"),
    without("3.10 it never grants", "NoneComesBack", **EVICTED),
    without("3.10 it names the grant", "ProofIsTrue"),
    without("3.10 same memory", "ProofIsTrue", **{**ONE_LOSS, "Claim": "1", "MaxToken": "3"}),
    without("3.10 stamp of the confirmation", "ProofIsTrue"),
    without("3.10 eviction takes the place", "NoneComesBack", Renewing="{w}", **EVICTED),
    broken(
        "without: 3.10 a fresh token, and an evicted place is handed the lock again",
        "NoneComesBack",
        "3.10 a fresh token",
        "3.10 eviction takes the place",
        **EVICTED,
    ),
    # No rule helps against this fault: it is an assumption.
    broken("with a master's clock that jumps ahead", "Exclusion", Faults='{"jump"}', Claim="2"),
    Case(
        "reached: a proof after the claim time", "HandOff", {}, "NobodyProves", invariants=("NobodyProves",)
    ),
)
