------------------------------- MODULE Groups -------------------------------
(* A master may be a group: a primary and replicas. Somebody (a Sentinel, a managed service, an operator)
   promotes any replica at any time. The old primary may go on for long, and replicas may follow it for
   long.

   A term is the time of one server as a primary: from its promotion, or its start, until it follows
   another server, or restarts. The run_id and the replication id name a term, because each promotion makes
   a new replication id. The note says since when the memory is whole, and in which term that was written.
   A note of another term is too young.

   A vote of a group counts when all other servers of the group have acknowledged it in a WAIT, and an INFO
   behind that finds the term of the connection's handshake.

   Acquire, renewal and healing are one action, as in Exclusion.tla. An answer to a holder counts without
   an old memory if it is in time: 3.7. *)
EXTENDS Common

CONSTANTS
    Bare,          \* the masters that are one server, Only
    Servers,       \* the servers of each other master
    Clients, NoOne, Only,
    Ended,         \* the term of a note that no connection can have any more
    T,             \* a lease lasts T ticks
    D,             \* an acquire is decided within D ticks
    Guard,         \* a memory younger than Guard has no vote
    Replicas,      \* so many acknowledgements a vote needs: the option `replicas`
    Moves, Losses, \* how many promotions and losses of memory there are; 99: any number
    Kinds,         \* the losses: "empty", "older" (a restart with an older memory), "flush"
    Tokens         \* the greatest fencing token; 0: no tokens

VARIABLES
    server,  \* [Masters -> [its servers -> whom a server follows, and its data]]
    client,  \* [Clients -> the lease and the round, as the client knows them]
    vote,    \* [Clients -> [Masters -> the answer of this round]]
    highest, \* the greatest token of a lease
    moves, losses
vars == <<server, client, vote, highest, moves, losses>>

Of(m)       == IF m \in Bare THEN {Only} ELSE Servers
Needs(m)    == IF m \in Bare THEN 0 ELSE Replicas

\* follows: itself for a primary. behind: it lacks a write of the server that it follows. The rest is data, which
\* replicates: the key with its owner, the note with its writer and age, and the last token.
\* by: the server whose present term wrote the note. past: an earlier term of this server in the same run_id.
NoData == [owner |-> NoOne, left |-> 0, by |-> NoOne, past |-> FALSE, age |-> 0, token |-> 0]

\* at: the server that ran the command; NoOne: all needed acknowledgements are there.
\* wait: the memory is old enough in so many ticks.
None  == [is |-> FALSE]
Votes == {None} \cup [is: {TRUE}, at: Servers \cup {NoOne}, acks: SUBSET Servers, wait: 0..Guard, token: 0..Tokens]
Idle  == [holds |-> FALSE, left |-> 0, begun |-> FALSE, round |-> 0]

TypeOK ==
    /\ \A m \in Masters : server[m] \in [Of(m) -> [follows: Of(m), behind: BOOLEAN, owner: Clients \cup {NoOne},
           left: 0..T, by: Of(m) \cup {NoOne, Ended}, past: BOOLEAN, age: 0..Guard, token: 0..Tokens]]
    /\ client \in [Clients -> [holds: BOOLEAN, left: 0..T, begun: BOOLEAN, round: 0..T]]
    /\ vote \in [Clients -> [Masters -> Votes]]

Leads(m, x) == server[m][x].follows = x

(* Writes and their acknowledgements.                                      *)
Data(k)     == [f \in DOMAIN NoData |-> k[f]]
With(k, of) == [f \in DOMAIN k |-> IF f \in DOMAIN NoData THEN of[f] ELSE k[f]]

\* A write on x: each server that follows x lacks the write at first.
Written(m, x, k) == [y \in Of(m) |-> IF y = x THEN k ELSE IF server[m][y].follows = x
                                     THEN [server[m][y] EXCEPT !.behind = TRUE] ELSE server[m][y]]

Acked(v, y) == LET acks == v.acks \cup {y}
               IN IF Cardinality(acks) >= Replicas THEN [v EXCEPT !.at = NoOne, !.acks = {}] ELSE [v EXCEPT !.acks = acks]

\* y applies all writes of the server that it follows, or copies its data whole, and acknowledges. To stop at an
\* earlier write is a CatchUp before the later ones. Servers that follow y are behind now.
CatchUp(m, y) ==
    LET x == server[m][y].follows
    IN /\ x # y /\ server[m][y].behind
       /\ server' = [server EXCEPT ![m] = Written(m, y, [With(server[m][y], Data(server[m][x])) EXCEPT !.behind = FALSE])]
       /\ vote' = [c \in Clients |-> IF vote[c][m].is /\ vote[c][m].at = x
                                     THEN [vote[c] EXCEPT ![m] = Acked(@, y)] ELSE vote[c]]
       /\ UNCHANGED <<client, highest, moves, losses>>

\* A primary restarts, or follows another server. Votes that are not acknowledged do not count any more: a restart
\* and a demotion end each WAIT, and the INFO behind it tells of both.
CutOff(m, x) == vote' = [c \in Clients |-> IF vote[c][m].is /\ vote[c][m].at = x
                                           THEN [vote[c] EXCEPT ![m] = None] ELSE vote[c]]

(* Promotions, and losses of memory.                                       *)
\* A term of x is over, but its note stands in data of any server.
Over(data, x) == [y \in DOMAIN data |-> IF data[y].by = x THEN [data[y] EXCEPT !.by = Ended, !.past = FALSE] ELSE data[y]]

\* The same, while connections of this term are still open: only a restart ends them.
Past(data, x) == [y \in DOMAIN data |-> IF data[y].by = x THEN [data[y] EXCEPT !.past = TRUE] ELSE data[y]]

\* The others do not hear of it: an old primary goes on, and others follow it.
Promote(m, x) ==
    /\ moves > 0 /\ moves' = IF moves = 99 THEN 99 ELSE moves - 1
    /\ ~Leads(m, x)
    /\ LET now == [server[m] EXCEPT ![x].follows = x, ![x].behind = FALSE]
       IN server' = [server EXCEPT ![m] = CASE ~Kept("2.4 the note names the replication id") -> now
                                            [] ~Kept("2.4 INFO behind the WAIT") -> Past(now, x)
                                            [] OTHER -> Over(now, x)]
    /\ UNCHANGED <<client, vote, highest, losses>>

\* A replica, or an old primary, is told to follow y. It copies y's data later.
Follow(m, x, y) ==
    /\ x # y /\ Leads(m, y) /\ server[m][x].follows # y
    /\ server' = [server EXCEPT ![m][x].follows = y, ![m][x].behind = TRUE]
    /\ CutOff(m, x)
    /\ UNCHANGED <<client, highest, moves, losses>>

\* "older": from after the present note, and from before the key.
Lose(m, x) ==
    /\ losses > 0 /\ losses' = IF losses = 99 THEN 99 ELSE losses - 1
    /\ \E kind \in Kinds :
           LET older == [Data(server[m][x]) EXCEPT !.owner = NoOne, !.left = 0]
               found == [With(server[m][x], IF kind = "older" THEN older ELSE NoData) EXCEPT !.behind = ~Leads(m, x)]
               all   == Written(m, x, found)
           IN IF kind = "flush"
              THEN Leads(m, x) /\ server' = [server EXCEPT ![m] = all] /\ UNCHANGED vote
              ELSE server' = [server EXCEPT ![m] = Over(all, x)] /\ CutOff(m, x)
    /\ UNCHANGED <<client, highest, moves>>

(* Clients. A replica refuses writes, so each script runs on a primary.    *)
\* The first script of a connection. Notes of other terms are replaced: they came with a copy of data.
Handshake(m, x) ==
    LET k == server[m][x]
    IN /\ Leads(m, x) /\ (k.by # x \/ k.past)
       /\ server' = [server EXCEPT ![m] = Written(m, x, [k EXCEPT !.by = x, !.past = FALSE, !.age =
              IF k.by # NoOne /\ ~Kept("2.4 a note of another term is young") THEN k.age ELSE 0])]
       /\ UNCHANGED <<client, vote, highest, moves, losses>>

\* The command reads the note in the same call: it is that of the connection's handshake. If it is of a past term,
\* then the connection is of that term, too, and INFO shows another replication id.
Vote(c, m, x) ==
    LET k     == server[m][x]
        token == IF Tokens = 0 \/ client[c].holds THEN 0 ELSE k.token + 1
        needs == IF client[c].holds /\ ~Kept("2.4 renewals are acknowledged") THEN 0 ELSE Needs(m)
    IN /\ Leads(m, x) /\ k.by = x
       /\ k.owner \in {c, NoOne} /\ token <= Tokens
       /\ vote' = [vote EXCEPT ![c][m] = [is |-> TRUE, at |-> IF needs = 0 THEN NoOne ELSE x, acks |-> {},
                      wait |-> IF Kept("3.6 guard") THEN Guard - k.age ELSE 0, token |-> token]]
       /\ server' = [server EXCEPT ![m] = Written(m, x, [k EXCEPT !.owner = c, !.left = T,
                         !.token = IF token = 0 THEN @ ELSE token])]
       /\ client' = [client EXCEPT ![c].begun = TRUE]
       /\ UNCHANGED <<highest, moves, losses>>

\* Rule 3.7: every acquire that was stamped before now is decided before the validity ends.
InTime(c) == client[c].holds /\ D < client[c].left
Counts(c, m) == vote[c][m].is /\ vote[c][m].at = NoOne /\ (vote[c][m].wait = 0 \/ InTime(c))
NoVotes == [m \in Masters |-> None]

Win(c) ==
    /\ client[c].begun /\ client[c].round < T
    /\ Cardinality({m \in Masters : Counts(c, m)}) >= Majority
    /\ LET token == IF Tokens = 0 \/ client[c].holds THEN highest + 1
                    ELSE CHOOSE n \in 1..Tokens : \E m \in Masters : Counts(c, m) /\ vote[c][m].token = n
       IN /\ highest' = IF Tokens = 0 \/ client[c].holds THEN highest ELSE IF token > highest THEN token ELSE Tokens + 1
    /\ client' = [client EXCEPT ![c] = [Idle EXCEPT !.holds = TRUE, !.left = T - client[c].round]]
    /\ vote' = [vote EXCEPT ![c] = NoVotes]
    /\ UNCHANGED <<server, moves, losses>>

\* A round of renewal is given up.
Again(c) ==
    /\ client[c].holds /\ client[c].begun
    /\ client' = [client EXCEPT ![c].begun = FALSE, ![c].round = 0]
    /\ vote' = [vote EXCEPT ![c] = NoVotes]
    /\ UNCHANGED <<server, highest, moves, losses>>

\* An undo, a release or a loss. Primaries that are not reached keep the key. No acknowledgement is needed.
Frees(m, freed) == [y \in Of(m) |->
    IF <<m, y>> \in freed THEN [server[m][y] EXCEPT !.owner = NoOne, !.left = 0]
    ELSE IF <<m, server[m][y].follows>> \in freed THEN [server[m][y] EXCEPT !.behind = TRUE] ELSE server[m][y]]

End(c) ==
    /\ client[c].holds \/ client[c].begun
    /\ client' = [client EXCEPT ![c] = Idle]
    /\ vote' = [vote EXCEPT ![c] = NoVotes]
    /\ \E freed \in SUBSET UNION {{<<m, x>> : x \in {x \in Of(m) : Leads(m, x) /\ server[m][x].owner = c}} : m \in Masters} :
           server' = [m \in Masters |-> Frees(m, freed)]
    /\ UNCHANGED <<highest, moves, losses>>

\* A lease whose validity ends is lost. Its keys expire.
Aged(k) ==
    LET left == Minus(k.left, 1)
        next == [k EXCEPT !.left = left, !.round = IF k.begun THEN k.round + 1 ELSE 0]
        dead == IF k.holds THEN left = 0 ELSE k.begun /\ (next.round >= T \/ next.round > D)
    IN IF dead THEN Idle ELSE next

Tick ==
    LET next == [c \in Clients |-> Aged(client[c])]
    IN /\ client' = next
       /\ vote' = [c \in Clients |-> IF next[c] = Idle THEN NoVotes ELSE [m \in Masters |->
              IF vote[c][m].is THEN [vote[c][m] EXCEPT !.wait = Minus(@, 1)] ELSE None]]
       /\ server' = [m \in Masters |-> [x \in Of(m) |-> [server[m][x] EXCEPT
              !.owner = IF server[m][x].left <= 1 THEN NoOne ELSE @, !.left = Minus(@, 1),
              !.age = IF server[m][x].by = NoOne THEN 0 ELSE Min(@ + 1, Guard)]]]
       /\ UNCHANGED <<highest, moves, losses>>

\* A fleet that has run for long: each group has a primary, and its note is old and everywhere.
Init ==
    /\ \E first \in [Masters -> Servers \cup {Only}] :
           /\ \A m \in Masters : first[m] \in Of(m)
           /\ server = [m \in Masters |-> [x \in Of(m) |->
                  [NoData EXCEPT !.by = first[m], !.age = Guard] @@ [follows |-> first[m], behind |-> FALSE]]]
    /\ client = [c \in Clients |-> Idle] /\ vote = [c \in Clients |-> NoVotes]
    /\ highest = 0 /\ moves = Moves /\ losses = Losses

OnServer(m, x) == \/ CatchUp(m, x) \/ Promote(m, x) \/ Lose(m, x) \/ Handshake(m, x)
                  \/ (\E y \in Of(m) : Follow(m, x, y)) \/ (\E c \in Clients : Vote(c, m, x))
Next == Tick \/ (\E c \in Clients : Win(c) \/ Again(c) \/ End(c)) \/ \E m \in Masters : \E x \in Of(m) : OnServer(m, x)
Spec == Init /\ [][Next]_vars
Symmetry == Permutations(Servers) \cup Permutations(Clients) \cup Permutations(Bare) \cup Permutations(Masters \ Bare)

Valid(c)   == client[c].holds /\ client[c].left > 0
Exclusion  == \A a, b \in Clients : Valid(a) /\ Valid(b) => a = b
TokensGrow == highest <= Tokens
\* An old primary goes on, and by the notes both memories are old enough.
NoTwoPrimaries == \A m \in Masters : \A x, y \in Of(m) :
    (\A z \in {x, y} : Leads(m, z) /\ server[m][z].by = z /\ server[m][z].age = Guard) => x = y
=============================================================================
