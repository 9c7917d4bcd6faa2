----------------------------- MODULE Induction -----------------------------
(* Is the invariant of Exclusion.tla inductive? TLC starts in every state that satisfies it, reachable or
   not, and takes each step. *)
EXTENDS Exclusion, Randomization

CONSTANT Samples  \* 0: all states; else of each master so many states, at random

\* A client by itself, as L1 says it. Faster than to filter all records of the type.
Clocks == {k \in [holds: BOOLEAN, left: 0..T, begun: BOOLEAN, round: 0..T, lost: 0..Drift, slow: 0..Drift] :
               /\ k.holds <=> k.left > 0
               /\ k.holds \/ k.lost = 0
               /\ k.begun \/ (k.round = 0 /\ k.slow = 0)}

Keys == [owner: {NoOne}, left: {0}, age: 0..Guard] \cup [owner: Clients, left: 1..T, age: 0..Guard]

With(k, vote) == [owner |-> k.owner, left |-> k.left, age |-> k.age, vote |-> vote]

\* The states of a master beside these clients.
Singles == {k \in {With(key, vote) : key \in Keys, vote \in [Clients -> Votes]} :
               /\ OfOne(k)
               /\ \A c \in Clients : client[c].begun \/ k.vote[c] = None}

Chosen(set) == IF Samples = 0 \/ Cardinality(set) <= Samples THEN set ELSE RandomSubset(Samples, set)

AnyState ==
    /\ client \in [Clients -> Clocks]
    /\ \A c \in Clients :
           LET k == client[c]
           IN /\ k.holds => Ends(c) <= Lease(c)
              /\ k.begun /\ ~k.holds => k.round <= Limit(c) /\ k.round + Margin < Lease(c)
    /\ Exclusion
    /\ LET singles == Singles IN master \in [Masters -> Chosen(singles)]
    /\ Guarded /\ Covered

FromAnyState == AnyState /\ [][Next]_vars
FromInit     == Init /\ [][Next]_vars

\* A constraint: with samples, a step does not lead back into them.
OneStep == TLCGet("level") < 2
=============================================================================
