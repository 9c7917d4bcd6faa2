------------------------------ MODULE HandOff ------------------------------
(***************************************************************************)
(* The hand-off in one trip: the message of a master is its grant.         *)
(*                                                                         *)
(* A release hands the lock to the first waiter: each master writes the    *)
(* waiter's key for the claim time, and publishes the grant. The waiter    *)
(* has the lock when a quorum of messages is there. It sends an acquire    *)
(* with the full lease at once, the confirmation, and does not wait for    *)
(* the replies. It may read them after the claim time: if they prove that  *)
(* a quorum granted nobody else since, the lease has never lapsed.         *)
(*                                                                         *)
(* The waiter is handed the lock and confirms. The rival acquires, as in   *)
(* Exclusion.tla, and hands the lock on. All ticks are ticks of real time. *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets, TLC

CONSTANTS
    Masters, NoOne, Waiter, Rival,
    T,          \* the lease
    Claim,      \* the claim time
    D,          \* a round, and a grant by messages, is decided within D ticks
    Guard,      \* a memory younger than Guard has no vote
    Losses,     \* how many times a master loses its memory
    Faults,     \* "jump": a master's clock may jump one tick ahead
    Broken      \* the rules that are left out

VARIABLES
    key,        \* [Masters -> owner, ticks left]
    age,        \* [Masters -> for how long it has lost nothing]
    message,    \* [Masters -> the last grant to the waiter that is not lost]
    reply,      \* [Masters -> the answer to the confirmation]
    waiter,     \* what the waiter knows
    rival,      \* its lease and its round
    vote,       \* [Masters -> for how many ticks the rival's vote does not count yet; None]
    losses
vars == <<key, age, message, reply, waiter, rival, vote, losses>>

Kept(rule)  == rule \notin Broken
Minus(a, b) == IF a > b THEN a - b ELSE 0
Least(a, b) == IF a < b THEN a ELSE b
Quorums     == {Q \in SUBSET Masters : 2 * Cardinality(Q) > Cardinality(Masters)}
Ages        == 0..(T + Guard)
Older(n)    == Least(n + 1, T + Guard)

None == [is |-> FALSE]
Free == [owner |-> NoOne, left |-> 0]

\* since: ticks since the grant. jumped: by so much the client takes it for younger. wait: so long the memory
\* is not old enough. token, note: the master has granted nobody else since, and lost nothing.
Messages == {None} \cup [is: {TRUE}, since: Ages, jumped: 0..1, wait: 0..Guard, token: BOOLEAN, note: BOOLEAN]
Replies  == {None} \cup [is: {TRUE}, token: BOOLEAN, note: BOOLEAN]

\* left: ticks of validity that it knows of. sent: ticks since the stamp of the confirmation.
\* clash: the rival was valid after `left` had ended, before a reply proved anything.
Waiting == [phase |-> "waiting", left |-> 0, sent |-> 0, clash |-> FALSE, tried |-> FALSE]
Idle    == [holds |-> FALSE, left |-> 0, begun |-> FALSE, round |-> 0]

TypeOK ==
    /\ key \in [Masters -> [owner: {NoOne, Waiter, Rival}, left: 0..T]]
    /\ age \in [Masters -> 0..Guard]
    /\ message \in [Masters -> Messages] /\ reply \in [Masters -> Replies]
    /\ waiter \in [phase: {"waiting", "holding"}, left: 0..T, sent: Ages, clash: BOOLEAN, tried: BOOLEAN]
    /\ rival \in [holds: BOOLEAN, left: 0..T, begun: BOOLEAN, round: 0..T]

Holds == waiter.phase = "holding"
Open  == Holds /\ waiter.left = 0   \* only the replies can tell whether it has the lock

-----------------------------------------------------------------------------
(* The masters.                                                            *)

Noted(m) == IF message[m].is THEN [message EXCEPT ![m].token = FALSE] ELSE message

\* A release runs, or the undo of a rival's round: the lock goes to the waiter's place. Its token stays if the
\* master gave the last one to this place, too. The message may be lost, while an older one is still under way.
HandOff(m) ==
    /\ key[m].owner = NoOne \/ (key[m].owner = Rival /\ ~rival.holds /\ ~rival.begun)
    /\ key' = [key EXCEPT ![m] = [owner |-> Waiter, left |-> Claim]]
    /\ \E jumped \in IF "jump" \in Faults THEN 0..1 ELSE {0} :
           message' \in {message} \cup IF Holds THEN {} ELSE {[message EXCEPT ![m] =
               [is |-> TRUE, since |-> 0, jumped |-> jumped, wait |-> Guard - age[m], token |-> TRUE, note |-> TRUE]]}
    /\ UNCHANGED <<age, reply, waiter, rival, vote, losses>>

\* The confirmation runs, now or late. An acquire writes a key that is free or its owner's.
Confirm(m) ==
    /\ Holds /\ ~reply[m].is /\ message[m].is
    /\ key[m].owner \in {Waiter, NoOne}
    /\ key' = [key EXCEPT ![m] = [owner |-> Waiter, left |-> T]]
    /\ reply' = [reply EXCEPT ![m] = [is |-> TRUE, token |-> message[m].token, note |-> message[m].note]]
    /\ UNCHANGED <<age, message, waiter, rival, vote, losses>>

\* The rival's acquire runs, of this round or late. It gives a new token.
Vote(m) ==
    /\ vote[m] = Guard + 1 /\ key[m].owner \in {NoOne, Rival}
    /\ rival' = [rival EXCEPT !.begun = TRUE]
    /\ key' = [key EXCEPT ![m] = [owner |-> Rival, left |-> T]]
    /\ vote' = [vote EXCEPT ![m] = Guard - age[m]]
    /\ message' = Noted(m)
    /\ UNCHANGED <<age, reply, waiter, losses>>

\* Nothing is left, or an older memory, with any key and the token of any time.
Lose(m) ==
    /\ losses < Losses /\ losses' = losses + 1
    /\ age' = [age EXCEPT ![m] = 0]
    /\ \E owner \in {NoOne, Waiter, Rival}, left \in 1..T :
           key' = [key EXCEPT ![m] = IF owner = NoOne THEN Free ELSE [owner |-> owner, left |-> left]]
    /\ message' \in IF message[m].is THEN {[message EXCEPT ![m].note = FALSE],
                                           [message EXCEPT ![m].note = FALSE, ![m].token = TRUE]} ELSE {message}
    /\ UNCHANGED <<reply, waiter, rival, vote>>

-----------------------------------------------------------------------------
(* The waiter.                                                             *)

\* A lower bound of the instant of the grant: by the master's TIME then, and by a stamp before an
\* earlier exchange. Without the rule: the instant at which the message is read.
Since(m) == IF Kept("7 stamp of the grant") THEN Minus(message[m].since, message[m].jumped) ELSE 0

Counts(m) ==
    /\ message[m].is
    /\ message[m].wait = 0 \/ ~Kept("7 old memories only")
    /\ Since(m) <= D
    /\ message[m].jumped <= message[m].since  \* a grant later than its message: the clock was set

\* The smallest of the bounds is the stamp.
Stamp(Q) == LET all == {Since(m) : m \in Q}
            IN IF Kept("7 smallest bound") THEN CHOOSE n \in all : \A other \in all : n >= other
               ELSE CHOOSE n \in all : \A other \in all : n <= other

Take ==
    /\ ~Holds
    /\ waiter.tried => ~Kept("7 no attempt before")
    /\ \E Q \in Quorums :
           /\ \A m \in Q : Counts(m)
           /\ LET left == Minus(IF Kept("7 claim time") THEN Claim ELSE T, Stamp(Q))
              IN left > 0 /\ waiter' = [waiter EXCEPT !.phase = "holding", !.left = left]
    \* From now on it compares replies with the messages that counted.
    /\ message' = [m \in Masters |-> IF Counts(m) THEN message[m] ELSE None]
    /\ reply' = [m \in Masters |-> None]
    /\ UNCHANGED <<key, age, rival, vote, losses>>

\* A quorum answered with the tokens of their messages, and with the same notes.
Proves(m) ==
    /\ reply[m].is
    /\ reply[m].token \/ ~Kept("7 same token")
    /\ reply[m].note \/ ~Kept("7 same note")

Proven ==
    /\ Holds
    /\ \E Q \in Quorums : \A m \in Q : Proves(m)
    /\ LET left == Minus(T, IF Kept("7 stamp of the confirmation") THEN waiter.sent ELSE 0)
       IN left > waiter.left /\ waiter' = [waiter EXCEPT !.left = left]
    /\ UNCHANGED <<key, age, message, reply, rival, vote, losses>>

\* An attempt with the same place takes what was handed to it, and is undone. Messages about that may be late.
Attempt(m) ==
    /\ ~Holds /\ key[m].owner = Waiter
    /\ waiter' = [waiter EXCEPT !.tried = TRUE]
    /\ key' = [key EXCEPT ![m] = Free]
    /\ UNCHANGED <<age, message, reply, rival, vote, losses>>

\* It releases, or gives up, and comes back with a new place: old messages name a token that it does not have.
Leave ==
    /\ waiter' = Waiting
    /\ \E freed \in SUBSET {m \in Masters : key[m].owner = Waiter} :
           key' = [m \in Masters |-> IF m \in freed THEN Free ELSE key[m]]
    /\ message' = IF Kept("7 fresh place") THEN [m \in Masters |-> None] ELSE message
    /\ reply' = [m \in Masters |-> None]
    /\ UNCHANGED <<age, rival, vote, losses>>

-----------------------------------------------------------------------------
(* The rival, and time.                                                    *)

NoVotes == [m \in Masters |-> Guard + 1]

Win ==
    /\ rival.begun /\ ~rival.holds /\ rival.round < T
    /\ \E Q \in Quorums : \A m \in Q : vote[m] = 0
    /\ rival' = [Idle EXCEPT !.holds = TRUE, !.left = T - rival.round]
    /\ waiter' = [waiter EXCEPT !.clash = @ \/ Open]
    /\ vote' = NoVotes
    /\ UNCHANGED <<key, age, message, reply, losses>>

End ==
    /\ rival.holds \/ rival.begun
    /\ rival' = Idle /\ vote' = NoVotes
    /\ \E freed \in SUBSET {m \in Masters : key[m].owner = Rival} :
           key' = [m \in Masters |-> IF m \in freed THEN Free ELSE key[m]]
    /\ UNCHANGED <<age, message, reply, waiter, losses>>

Tick ==
    LET lives == IF rival.holds THEN rival.left > 1 ELSE rival.begun /\ rival.round < D
        left  == Minus(waiter.left, 1)
    IN /\ key' = [m \in Masters |-> IF key[m].left <= 1 THEN Free ELSE [key[m] EXCEPT !.left = @ - 1]]
       /\ age' = [m \in Masters |-> Least(age[m] + 1, Guard)]
       /\ message' = [m \in Masters |-> IF ~message[m].is THEN None ELSE
              [message[m] EXCEPT !.since = Older(@), !.wait = Minus(@, 1)]]
       /\ rival' = IF ~lives THEN Idle ELSE
              [rival EXCEPT !.left = Minus(@, 1), !.round = IF rival.begun THEN @ + 1 ELSE 0]
       /\ vote' = IF ~lives THEN NoVotes ELSE [m \in Masters |-> IF vote[m] > Guard THEN vote[m] ELSE Minus(vote[m], 1)]
       /\ waiter' = IF ~Holds THEN waiter ELSE
              [waiter EXCEPT !.left = left, !.sent = Older(@), !.clash = @ \/ (left = 0 /\ rival.holds /\ rival.left > 1)]
       /\ UNCHANGED <<reply, losses>>

Init ==
    /\ key = [m \in Masters |-> Free] /\ age = [m \in Masters |-> Guard]
    /\ message = [m \in Masters |-> None] /\ reply = [m \in Masters |-> None]
    /\ waiter = Waiting /\ rival = Idle /\ vote = NoVotes /\ losses = 0

OnMaster(m) == HandOff(m) \/ Confirm(m) \/ Vote(m) \/ Lose(m) \/ Attempt(m)
Next == Tick \/ Take \/ Proven \/ Leave \/ Win \/ End \/ \E m \in Masters : OnMaster(m)
Spec == Init /\ [][Next]_vars
Symmetry == Permutations(Masters)

\* No two are valid at one time. And a proof is right: nobody else was valid before it.
Exclusion == waiter.left > 0 => ~rival.holds
Proof     == waiter.left > 0 => ~waiter.clash
=============================================================================
