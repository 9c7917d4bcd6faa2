"""What is checked: the design in several scopes, each rule left out in turn, what the models can do."""

from __future__ import annotations

from dataclasses import dataclass

from .checker import FENCE, FENCE_OF_TWO, LOCK, LOCK_OF_THREE, LOCK_ON_FIVE, Program


@dataclass(frozen=True)
class Case:
    """One search, and what it has to come to."""

    name: str
    program: Program
    rules: str
    reached: bool = False
    #: Of the shortest way; 0: not fixed.
    steps: int = 0
    #: Only with ``--full``: more than some seconds.
    full: bool = False


#: Memory is lost in every way, and hellos come at any time.
LOSSES = "prompt=0 older=1"

#: The whole space, and nothing bad in it.
DESIGN = (
    Case("as designed", LOCK, ""),
    Case("guard: two losses of any kind, hello at any time", LOCK, f"{LOSSES} losses=2"),
    Case("guard: three losses of any kind, hello at any time", LOCK, f"{LOSSES} losses=3", full=True),
    Case("guard: any number of losses, T=2", LOCK, f"{LOSSES} T=2 guard=2", full=True),
    Case("guard: older memories, any number", LOCK, "older=1", full=True),
    Case("guard: all masters durable, T=2", LOCK, f"{LOSSES} losses=1 durable=3 T=2 guard=2"),
    Case("guard: all masters durable", LOCK, f"{LOSSES} losses=1 durable=3", full=True),
    Case("guard: note evicted, T=2", LOCK, f"{LOSSES} losses=1 evict=1 T=2 guard=2"),
    Case(
        "guard: one durable, note evicted, two losses, T=2",
        LOCK,
        f"{LOSSES} losses=2 durable=1 evict=1 T=2 guard=2",
        full=True,
    ),
    Case("guard: in order, any number of losses, T=2", LOCK, f"{LOSSES} T=2 guard=2 late=0", full=True),
    Case("guard: leases 4 and 2, one max_ttl", LOCK, f"{LOSSES} losses=1 T=4 T2=2 guard=4"),
    Case("as designed, commands in order", LOCK, "late=0"),
    Case("as designed, keys of dead attempts stay", LOCK, "keep=1", full=True),
    Case("as designed, T=3 D=2", LOCK, "D=2", full=True),
    Case("as designed, T=4 D=1", LOCK, "T=4 guard=4"),
    Case("as designed, nothing reduced, in order", LOCK, "plain=1 late=0 T=2 guard=2 losses=2"),
    Case("as designed, nothing reduced, T=2 D=0", LOCK, "plain=1 T=2 guard=2 D=0 losses=2"),
    Case("as designed, leases 3 and 2", LOCK, "T2=2"),
    Case("as designed, three clients", LOCK_OF_THREE, "late=0 losses=2"),
    Case("as designed, five masters, T=2", LOCK_ON_FIVE, "T=2 guard=2 late=0 losses=3", full=True),
    Case("as designed, five masters, T=3", LOCK_ON_FIVE, "late=0 losses=2", full=True),
    Case("as designed, three clients, late", LOCK_OF_THREE, "losses=2", full=True),
    Case("as designed, T=4 D=2", LOCK, "T=4 guard=4 D=2 losses=2", full=True),
    Case("as designed, T=4 D=3", LOCK, "T=4 guard=4 D=3 losses=2", full=True),
    Case("as designed, T=5 D=2", LOCK, "T=5 guard=5 D=2 losses=2", full=True),
    Case("as designed, T=6 D=2", LOCK, "T=6 guard=6 D=2 losses=2", full=True),
    Case("as designed, leases 6 and 3, D=2", LOCK, "T=6 T2=3 guard=6 D=2 losses=2", full=True),
    Case("as designed, nothing reduced, D=0", LOCK, "plain=1 D=0 losses=2", full=True),
    Case("as designed, nothing reduced", LOCK, "plain=1 losses=1", full=True),
    Case(
        "as designed, nothing reduced, in order, dead keys", LOCK, "plain=1 keep=1 late=0 losses=1", full=True
    ),
    Case(
        "as designed, nothing reduced, dead keys, T=2 D=0",
        LOCK,
        "plain=1 keep=1 T=2 guard=2 D=0 losses=2",
        full=True,
    ),
)

#: Looser than the design, and still safe: what an implementation may afford.
LOOSER = (
    Case("now + D < v asked as each answer comes", LOCK, "on_answer=1"),
    Case("only votes within D, decision until s + T", LOCK, "by_votes=1"),
    Case("both of these", LOCK, "on_answer=1 by_votes=1"),
    Case(
        "leases revived: no two valid at one instant",
        LOCK,
        "revive=1 until=overlap late=0 T=2 guard=2 losses=2",
    ),
    Case("no healing", LOCK, "heal=0"),
)

#: One rule left out, or too weak: the shortest way to two holders.
BROKEN = (
    Case("quorum of one", LOCK, "quorum=1", True, 4),
    Case("validity from the end of the round", LOCK, "from_end=1", True, 9),
    Case("release without the owner check", LOCK, "unchecked=1 late=0", True, 10),
    Case("healed votes count at once", LOCK, "naive=1 late=0", True, 13),
    Case("young masters that have the key count at once", LOCK, "young_yes=1 late=0", True, 14),
    Case("no limit D on acquisitions", LOCK, "quickly=0 late=0", True, 13),
    Case("no limit D, and no healing", LOCK, "quickly=0 heal=0", True, 14),
    Case("now + D <= v instead of <", LOCK, "equal_too=1 late=0", True, 13),
    Case("each client its own D: T/3 of leases 6 and 3", LOCK, "T=6 T2=3 guard=6 D=2 D2=1 late=0", True, 13),
    Case("a successor counts young masters", LOCK, "young_heir=1 late=0", True, 15),
    Case("a lease revived after its end", LOCK, "revive=1 late=0", True, 14),
)

#: One condition of the restart guard left out: two holders.
UNGUARDED = (
    Case("no restart guard", LOCK, "guard=0", True, 7),
    Case("restart guard one tick short", LOCK, "guard=2", True, 9),
    Case("restart guard one tick short, hello at any time", LOCK, "guard=2 prompt=0 losses=1", True, 13),
    Case("a grant does not look at the note", LOCK, "look=0 prompt=0", True, 7),
    Case("a grant without a note counts", LOCK, "none_is_old=1 prompt=0", True, 7),
    Case("no handshake on a connection", LOCK, f"handshake=0 {LOSSES} losses=1", True, 10),
    Case("hello leaves the note of another run_id", LOCK, f"leaves=1 {LOSSES} losses=1", True, 11),
    Case("first use trusts the start of a flushed server", LOCK, "trusts_start=1 prompt=0", True, 11),
    Case("first use is decided by what a client saw", LOCK, "saw_none=1 prompt=0", True, 11),
    Case("a durable master without a note is old", LOCK, "durable_old=1 durable=3 prompt=0", True, 11),
    Case("a new note is judged by an older belief", LOCK, "believes=1 prompt=0", True, 11),
)

#: Two values of max_ttl, 5 and 3, and leases of that length: a client may not have heard of the longer one.
TWO_MAX_TTL = "T=5 T2=3 guard=5 guard2=3 handon=0 prompt=0"
UNEQUAL = (
    Case("max_ttl 5 and 3, one loss", LOCK, f"{TWO_MAX_TTL} losses=1", True, 14),
    Case("max_ttl 5 and 3, all notes read, one loss", LOCK, f"{TWO_MAX_TTL} hears_all=1 losses=1", full=True),
    Case(
        "max_ttl 5 and 3, all notes read, two losses",
        LOCK,
        f"{TWO_MAX_TTL} hears_all=1 losses=2 prompt=1",
        True,
        13,
    ),
    Case(
        "the same, votes not judged again, one loss",
        LOCK,
        f"{TWO_MAX_TTL} hears_all=1 rejudge=0 losses=1",
        True,
        16,
    ),
    Case(
        "D of leases 6 and 3, a holder goes by the longest",
        LOCK,
        "T=6 T2=3 guard=6 D=2 D2=1 late=0 greatest_d=1 losses=2",
    ),
)

#: Reached on purpose: a model in which nothing can happen is safe, too.
ALIVE = (
    Case("somebody holds the lock", LOCK, "until=won", True),
    Case("a renewal lives on healed votes", LOCK, "until=healed", True),
    Case("a lease outlives a restart of all masters", LOCK, "until=outlived-all", True),
    Case("a durable master keeps its note", LOCK, "prompt=0 durable=1 until=kept losses=0", True),
    Case("a lease is handed on", LOCK, "until=handed-on", True),
    Case("a token in one round", FENCE, "until=one-round", True),
    Case("a token by writing back", FENCE, "until=wrote-back", True),
    Case("three tokens", FENCE, "in_turn=1 until=all-done", True),
)

TOKENS = (
    Case("tokens as designed, two owners", FENCE_OF_TWO, ""),
    Case("tokens as designed, three in turn", FENCE, "in_turn=1 rounds=1"),
    Case("tokens as designed, three at once", FENCE, "late=0 rounds=1 ahead=0"),
    Case("tokens as designed, three in turn, two rounds", FENCE, "in_turn=1", full=True),
    Case("tokens as designed, three at once, ahead", FENCE, "late=0 rounds=1", full=True),
    Case("INCR and the greatest answer", FENCE, "incr_max=1", True, 8),
    Case("INCR and the greatest answer, in turn", FENCE, "incr_max=1 in_turn=1 late=0 give_up=0", True, 12),
    Case("a store accepted whoever wrote the value", FENCE, "any_owner=1", True, 13),
)

EVERY = (*DESIGN, *LOOSER, *UNGUARDED, *UNEQUAL, *BROKEN, *ALIVE, *TOKENS)
