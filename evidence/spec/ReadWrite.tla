------------------------------ MODULE ReadWrite ------------------------------
(* Shared and exclusive holds of one lock: one writer, or any number of readers. It is Lock.tla with
   another question on the master: not "is this key another owner's?" but "does a key stand there that
   excludes this one?". Reader and writer need a majority each: two majorities meet in a master that sees
   both.

   Each reader has a deadline of its own on each master. A writer may become a reader: its renewal writes a
   shared key in place of its exclusive one. A reader never becomes a writer.

   Tokens: a master gives a writer a token above its last one, and tells a reader its last one. A client
   has a token when a quorum has the same one for it. Otherwise it writes the greatest one back, as in
   Fence.tla: a writer stores it where the last token is lower, a reader where it is not higher. A storage
   that keeps the greatest token of a writer refuses each hold that ended before: TokensOrder.

   Left out, because Lock.tla has it: handshakes and notes, clocks that lose ticks, a vote that becomes old
   enough during its round, remains of dead attempts. The script with which a writer becomes a reader reads
   no note. Its client goes by the last one that it read, which is this one: the key still stands, and the
   answer to the command that wrote it came earlier. The order of waiting changes no vote. After a loss of
   memory tokens rest on clocks, so rows with losses have none. *)
EXTENDS Common

CONSTANTS
    Readers, Writers,           \* sets of model values
    T,                          \* a lease lasts T ticks on a master
    Short, ShortT,              \* clients with a shorter lease
    D,                          \* an acquire is decided within D ticks
    Guard,                      \* a memory younger than Guard has no vote
    Losses,                     \* so many masters may lose their memory
    MaxToken, Proposals         \* 0: no tokens; a writer proposes one of these, or 0

VARIABLES
    key,     \* [Masters -> [Clients -> the kind of its key, and the rest of its lease]]
    master,  \* [Masters -> the age of its memory, and its last token]
    client,  \* [Clients -> what a client does, and since when]
    vote,    \* [Clients -> [Masters -> what came of the command of this round, and the token]]
    losses,
    won      \* the greatest token of a writer, and of any client; whether some token was too low
vars == <<key, master, client, vote, losses, won>>

Clients    == Readers \cup Writers
Lease(c)   == IF c \in Short THEN ShortT ELSE T

NoKey  == [kind |-> "none", left |-> 0]
NotRun == [answer |-> "none", token |-> 0]
Idle(c) == [phase |-> "idle", kind |-> IF c \in Writers THEN "exclusive" ELSE "shared",
            left |-> 0, round |-> 0, token |-> 0]

TypeOK ==
    /\ key \in [Masters -> [Clients -> [kind: {"none", "shared", "exclusive"}, left: 0..T]]]
    /\ master \in [Masters -> [age: 0..Guard, token: 0..MaxToken]]
    /\ client \in [Clients -> [phase: {"idle", "acquiring", "holding"}, kind: {"shared", "exclusive"},
                               left: 0..T, round: 0..T, token: 0..MaxToken]]
    /\ vote \in [Clients -> [Masters -> [answer: {"none", "old", "young"}, token: 0..MaxToken]]]
    /\ losses \in 0..Losses
    /\ won \in [writer: 0..MaxToken, any: 0..MaxToken, late: BOOLEAN]

(* The scripts on a master.                                                *)
Stands(m, c)   == key[m][c].kind # "none"
Excluded(m, c) == \E o \in Clients \ {c} :
    Stands(m, o) /\ (client[c].kind = "exclusive" \/ key[m][o].kind = "exclusive")

\* A key that excludes another one takes its place. Without a deadline of its own each reader sets that of all.
Written(m, c) ==
    LET other(o) == IF "exclusive" \in {client[c].kind, key[m][o].kind} THEN NoKey
                    ELSE IF key[m][o].kind = "shared" /\ ~Kept("own deadline") THEN [kind |-> "shared", left |-> Lease(c)]
                    ELSE key[m][o]
    IN [o \in Clients |-> IF o = c THEN [kind |-> client[c].kind, left |-> Lease(c)] ELSE other(o)]

Runs(c, m, answer, token, stored) ==
    /\ vote[c][m] = NotRun
    /\ key' = [key EXCEPT ![m] = Written(m, c)]
    /\ vote' = [vote EXCEPT ![c][m] = [answer |-> answer, token |-> token]]
    /\ master' = [master EXCEPT ![m].token = stored]
    /\ UNCHANGED <<losses, won>>

Judged(m) == IF master[m].age >= Guard THEN "old" ELSE "young"

\* A token above the last one for a writer, the last one itself for a reader.
Given(c, m) ==
    IF MaxToken = 0 \/ client[c].kind = "shared" THEN {master[m].token}
    ELSE {t \in {master[m].token + 1} \cup Proposals : t > master[m].token /\ t <= MaxToken}

Grant(c, m) ==
    /\ client[c].phase \in {"idle", "acquiring"} /\ ~Excluded(m, c)
    /\ \E t \in Given(c, m) : Runs(c, m, Judged(m), t, t)
    /\ client' = [client EXCEPT ![c].phase = "acquiring"]

\* A renewal, also the one that makes an exclusive key a shared one.
Extend(c, m) ==
    /\ client[c].phase = "holding" /\ Stands(m, c)
    /\ Runs(c, m, Judged(m), 0, master[m].token) /\ UNCHANGED client

MayHeal(c, m) == ~Stands(m, c) /\ (~Excluded(m, c) \/ ~Kept("heal where nothing excludes it"))
Heal(c, m) ==
    /\ client[c].phase = "holding" /\ MayHeal(c, m)
    /\ Runs(c, m, "young", 0, master[m].token) /\ UNCHANGED client

\* A renewal of an earlier round runs. Nobody reads its answer.
LateWrite(c, m) ==
    /\ client[c].phase = "holding" /\ (Stands(m, c) \/ MayHeal(c, m))
    /\ key' = [key EXCEPT ![m] = Written(m, c)]
    /\ UNCHANGED <<master, client, vote, losses, won>>

(* The client decides.                                                     *)
Begun(c)  == \E m \in Masters : vote[c][m] # NotRun
Valid(c)  == client[c].phase = "holding" /\ client[c].left > 0
InTime(c) == client[c].phase = "holding" /\ D < client[c].left
Counted(c) == {m \in Masters : vote[c][m].answer = "old" \/ (vote[c][m] # NotRun /\ InTime(c))}

\* "q - 1 refusals": a writer wins unless a majority refuses it.
HasQuorum(c) ==
    \/ Cardinality(Counted(c)) >= Majority
    \/ Counted(c) # {} /\ client[c].kind = "shared" /\ ~Kept("a majority for readers")
    \/ /\ Counted(c) # {} /\ client[c].kind = "exclusive" /\ ~Kept("a majority for writers")
       /\ Cardinality({m \in Masters : Excluded(m, c)}) < Majority

Tokens(c) == {vote[c][m].token : m \in Counted(c)}
Agreed(c) ==
    IF MaxToken = 0 THEN {0}
    ELSE {t \in Tokens(c) : \/ Cardinality({m \in Counted(c) : vote[c][m].token = t}) >= Majority
                            \/ client[c].kind = "shared" /\ ~Kept("a reader's token is agreed")}

NoRound(c) == [vote EXCEPT ![c] = [m \in Masters |-> NotRun]]

\* The greatest token is written back where the client's key stands.
Store(c, m) ==
    /\ client[c].phase = "acquiring" /\ HasQuorum(c) /\ Agreed(c) = {} /\ Stands(m, c)
    /\ \E t \in MaxOf(Tokens(c))..MaxToken :
           /\ client[c].kind = "shared" => t = MaxOf(Tokens(c))
           /\ t > master[m].token \/ client[c].kind = "shared"
           /\ master' = [master EXCEPT ![m].token = IF t > @ THEN t ELSE @]
           /\ vote' = [vote EXCEPT ![c][m] = [answer |-> IF @ = NotRun THEN Judged(m) ELSE @.answer, token |-> t]]
    /\ UNCHANGED <<key, client, losses, won>>

Win(c) ==
    /\ client[c].phase # "idle" /\ HasQuorum(c) /\ client[c].round < Lease(c)
    /\ \E t \in IF client[c].phase = "holding" THEN {client[c].token} ELSE Agreed(c) :
           /\ client' = [client EXCEPT ![c] = [phase |-> "holding", kind |-> @.kind, left |-> Lease(c) - @.round,
                                               round |-> 0, token |-> t]]
           /\ won' = IF client[c].phase = "holding" \/ MaxToken = 0 THEN won
                     ELSE IF client[c].kind = "exclusive"
                     THEN [writer |-> MaxOf({t, won.writer}), any |-> MaxOf({t, won.any}), late |-> won.late \/ t <= won.any]
                     ELSE [won EXCEPT !.any = MaxOf({t, @}), !.late = @ \/ t < won.writer]
    /\ vote' = NoRound(c)
    /\ UNCHANGED <<key, master, losses>>

\* An undo or a release.
End(c) ==
    /\ client[c].phase # "idle"
    /\ client' = [client EXCEPT ![c] = Idle(c)]
    /\ key' = [m \in Masters |-> [key[m] EXCEPT ![c] = NoKey]]
    /\ vote' = NoRound(c)
    /\ UNCHANGED <<master, losses, won>>

\* A round of renewal is given up, and another one is sent.
Again(c) ==
    /\ Valid(c) /\ Begun(c)
    /\ client' = [client EXCEPT ![c].round = 0] /\ vote' = NoRound(c)
    /\ UNCHANGED <<key, master, losses, won>>

\* The writer becomes a reader, for the rest of its lease. Its next renewal writes shared keys.
Downgrade(c) ==
    /\ Valid(c) /\ client[c].kind = "exclusive"
    /\ vote' \in {vote, NoRound(c)}
    /\ LET began == IF vote' = vote /\ Kept("a round keeps its beginning") THEN client[c].round ELSE 0
       IN client' = [client EXCEPT ![c].kind = "shared", ![c].round = began]
    /\ UNCHANGED <<key, master, losses, won>>

Upgrade(c) ==
    /\ ~Kept("no upgrade") /\ Valid(c) /\ client[c].kind = "shared"
    /\ client' = [client EXCEPT ![c].kind = "exclusive", ![c].round = 0] /\ vote' = NoRound(c)
    /\ UNCHANGED <<key, master, losses, won>>

(* Time passes, and masters lose their memory.                             *)
Aged(c) ==
    LET k    == client[c]
        next == [k EXCEPT !.round = IF Begun(c) /\ @ < T THEN @ + 1 ELSE @, !.left = IF @ > 0 THEN @ - 1 ELSE 0]
        dead == CASE k.phase = "idle"    -> TRUE
                  [] k.phase = "holding" -> next.left = 0
                  [] OTHER               -> next.round > D \/ next.round >= Lease(c)
    IN IF dead THEN Idle(c) ELSE next

Tick ==
    LET next == [c \in Clients |-> Aged(c)]
    IN /\ client' = next
       /\ key' = [m \in Masters |-> [c \in Clients |->
              IF key[m][c].left <= 1 \/ next[c].phase = "idle" THEN NoKey ELSE [key[m][c] EXCEPT !.left = @ - 1]]]
       /\ master' = [m \in Masters |-> [master[m] EXCEPT !.age = IF @ < Guard THEN @ + 1 ELSE @]]
       /\ vote' = [c \in Clients |-> IF next[c].phase = "idle" THEN [m \in Masters |-> NotRun] ELSE vote[c]]
       /\ UNCHANGED <<losses, won>>

Restart(m) ==
    /\ losses > 0 /\ losses' = losses - 1
    /\ key' = [key EXCEPT ![m] = [c \in Clients |-> NoKey]]
    /\ master' = [master EXCEPT ![m].age = 0]
    /\ UNCHANGED <<client, vote, won>>

Init ==
    /\ key = [m \in Masters |-> [c \in Clients |-> NoKey]]
    /\ master = [m \in Masters |-> [age |-> Guard, token |-> 0]]
    /\ client = [c \in Clients |-> Idle(c)]
    /\ vote = [c \in Clients |-> [m \in Masters |-> NotRun]]
    /\ losses = Losses /\ won = [writer |-> 0, any |-> 0, late |-> FALSE]

Next == \/ Tick
        \/ \E m \in Masters : Restart(m)
        \/ \E c \in Clients : Win(c) \/ End(c) \/ Again(c) \/ Downgrade(c) \/ Upgrade(c)
        \/ \E c \in Clients, m \in Masters : Grant(c, m) \/ Extend(c, m) \/ Heal(c, m) \/ LateWrite(c, m) \/ Store(c, m)
Spec == Init /\ [][Next]_vars

(* What is promised.                                                       *)
Exclusion == \A a, b \in Clients : Valid(a) /\ Valid(b) /\ client[a].kind = "exclusive" => a = b

\* A writer's token is above those of all earlier holds. A reader's token is not below that of an earlier writer.
TokensOrder == ~won.late

(* Violated on purpose: a model in which nothing happens is safe, too.     *)
NoTwoReaders  == \A a, b \in Clients : Valid(a) /\ Valid(b) => a = b
NoDowngrade   == \A c \in Writers : ~(Valid(c) /\ client[c].kind = "shared" /\ HasQuorum(c))
NoReaderAfter == \A c \in Readers : ~(Valid(c) /\ client[c].token > 0)

Symmetry == UNION {Permutations(S) : S \in {Masters, Readers \ Short, Readers \cap Short, Writers \ Short}}
=============================================================================
