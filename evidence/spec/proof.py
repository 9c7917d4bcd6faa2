"""The rows of docs/proof.md: the lemmas from all states that satisfy them, and each rule left out in turn."""

from __future__ import annotations

from .scopes import ALL, ANY_TIME, MODULES, OLDER, SMALL, Case

#: One master of a fleet of any size, two clients, leases of three ticks.
ONE_MASTER = {
    "Masters": "{m1}",
    "Clients": "{c1, c2}",
    "NoOne": "NoOne",
    "OneOfMany": "TRUE",
    "T": "3",
    "Short": "{}",
    "S": "2",
    "D": "1",
    "Guard": "3",
    "Drift": "0",
    "Broken": "{}",
    "Samples": "0",
}
#: Three masters, of each some states at random: all of them would be too many.
FLEET = {"Masters": ALL, "OneOfMany": "FALSE", "Samples": "3"}
ANY_STATE = "SPECIFICATION FromAnyState"
LEMMAS = ("L1", "L2", "L3", "L6")
#: A step of Lock.tla that is none of Exclusion.tla.
IMPLEMENTS = "SPECIFICATION WithAges\nPROPERTIES Starts Implements\nSYMMETRY Symmetry"

MODULES["Induction"] = (ONE_MASTER, LEMMAS, f"{ANY_STATE}\nPROPERTIES L4 L5")
MODULES["Refinement"] = (
    {**SMALL, "Losses": "1"},
    ("Exclusion",),
    IMPLEMENTS,
)


def without(rule: str, lemma: str, more: str = "", **changes: str) -> Case:
    """A rule left out: ``lemma`` must fail. ``more``: the configuration, for lemmas about steps."""
    left_out = {} if rule.endswith("lease") else {"Broken": f'{{"{rule}"}}'}
    invariants, lines = (lemma,), ANY_STATE
    if lemma in ("L4", "L5"):
        invariants, lines = ("TypeOK",), f"{ANY_STATE}\nPROPERTIES {lemma}"
    name = f"proof without: {rule}"
    return Case(name, "Induction", {**left_out, **changes}, lemma, invariants=invariants, more=more or lines)


def hides(rule: str, **changes: str) -> Case:
    """A part of rule 3.6 left out of Lock.tla: some script takes a memory for older than it is."""
    return Case(
        f"proof, refinement without: {rule}",
        "Refinement",
        {"Broken": f'{{"{rule}"}}', **changes},
        "Implements",
        invariants=("TypeOK",),
    )


PROOF = (
    Case("proof: all states of one master, two lengths of leases", "Induction", {"Short": "{c2}"}),
    Case(
        "proof: all states of one master, clocks lose a tick",
        "Induction",
        {"Drift": "1"},
        full=True,
    ),
    Case(
        "proof: all states of one master, three clients",
        "Induction",
        {"Clients": "{c1, c2, c3}", "T": "2", "Guard": "2"},
        full=True,
    ),
    Case(
        "proof: some states of three masters",
        "Induction",
        FLEET,
        full=True,
        invariants=("Inv", "L6"),
        more=f"{ANY_STATE}\nCONSTRAINT OneStep",
    ),
    without("3.1 quorum", "Exclusion", f"{ANY_STATE}\nCONSTRAINT OneStep", **FLEET, T="2", D="0", Guard="2"),
    without("3.1 stamp before sending", "L4"),
    without("3.1 drift", "L4", D="0", Drift="1"),
    without("3.4 release checks the owner", "L2"),
    without("3.5 before the old validity ends", "L1"),
    without("3.6 guard of a whole lease", "L2", Guard="2"),
    without("3.6 true age", "L3"),
    without("3.6 old memories only", "L6"),
    without("3.7 no foreign key", "L2"),
    without("3.7 in time", "L5"),
    without("3.7 less, not equal", "L5"),
    without("3.7 limit D", "L5"),
    Case("proof, refinement: any loss, handshake at any time", "Refinement", {"Faults": OLDER}, full=True),
    hides("3.6 look", Faults=ANY_TIME),
    hides("3.6 no note is young", Faults=ANY_TIME),
    hides("3.6 judged by this note", Faults=ANY_TIME),
    hides("3.6 handshake", Faults=OLDER),
    hides("3.6 foreign note", Faults=OLDER),
    hides("3.6 first use needs a clean server", Faults=ANY_TIME),
    hides("3.6 durable needs a note", Faults=ANY_TIME, Durable=ALL),
)
