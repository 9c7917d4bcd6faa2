------------------------------ MODULE HandOff ------------------------------
(* The hand-off in one trip, together with acquire, renewal, healing, the restart guard, eviction and the
   fencing token. The numbers of the rules are those of docs/contributing/safety.md.

   A release hands the lock to a waiter: each master writes the waiter's key for the claim time, gives a
   fencing token, and publishes both. The waiter has the lock when a quorum of messages with one token is
   there. It sends the confirmation, and does not wait for the replies. It may read them at any later time:
   they prove that its lease never lapsed, or they prove nothing.

   Everything that is under way may be held back, for each master, each direction and each connection
   apart: a message is read at any time after it was published, a confirmation, an acquire, a renewal, a
   release, a write of a token and an eviction run at any time after they were sent, or never, and a reply
   is read at any time after that. So a client that stops at any point and goes on is in the model, too.

   Reductions, as in Lock.tla: a round begins with its first command. A reply is there when its command has
   run, because the client may decide at any later time. The dead share one name: `Past` owns each key
   whose release or undo is under way. A client that has ended gets a new name. The round that writes a
   token back is one step of its winner, and what it has not reached runs later (Fence.tla has each step of
   that round).

   Left out: the queue (Queue.tla; here any release may hand any key to any waiter, also twice), hold
   counts, two lengths of leases, handshakes and notes (Lock.tla; here the age of a memory is known),
   clocks of clients that run at other rates (Exclusion.tla), groups (Groups.tla), tokens that a master
   forgot (docs/guarantees.md, assumption 6: TokensRise is checked without losses of memory), and the time
   out that decides whether a waiter takes one trip or two: it does either at any time. An evicted waiter
   is not handed the lock again. Commands of one client to one master run in the order in which they were
   sent, so none of an attempt that is over runs behind a confirmation. All ticks are ticks of real time.
   A client reads its replies and its clock in one step (evidence/bugs: lease as it was before the reading). *)
EXTENDS Common

CONSTANTS
    Clients,    \* a set of model values
    Waiters,    \* the clients to which releases hand the lock
    Renewing,   \* the clients that renew and heal
    NoOne, Past,
    T,          \* the lease
    Claim,      \* the claim time
    D,          \* an acquire, and a grant by messages, is decided within D ticks
    Guard,      \* a memory younger than Guard has no vote
    MaxToken,   \* tokens are at most as high: no master gives a higher one
    Proposals,  \* a grant proposes one of these tokens
    Losses,     \* how many times a master loses its memory
    Faults      \* "jump": a master's clock may jump one tick ahead; "evict": an operator evicts a waiter

ASSUME Waiters \subseteq Clients /\ Renewing \subseteq Clients /\ Claim <= T /\ D < T

VARIABLES
    key,        \* [Masters -> owner, ticks left]
    fence,      \* [Masters -> the last token, and its owner]
    late,       \* [Masters -> a token that a dead client still writes; 0: none]
    age,        \* [Masters -> for how long it has lost nothing]
    client,     \* [Clients -> what a client knows]
    vote,       \* [Clients -> [Masters -> what this round got there]]
    message,    \* [Waiters -> [Masters -> the last hand-off that is not lost]]
    reply,      \* [Waiters -> [Masters -> the answer to the confirmation]]
    evicted,    \* [Waiters -> the masters that ran the eviction, and what the waiter had by then]
    top,        \* the greatest token of a hold until now
    fell,       \* a later hold had no greater token
    losses
vars == <<key, fence, late, age, client, vote, message, reply, evicted, top, fell, losses>>

IsQuorum(Q) == Cardinality(Q) >= Majority
Quorums     == {Q \in SUBSET Masters : IsQuorum(Q)}
Tokens      == 0..MaxToken

None == [is |-> FALSE]
Free == [owner |-> NoOne, left |-> 0]

\* since: ticks since the hand-off, as the client dates it. ahead: the clock had jumped, so it was a tick more.
\* wait: for so long the memory is not old enough. note: the master has lost nothing since.
Message == {None} \cup [is: {TRUE}, token: Tokens, since: 0..T, ahead: 0..1, wait: 0..Guard, note: BOOLEAN]

\* left: ticks of validity. round: ticks since the stamp of this round. sent: since that of the confirmation.
\* open: the replies to the confirmation may still prove something. clash: another one was valid after `left`.
Idle == [phase |-> "idle", left |-> 0, begun |-> FALSE, round |-> 0, token |-> 0, sent |-> 0,
         open |-> FALSE, clash |-> FALSE]
NoVotes == [m \in Masters |-> None]
NoReply == [m \in Masters |-> "none"]
Stays   == [at |-> {}, left |-> 0]

TypeOK ==
    /\ key \in [Masters -> [owner: Clients \cup {NoOne, Past}, left: 0..T]]
    /\ fence \in [Masters -> [token: Tokens, owner: Clients \cup {NoOne}]]
    /\ late \in [Masters -> Tokens] /\ age \in [Masters -> 0..Guard]
    /\ client \in [Clients -> [phase: {"idle", "asking", "holding"}, left: 0..T, begun: BOOLEAN, round: 0..T,
                               token: Tokens, sent: 0..T, open: BOOLEAN, clash: BOOLEAN]]
    /\ vote \in [Clients -> [Masters -> {None} \cup [is: {TRUE}, token: Tokens, wait: 0..Guard]]]
    /\ message \in [Waiters -> [Masters -> Message]]
    /\ reply \in [Waiters -> [Masters -> {"none", "yes", "no"}]]
    /\ evicted \in [Waiters -> [at: SUBSET Masters, left: 0..T]]
    /\ top \in Tokens /\ fell \in BOOLEAN /\ losses \in 0..Losses

Holds(c)  == client[c].phase = "holding"
Safe(c)   == IF c \in Waiters THEN evicted[c].at = {} ELSE TRUE   \* nobody evicts it
Valid(c)  == Holds(c) /\ client[c].left > 0 /\ Safe(c)
May(c, m) == IF c \in Waiters THEN m \notin evicted[c].at ELSE TRUE

(* The fencing token of a grant (rule 3.8).                                *)
\* A master gives a token above its last one, and at least the proposed one; the owner of the last one has it.
Given(m, owner) ==
    IF fence[m].owner = owner THEN {fence[m].token}
    ELSE {t \in {Max(fence[m].token + 1, p) : p \in Proposals} : t <= MaxToken}

Stored(m, token, owner) == IF fence[m].token < token THEN [token |-> token, owner |-> owner] ELSE fence[m]

\* A quorum gave one token, or the greatest one is written to a quorum: [token, the masters that count for it].
\* A write counts where the owner has the lock. Otherwise a later owner could get a quorum without meeting it.
Agreed(given, owner) ==
    LET all  == {given[m] : m \in DOMAIN given}
        one  == {t \in all : IsQuorum({m \in DOMAIN given : given[m] = t})}
        most == CHOOSE t \in all : \A other \in all : other <= t
        can  == {m \in Masters : /\ fence[m].token < most \/ fence[m] = [token |-> most, owner |-> owner]
                                 /\ key[m].owner = owner \/ ~Kept("3.8 stored where the lock is held")}
    IN IF one # {} THEN [token: one, stored: {{}}]
       ELSE [token: {most}, stored: {Q \in SUBSET can : IsQuorum(Q)}]

\* The rest of the writes comes late, or never.
Writes(owner, agreed) ==
    LET stores(m) == agreed.stored # {} /\ fence[m].token < agreed.token
    IN /\ fence' = [m \in Masters |-> IF m \in agreed.stored THEN Stored(m, agreed.token, owner) ELSE fence[m]]
       /\ late' = [m \in Masters |-> IF stores(m) /\ m \notin agreed.stored THEN agreed.token ELSE late[m]]

LateWrite(m) ==
    /\ late[m] > 0
    /\ fence' = [fence EXCEPT ![m] = Stored(m, late[m], NoOne)]
    /\ late' = [late EXCEPT ![m] = 0]
    /\ UNCHANGED <<key, age, client, vote, message, reply, evicted, top, fell, losses>>

\* A hold begins. What an evicted client still believes is nobody's promise.
Begins(c, token) ==
    /\ top' = IF Safe(c) THEN Max(top, token) ELSE top
    /\ fell' = (fell \/ (Safe(c) /\ token <= top))

(* Acquire, renewal and healing, as in Exclusion.tla.                      *)
\* An acquire takes a free key, and that of its place, under another name. A renewal extends its own key, healing puts it back.
Vote(c, m) ==
    /\ Holds(c) => c \in Renewing /\ client[c].left > 0
    /\ vote[c][m] = None /\ key[m].owner \in {c, NoOne}
    /\ Holds(c) /\ key[m].owner = NoOne => May(c, m)
    /\ \E token \in IF Holds(c) THEN {client[c].token} ELSE Given(m, Past) :
           /\ fence' = [fence EXCEPT ![m] = IF ~Holds(c) THEN [token |-> token, owner |-> c]
                                             ELSE IF key[m].owner = NoOne THEN Stored(m, token, c) ELSE @]
           /\ vote' = [vote EXCEPT ![c][m] = [is |-> TRUE, token |-> token, wait |-> Guard - age[m]]]
    /\ key' = [key EXCEPT ![m] = [owner |-> c, left |-> T]]
    /\ client' = [client EXCEPT ![c].begun = TRUE, ![c].phase = IF Holds(c) THEN @ ELSE "asking"]
    /\ message' = IF ~Holds(c) /\ c \in Waiters /\ Kept("3.10 no attempt before")
                  THEN [message EXCEPT ![c] = NoVotes] ELSE message
    /\ evicted' = IF ~Holds(c) /\ c \in Waiters THEN [evicted EXCEPT ![c] = Stays] ELSE evicted
    /\ UNCHANGED <<late, age, reply, top, fell, losses>>

\* Rule 3.7: each acquire that was sent before now is decided before the validity ends.
Counts(c, m) == vote[c][m].is /\ (vote[c][m].wait = 0 \/ (Holds(c) /\ D < client[c].left))

\* Somebody else is valid from now on: no proof of an open lease is true any more.
Clashes(c, next) == [o \in Clients |->
    IF o # c /\ Holds(o) /\ client[o].open /\ client[o].left = 0 THEN [next[o] EXCEPT !.clash = TRUE] ELSE next[o]]

Win(c) ==
    /\ client[c].phase = "asking" /\ client[c].round <= D
    /\ IsQuorum({m \in Masters : Counts(c, m)})
    /\ LET had == {m \in Masters : vote[c][m].is}
       IN \E agreed \in Agreed([m \in had |-> vote[c][m].token], c) :
           /\ Writes(c, agreed)
           /\ Begins(c, agreed.token)
           /\ client' = Clashes(c, [client EXCEPT ![c] =
                  [Idle EXCEPT !.phase = "holding", !.left = T - client[c].round, !.token = agreed.token]])
    /\ vote' = [vote EXCEPT ![c] = NoVotes]
    /\ UNCHANGED <<key, age, message, reply, evicted, losses>>

\* A quorum was renewed or healed, before the old validity ended. The replies of the confirmation are too old then.
Renewed(c) ==
    /\ Holds(c) /\ client[c].begun /\ client[c].left > 0
    /\ IsQuorum({m \in Masters : Counts(c, m)})
    /\ client' = [client EXCEPT ![c].left = Max(@, T - client[c].round), ![c].begun = FALSE, ![c].round = 0,
                                ![c].open = FALSE, ![c].sent = 0]
    /\ vote' = [vote EXCEPT ![c] = NoVotes]
    /\ message' = IF c \in Waiters THEN [message EXCEPT ![c] = NoVotes] ELSE message
    /\ reply' = IF c \in Waiters THEN [reply EXCEPT ![c] = NoReply] ELSE reply
    /\ UNCHANGED <<key, fence, late, age, evicted, top, fell, losses>>

Again(c) ==
    /\ Holds(c) /\ client[c].begun
    /\ client' = [client EXCEPT ![c].begun = FALSE, ![c].round = 0]
    /\ vote' = [vote EXCEPT ![c] = NoVotes]
    /\ UNCHANGED <<key, fence, late, age, message, reply, evicted, top, fell, losses>>

(* The hand-off.                                                           *)
\* A release runs behind the token that its client still writes, unless their connection was cut.
InOrder(m) == "cut" \in Faults \/ late[m] = 0 \/ key[m].owner # Past

\* A release or an undo runs, or a waiter that has gone passes on what it got. The message may be lost, or held
\* back while an older one is there.
HandOff(w, m) ==
    /\ key[m].owner \in {NoOne, Past} /\ InOrder(m)
    /\ May(w, m) \/ (Holds(w) /\ ~Kept("3.10 the evicted are passed over"))
    /\ key' = [key EXCEPT ![m] = [owner |-> w, left |-> Claim]]
    /\ \E token \in IF Kept("3.10 a fresh token") THEN Given(m, Past) ELSE Given(m, w),
          ahead \in IF "jump" \in Faults THEN 0..1 ELSE {0} :
           /\ fence' = [fence EXCEPT ![m] = [token |-> token, owner |-> w]]
           /\ message' \in {message} \cup IF client[w].phase # "idle" THEN {} ELSE {[message EXCEPT ![w][m] =
                  [is |-> TRUE, token |-> token, since |-> 0, ahead |-> ahead, wait |-> Guard - age[m], note |-> TRUE]]}
    /\ UNCHANGED <<late, age, client, vote, reply, evicted, top, fell, losses>>

Release(m) ==
    /\ key[m].owner = Past /\ key' = [key EXCEPT ![m] = Free] /\ InOrder(m)
    /\ UNCHANGED <<fence, late, age, client, vote, message, reply, evicted, top, fell, losses>>

\* A lower bound of the instant of the hand-off: by the master's TIME then, and by a stamp before an earlier
\* exchange. Without the rule: the instant at which the message is read.
Since(k) == IF Kept("3.10 stamp of the grant") THEN k.since ELSE 0
Length   == IF Kept("3.10 claim time") THEN Claim ELSE T

Usable(k) ==
    /\ k.is
    /\ k.wait = 0 \/ ~Kept("3.10 old memories only")
    /\ Since(k) < Length \/ ~Kept("3.10 whole messages")

\* The smallest bound of the best quorum.
Stamp(given, w) ==
    LET after(n) == {m \in given : Since(message[w][m]) <= n}
        enough   == {n \in 0..T : IF Kept("3.10 smallest bound") THEN IsQuorum(after(n)) ELSE after(n) # {}}
    IN CHOOSE n \in enough : \A other \in enough : n <= other

\* The waiter has read these messages, and sends its confirmation.
Take(w) ==
    /\ client[w].phase = "idle"
    /\ \E given \in Quorums :
           /\ \A m \in given : Usable(message[w][m])
           /\ Kept("3.10 whole messages") => \A m, o \in given : message[w][m].token = message[w][o].token
           /\ LET stamp == Stamp(given, w)
                  left  == Minus(Length, stamp)
              IN /\ left > 0 /\ stamp <= D
                 /\ \E agreed \in Agreed([m \in given |-> message[w][m].token], w) :
                        /\ Writes(w, agreed)
                        /\ Begins(w, agreed.token)
                        /\ client' = Clashes(w, [client EXCEPT ![w] =
                               [Idle EXCEPT !.phase = "holding", !.left = left, !.token = agreed.token, !.open = TRUE]])
           /\ message' = [message EXCEPT ![w] = [m \in Masters |-> IF m \in given THEN message[w][m] ELSE None]]
    /\ reply' = [reply EXCEPT ![w] = NoReply]
    /\ UNCHANGED <<key, age, vote, evicted, losses>>

\* The confirmation runs, now or late. It prolongs the grant that it names, and no other; what it answers counts
\* where the waiter took a message.
Confirm(w, m) ==
    LET named == key[m].owner = w /\
                 \/ fence[m] = [token |-> client[w].token, owner |-> w]
                 \/ ~Kept("3.10 it names the grant")
        told  == message[w][m]
        same  == told.is /\ (told.note \/ ~Kept("3.10 same memory"))
    IN /\ Holds(w) /\ client[w].open /\ reply[w][m] = "none"
       /\ key' = IF named THEN [key EXCEPT ![m].left = T] ELSE key
       /\ reply' = [reply EXCEPT ![w][m] = IF named /\ same THEN "yes" ELSE "no"]
       /\ UNCHANGED <<fence, late, age, client, vote, message, evicted, top, fell, losses>>

Proven(w) == client[w].open /\ IsQuorum({m \in Masters : reply[w][m] = "yes"})
ByProof(w) == IF Proven(w) THEN Minus(T, IF Kept("3.10 stamp of the confirmation") THEN client[w].sent ELSE 0) ELSE 0

\* `is_owned` and `check` say so, and `release` raises nothing.
Believes(c) == Holds(c) /\ (client[c].left > 0 \/ (c \in Waiters /\ ByProof(c) > 0))

\* The waiter asks, and reads the replies first. If they prove nothing behind the claim time, it has lost (End).
Check(w) ==
    /\ Holds(w) /\ ByProof(w) > client[w].left
    /\ client' = [Clashes(w, client) EXCEPT ![w].left = ByProof(w), ![w].open = FALSE, ![w].sent = 0]
    /\ reply' = [reply EXCEPT ![w] = NoReply] /\ message' = [message EXCEPT ![w] = NoVotes]
    /\ UNCHANGED <<key, fence, late, age, vote, evicted, top, fell, losses>>

(* Ends, evictions, losses, and time.                                      *)
PastOf(ended, k) == IF k.owner \in ended THEN [k EXCEPT !.owner = Past] ELSE k

\* A release, a loss, or the undo of an attempt; the client comes back under another name.
Over(ended, keys) ==
    /\ key' = [m \in Masters |-> PastOf(ended, keys[m])]
    /\ fence' = [m \in Masters |-> IF fence[m].owner \in ended THEN [fence[m] EXCEPT !.owner = NoOne] ELSE fence[m]]
    /\ evicted' = [w \in Waiters |-> IF w \in ended THEN Stays ELSE evicted[w]]
    /\ reply' = [w \in Waiters |-> IF w \in ended THEN NoReply ELSE reply[w]]

Fresh(w) == \/ Kept("3.10 a fresh place") /\ client[w].phase # "asking"
            \/ Kept("3.10 no attempt before") /\ client[w].phase = "asking"

End(c) ==
    /\ client[c].phase # "idle"
    /\ client' = [client EXCEPT ![c] = Idle] /\ vote' = [vote EXCEPT ![c] = NoVotes]
    /\ Over({c}, key)
    /\ message' = [w \in Waiters |-> IF w = c /\ Fresh(w) THEN NoVotes ELSE message[w]]
    /\ UNCHANGED <<late, age, top, fell, losses>>

\* An operator evicts a waiter: its key goes, and nobody puts it back. By then it had this much: its validity, or
\* what answers that are under way may prove.
Had(w) == LET c == client[w]
          IN IF ~Holds(w) THEN Claim
             ELSE Max(c.left, Max(IF \E m \in Masters : reply[w][m] = "yes" THEN Minus(T, c.sent) ELSE 0,
                                    IF \E m \in Masters : vote[w][m].is THEN Minus(T, c.round) ELSE 0))
Evict(w, m) ==
    /\ "evict" \in Faults /\ May(w, m) /\ client[w].phase # "asking"
    /\ \E o \in Masters : key[o].owner = w \/ evicted[w].at # {}
    /\ key' = IF key[m].owner = w THEN [key EXCEPT ![m] = Free] ELSE key
    /\ evicted' = [evicted EXCEPT ![w] = [at |-> @.at \cup {m}, left |-> IF IsQuorum(@.at) THEN @.left ELSE Had(w)]]
    /\ UNCHANGED <<fence, late, age, client, vote, message, reply, top, fell, losses>>

\* Nothing is left, or an older memory, with any key and any token.
Lose(m) ==
    /\ losses < Losses /\ losses' = losses + 1
    /\ age' = [age EXCEPT ![m] = 0] /\ late' = [late EXCEPT ![m] = 0]
    /\ \E owner \in {NoOne, Past} \cup Clients, left \in 1..T :
           key' = [key EXCEPT ![m] = IF owner = NoOne THEN Free ELSE [owner |-> owner, left |-> left]]
    /\ fence' \in {[fence EXCEPT ![m] = k] : k \in {fence[m], [token |-> 0, owner |-> NoOne]}
                       \cup {[token |-> message[w][m].token, owner |-> w] : w \in {w \in Waiters : message[w][m].is}}}
    /\ message' = [w \in Waiters |-> IF message[w][m].is THEN [message[w] EXCEPT ![m].note = FALSE] ELSE message[w]]
    /\ UNCHANGED <<client, vote, reply, evicted, top, fell>>

Older(k) ==
    LET since == Min(k.since + (1 - k.ahead), T)
    IN IF ~k.is \/ (since >= Length /\ Kept("3.10 whole messages") /\ Kept("3.10 stamp of the grant")) THEN None
       ELSE [k EXCEPT !.since = since, !.ahead = 0, !.wait = Minus(@, 1)]

Aged(c) ==
    LET k    == client[c]
        left == Minus(k.left, 1)
        \* A holder without replies that may prove something is over when its validity is.
        open == k.open /\ (k.sent + 1 < T \/ ~Kept("3.10 stamp of the confirmation"))
        dead == CASE k.phase = "asking"  -> k.round >= D
                  [] k.phase = "holding" -> left = 0 /\ ~open
                  [] OTHER               -> TRUE
    IN IF dead THEN Idle ELSE
       [k EXCEPT !.left = left, !.round = IF k.begun THEN Min(@ + 1, T) ELSE 0,
                 !.begun = k.begun /\ (left > 0 \/ k.phase = "asking"), !.open = open,
                 !.sent = IF open THEN Min(@ + 1, T) ELSE 0]

Tick ==
    LET next  == [c \in Clients |-> Aged(c)]
        ended == {c \in Clients : client[c] # Idle /\ next[c] = Idle}
        gone  == [m \in Masters |-> IF key[m].left <= 1 THEN Free ELSE [key[m] EXCEPT !.left = @ - 1]]
    IN /\ client' = [c \in Clients |-> IF next[c].begun THEN next[c] ELSE [next[c] EXCEPT !.round = 0]]
       /\ key' = [m \in Masters |-> PastOf(ended, gone[m])]
       /\ fence' = [m \in Masters |-> IF fence[m].owner \in ended THEN [fence[m] EXCEPT !.owner = NoOne] ELSE fence[m]]
       /\ age' = [m \in Masters |-> Min(age[m] + 1, Guard)]
       /\ vote' = [c \in Clients |-> [m \in Masters |->
              IF ~vote[c][m].is \/ ~next[c].begun THEN None ELSE [vote[c][m] EXCEPT !.wait = Minus(@, 1)]]]
       /\ message' = [w \in Waiters |-> IF (w \in ended /\ Fresh(w)) \/ (Holds(w) /\ ~next[w].open) THEN NoVotes
                                        ELSE [m \in Masters |-> IF Holds(w) /\ Kept("3.10 a fresh place")
                                                                THEN message[w][m] ELSE Older(message[w][m])]]
       /\ reply' = [w \in Waiters |-> IF next[w].open THEN reply[w] ELSE NoReply]
       /\ evicted' = [w \in Waiters |-> IF w \in ended THEN Stays ELSE [evicted[w] EXCEPT !.left = Minus(@, 1)]]
       /\ UNCHANGED <<late, top, fell, losses>>

\* A holder has sent its release to all masters. Its token is 1; on the others the write was lost.
Init ==
    /\ \E held, fenced \in Quorums :
           /\ key = [m \in Masters |-> IF m \in held THEN [owner |-> Past, left |-> T] ELSE Free]
           /\ fence = [m \in Masters |-> [token |-> IF m \in fenced THEN 1 ELSE 0, owner |-> NoOne]]
    /\ late = [m \in Masters |-> 0] /\ age = [m \in Masters |-> Guard]
    /\ client = [c \in Clients |-> Idle] /\ vote = [c \in Clients |-> NoVotes]
    /\ message = [w \in Waiters |-> NoVotes] /\ reply = [w \in Waiters |-> NoReply]
    /\ evicted = [w \in Waiters |-> Stays] /\ top = 1 /\ fell = FALSE /\ losses = 0

OfClient(c) == Win(c) \/ Renewed(c) \/ Again(c) \/ End(c) \/ \E m \in Masters : Vote(c, m)
OfWaiter(w) == \/ Take(w) \/ Check(w)
               \/ \E m \in Masters : HandOff(w, m) \/ Confirm(w, m) \/ Evict(w, m)
OfMaster(m) == Release(m) \/ LateWrite(m) \/ Lose(m)
Next == Tick \/ (\E c \in Clients : OfClient(c)) \/ (\E w \in Waiters : OfWaiter(w)) \/ (\E m \in Masters : OfMaster(m))
Spec == Init /\ [][Next]_vars
Symmetry == Permutations(Masters) \cup Permutations(Waiters) \cup Permutations(Clients \ Waiters)

(* What is promised.                                                       *)
Exclusion   == \A a, b \in Clients : Valid(a) /\ Valid(b) => a = b
TokensRise  == ~fell
\* A lease that is_owned or check confirms has never lapsed.
ProofIsTrue == \A c \in Clients : Believes(c) /\ Safe(c) => ~client[c].clash

\* An evicted waiter keeps what it had, and gets no more.
NoneComesBack == \A w \in Waiters :
    IsQuorum(evicted[w].at) /\ Holds(w) => Max(client[w].left, ByProof(w)) <= evicted[w].left

(* These are violated on purpose: a model in which nothing happens is safe, too. *)
NobodyProves == \A w \in Waiters : ~(Proven(w) /\ client[w].left = 0)
=============================================================================
