"""What TLC checks: the rules in several scopes, each rule left out in turn, and what the models can do."""

from __future__ import annotations

from .scopes import (
    ALL,
    ANY_TIME,
    EVICTED,
    IN_ORDER,
    LOCK,
    MIXED,
    OLDER,
    ONE_TICK,
    SET_BACK,
    SMALL,
    Case,
    fence,
    lock,
    one_tick,
    reached,
    small,
    variant,
    without,
)

#: The second client has a shorter lease. Its max_ttl is that of the fleet, unless ShortGuard says otherwise.
LEASES_3_2 = {**LOCK, "Short": "{c2}", "ShortT": "2", "ShortD": "1", "ShortGuard": "3"}
LEASES_2_1 = {**SMALL, "Short": "{c2}", "ShortT": "1", "ShortGuard": "2"}
LEASES_6_3 = {**LOCK, "T": "6", "D": "2", "Guard": "6", "Short": "{c2}", "ShortT": "3", "ShortGuard": "6"}
#: One max_ttl, but each client has a D of its own.
D_OF_4_2 = {**LOCK, "T": "4", "Guard": "4", "Short": "{c2}", "ShortT": "2", "ShortD": "0", "ShortGuard": "4"}
MAX_TTL_5_3 = {
    **LOCK,
    "T": "5",
    "Guard": "5",
    "Short": "{c2}",
    "ShortT": "3",
    "ShortD": "1",
    "ShortGuard": "3",
}
MAX_TTL_3_2 = {**LOCK, "D": "0", "Short": "{c2}", "ShortT": "2", "ShortGuard": "2"}
ALL_NOTES = '{"reads all notes"}'

DESIGN = (
    small("as designed, any number of losses, T=2 D=1", D="1", full=True),
    lock("as designed, two losses", Losses="2"),
    small("as designed, commands in order, any number of losses, T=2 D=1", D="1", Faults=IN_ORDER, full=True),
    lock("as designed, T=3 D=2", D="2", Losses="2", full=True),
    lock("as designed, T=4 D=1, one loss", T="4", Guard="4", Losses="1", full=True),
    lock("as designed, T=4 D=2", T="4", D="2", Guard="4", Losses="2", full=True),
    lock("as designed, T=6 D=2", T="6", D="2", Guard="6", Losses="1", full=True),
    lock("as designed, leases 3 and 2", base=LEASES_3_2, Losses="2", full=True),
    lock("as designed, leases 6 and 3", base=LEASES_6_3, ShortD="2", Losses="1", full=True),
    small(
        "as designed, three clients in order, two losses, T=2 D=1",
        Clients="{c1, c2, c3}",
        D="1",
        Losses="2",
        Faults=IN_ORDER,
        full=True,
    ),
    small("three clients, one loss", Clients="{c1, c2, c3}", Losses="1"),
    lock("three clients, one loss, T=3", Clients="{c1, c2, c3}", Losses="1", full=True),
    small(
        "five masters in order, one loss, T=2",
        Losses="1",
        Faults=IN_ORDER,
        Masters="{m1, m2, m3, m4, m5}",
        full=True,
    ),
    small("remains of dead attempts, one loss", Losses="1", Faults='{"flush", "late", "remains"}'),
    lock("remains of dead attempts", Losses="2", Faults='{"flush", "late", "remains"}', full=True),
    small("two locks, three clients, no loss", Clients="{a1, a2, b1}", Second="{b1}", Losses="0", full=True),
    one_tick(
        "two locks, four clients, no loss",
        Clients="{a1, a2, b1, b2}",
        Second="{b1, b2}",
        Losses="0",
        full=True,
    ),
    one_tick(
        "two locks, three clients, one loss", Clients="{a1, a2, b1}", Second="{b1}", Losses="1", full=True
    ),
    lock("clocks of clients lose a tick, no loss", Losses="0", Drift="1"),
    lock("clocks of clients lose a tick, one loss", Losses="1", Drift="1", D="0", full=True),
)

GUARD = (
    small("guard: one loss of any kind, handshake at any time", Losses="1", Faults=OLDER),
    lock("guard: one restart or flush, handshake at any time, T=3", Losses="1", Faults=ANY_TIME, full=True),
    one_tick("guard: two losses of any kind, handshake at any time", Losses="2", Faults=OLDER, full=True),
    one_tick("guard: any number of restarts and flushes, handshake at any time", Faults=ANY_TIME, full=True),
    small("guard: older memories, any number, T=2", Faults='{"flush", "late", "older"}', full=True),
    one_tick("guard: one durable master", Losses="1", Faults=OLDER, Durable="{m1}", full=True),
    one_tick("guard: one master durable in some lives", Losses="1", Faults=MIXED, Durable="{m1}", full=True),
    one_tick("guard: all masters durable", Losses="1", Faults=OLDER, Durable=ALL, full=True),
    one_tick("guard: the note is evicted", Losses="1", Faults=EVICTED, full=True),
    small(
        "guard: one durable, note evicted, no loss, T=2",
        Losses="0",
        Faults=EVICTED,
        Durable="{m1}",
        full=True,
    ),
    small("guard: notes from the future, one loss", Losses="1", Faults=SET_BACK, full=True),
    lock("guard: leases 2 and 1, one max_ttl", base=LEASES_2_1, Losses="1", Faults=OLDER, full=True),
)

#: Other forms of the rules, looser or stricter than in the code, and without the model's own reductions.
VARIANTS = (
    variant("now + D < v asked as each answer comes", "asked at the answer", Losses="1"),
    variant("answers within D, decision until s + T", "decided until s + T", Losses="1"),
    variant("both of these", "asked at the answer", "decided until s + T", Losses="1", full=True),
    variant("no healing", "no healing", Losses="2"),
    Case(
        "variant: leases revived, no two valid at one instant",
        changes={
            "T": "2",
            "Guard": "2",
            "Losses": "2",
            "Faults": IN_ORDER,
            "Broken": '{"3.5 before the old validity ends"}',
        },
        invariants=("TypeOK", "Exclusion"),
    ),
    variant("nothing reduced, T=2 D=0", "nothing reduced", T="2", D="0", Guard="2", Losses="1"),
    variant(
        "nothing reduced, T=2 D=0, two losses",
        "nothing reduced",
        T="2",
        D="0",
        Guard="2",
        Losses="2",
        full=True,
    ),
    variant(
        "nothing reduced, in order, T=2",
        "nothing reduced",
        T="2",
        Guard="2",
        Losses="1",
        Faults=IN_ORDER,
        full=True,
    ),
    variant("nothing reduced, D=0", "nothing reduced", D="0", Losses="1", full=True),
    variant(
        "nothing reduced, remains, T=2 D=0",
        "nothing reduced",
        T="2",
        D="0",
        Guard="2",
        Losses="1",
        Faults='{"flush", "late", "remains"}',
        full=True,
    ),
)

#: Two values of max_ttl, in ticks: not promised. A client may not have heard of the longer one.
UNEQUAL = (
    lock(
        "max_ttl 5 and 3, one loss", "Exclusion", 16, base=MAX_TTL_5_3, Losses="1", Faults=ANY_TIME, full=True
    ),
    lock("max_ttl 3 and 2, one loss", "Exclusion", base=MAX_TTL_3_2, Losses="1"),
    lock(
        "max_ttl 3 and 2, all notes read, one loss",
        base=MAX_TTL_3_2,
        Losses="1",
        Variants=ALL_NOTES,
        full=True,
    ),
    lock(
        "max_ttl 3 and 2, all notes read, two losses",
        "Exclusion",
        base=MAX_TTL_3_2,
        Losses="2",
        Variants=ALL_NOTES,
        full=True,
    ),
    lock(
        "max_ttl 3 and 2, all notes read, not judged again",
        "Exclusion",
        base=MAX_TTL_3_2,
        Losses="1",
        Variants=ALL_NOTES,
        Broken='{"3.6 judged again"}',
    ),
    lock(
        "max_ttl 3 and 2, all notes read, not noted before it counts",
        "Exclusion",
        base=MAX_TTL_3_2,
        Losses="1",
        Variants=ALL_NOTES,
        Broken='{"3.11 noted before it counts"}',
    ),
    lock(
        "max_ttl 3 and 2, each grant raises the note",
        "NoteIsEarned",
        base=MAX_TTL_3_2,
        Losses="0",
        Broken='{"3.11 a grant raises no note"}',
    ),
    lock("D of leases 4 and 2, one loss", base=D_OF_4_2, Losses="1", Faults=IN_ORDER, full=True),
    lock(
        "D of leases 4 and 2, each client goes by its own",
        "Exclusion",
        base=D_OF_4_2,
        Losses="1",
        Faults=IN_ORDER,
        Broken='{"3.7 one D for the fleet"}',
    ),
    lock(
        "D of leases 6 and 3, each client goes by its own",
        "Exclusion",
        13,
        base=LEASES_6_3,
        ShortD="1",
        Losses="1",
        Faults=IN_ORDER,
        Broken='{"3.7 one D for the fleet"}',
    ),
)

#: The same rules left out with leases of one tick: the rows of the guard that have them can show a defect.
ONE_TICK_IS_ENOUGH: tuple[tuple[str, int, str, dict[str, str]], ...] = (
    ("3.6 look", 7, ANY_TIME, {"Losses": "1"}),
    ("3.6 handshake", 10, OLDER, {"Losses": "1"}),
    ("3.6 foreign note", 11, OLDER, {"Losses": "1"}),
    ("3.6 durable needs a note", 11, ANY_TIME, {"Losses": "2", "Durable": ALL}),
    ("3.6 durable in its last life", 12, MIXED, {"Losses": "1", "Durable": "{m1}"}),
)
PLAIN = '{"nothing reduced"}'
BROKEN = (
    without("3.1 quorum", 4),
    lock("without: 3.1 quorum, nothing reduced", "Exclusion", Broken='{"3.1 quorum"}', Variants=PLAIN),
    without("3.1 stamp before sending", 9, Losses="0"),
    without("3.1 drift", 9, Drift="1", D="0", Losses="0"),
    without("3.4 release checks the owner", 7, Faults='{"flush", "remains"}', Losses="0"),
    without("3.5 before the old validity ends", 14, "NoneRevived", Faults=IN_ORDER, Losses="1"),
    lock("without: 3.6 guard", "Exclusion", 7, Guard="0", Losses="1"),
    lock("without: 3.6 guard, nothing reduced", "Exclusion", Guard="0", Losses="1", Variants=PLAIN),
    lock("without: 3.6 guard of a whole lease", "Exclusion", 9, Guard="2", Losses="1"),
    lock(
        "without: 3.6 guard of a whole lease, handshake at any time",
        "Exclusion",
        13,
        Guard="2",
        Losses="1",
        Faults=ANY_TIME,
    ),
    without("3.6 look", 7, Faults=ANY_TIME, Losses="1"),
    without("3.6 no note is young", 7, Faults=ANY_TIME),
    without("3.6 judged by this note", 11, Faults=ANY_TIME, Losses="2"),
    without("3.6 handshake", 10, Faults=OLDER, Losses="1"),
    without("3.6 foreign note", 11, Faults=OLDER, Losses="1"),
    without("3.6 first use needs a clean server", 11, Faults=ANY_TIME, Losses="2"),
    without("3.6 first use is judged on the master", 11, Faults=ANY_TIME, Losses="2"),
    without("3.6 a note from the future is no note", 0, Faults=SET_BACK, Losses="1"),
    without("3.6 durable needs a note", 11, Faults=ANY_TIME, Durable=ALL, Losses="2"),
    small(
        "without: 3.6 durable in its last life",
        "Exclusion",
        Losses="1",
        Faults=MIXED,
        Durable="{m1}",
        Broken='{"3.6 durable in its last life"}',
    ),
    *(
        Case(
            f"without: {rule}, T=1",
            changes={**ONE_TICK, **changes, "Faults": faults, "Broken": f'{{"{rule}"}}'},
            violates="Exclusion",
            steps=steps,
        )
        for rule, steps, faults, changes in ONE_TICK_IS_ENOUGH
    ),
    without("3.6 successor", 15, Faults=IN_ORDER, Losses="2"),
    without("3.7 healed votes wait", 13, Faults=IN_ORDER, Losses="2"),
    without("3.7 young yes waits", 14, Faults=IN_ORDER, Losses="2"),
    without("3.7 limit D", 13, Faults=IN_ORDER, Losses="2"),
    lock(
        "without: 3.7 limit D, and no healing",
        "Exclusion",
        14,
        Losses="2",
        Broken='{"3.7 limit D"}',
        Variants='{"no healing"}',
    ),
    without("3.7 less, not equal", 13, Faults=IN_ORDER, Losses="2"),
)

#: Not promised: docs/guarantees.md says so.
LIMITS = (
    small(
        "limit: a durable replica, promoted, restarts first",
        "Exclusion",
        Losses="1",
        Faults=OLDER[:-1] + ', "forgets"}',
        Durable="{m1}",
    ),
)

#: Each master counts for itself, and the client takes the greatest answer.
INCR_MAX = ("one token from a quorum", "a proposal above the own counter")
THREE = "{o1, o2, o3}"
TOKENS = (
    fence("tokens, two owners"),
    fence("tokens, two owners, clock ahead", Proposals="{0, 3}", full=True),
    fence(
        "tokens, two owners, two rounds, clock ahead, no late commands",
        Rounds="2",
        Proposals="{0, 3}",
        Late="FALSE",
        full=True,
    ),
    fence("tokens, three in turn", owners=THREE, InTurn="TRUE", full=True),
    fence(
        "tokens, three in turn, clock ahead, no late commands",
        owners=THREE,
        InTurn="TRUE",
        Proposals="{0, 3}",
        Late="FALSE",
        full=True,
    ),
    fence("tokens, three at once, no late commands", owners=THREE, Late="FALSE", full=True),
    fence("without: 3.8 INCR and the greatest answer", *INCR_MAX, steps=8),
    fence(
        "without: 3.8 INCR and the greatest answer, in turn",
        *INCR_MAX,
        steps=12,
        owners=THREE,
        InTurn="TRUE",
        Late="FALSE",
        MayGiveUp="FALSE",
    ),
    fence("without: 3.8 an equal token of the same owner", "an equal token of the same owner only", steps=13),
)


ALIVE = (
    reached("a client holds the lock", "Lock", "NobodyHolds"),
    reached("two clients hold two locks", "Lock", "NobodyHoldsTwo", Second="{c2}", Losses="0"),
    reached("a renewal that needs healed votes", "Lock", "NoHealedQuorum"),
    reached("a lease outlives a restart of all masters", "Lock", "NoneOutlives"),
    reached("a durable master keeps its note", "Lock", "NoNoteKept", Durable="{m1}", Faults=ANY_TIME),
    reached("a local hand-over", "Lock", "NoSuccession"),
    reached("a token in one round", "Fence", "NobodyTakes"),
    reached("a token that is written back", "Fence", "NobodyWroteBack"),
    reached("all owners have tokens", "Fence", "NotAllDone", Owners=THREE, InTurn="TRUE"),
)

EVERY = (*DESIGN, *GUARD, *VARIANTS, *UNEQUAL, *BROKEN, *LIMITS, *TOKENS, *ALIVE)
