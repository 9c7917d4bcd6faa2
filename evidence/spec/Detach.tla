------------------------------- MODULE Detach -------------------------------
(* A hold that changes hands: `detach` and `adopt`. The numbers of the rules are those of
   docs/contributing/safety.md.

   The holder A has detached, or will. On each master its last command renames the key from A to H for L
   ticks; H is nobody's. An adopter renames H to its own name, which leaves the rest of the lease. It has
   the lock for that rest if a quorum did so, and renews it from there. Else it renames its keys back. A
   rival acquires, with a greater token.

   The handle carries a mark, decided while A is valid: the token of A if no master answered with a greater
   one, else a new one that a quorum stores for H. No master that gave a token above it counts for
   adopters.

   Each command to each master runs at any time after it was sent, or never: the detach and each rename
   once, an undo and a release at any time after the end, A's healings also after the detach. So a process
   that stops or is killed at any point is in the model, too. An adopter may ask as soon as the mark is
   decided: the handle travels at once.

   Left out, because Lock.tla has it: clocks of clients that run at other rates, renewal and healing by the
   adopter, handshakes and notes (here the age of a memory is known). Tokens after a loss of memory rest on
   clocks, so rows with losses check no tokens. *)
EXTENDS Common

CONSTANTS
    Adopters, Rivals,  \* sets of model values
    A, H, NoOne,
    T,          \* the lease of A and of rivals
    L,          \* the lease of the detached hold
    D,          \* a round is decided within D ticks
    Guard,      \* a memory younger than Guard has no vote
    Greatest,   \* the greatest fencing token
    Losses      \* how many times a master loses its memory

VARIABLES
    key,      \* [Masters -> owner, ticks left]
    fence,    \* [Masters -> the last token: 1 is that of A, 0 none]
    age,      \* [Masters -> for how long it has lost nothing]
    ran,      \* the masters that ran the detach
    told,     \* [Masters -> the last token, as a master answered the detach, or stored it for H]
    mark,     \* of the handle; 0: there is no handle yet
    client,   \* [Clients -> what a client knows]
    vote,     \* [Clients -> [Masters -> ticks until this vote counts]]
    given,    \* [Rivals -> [Masters -> the token that a master gave, or stored; 0: none]]
    rest,     \* [Adopters -> [Masters -> what is left of the lease that this master renamed, as it said]]
    later,    \* a rival has had the lock
    adopted,  \* so many adopters have had the lock
    between,  \* one of them had it after a rival
    losses
vars == <<key, fence, age, ran, told, mark, client, vote, given, rest, later, adopted, between, losses>>

Clients     == {A} \cup Adopters \cup Rivals
Longest     == Max(T, L)

Free    == [owner |-> NoOne, left |-> 0]
None    == Guard + 1              \* no command of this round has run
Nothing == Guard + 2              \* it ran, or runs too late, and its answer counts for nothing
Silent  == Greatest + 1           \* this master has not answered the detach
NoVotes == [m \in Masters |-> None]
NoneGiven == [m \in Masters |-> 0]
Idle    == [phase |-> "idle", left |-> 0, round |-> 0]

TypeOK ==
    /\ key \in [Masters -> [owner: Clients \cup {H, NoOne}, left: 0..Longest]]
    /\ fence \in [Masters -> 0..Greatest] /\ given \in [Rivals -> [Masters -> 0..Greatest]]
    /\ told \in [Masters -> 0..Silent] /\ mark \in 0..Greatest
    /\ age \in [Masters -> 0..Guard] /\ ran \subseteq Masters
    /\ client \in [Clients -> [phase: {"idle", "asking", "holding", "undoing", "released"},
                               left: 0..Longest, round: 0..T]]
    /\ rest \in [Adopters -> [Masters -> 0..Longest]]
    /\ vote \in [Clients -> [Masters -> 0..Nothing]]
    /\ later \in BOOLEAN /\ adopted \in 0..Cardinality(Adopters) /\ between \in BOOLEAN /\ losses \in 0..Losses

Holds(c) == client[c].phase = "holding" /\ client[c].left > 0

(* The holder. Its hold ends before its last command is sent.              *)
Detach ==
    /\ Holds(A)
    /\ client' = [client EXCEPT ![A].phase = "released"]
    /\ UNCHANGED <<key, fence, age, ran, told, mark, vote, given, rest, later, adopted, between, losses>>

RunDetach(m) ==
    /\ client[A].phase = "released" \/ ~Kept("3.12 the hold ends first")
    /\ m \notin ran /\ key[m].owner = A
    /\ key' = [key EXCEPT ![m] = [owner |-> H, left |-> L]]
    /\ ran' = ran \cup {m} /\ told' = IF mark = 0 THEN [told EXCEPT ![m] = fence[m]] ELSE told
    /\ UNCHANGED <<fence, age, mark, client, vote, given, rest, later, adopted, between, losses>>

Answers(low, high) == Cardinality({m \in Masters : told[m] \in low..high}) >= Majority
Above(token)       == \E m \in Masters : told[m] > token /\ told[m] # Silent

\* It counts where the handle has the lock.
Store(m) ==
    /\ mark = 0 /\ Answers(0, Greatest) /\ Above(1)
    /\ \E token \in 2..Greatest :
           /\ fence[m] < token /\ ~Above(token)
           /\ fence' = [fence EXCEPT ![m] = token]
           /\ told' = IF key[m].owner = H THEN [told EXCEPT ![m] = token] ELSE told
    /\ UNCHANGED <<key, age, ran, mark, client, vote, given, rest, later, adopted, between, losses>>

Mark ==
    /\ mark = 0 /\ client[A].phase = "released" /\ Answers(0, Greatest)
    /\ client[A].left > 0 \/ ~Kept("3.12 the mark is in time")
    /\ \E token \in 1..Greatest :
           /\ token = 1 \/ Answers(IF Kept("3.12 a quorum stores the mark") THEN token ELSE 0, token)
           /\ ~Above(token) \/ ~Kept("3.12 a mark of its own")
           /\ mark' = token
    /\ UNCHANGED <<key, fence, age, ran, told, client, vote, given, rest, later, adopted, between, losses>>

\* A late acquire gives a token above the last one, a healing leaves a greater one.
LateKey(m) ==
    /\ key[m].owner = NoOne
    /\ key' = [key EXCEPT ![m] = [owner |-> A, left |-> T]]
    /\ \E token \in {Max(fence[m], 1)} \cup (fence[m] + 1..Greatest) : fence' = [fence EXCEPT ![m] = token]
    /\ UNCHANGED <<age, ran, told, mark, client, vote, given, rest, later, adopted, between, losses>>

(* Adopters. A client asks once: each attempt has a name of its own.       *)
Stands(m) ==
    /\ \/ key[m].owner = H
       \/ key[m].owner = NoOne /\ ~Kept("3.12 no free key")
       \/ key[m].owner \notin {H, NoOne} /\ ~Kept("3.12 the old owner stands")
    /\ fence[m] <= Max(mark, 1) \/ ~Kept("3.12 no greater token since")

Swap(b, m) ==
    /\ vote[b][m] = None
    /\ client[b].phase # "idle" \/ mark # 0 \/ ~Kept("3.12 the hold ends first")
    /\ Stands(m) /\ key[m].owner # b
    /\ LET left == IF key[m].owner = NoOne THEN L ELSE key[m].left
       IN /\ key' = [key EXCEPT ![m] = [owner |-> b, left |-> left]]
          /\ rest' = [rest EXCEPT ![b][m] = left]
    /\ client' = [client EXCEPT ![b].phase = IF @ = "idle" THEN "asking" ELSE @]
    /\ vote' = [vote EXCEPT ![b][m] = IF client[b].phase \in {"idle", "asking"} THEN Guard - age[m] ELSE Nothing]
    /\ UNCHANGED <<fence, age, ran, told, mark, given, later, adopted, between, losses>>

Counted(c) == {m \in Masters : vote[c][m] = 0 \/ (vote[c][m] <= Guard /\ ~Kept("3.12 old memories only"))}

\* The shortest rest of the best quorum.
Adopt(b) ==
    LET quorum == IF Kept("3.12 a quorum") THEN Majority ELSE 1
        lasts(n) == Cardinality({m \in Counted(b) : rest[b][m] >= n}) >= quorum
    IN /\ client[b].phase = "asking"
       /\ \E n \in 1..Longest :
              /\ lasts(n) /\ ~lasts(n + 1)
              /\ client' = [client EXCEPT ![b] = [phase |-> "holding", left |-> n, round |-> 0]]
       /\ adopted' = adopted + 1 /\ between' = (between \/ later)
       /\ UNCHANGED <<key, fence, age, ran, told, mark, vote, given, rest, later, losses>>

\* It gives up, or gives the lock back, or dies.
Leave(b) ==
    /\ client[b].phase \in {"asking", "holding"}
    /\ client' = [client EXCEPT ![b] = [Idle EXCEPT !.phase =
           IF client[b].phase = "asking" THEN "undoing" ELSE "released"]]
    /\ UNCHANGED <<key, fence, age, ran, told, mark, vote, given, rest, later, adopted, between, losses>>

\* The undo leaves the rest of the lease.
Undo(b, m) ==
    /\ client[b].phase = "undoing"
    /\ key[m].owner = b \/ (key[m].owner \in Adopters /\ ~Kept("3.12 the undo is for its own"))
    /\ key' = [key EXCEPT ![m].owner = H]
    /\ UNCHANGED <<fence, age, ran, told, mark, client, vote, given, rest, later, adopted, between, losses>>

Release(b, m) ==
    /\ client[b].phase = "released" /\ key[m].owner = b
    /\ key' = [key EXCEPT ![m] = Free]
    /\ UNCHANGED <<fence, age, ran, told, mark, client, vote, given, rest, later, adopted, between, losses>>

(* Rivals acquire, again and again.                                        *)
Grant(c, m) ==
    /\ client[c].phase \in {"idle", "asking"} /\ vote[c][m] = None /\ key[m].owner = NoOne
    /\ key' = [key EXCEPT ![m] = [owner |-> c, left |-> T]]
    /\ \E token \in fence[m] + 1..Greatest :  \* the proposal, which comes from a clock
           fence' = [fence EXCEPT ![m] = token] /\ given' = [given EXCEPT ![c][m] = token]
    /\ client' = [client EXCEPT ![c].phase = "asking"]
    /\ vote' = [vote EXCEPT ![c][m] = Guard - age[m]]
    /\ UNCHANGED <<age, ran, told, mark, rest, later, adopted, between, losses>>

Granted(c) == Cardinality({m \in Masters : vote[c][m] = 0}) >= Majority

\* The masters gave different tokens: the greatest one, or a greater one, is stored.
Agree(c, m) ==
    /\ client[c].phase = "asking" /\ Granted(c)
    /\ \E token \in 1..Greatest :
           /\ fence[m] < token /\ \A n \in Masters : given[c][n] <= token
           /\ fence' = [fence EXCEPT ![m] = token]
           /\ given' = IF key[m].owner = c THEN [given EXCEPT ![c][m] = token] ELSE given
    /\ UNCHANGED <<key, age, ran, told, mark, client, vote, rest, later, adopted, between, losses>>

Win(c) ==
    /\ client[c].phase = "asking" /\ client[c].round < T
    /\ Granted(c) /\ \E token \in 1..Greatest : Cardinality({m \in Masters : given[c][m] = token}) >= Majority
    /\ client' = [client EXCEPT ![c] = [phase |-> "holding", left |-> T - client[c].round, round |-> 0]]
    /\ later' = TRUE
    /\ UNCHANGED <<key, fence, age, ran, told, mark, vote, given, rest, adopted, between, losses>>

Ended(keys, gone) == [m \in Masters |-> IF keys[m].owner \in gone THEN Free ELSE keys[m]]

End(c) ==
    /\ client[c].phase # "idle"
    /\ client' = [client EXCEPT ![c] = Idle]
    /\ key' = Ended(key, {c})
    /\ vote' = [vote EXCEPT ![c] = NoVotes] /\ given' = [given EXCEPT ![c] = NoneGiven]
    /\ UNCHANGED <<fence, age, ran, told, mark, rest, later, adopted, between, losses>>

(* Time passes, and masters lose their memory.                             *)
Aged(c) ==
    LET k    == client[c]
        left == Minus(k.left, 1)
    IN CASE k.phase = "asking" /\ k.round + 1 > D -> [Idle EXCEPT !.phase = IF c \in Rivals THEN "idle" ELSE "undoing"]
         [] k.phase = "asking"                    -> [k EXCEPT !.round = @ + 1]
         [] k.phase = "holding" /\ left = 0       -> [Idle EXCEPT !.phase = IF c \in Rivals THEN "idle" ELSE "released"]
         [] k.phase = "holding"                   -> [k EXCEPT !.left = left]
         [] OTHER                                 -> [k EXCEPT !.left = left]

Tick ==
    LET gone == {c \in Rivals : client[c].phase # "idle" /\ Aged(c).phase = "idle"}
    IN /\ client' = [c \in Clients |-> Aged(c)]
       /\ vote' = [c \in Clients |-> [m \in Masters |->
              IF c \in gone THEN None ELSE IF vote[c][m] \in 1..Guard THEN vote[c][m] - 1 ELSE vote[c][m]]]
       /\ key' = [m \in Masters |-> IF Ended(key, gone)[m].left <= 1 THEN Free
                                    ELSE [Ended(key, gone)[m] EXCEPT !.left = @ - 1]]
       /\ given' = [c \in Rivals |-> IF c \in gone THEN NoneGiven ELSE given[c]]
       /\ age' = [m \in Masters |-> Min(age[m] + 1, Guard)]
       /\ rest' = [b \in Adopters |-> [m \in Masters |-> IF Aged(b).phase = "asking" THEN Minus(rest[b][m], 1) ELSE 0]]
       /\ UNCHANGED <<fence, ran, told, mark, later, adopted, between, losses>>

\* Empty, or with the key of A, of the handle, or the present one, and any rest of its lease.
Lose(m) ==
    /\ losses > 0 /\ losses' = losses - 1
    /\ \E owner \in {NoOne, A, H, key[m].owner} : \E left \in IF owner = NoOne THEN {0} ELSE 1..Longest :
           key' = [key EXCEPT ![m] = [owner |-> owner, left |-> left]]
    /\ \E token \in {0, fence[m]} : fence' = [fence EXCEPT ![m] = token]
    /\ age' = [age EXCEPT ![m] = 0]
    /\ UNCHANGED <<ran, told, mark, client, vote, given, rest, later, adopted, between>>

\* A has the lock, with the votes of a quorum or of more.
Init ==
    /\ \E of \in {Q \in SUBSET Masters : Cardinality(Q) >= Majority} :
           /\ key = [m \in Masters |-> IF m \in of THEN [owner |-> A, left |-> T] ELSE Free]
           /\ fence = [m \in Masters |-> IF m \in of THEN 1 ELSE 0]
    /\ age = [m \in Masters |-> Guard] /\ ran = {}
    /\ client = [c \in Clients |-> IF c = A THEN [phase |-> "holding", left |-> T, round |-> 0] ELSE Idle]
    /\ vote = [c \in Clients |-> NoVotes] /\ rest = [b \in Adopters |-> [m \in Masters |-> 0]]
    /\ told = [m \in Masters |-> Silent] /\ mark = 0 /\ given = [c \in Rivals |-> NoneGiven]
    /\ later = FALSE /\ adopted = 0 /\ between = FALSE /\ losses = Losses

Next == \/ Detach \/ Mark \/ Tick
        \/ \E m \in Masters : RunDetach(m) \/ Store(m) \/ LateKey(m) \/ Lose(m)
        \/ \E b \in Adopters : Adopt(b) \/ Leave(b) \/ \E m \in Masters : Swap(b, m) \/ Undo(b, m) \/ Release(b, m)
        \/ \E c \in Rivals : Win(c) \/ End(c) \/ \E m \in Masters : Grant(c, m) \/ Agree(c, m)
Spec == Init /\ [][Next]_vars

Exclusion   == \A a, b \in Clients : Holds(a) /\ Holds(b) => a = b
OneAdopter  == adopted <= 1
\* The adopter's token is that of A: nobody had a greater one before.
NoneBetween == ~between
\* A handle that stands on a quorum which answered its detach can be adopted, unless a rival had the lock.
GoodHandle  ==
    LET stands(these) == Cardinality({m \in these : key[m].owner = H}) >= Majority
    IN mark # 0 /\ ~later /\ stands({m \in Masters : told[m] # Silent}) => stands({m \in Masters : fence[m] <= mark})

(* Violated on purpose: a model in which nothing happens is safe, too.     *)
NobodyAdopts    == adopted = 0
NobodyComesBack == \A b \in Adopters : ~(client[b].phase = "undoing" /\ adopted = 1 /\ later)

Symmetry == Permutations(Masters) \cup Permutations(Adopters) \cup Permutations(Rivals)
=============================================================================
