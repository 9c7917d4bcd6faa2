-------------------------------- MODULE Queue --------------------------------
(***************************************************************************)
(* The wait queue of one lock: refused clients queue on each master, a     *)
(* release names the first of them, and each message may be lost. There is *)
(* no time and no lease here: exclusion is the matter of Lock.tla. This    *)
(* module asks whether waiting ends, and in which order.                   *)
(*                                                                         *)
(* A client that crashed keeps its votes until their leases end (Expire).  *)
(* Every other step of a client that can be done is done at some time.     *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets, Sequences

CONSTANTS
    Masters, Clients,
    Down,         \* masters that never answer
    NoOne,
    Fair,         \* TRUE: fair mode; FALSE: a newcomer may pass the queue
    Crashes,      \* so many clients may crash
    Lossy,        \* TRUE: messages may be lost
    Broken        \* the rules that are left out

VARIABLES
    holder,   \* [Masters -> the client that has the key, or NoOne]
    queue,    \* [Masters -> sequence of waiting clients]
    tickets,  \* sequence of the clients that have a ticket, the oldest first
    client,   \* [Clients -> phase]
    vote,     \* [Clients -> [Masters -> "none", "yes" or "no"]], of the present round
    woken,    \* [Clients -> the masters whose message has arrived]
    earlier   \* [Clients -> the clients that were waiting when it arrived, and still are]
vars == <<holder, queue, tickets, client, vote, woken, earlier>>

Kept(rule)  == rule \notin Broken
Quorum      == Cardinality(Masters) \div 2 + 1
Up          == Masters \ Down
Range(s)    == {s[i] : i \in DOMAIN s}
Rank(s, x)  == CHOOSE i \in DOMAIN s : s[i] = x
Without(s, x) == LET other(y) == y # x IN SelectSeq(s, other)
Nothing     == [m \in Masters |-> "none"]
Said(c, w)  == {m \in Masters : vote[c][m] = w}
Asked       == [c \in Clients |-> Nothing]

\* "arriving": in its first round. "waiting": the first round is complete, it sleeps. "asking": a later round.
\* "undoing" and "leaving": it gives its votes back, and then waits or is away.
Phases == {"away", "arriving", "waiting", "asking", "holding", "undoing", "leaving", "crashed"}
TypeOK == /\ holder \in [Masters -> Clients \cup {NoOne}]
          /\ client \in [Clients -> Phases]
          /\ vote \in [Clients -> [Masters -> {"none", "yes", "no"}]]
          /\ woken \in [Clients -> SUBSET Masters]
          /\ \A m \in Masters : Range(queue[m]) \subseteq Clients

Init == /\ holder = [m \in Masters |-> NoOne]
        /\ queue = [m \in Masters |-> <<>>]
        /\ tickets = <<>>
        /\ client = [c \in Clients |-> "away"]
        /\ vote = Asked
        /\ woken = [c \in Clients |-> {}]
        /\ earlier = [c \in Clients |-> {}]

-----------------------------------------------------------------------------
(* The masters.                                                            *)

\* The order of the tickets is the same on all masters. The order of arrival differs from one to another.
Joined(m, c, known) ==
    LET q      == queue[m]
        before(x) == x \in Range(known) /\ Rank(known, x) < Rank(known, c)
        after(x)  == ~before(x)
    IN IF c \in Range(q) THEN q
       ELSE IF Kept("4 one order on all masters") THEN SelectSeq(q, before) \o <<c>> \o SelectSeq(q, after)
       ELSE Append(q, c)

\* Fair: nobody passes a waiter. Default: a newcomer may pass, a waiter does not pass an earlier one.
MayHave(m, c) ==
    /\ holder[m] = NoOne
    /\ \/ queue[m] = <<>> \/ (c \in Range(queue[m]) /\ Head(queue[m]) = c)
       \/ ~Fair /\ client[c] = "arriving"
       \/ Fair /\ Kept("4 one order on all masters") /\ c \in Range(tickets)
          /\ \A x \in Range(queue[m]) : x = c \/ Rank(tickets, c) < Rank(tickets, x)

Ask(c, m) ==
    /\ client[c] \in {"arriving", "asking"} /\ vote[c][m] = "none" /\ m \in Up
    /\ IF MayHave(m, c)
       THEN /\ holder' = [holder EXCEPT ![m] = c] /\ vote' = [vote EXCEPT ![c][m] = "yes"]
            /\ UNCHANGED <<queue, tickets, earlier>>
       ELSE /\ tickets' = IF c \in Range(tickets) THEN tickets ELSE Append(tickets, c)
            /\ queue' = [queue EXCEPT ![m] = Joined(m, c, tickets')]
            /\ vote' = [vote EXCEPT ![c][m] = "no"]
            /\ UNCHANGED holder
    /\ UNCHANGED <<client, woken, earlier>>

\* A release or an undo frees a master and tells the first waiter there.
Free(c, m) ==
    /\ client[c] \in {"undoing", "leaving"} /\ vote[c][m] # "none"
    /\ vote' = [vote EXCEPT ![c][m] = "none"]
    /\ holder' = [holder EXCEPT ![m] = IF @ = c THEN NoOne ELSE @]
    /\ queue' = [queue EXCEPT ![m] = IF client[c] = "leaving" THEN Without(@, c) ELSE @]
    /\ LET q == queue'[m]
       IN \/ q # <<>> /\ holder[m] = c /\ woken' = [woken EXCEPT ![Head(q)] = @ \cup {m}]
          \/ (q = <<>> \/ holder[m] # c \/ Lossy) /\ UNCHANGED woken
    /\ UNCHANGED <<tickets, client, earlier>>

\* A lease of a crashed client ends, and its place is dropped: nobody receives its messages.
Expire(c, m) ==
    /\ client[c] = "crashed" /\ (holder[m] = c \/ c \in Range(queue[m]))
    /\ holder' = [holder EXCEPT ![m] = IF @ = c THEN NoOne ELSE @]
    /\ queue' = [queue EXCEPT ![m] = IF Kept("4 dead waiters are dropped") THEN Without(@, c) ELSE @]
    /\ holder' # holder \/ queue' # queue
    /\ UNCHANGED <<tickets, client, vote, woken, earlier>>

-----------------------------------------------------------------------------
(* The clients.                                                            *)

Becomes(c, phase) == client' = [client EXCEPT ![c] = phase]

Waiting(c)  == client[c] \in {"waiting", "undoing", "asking"}
NotBehind(c) == [x \in Clients |-> IF x = c THEN {} ELSE earlier[x] \ {c}]

Arrive(c) == /\ client[c] = "away" /\ Becomes(c, "arriving")
             /\ earlier' = [earlier EXCEPT ![c] = {x \in Clients : Waiting(x)}]
             /\ UNCHANGED <<holder, queue, tickets, vote, woken>>

\* The validity decides in Lock.tla; here a quorum does.
Win(c) ==
    /\ client[c] \in {"arriving", "asking"} /\ Cardinality(Said(c, "yes")) >= Quorum
    /\ Becomes(c, "holding")
    /\ tickets' = Without(tickets, c)
    /\ queue' = [m \in Masters |-> Without(queue[m], c)]
    /\ woken' = [woken EXCEPT ![c] = {}]
    /\ earlier' = [x \in Clients |-> earlier[x] \ {c}]
    /\ UNCHANGED <<holder, vote>>

\* No quorum any more: all that can answer have answered.
Fail(c) ==
    /\ client[c] \in {"arriving", "asking"} /\ Cardinality(Said(c, "yes")) < Quorum
    /\ Said(c, "none") \subseteq Down
    /\ Becomes(c, IF Kept("3.1 undo") THEN "undoing" ELSE "waiting")
    /\ vote' = IF Kept("3.1 undo") THEN vote ELSE [vote EXCEPT ![c] = Nothing]
    /\ UNCHANGED <<holder, queue, tickets, woken, earlier>>

Undone(c) ==
    /\ client[c] = "undoing" /\ Said(c, "none") = Masters
    /\ Becomes(c, "waiting")
    /\ UNCHANGED <<holder, queue, tickets, vote, woken, earlier>>

\* The q-th message wakes. A look every second or two does not depend on any message.
Wake(c) ==
    /\ client[c] = "waiting"
    /\ Cardinality(woken[c]) >= Quorum \/ Kept("4 bounded sleep")
    /\ Becomes(c, "asking")
    /\ woken' = [woken EXCEPT ![c] = {}]
    /\ UNCHANGED <<holder, queue, tickets, vote, earlier>>

Release(c) ==
    /\ client[c] = "holding" /\ Becomes(c, "leaving")
    /\ vote' = [vote EXCEPT ![c] = [m \in Masters |-> IF m \in Up THEN "yes" ELSE "none"]]
    /\ UNCHANGED <<holder, queue, tickets, woken, earlier>>

Gone(c) ==
    /\ client[c] = "leaving" /\ Said(c, "none") = Masters
    /\ Becomes(c, "away")
    /\ earlier' = [earlier EXCEPT ![c] = {}]
    /\ UNCHANGED <<holder, queue, tickets, vote, woken>>

Crash(c) ==
    /\ client[c] \notin {"crashed", "away"}
    /\ Cardinality({x \in Clients : client[x] = "crashed"}) < Crashes
    /\ Becomes(c, "crashed")
    /\ tickets' = Without(tickets, c)
    /\ vote' = [vote EXCEPT ![c] = Nothing]
    /\ woken' = [woken EXCEPT ![c] = {}]
    /\ earlier' = NotBehind(c)
    /\ UNCHANGED <<holder, queue>>

Step(c) == Win(c) \/ Fail(c) \/ Undone(c) \/ Wake(c) \/ Release(c) \/ Gone(c)
           \/ \E m \in Masters : Ask(c, m) \/ Free(c, m) \/ Expire(c, m)
Next == \E c \in Clients : Step(c) \/ Arrive(c) \/ Crash(c)

\* Nobody has to arrive, and nobody has to crash. All other steps are taken at some time.
Spec == Init /\ [][Next]_vars /\ \A c \in Clients : WF_vars(Step(c))

-----------------------------------------------------------------------------
OneHolder == \A a, b \in Clients : client[a] = "holding" /\ client[b] = "holding" => a = b

\* Fair mode: everyone who waits gets the lock.
EveryoneWins == \A c \in Clients : Waiting(c) ~> client[c] \in {"holding", "crashed"}

\* Both modes: as long as somebody waits, somebody gets the lock.
SomebodyWins == (\E c \in Clients : Waiting(c)) ~>
                (\E c \in Clients : client[c] = "holding") \/ (\A c \in Clients : ~Waiting(c))

\* Fair mode: nobody gets the lock before a client whose first round was complete when it arrived.
FairOrder == \A c \in Clients : client[c] = "holding" => earlier[c] = {}
=============================================================================
