-------------------------------- MODULE Lock --------------------------------
(***************************************************************************)
(* The exclusion of one lock on independent masters: acquire, undo,        *)
(* release, renewal, healing, hand-over inside a client, and the restart   *)
(* guard. The numbers of the rules are those of docs/contributing/         *)
(* safety.md. Tokens are in Fence.tla, the wait queue is in Queue.tla.     *)
(*                                                                         *)
(* Time is a Tick. Each instant is kept as an age or as a rest, so endless *)
(* time has finitely many states. The masters' clocks are right. The clock *)
(* of a client may lose Drift ticks during one lease; a clock that gains   *)
(* only ends its owner's lease earlier.                                    *)
(*                                                                         *)
(* Three steps of a real client are one step here, each because the early  *)
(* case is the harmless one:                                               *)
(* - A round begins with its first answer. An earlier stamp only ends the  *)
(*   validity earlier.                                                     *)
(* - A reply arrives when its command runs. The client may decide later.   *)
(* - A dead attempt leaves nothing behind, unless "remains" is in Faults.  *)
(*   Its keys and its late commands could only refuse other clients.       *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets, TLC

CONSTANTS
    Masters, Clients,  \* sets of model values
    NoOne,             \* the owner of a free lock
    Over,              \* the owner of a key that a dead attempt left behind
    T,                 \* a lease lasts T ticks on a master
    D,                 \* the answers that an acquire counts come within D ticks
    Guard,             \* a memory younger than Guard has no vote
    Drift,             \* a client's clock loses at most Drift ticks in a lease
    Losses,            \* so many times a master may lose its memory; 99: any number of times
    Durable,           \* masters that keep their memory in a restart
    Faults,            \* what may go wrong beside restarts, see below
    Broken             \* the rules that are left out, see below

(* Faults: "flush"      FLUSHALL at any time                               *)
(*         "late"       commands outlive a restart, in any order           *)
(*         "handshake"  the handshake comes at any time after a loss, not  *)
(*                      at once                                            *)
(*         "older"      a restart with an older memory; a promoted replica *)
(*         "evict"      the note alone vanishes                            *)
(*         "forgets"    a restart hides that the server was a replica      *)
(*         "remains"    keys of dead attempts stay, late commands write    *)
(*                      them, their releases come at any time              *)
ASSUME /\ {T, D, Guard, Drift, Losses} \subseteq Nat
       /\ Durable \subseteq Masters
       /\ Faults \subseteq {"flush", "late", "handshake", "older", "evict", "forgets", "remains"}

VARIABLES
    memory,  \* [Masters -> what a master has in its memory]
    client,  \* [Clients -> what a client does, and by its clock since when]
    vote,    \* [Clients -> [Masters -> what came of the command of this round]]
    losses   \* so many losses of memory may still come
vars == <<memory, client, vote, losses>>

Kept(rule) == rule \notin Broken
Min(a, b)  == IF a < b THEN a ELSE b
Quorum     == IF Kept("3.1 quorum") THEN Cardinality(Masters) \div 2 + 1 ELSE 1

(* A note says since when the memory is whole: "own" was written in this   *)
(* life of the server, "foreign" in an earlier one. start: the age of the  *)
(* server. clean: never flushed in this life, and never a replica.         *)
Note  == {"none", "foreign", "own"}
Empty == [owner |-> NoOne, left |-> 0, note |-> "none", age |-> 0, start |-> 0, clean |-> TRUE]

(* A command that has not run may run at any time, or never. "old": the    *)
(* memory will be old enough to count in so many ticks. "young": it will   *)
(* not be before the round ends. "healed": the key was put back.           *)
Answer == {"none", "lost", "old", "young", "healed"}
NotRun == [answer |-> "none", wait |-> 0]
Lost   == [answer |-> "lost", wait |-> 0]
Young  == [answer |-> "young", wait |-> 0]
Healed == [answer |-> "healed", wait |-> 0]

\* lost and slow: the ticks that the clock lost in this lease, and in this round.
Idle == [phase |-> "idle", left |-> 0, round |-> 0, lost |-> 0, slow |-> 0, interrupted |-> FALSE]

TypeOK ==
    /\ memory \in [Masters -> [owner: Clients \cup {NoOne, Over}, left: 0..T, note: Note,
                               age: 0..Guard, start: 0..Guard, clean: BOOLEAN]]
    /\ client \in [Clients -> [phase: {"idle", "acquiring", "holding", "succeeding"}, left: 0..T,
                               round: 0..T, lost: 0..Drift, slow: 0..Drift, interrupted: BOOLEAN]]
    /\ vote \in [Clients -> [Masters -> [answer: Answer, wait: 0..Guard]]]
    /\ losses \in 0..Losses

-----------------------------------------------------------------------------
(* Rule 3.6, the handshake: the first script on a connection. All that it  *)
(* goes by stands on the master at that moment.                            *)

\* The server's start is remembered only where something may still look at it.
StartCounts == "evict" \in Faults \/ Broken \cap {"3.6 look", "3.6 judged by this note"} # {}

Greeted(m, k) ==
    LET trusted == k.note = "none" /\ (k.clean \/ ~Kept("3.6 first use needs a clean server"))
        durable == k.note = "none" /\ m \in Durable /\ ~Kept("3.6 durable needs a note")
        kept    == k.note = "foreign" /\ ((m \in Durable /\ k.clean) \/ ~Kept("3.6 foreign note"))
        age     == IF durable THEN Guard ELSE IF trusted THEN k.start ELSE IF kept THEN k.age ELSE 0
    IN IF k.note = "own" THEN k
       ELSE [k EXCEPT !.note = "own", !.age = age,
                      !.start = IF StartCounts THEN @ ELSE 0, !.clean = StartCounts => @]

\* A master that lost something: its handshake comes at once, or at any time.
AfterLoss(m, k) == IF "handshake" \in Faults THEN k ELSE Greeted(m, k)

Handshake(m) ==
    /\ memory[m].note # "own"
    /\ memory' = [memory EXCEPT ![m] = Greeted(m, @)]
    /\ UNCHANGED <<client, vote, losses>>

\* The age that a granting, renewing or healing script finds. It reads the note in the same call.
Age(k) == CASE ~Kept("3.6 look")                                         -> k.start
            [] k.note = "own" /\ ~Kept("3.6 judged by this note")        -> k.start
            [] k.note = "none" /\ ~Kept("3.6 no note is young")          -> Guard
            [] k.note = "none"                                           -> 0
            [] OTHER                                                     -> k.age

\* Without a note the script writes one. It never trusts the start of the server.
Noted(k) == IF k.note = "none" /\ Kept("3.6 look") /\ Kept("3.6 no note is young")
            THEN [k EXCEPT !.note = "own", !.age = 0] ELSE k

\* No command reaches a new life of a server before its handshake.
Reachable(m) == memory[m].note # "foreign" \/ ~Kept("3.6 handshake")

-----------------------------------------------------------------------------
(* What a client counts.                                                   *)

Holding   == {c \in Clients : client[c].phase = "holding"}
Valid(c)  == client[c].phase = "holding" /\ client[c].left > 0
Begun(c)  == \E m \in Masters : vote[c][m].answer \in {"old", "young", "healed"}
Margin    == IF Kept("3.1 drift") THEN Drift ELSE 0

\* Rule 3.7: no acquire that was sent before now can still count a vote when the validity ends.
InTime(c) == IF Kept("3.7 less, not equal") THEN D + Margin < client[c].left
                                            ELSE D + Margin <= client[c].left

Counts(c, m) ==
    LET v     == vote[c][m]
        holds == client[c].phase = "holding"
        any   == (holds /\ (InTime(c) \/ ~Kept("3.7 healed votes wait")))
                 \/ (client[c].phase = "succeeding" /\ ~Kept("3.6 successor"))
    IN CASE v.answer = "old"    -> v.wait = 0 \/ any
         [] v.answer = "young"  -> any \/ (holds /\ ~Kept("3.7 young yes waits"))
         [] v.answer = "healed" -> any
         [] OTHER               -> FALSE

HasQuorum(c) == Cardinality({m \in Masters : Counts(c, m)}) >= Quorum

-----------------------------------------------------------------------------
(* The commands of a client run on a master.                               *)

\* So many ticks the round may still go on.
Rest(c) == Drift + IF client[c].phase = "holding"
                   THEN IF Kept("3.5 before the old validity ends") THEN client[c].left - 1 ELSE T
                   ELSE (IF Kept("3.7 limit D") THEN D ELSE T - 1) - client[c].round

\* What an answer is worth, by the note that the same command read.
Judged(c, age) ==
    LET wait  == IF age >= Guard THEN 0 ELSE Guard - age
        waits == client[c].phase = "holding" \/ (client[c].phase = "succeeding" /\ ~Kept("3.6 successor"))
    IN CASE wait <= Rest(c) -> [answer |-> "old", wait |-> wait]
         [] OTHER           -> IF waits THEN Young ELSE Lost

Runs(c, m, phase, answer) ==
    /\ memory' = [memory EXCEPT ![m] = [Noted(@) EXCEPT !.owner = c, !.left = T]]
    /\ vote' = [vote EXCEPT ![c][m] = answer]
    /\ client' = [client EXCEPT ![c].phase = phase]
    /\ UNCHANGED losses

\* A free master grants. A refusal changes nothing, and neither does silence. The first answer of
\* an attempt is one that can count: an attempt without one is over when it begins.
Grant(c, m) ==
    /\ client[c].phase \in {"idle", "acquiring"}
    /\ vote[c][m] = NotRun /\ memory[m].owner = NoOne /\ Reachable(m)
    /\ Begun(c) \/ Judged(c, Age(memory[m])) # Lost
    /\ Runs(c, m, "acquiring", Judged(c, Age(memory[m])))

\* Renewal, and the hand-over to the next owner inside this client (rule 3.6 holds for both).
Extend(c, m) ==
    /\ client[c].phase \in {"holding", "succeeding"}
    /\ vote[c][m] = NotRun /\ memory[m].owner = c /\ Reachable(m)
    /\ Runs(c, m, client[c].phase, Judged(c, Age(memory[m])))

\* Rule 3.7: the key is put back where it is missing, never over another owner's.
Heal(c, m) ==
    /\ client[c].phase = "holding"
    /\ vote[c][m] = NotRun /\ memory[m].owner = NoOne /\ Reachable(m)
    /\ Runs(c, m, "holding", IF Kept("3.7 young yes waits") THEN Young ELSE Healed)

\* A renewal of an earlier round runs. It writes, and nobody reads its answer. In order, on one
\* connection, it runs before the command of this round.
LateWrite(c, m) ==
    /\ \/ client[c].phase = "holding" /\ ("late" \in Faults \/ vote[c][m] = NotRun)
       \/ client[c].phase = "succeeding" /\ vote[c][m] = NotRun
    /\ memory[m].owner \in {c, NoOne} /\ Reachable(m)
    /\ memory' = [memory EXCEPT ![m] = [Noted(@) EXCEPT !.owner = c, !.left = T]]
    /\ UNCHANGED <<client, vote, losses>>

-----------------------------------------------------------------------------
(* The client decides.                                                     *)

NewRound(c)  == vote' = [vote EXCEPT ![c] = [m \in Masters |-> NotRun]]

\* Rule 3.1: the validity counts from before the first byte was sent, and the drift is taken off.
Validity(c) == T - Margin - (IF Kept("3.1 stamp before sending") THEN client[c].round ELSE 0)

Win(c) ==
    /\ client[c].phase # "idle" /\ HasQuorum(c) /\ Validity(c) > 0
    /\ client' = [o \in Clients |->
           IF o = c THEN [client[c] EXCEPT !.phase = "holding", !.left = Validity(c), !.round = 0,
                                              !.lost = client[c].slow, !.slow = 0]
           ELSE IF client[o].phase = "holding" /\ client[o].left = 0
                THEN [client[o] EXCEPT !.interrupted = TRUE] ELSE client[o]]
    /\ NewRound(c)
    /\ UNCHANGED <<memory, losses>>

\* An undo, a release or a loss: rule 3.4, the release of exactly this owner.
Without(c, mem) ==
    [m \in Masters |-> IF mem[m].owner # c THEN mem[m]
                       ELSE IF "remains" \in Faults THEN [mem[m] EXCEPT !.owner = Over]
                       ELSE [mem[m] EXCEPT !.owner = NoOne, !.left = 0]]

End(c) ==
    /\ client[c].phase # "idle"
    /\ client' = [client EXCEPT ![c] = Idle]
    /\ memory' = Without(c, memory)
    /\ NewRound(c)
    /\ UNCHANGED losses

\* A round of renewal is given up, and another one is sent.
Again(c) ==
    /\ Valid(c) /\ Begun(c)
    /\ client' = [client EXCEPT ![c].round = 0, ![c].slow = 0]
    /\ NewRound(c)
    /\ UNCHANGED <<memory, losses>>

\* A release that hands the lock to the next local owner, without a message to other processes.
HandOver(c) ==
    /\ Valid(c)
    /\ client' = [client EXCEPT ![c] = [Idle EXCEPT !.phase = "succeeding"]]
    /\ NewRound(c)
    /\ UNCHANGED <<memory, losses>>

-----------------------------------------------------------------------------
(* Time passes.                                                            *)

Older(n) == Min(n + 1, Guard)

Aged(c, slow) ==
    LET k     == client[c]
        step  == IF c \in slow THEN 0 ELSE 1
        round == IF Begun(c) THEN Min(k.round + step, T) ELSE 0
        left  == IF k.left > step THEN k.left - step ELSE 0
        loses(n) == IF c \in slow THEN n + 1 ELSE n
        next  == [k EXCEPT !.round = round, !.left = left,
                           !.lost = IF k.phase = "holding" THEN loses(@) ELSE 0,
                           !.slow = IF Begun(c) THEN loses(@) ELSE 0]
        dead  == CASE k.phase = "idle"    -> TRUE
                   [] k.phase = "holding" -> /\ left = 0
                                             /\ Kept("3.5 before the old validity ends") \/ ~Begun(c) \/ round >= T
                   [] OTHER               -> \/ round >= T - Margin
                                             \/ round > D /\ Kept("3.7 limit D")
    IN IF dead THEN Idle ELSE next

Tick ==
    \E slow \in SUBSET {c \in Clients : client[c].phase # "idle" /\ client[c].lost < Drift /\ client[c].slow < Drift} :
        LET ended == {c \in Clients : client[c].phase # "idle" /\ Aged(c, slow).phase = "idle"}
        IN /\ client' = [c \in Clients |-> Aged(c, slow)]
           /\ vote' = [c \in Clients |-> [m \in Masters |->
                  IF c \in ended THEN NotRun
                  ELSE IF vote[c][m].wait > 0 THEN [vote[c][m] EXCEPT !.wait = @ - 1] ELSE vote[c][m]]]
           /\ memory' = [m \in Masters |->
                  LET k    == memory[m]
                      dead == k.owner \in ended /\ "remains" \notin Faults
                      gone == k.owner = NoOne \/ k.left = 1 \/ dead
                  IN [k EXCEPT !.owner = IF gone THEN NoOne ELSE IF k.owner \in ended THEN Over ELSE @,
                               !.left  = IF gone THEN 0 ELSE @ - 1,
                               !.age   = IF k.note = "none" THEN 0 ELSE Older(@),
                               !.start = IF k.note = "own" /\ ~StartCounts THEN 0 ELSE Older(@)]]
    /\ UNCHANGED losses

-----------------------------------------------------------------------------
(* Masters lose their memory.                                              *)

\* On one connection a restart ends the commands that are under way.
CutOff(m) ==
    vote' = IF "late" \in Faults THEN vote
            ELSE [c \in Clients |-> IF Begun(c) /\ vote[c][m] = NotRun
                                    THEN [vote[c] EXCEPT ![m] = Lost] ELSE vote[c]]

Loses(m, found) ==
    /\ losses > 0 /\ losses' = IF Losses = 99 THEN losses ELSE losses - 1
    /\ memory' = [memory EXCEPT ![m] = AfterLoss(m, found)]
    /\ UNCHANGED client

RestartEmpty(m) == Loses(m, Empty) /\ CutOff(m)

Flush(m) ==
    /\ "flush" \in Faults
    /\ Loses(m, [Empty EXCEPT !.start = memory[m].start, !.clean = FALSE])
    /\ UNCHANGED vote

\* The memory of a moment ago: no lock, this lock, or that of an earlier round of a holder; with an
\* old note, or from before there was one. A promoted replica has it, too, and never counts as clean.
RestartOlder(m) ==
    /\ "older" \in Faults
    /\ \E owner \in {NoOne, memory[m].owner} \cup Holding :
       \E left \in IF owner = NoOne THEN {0} ELSE IF owner \in Holding THEN 1..T ELSE {memory[m].left} :
       \E note \in {"none", "foreign"}, clean \in BOOLEAN :
           /\ clean => m \notin Durable
           /\ Loses(m, [owner |-> owner, left |-> left, note |-> note, clean |-> clean, start |-> 0,
                        age |-> IF note = "none" THEN 0 ELSE Guard])
           /\ CutOff(m)

\* appendonly yes, appendfsync always: all is there, under another run_id.
RestartWhole(m) ==
    /\ m \in Durable
    /\ memory' = [memory EXCEPT ![m] = AfterLoss(m, [@ EXCEPT
           !.note = IF @ = "none" THEN @ ELSE "foreign", !.start = 0,
           !.clean = @ \/ "forgets" \in Faults])]
    /\ CutOff(m) /\ UNCHANGED <<client, losses>>

Evict(m) ==
    /\ "evict" \in Faults /\ memory[m].note # "none"
    /\ memory' = [memory EXCEPT ![m] = AfterLoss(m, [@ EXCEPT !.note = "none", !.age = 0])]
    /\ UNCHANGED <<client, vote, losses>>

-----------------------------------------------------------------------------
(* Remains of dead attempts: a command writes late, a release comes late.  *)

LateKey(m) ==
    /\ "remains" \in Faults /\ memory[m].owner = NoOne
    /\ memory' = [memory EXCEPT ![m].owner = Over, ![m].left = T]
    /\ UNCHANGED <<client, vote, losses>>

LateRelease(m) ==
    /\ "remains" \in Faults
    /\ memory[m].owner = Over \/ (~Kept("3.4 release checks the owner") /\ memory[m].owner # NoOne)
    /\ memory' = [memory EXCEPT ![m].owner = NoOne, ![m].left = 0]
    /\ UNCHANGED <<client, vote, losses>>

-----------------------------------------------------------------------------
\* A fleet that has run for long, and has no note yet.
Init ==
    /\ memory = [m \in Masters |-> AfterLoss(m, [Empty EXCEPT !.start = Guard])]
    /\ client = [c \in Clients |-> Idle]
    /\ vote = [c \in Clients |-> [m \in Masters |-> NotRun]]
    /\ losses = Losses

OfClient(c) == \/ Win(c) \/ End(c) \/ Again(c) \/ HandOver(c)
               \/ \E m \in Masters : Grant(c, m) \/ Extend(c, m) \/ Heal(c, m) \/ LateWrite(c, m)

OfMaster(m) == \/ Handshake(m) \/ RestartEmpty(m) \/ Flush(m) \/ RestartOlder(m) \/ RestartWhole(m)
               \/ Evict(m) \/ LateKey(m) \/ LateRelease(m)

Next == Tick \/ (\E c \in Clients : OfClient(c)) \/ (\E m \in Masters : OfMaster(m))
Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* What is promised.                                                       *)

Exclusion == \A a, b \in Clients : Valid(a) /\ Valid(b) => a = b

\* No hold comes back to life after another client held the lock in between.
NoneRevived == \A c \in Clients : ~(client[c].interrupted /\ Valid(c))

(* These are violated on purpose: a model in which nothing happens is safe, too. *)
NobodyHolds    == \A c \in Clients : ~Valid(c)
NoSuccession   == \A c \in Clients : ~(client[c].phase = "succeeding" /\ HasQuorum(c))
NoHealedQuorum == \A c \in Clients :
    ~(HasQuorum(c) /\ Cardinality({m \in Masters : vote[c][m].answer = "old" /\ vote[c][m].wait = 0}) < Quorum)

Symmetry == Permutations(Masters) \cup Permutations(Clients)
=============================================================================
