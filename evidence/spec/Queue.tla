-------------------------------- MODULE Queue --------------------------------
(* The wait queue of one lock: refused clients queue on each master, and a release hands the lock to the
   first of them. There is no time and no lease here: exclusion is the matter of Lock.tla. This module asks
   whether waiting ends, and in which order. Left out: how masters agree on a ticket, and the queue in
   which the owners of one process wait to ask the masters.

   An acquire asks the masters one by one, in any order, between the steps of the others. A release, or an
   undo, reaches all masters in one step: a partial one leaves what a round in another order leaves, too.

   The lease of a client that crashed ends (Expire), and so does a hand-over whose message was lost
   (Unclaimed). Every other step of a client that can be done is done at some time. *)
EXTENDS Common, Sequences

CONSTANTS
    Clients,           \* a set of model values
    Down,              \* masters that never answer
    Together,          \* the clients that are threads of one process; each other one is alone
    NoOne,             \* the owner of a free lock
    Fair,              \* TRUE: fair mode; FALSE: a newcomer may pass the queue
    Crashes,           \* so many clients may crash
    Losses,            \* so many messages may be lost
    Once               \* TRUE: each client comes once

VARIABLES
    holder,   \* [Masters -> the client that has the key, or NoOne]
    handed,   \* the masters where the key is only reserved for its holder's claim
    queue,    \* [Masters -> sequence of waiting clients]
    tickets,  \* sequence of the clients that have a ticket, the oldest first
    client,   \* [Clients -> phase]
    vote,     \* [Clients -> [Masters -> "none", "yes" or "no"]], of the present round
    woken,    \* [Clients -> the masters whose message has arrived]
    earlier,  \* [Clients -> the clients that were waiting when it arrived, and still are]
    losses    \* so many messages may still be lost
vars == <<holder, handed, queue, tickets, client, vote, woken, earlier, losses>>

Up          == Masters \ Down
Range(s)    == {s[i] : i \in DOMAIN s}
Rank(s, x)  == CHOOSE i \in DOMAIN s : s[i] = x
Without(s, x) == LET other(y) == y # x IN SelectSeq(s, other)
Nothing     == [m \in Masters |-> "none"]
Said(c, w)  == {m \in Masters : vote[c][m] = w}

\* "arriving": in its first round, "asking": in a later one. "waiting": it sleeps, with a place in the queue.
Phases == {"away", "arriving", "waiting", "asking", "holding", "crashed", "done"}
TypeOK == /\ holder \in [Masters -> Clients \cup {NoOne}]
          /\ handed \subseteq {m \in Masters : holder[m] # NoOne}
          /\ client \in [Clients -> Phases]
          /\ vote \in [Clients -> [Masters -> {"none", "yes", "no"}]]
          /\ woken \in [Clients -> SUBSET Masters]
          /\ \A m \in Masters : Range(queue[m]) \subseteq Clients

Init == /\ holder = [m \in Masters |-> NoOne]
        /\ handed = {}
        /\ queue = [m \in Masters |-> <<>>]
        /\ tickets = <<>>
        /\ client = [c \in Clients |-> "away"]
        /\ vote = [c \in Clients |-> Nothing]
        /\ woken = [c \in Clients |-> {}]
        /\ earlier = [c \in Clients |-> {}]
        /\ losses = Losses

(* A round: the acquire script on each master.                             *)
\* The tickets have one order on all masters. The order of arrival differs from one to another.
Joined(m, c, known) ==
    LET q      == queue[m]
        before(x) == x \in Range(known) /\ Rank(known, x) < Rank(known, c)
        after(x)  == ~before(x)
    IN IF c \in Range(q) THEN q
       ELSE IF Kept("4 one order on all masters") THEN SelectSeq(q, before) \o <<c>> \o SelectSeq(q, after)
       ELSE Append(q, c)

\* Fair: nobody passes a waiter. Default: a newcomer may pass; a waiter does not pass an earlier one.
MayHave(m, c) ==
    \/ holder[m] = c
    \/ holder[m] = NoOne /\ (queue[m] = <<>> \/ Head(queue[m]) = c \/ (~Fair /\ client[c] = "arriving"))

Ask(c, m) ==
    /\ client[c] \in {"arriving", "asking"} /\ vote[c][m] = "none" /\ m \in Up
    /\ LET known == IF c \in Range(tickets) THEN tickets ELSE Append(tickets, c)
           place == Joined(m, c, known)
       IN IF MayHave(m, c)
          THEN /\ holder' = [holder EXCEPT ![m] = c] /\ handed' = handed \ {m}
               /\ vote' = [vote EXCEPT ![c][m] = "yes"]
               /\ queue' = [queue EXCEPT ![m] = Without(@, c)]
               /\ UNCHANGED tickets
          ELSE /\ tickets' = known
               /\ queue' = [queue EXCEPT ![m] = place]
               /\ vote' = [vote EXCEPT ![c][m] = "no"]
               /\ UNCHANGED <<holder, handed>>
    /\ UNCHANGED <<client, woken, earlier, losses>>

(* A release on all masters: the key goes to the first live waiter, as a reservation, and a message tells it. *)
\* A dead thread of a process that lives still gets the key: the process hears the message.
Alive(s) == LET lives(x) == client[x] # "crashed" \/ x \in Together IN SelectSeq(s, lives)

\* c gives back its keys on these masters. row: the queue there. on: whether the first waiter gets the key.
\* lost: the masters whose message is lost.
Frees(c, masters, row(_), on, lost) ==
    LET live(m)  == Alive(row(m))
        given(m) == m \in masters /\ on /\ live(m) # <<>>
    IN /\ holder' = [m \in Masters |-> IF m \notin masters THEN holder[m]
                                       ELSE IF given(m) THEN Head(live(m)) ELSE NoOne]
       /\ handed' = (handed \ masters) \cup {m \in masters : given(m)}
       /\ queue' = [m \in Masters |-> IF given(m) THEN Tail(live(m))
                                      ELSE IF m \in Up THEN row(m) ELSE queue[m]]
       /\ woken' = [x \in Clients |-> woken[x] \cup
              {m \in masters \ lost : given(m) /\ Head(live(m)) = x /\ client[x] # "crashed"}]
       /\ losses' = losses - Cardinality(lost)

Lost(n) == {lost \in SUBSET Masters : Cardinality(lost) <= n}

(* The clients.                                                            *)
Becomes(c, phase) == client' = [client EXCEPT ![c] = phase]
Waiting(c)  == client[c] \in {"waiting", "asking"}

Arrive(c) == /\ client[c] = "away" /\ Becomes(c, "arriving")
             /\ earlier' = [earlier EXCEPT ![c] = {x \in Clients : Waiting(x)}]
             /\ UNCHANGED <<holder, handed, queue, tickets, vote, woken, losses>>

\* The validity decides in Lock.tla; here a quorum does. Its places elsewhere are given up.
Win(c) ==
    /\ client[c] \in {"arriving", "asking"} /\ Cardinality(Said(c, "yes")) >= Majority
    /\ Becomes(c, "holding")
    /\ tickets' = Without(tickets, c)
    /\ queue' = [m \in Masters |-> Without(queue[m], c)]
    /\ woken' = [woken EXCEPT ![c] = {}]
    /\ vote' = [vote EXCEPT ![c] = Nothing]
    /\ earlier' = [x \in Clients |-> IF x = c THEN earlier[c] ELSE earlier[x] \ {c}]
    /\ UNCHANGED <<holder, handed, losses>>

\* All that can answer have answered, without a quorum: undo, and wait. Its place is put back first, where a
\* vote had taken it. The votes go to the first waiter, unless another client has a quorum. So do masters that
\* are free and refused, because a dead waiter stands first there: the nudge.
Fail(c) ==
    /\ client[c] \in {"arriving", "asking"} /\ Cardinality(Said(c, "yes")) < Majority
    /\ Said(c, "none") \subseteq Down
    /\ Becomes(c, "waiting")
    /\ vote' = [vote EXCEPT ![c] = Nothing]
    /\ LET known  == IF c \in Range(tickets) THEN tickets ELSE Append(tickets, c)
           back   == IF Kept("4 the place first") THEN Said(c, "yes") ELSE {}
           row(m) == IF m \in back THEN Joined(m, c, known) ELSE queue[m]
           others == \A x \in Clients : Cardinality({m \in Masters : holder[m] = x}) < Majority
           nudged == IF others /\ Kept("4 nudge") THEN {m \in Said(c, "no") : holder[m] = NoOne} ELSE {}
       IN /\ tickets' = known
          /\ IF Kept("3.1 undo")
             THEN \E lost \in Lost(losses) : Frees(c, Said(c, "yes") \cup nudged, row, others, lost)
             ELSE UNCHANGED <<holder, handed, queue, woken, losses>>
    /\ UNCHANGED earlier

\* One waiter of each process looks for all: the one with the oldest ticket, or the next if its thread is dead.
Looks(c) == \A x \in Together :
    c \in Together /\ x \in Range(tickets) /\ Rank(tickets, x) < Rank(tickets, c)
        => client[x] = "crashed" /\ Kept("4 a late look is made by another")

\* The q-th message wakes, and a shorter sleep ends after fewer. A look each second or two needs no message.
Wake(c) ==
    /\ client[c] = "waiting"
    /\ \/ Cardinality(woken[c]) >= Majority
       \/ woken[c] # {} /\ Kept("4 few messages wake")
       \/ Looks(c) /\ Kept("4 bounded sleep")
    /\ Becomes(c, "asking")
    /\ woken' = [woken EXCEPT ![c] = {}]
    /\ UNCHANGED <<holder, handed, queue, tickets, vote, earlier, losses>>

Release(c) ==
    /\ client[c] = "holding" /\ Becomes(c, IF Once THEN "done" ELSE "away")
    /\ LET row(m) == Without(queue[m], c)
       IN \E lost \in Lost(losses) : Frees(c, {m \in Up : holder[m] = c}, row, TRUE, lost)
    /\ earlier' = [earlier EXCEPT ![c] = {}]
    /\ UNCHANGED <<tickets, vote>>

Crash(c) ==
    /\ client[c] \notin {"crashed", "away", "done"}
    /\ Cardinality({x \in Clients : client[x] = "crashed"}) < Crashes
    /\ Becomes(c, "crashed")
    /\ tickets' = IF c \in Together /\ Waiting(c) THEN tickets ELSE Without(tickets, c)
    /\ vote' = [vote EXCEPT ![c] = Nothing]
    /\ woken' = [woken EXCEPT ![c] = {}]
    /\ earlier' = [x \in Clients |-> IF x = c THEN {} ELSE earlier[x] \ {c}]
    /\ UNCHANGED <<holder, handed, queue, losses>>

\* The lease of a crashed client ends. So does a reservation that nobody claims.
Expire(m) ==
    /\ holder[m] # NoOne
    /\ \/ client[holder[m]] = "crashed"
       \/ m \in handed /\ m \notin woken[holder[m]] /\ client[holder[m]] \notin {"arriving", "asking"}
    /\ holder' = [holder EXCEPT ![m] = NoOne] /\ handed' = handed \ {m}
    /\ UNCHANGED <<queue, tickets, client, vote, woken, earlier, losses>>

Step(c) == Win(c) \/ Fail(c) \/ Wake(c) \/ Release(c) \/ \E m \in Masters : Ask(c, m)
Next == (\E c \in Clients : Step(c) \/ Arrive(c) \/ Crash(c)) \/ \E m \in Masters : Expire(m)

\* Nobody has to arrive, and nobody has to crash. All other steps are taken at some time.
Spec == Init /\ [][Next]_vars /\ \A c \in Clients : WF_vars(Step(c)) /\ \A m \in Masters : WF_vars(Expire(m))

OneHolder == \A a, b \in Clients : client[a] = "holding" /\ client[b] = "holding" => a = b

\* Fair mode: each client that waits gets the lock.
EveryoneWins == \A c \in Clients : Waiting(c) ~> client[c] \in {"holding", "crashed"}

\* Both modes: as long as a client waits, one gets the lock.
SomebodyWins == (\E c \in Clients : Waiting(c)) ~>
                (\E c \in Clients : client[c] = "holding") \/ (\A c \in Clients : ~Waiting(c))

\* Fair mode: nobody gets the lock before a client whose first round was complete when it arrived.
FairOrder == \A c \in Clients : client[c] = "holding" => earlier[c] = {}

(* These are violated on purpose: the model must reach them.               *)
NobodyIsHandedTheLock == handed = {}
NobodyQueues == \A m \in Masters : Len(queue[m]) < 2

Symmetry == Permutations(Masters) \cup Permutations(Clients)
=============================================================================
