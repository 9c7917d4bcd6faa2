----------------------------- MODULE Refinement -----------------------------
(* Lock.tla implements Exclusion.tla: each step of the one is a step of the other, or changes nothing
   there. So the theorem holds for it. *)
EXTENDS Lock

VARIABLES
    age,     \* [Masters -> for how long the master has lost nothing]: the scripts see only the note
    clients, \* the state of Lock.tla, as Exclusion.tla has it
    masters

\* A key that a dead attempt left behind only refuses others, as a master does that does not answer.
ClientOf(c) == [holds |-> client[c].phase = "holding", left |-> client[c].left, begun |-> Begun(c),
                round |-> client[c].round, lost |-> client[c].lost, slow |-> client[c].slow]
VoteOf(v)   == [answer |-> CASE v.answer = "old"                 -> "old"
                             [] v.answer \in {"young", "healed"} -> "young"
                             [] OTHER                            -> "none",
                wait   |-> IF v.answer = "old" THEN v.wait ELSE 0]
MasterOf(m) ==
    LET k == key[m][1]
    IN [owner |-> IF k.owner = Over THEN NoOne ELSE k.owner, left |-> IF k.owner = Over THEN 0 ELSE k.left,
        age |-> age[m], vote |-> [c \in Clients |-> VoteOf(vote[c][m])]]

Argument == INSTANCE Exclusion WITH
    OneOfMany <- FALSE, Short <- {}, S <- T, Broken <- {}, client <- clients, master <- masters

LosesAll(m) == RestartEmpty(m) \/ Flush(m) \/ RestartOlder(m)
LosesNothing(m) == \/ Handshake(m) \/ LateFirstUse(m) \/ RestartWhole(m) \/ Evict(m)
                   \/ LateKey(m, 1) \/ LateRelease(m, 1)

Begins ==
    /\ Init /\ age = [m \in Masters |-> Guard]
    /\ clients = [c \in Clients |-> ClientOf(c)] /\ masters = [m \in Masters |-> MasterOf(m)]
GoesOn ==
    /\ \/ Tick /\ age' = [m \in Masters |-> Older(age[m], 1)]
       \/ (\E c \in Clients : OfClient(c)) /\ UNCHANGED age
       \/ \E m \in Masters : LosesAll(m) /\ age' = [age EXCEPT ![m] = 0]
       \/ (\E m \in Masters : LosesNothing(m)) /\ UNCHANGED age
    /\ clients' = [c \in Clients |-> ClientOf(c)']
    /\ masters' = [m \in Masters |-> MasterOf(m)']
WithAges == Begins /\ [][GoesOn]_<<vars, age, clients, masters>>

\* Two properties, so that TLC names the one that is violated.
Starts     == Argument!Init
Implements == [][Argument!Next]_<<clients, masters>>
=============================================================================
