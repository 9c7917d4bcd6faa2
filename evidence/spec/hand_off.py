"""The rows of HandOff.tla: the message is the grant, and each rule of it left out in turn."""

from __future__ import annotations

from .scopes import ALL, MODULES, Case

#: Three masters, leases and the claim time of two ticks.
HAND_OFF = {
    "Masters": ALL,
    "NoOne": "NoOne",
    "Waiter": "Waiter",
    "Rival": "Rival",
    "T": "2",
    "Claim": "2",
    "D": "1",
    "Guard": "2",
    "Losses": "0",
    "Faults": "{}",
    "Broken": "{}",
}
LONG = {"T": "3", "Guard": "3"}
MODULES["HandOff"] = (HAND_OFF, ("TypeOK", "Exclusion", "Proof"), "SYMMETRY Symmetry")


def without(rule: str, violates: str = "Exclusion", **changes: str) -> Case:
    """A rule left out."""
    name = f"hand-off without: {rule}"
    return Case(name, "HandOff", {"Broken": f'{{"{rule}"}}', **changes}, violates)


HAND_OFFS = (
    Case("hand-off", "HandOff", {}),
    Case("hand-off: one loss of any kind", "HandOff", {"Losses": "1"}, full=True),
    without("7 stamp of the grant"),
    without("7 smallest bound"),
    without("7 claim time", **LONG),
    without("7 old memories only", Losses="1"),
    without("7 no attempt before"),
    without("7 fresh place"),
    without("7 same token", "Proof"),
    without("7 same note", Losses="1"),
    without("7 stamp of the confirmation"),
    # No rule helps against this fault: it is an assumption.
    Case("hand-off: a master's clock jumps ahead", "HandOff", {"Faults": '{"jump"}'}, "Exclusion"),
)
