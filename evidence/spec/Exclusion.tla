----------------------------- MODULE Exclusion -----------------------------
(* The argument why no two valid leases of one lock overlap, without its machinery: README.md has this
   module in prose. Refinement.tla shows that Lock.tla implements it, Induction.tla checks that Inv is
   inductive.

   A master is a key, the age of its memory and the votes that it gave. Each step changes one master, or
   one client, or all clocks together. So all conjuncts but the last three of Inv are about one master
   each. *)
EXTENDS Common

CONSTANTS
    Clients, NoOne,
    OneOfMany,         \* TRUE: Masters is one master of a fleet of any size
    T,                 \* the longest lease: max_ttl
    Short, S,          \* leases of these clients last S ticks, all others T
    D,                 \* an acquire counts its votes within D ticks
    Guard,             \* a memory younger than Guard has no vote
    Drift              \* a client's clock loses at most Drift ticks in a lease

ASSUME {T, S, D, Guard, Drift} \subseteq Nat /\ Short \subseteq Clients /\ S <= T

VARIABLES
    client,  \* [Clients -> the lease and the round, as the client knows them]
    master   \* [Masters -> the key, the age of the memory, and the votes of the present rounds]
vars == <<client, master>>

Lease(c)    == IF c \in Short THEN S ELSE T
Margin      == IF Kept("3.1 drift") THEN Drift ELSE 0

\* Of a fleet of many, one master sees that a quorum contains it or does not.
Quorums == IF OneOfMany THEN SUBSET Masters
           ELSE {Q \in SUBSET Masters : 2 * Cardinality(Q) > Cardinality(Masters)
                                        \/ (Q # {} /\ ~Kept("3.1 quorum"))}

(* "old": the memory will be old enough in so many ticks. "young": only a holder counts such a vote: rule 3.7. *)
None  == [answer |-> "none", wait |-> 0]
Young == [answer |-> "young", wait |-> 0]
Votes == {None, Young} \cup [answer: {"old"}, wait: 0..Guard]

\* left: ticks of validity. round: ticks since the stamp. lost and slow: the ticks that the
\* client's clock lost in this lease, and in this round.
Idle == [holds |-> FALSE, left |-> 0, begun |-> FALSE, round |-> 0, lost |-> 0, slow |-> 0]

TypeOK ==
    /\ client \in [Clients -> [holds: BOOLEAN, left: 0..T, begun: BOOLEAN, round: 0..T,
                               lost: 0..Drift, slow: 0..Drift]]
    /\ master \in [Masters -> [owner: Clients \cup {NoOne}, left: 0..T, age: 0..Guard,
                               vote: [Clients -> Votes]]]

Valid(c) == client[c].holds /\ client[c].left > 0

(* Steps of a client.                                                      *)
\* An acquire, a renewal or a healing runs. It writes only a key that is free or its owner's. The age that it
\* reads is at most the true one: rule 3.6.
Runs(c, m, answer) ==
    /\ master[m].owner \in {c, NoOne} \/ ~Kept("3.7 no foreign key")
    /\ master' = [master EXCEPT ![m].owner = c, ![m].left = Lease(c), ![m].vote[c] = answer]

Vote(c, m) ==
    /\ master[m].vote[c] = None
    /\ client' = [client EXCEPT ![c].begun = TRUE]
    /\ LET shortest == IF Kept("3.6 true age") THEN Guard - master[m].age ELSE 0
       IN \E answer \in {Young} \cup [answer: {"old"}, wait: shortest..Guard] : Runs(c, m, answer)

\* A command of an earlier round: nobody reads its answer.
LateWrite(c, m) == UNCHANGED client /\ Runs(c, m, master[m].vote[c])

\* The stamp, before the first byte is sent.
Begin(c) == client' = [client EXCEPT ![c].begun = TRUE] /\ UNCHANGED master

\* Rule 3.7: every acquire that was stamped before now is decided before the validity ends.
InTime(c) == /\ client[c].holds
             /\ \/ D + Margin < client[c].left
                \/ D + Margin = client[c].left /\ ~Kept("3.7 less, not equal")
                \/ ~Kept("3.7 in time")

Counts(c, vote) ==
    \/ vote.answer = "old" /\ vote.wait = 0
    \/ vote.answer # "none" /\ (InTime(c) \/ (~client[c].holds /\ ~Kept("3.6 old memories only")))

Counted(c) == {m \in Masters : Counts(c, master[m].vote[c])}

\* Rule 3.1: validity counts from the stamp, and the drift is taken off.
Validity(c) == Minus(Lease(c), Margin + (IF Kept("3.1 stamp before sending") THEN client[c].round ELSE 0))

NoVotesOf(ended, m) == [c \in Clients |-> IF c \in ended THEN None ELSE m.vote[c]]
WithoutVotes(c)     == [m \in Masters |-> [master[m] EXCEPT !.vote = NoVotesOf({c}, master[m])]]

\* Seen from one master, the other masters of the quorum forbid a second holder: L6.
Win(c) ==
    /\ client[c].begun /\ Validity(c) > 0
    /\ \E Q \in Quorums : Q \subseteq Counted(c)
    /\ OneOfMany => \A o \in Clients \ {c} : ~Valid(o)
    /\ client' = [client EXCEPT ![c] = [Idle EXCEPT !.holds = TRUE, !.left = Validity(c), !.lost = client[c].slow]]
    /\ master' = WithoutVotes(c)

\* A round of renewal is given up. Its commands may still run.
Again(c) ==
    /\ client[c].holds
    /\ client' = [client EXCEPT ![c].begun = FALSE, ![c].round = 0, ![c].slow = 0]
    /\ master' = WithoutVotes(c)

\* An undo, a loss or a release. One that does not arrive leaves the keys. Rule 3.4: only its own keys go.
End(c) ==
    /\ client' = [client EXCEPT ![c] = Idle]
    /\ \E freed \in SUBSET {m \in Masters : master[m].owner = c \/ ~Kept("3.4 release checks the owner")} :
           master' = [m \in Masters |->
               IF m \in freed THEN [WithoutVotes(c)[m] EXCEPT !.owner = NoOne, !.left = 0]
               ELSE WithoutVotes(c)[m]]

(* Time passes, and masters lose their memory.                             *)
Limit(c) == IF Kept("3.7 limit D") THEN Min(D, Lease(c)) ELSE Lease(c)

Aged(c, isSlow) ==
    LET k    == client[c]
        step == IF isSlow THEN 0 ELSE 1
        left == Minus(k.left, step)
        next == [k EXCEPT !.left = left, !.round = IF k.begun THEN Min(k.round + step, T) ELSE 0,
                          !.lost = IF k.holds THEN k.lost + (1 - step) ELSE 0,
                          !.slow = IF k.begun THEN k.slow + (1 - step) ELSE 0]
        dead == IF k.holds THEN left = 0 /\ (Kept("3.5 before the old validity ends") \/ ~k.begun)
                ELSE k.begun /\ (next.round + Margin >= Lease(c) \/ next.round > Limit(c))
    IN IF dead THEN Idle ELSE next

Tick ==
    \E slow \in SUBSET {c \in Clients : /\ client[c].holds \/ client[c].begun
                                        /\ client[c].lost < Drift /\ client[c].slow < Drift} :
        LET next  == [c \in Clients |-> Aged(c, c \in slow)]
            ended == {c \in Clients : client[c] # Idle /\ next[c] = Idle}
        IN /\ client' = next
           /\ \E freed \in SUBSET {m \in Masters : master[m].owner \in ended} :
                  master' = [m \in Masters |->
                      LET k    == master[m]
                          gone == m \in freed \/ k.left <= 1
                      IN [owner |-> IF gone THEN NoOne ELSE k.owner,
                          left  |-> IF gone THEN 0 ELSE k.left - 1,
                          age   |-> Min(k.age + 1, Guard),
                          vote  |-> [c \in Clients |-> IF c \in ended THEN None
                                                       ELSE [k.vote[c] EXCEPT !.wait = Minus(@, 1)]]]]

\* The memory afterwards may be empty or an older one. Only its age is known.
Lose(m) ==
    /\ UNCHANGED client
    /\ \E owner \in Clients \cup {NoOne} : \E left \in IF owner = NoOne THEN {0} ELSE 1..T :
           master' = [master EXCEPT ![m].owner = owner, ![m].left = left, ![m].age = 0]

Init ==
    /\ client = [c \in Clients |-> Idle]
    /\ master = [m \in Masters |-> [owner |-> NoOne, left |-> 0, age |-> Guard, vote |-> [c \in Clients |-> None]]]

OfClient(c) == Begin(c) \/ Win(c) \/ Again(c) \/ End(c) \/ \E m \in Masters : Vote(c, m) \/ LateWrite(c, m)
Next == Tick \/ (\E c \in Clients : OfClient(c)) \/ (\E m \in Masters : Lose(m))

(* The invariant. All ticks are ticks of real time, which the masters keep.*)
\* So long a lease may still be valid, so long one that this round wins, and so long this acquire may go on.
Ends(c)   == client[c].left + (Drift - client[c].lost)
Would(c)  == Minus(Lease(c), client[c].round + client[c].slow)
Within(c) == Limit(c) - client[c].round + (Drift - client[c].slow)

\* For so many ticks, nobody but c gets a vote of this master that counts within them.
Closed(k, c, ticks) == \/ k.owner = c /\ k.left >= ticks
                       \/ Guard - k.age >= ticks

\* L1: a client stops in time.
Sound(c) ==
    LET k == client[c]
    IN /\ k.holds => k.left > 0 /\ Ends(c) <= Lease(c)
       /\ ~k.holds => k.left = 0 /\ k.lost = 0
       /\ ~k.begun => k.round = 0 /\ k.slow = 0 /\ \A m \in Masters : master[m].vote[c] = None
       /\ k.begun /\ ~k.holds => k.round <= Limit(c) /\ k.round + Margin < Lease(c)

\* L2: a vote closes its master for as long as the lease that it may win.
Stands(c, k) == k.vote[c] # None => Closed(k, c, Would(c))

\* L3: of two votes of one master, one counts only when the lease of the other is over.
Apart(a, b, k) ==
    k.vote[a].answer = "old" /\ k.vote[b].answer = "old"
        => k.vote[a].wait >= Would(b) \/ k.vote[b].wait >= Would(a)

\* L4: a counted vote closes its master until the validity ends.
Guards(a, k) == Closed(k, a, Ends(a))

\* L5: it shuts out an acquire that has begun, until that one is over or the validity ends.
Covers(a, b, k) ==
    LET ticks == Min(Ends(a), Within(b) + 1)
    IN Closed(k, a, ticks) /\ (k.vote[b].answer = "old" => k.vote[b].wait >= ticks)

Contends(b) == client[b].begun /\ ~client[b].holds
OfQuorum(P(_)) == \E Q \in Quorums : \A m \in Q : P(master[m])

OfOne(k) == /\ k.owner = NoOne <=> k.left = 0
            /\ \A c \in Clients : Stands(c, k)
            /\ \A a, b \in Clients : a # b => Apart(a, b, k)

L1 == TypeOK /\ \A c \in Clients : Sound(c)
L2 == \A m \in Masters, c \in Clients : Stands(c, master[m])
L3 == \A m \in Masters, a, b \in Clients : a # b => Apart(a, b, master[m])
Guarded == \A a \in Clients : Valid(a) => LET P(k) == Guards(a, k) IN OfQuorum(P)
Covered == \A a, b \in Clients : a # b /\ Valid(a) /\ Contends(b) => LET P(k) == Covers(a, b, k) IN OfQuorum(P)
Exclusion == \A a, b \in Clients : Valid(a) /\ Valid(b) => a = b

Inv == L1 /\ (\A m \in Masters : OfOne(master[m])) /\ Guarded /\ Covered /\ Exclusion

(* Guarded and Covered, step by step, for each master alone. The number of masters does not occur. *)
\* After `a` has won, its counted votes guard. Later no step takes a guard away.
KeepsGuard(a, m) ==
    LET before == IF Win(a) THEN m \in Counted(a) ELSE Guards(a, master[m])
    IN Valid(a)' /\ before => Guards(a, master[m])'

\* An acquire that begins after the win meets the guards. One that began before meets the votes that
\* count by their age, or, if `a` is in time, the cover of the validity before.
KeepsCover(a, b, m) ==
    LET before == CASE Win(a) /\ ~(InTime(a) /\ Contends(b)) -> m \in Counted(a)
                    [] ~Win(a) /\ ~Contends(b)               -> Guards(a, master[m])
                    [] OTHER                                 -> Covers(a, b, master[m])
    IN Valid(a)' /\ Contends(b)' /\ before => Covers(a, b, master[m])'

L4 == [][\A a \in Clients, m \in Masters : KeepsGuard(a, m)]_vars
L5 == [][\A a, b \in Clients, m \in Masters : a # b => KeepsCover(a, b, m)]_vars

\* While `a` is valid, no vote of a master that covers it counts for `b`. So b's quorum and that of
\* the cover would have no master in common: b cannot win.
L6 == \A a, b \in Clients, m \in Masters :
          a # b /\ Valid(a) /\ Contends(b) /\ Covers(a, b, master[m]) => m \notin Counted(b)
=============================================================================
