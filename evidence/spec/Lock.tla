-------------------------------- MODULE Lock --------------------------------
(* The exclusion of one lock on independent masters: acquire, undo, release, renewal, healing, and the
   restart guard. The numbers of the rules are those of docs/contributing/safety.md. Tokens are in
   Fence.tla, the wait queue is in Queue.tla, grants by messages are in HandOff.tla.

   Time is a Tick. Each instant is kept as an age or as a rest, so endless time has finitely many states.
   The masters' clocks are right. The clock of a client may lose Drift ticks during one lease; a clock that
   gains only ends its owner's lease earlier.

   Three steps of a real client are one step here, each because the early case is the harmless one.
   "nothing reduced" in Variants undoes the first two, "remains" in Faults the third:
   - A round begins with its first answer. An earlier stamp only ends the validity earlier.
   - A reply arrives when its command runs. The client may decide later.
   - A dead attempt leaves nothing behind. Its keys and its late commands could only refuse other clients.

   Left out: jumps of a master's clock, evictions of locks (HandOff.tla has them), proxies, hold counts,
   and a master that is durable for a part of its memory. *)
EXTENDS Common

CONSTANTS
    Clients,           \* a set of model values
    NoOne,             \* the owner of a free lock
    Over,              \* the owner of a key that a dead attempt left behind
    T,                 \* a lease lasts T ticks on a master
    D,                 \* an acquire is decided within D ticks
    Guard,             \* a memory younger than Guard has no vote
    Short,             \* clients with a shorter lease, and these values instead:
    ShortT, ShortD, ShortGuard,
    Second,            \* clients that want another lock on the same masters
    Drift,             \* a client's clock loses at most Drift ticks in a lease
    Losses,            \* so many times a master may lose its memory; 99: any number of times
    Durable,           \* masters that keep their memory in a restart
    Faults,            \* what may go wrong beside restarts, see below
    Variants           \* other forms of the rules, see below

(* Faults:   "flush"            FLUSHALL at any time
             "late"             commands outlive a restart, in any order
             "handshake"        the handshake comes at any time after a loss, not at once
             "older"            a restart with an older memory; a promoted replica
             "evict"            the note alone vanishes
             "forgets"          a restart hides that the server was a replica
             "set back"         a master's clock was ahead when it wrote its note
             "mixed"            a server in Durable is durable in some lives only
             "remains"          keys of dead attempts stay, late commands write them, and releases come late
   Variants: "reads all notes"  a round without the notes of all masters does not count
             "nothing reduced"  rounds begin without an answer, and replies travel *)
ASSUME /\ {T, D, Guard, ShortT, ShortD, ShortGuard, Drift, Losses} \subseteq Nat
       /\ ShortT <= T /\ ShortD <= D /\ ShortGuard <= Guard
       /\ Durable \subseteq Masters /\ Short \subseteq Clients /\ Second \subseteq Clients
       /\ Variants \subseteq {"reads all notes", "nothing reduced"}
       /\ Faults \subseteq {"flush", "late", "handshake", "older", "evict", "forgets", "set back",
                        "mixed", "remains"}

VARIABLES
    key,     \* [Masters -> [Locks -> the owner, and the rest of its lease]]
    memory,  \* [Masters -> what a master says of its memory]
    client,  \* [Clients -> what a client does, and by its clock since when]
    vote,    \* [Clients -> [Masters -> what came of the command of this round]]
    losses   \* so many losses of memory may still come
vars == <<key, memory, client, vote, losses>>

Plain      == "nothing reduced" \in Variants
Locks      == IF Second = {} THEN {1} ELSE {1, 2}
Name(c)    == IF c \in Second THEN 2 ELSE 1
Quorum     == IF Kept("3.1 quorum") THEN Majority ELSE 1

\* The options of a client. max_ttl decides its Guard and its D.
Lease(c)    == IF c \in Short THEN ShortT ELSE T
OwnD(c)     == IF c \in Short THEN ShortD ELSE D
OwnGuard(c) == IF c \in Short THEN ShortGuard ELSE Guard
TwoMaxTtl   == Short # {} /\ ShortGuard < Guard

(* A note says since when the memory is whole: "own" was written in this life of the server, "foreign" in an
   earlier one. start: the age of the server. clean: never flushed in this life, and never a replica. longer:
   a lease of the greater one of two max_ttl stands in the note. unearned: no quorum had granted it by then.
   synced: this life writes each change to the disk before it answers. marked: the note says so of the life
   that wrote it. *)
Note  == {"none", "foreign", "own"}
Empty(synced) == [note |-> "none", age |-> 0, start |-> 0, clean |-> TRUE, longer |-> FALSE,
                  unearned |-> FALSE, synced |-> synced, marked |-> FALSE]
\* The settings of the next life of a server.
Lives(m) == IF m \notin Durable THEN {FALSE} ELSE IF "mixed" \in Faults THEN BOOLEAN ELSE {TRUE}
Free  == [owner |-> NoOne, left |-> 0]

(* A command that has not run may run at any time, or never. "old": the memory reaches the age Guard in so
   many ticks. "young": it will not be old enough before the round ends. "healed": the key was put back. *)
Answer == {"none", "lost", "old", "young", "healed"}
Answered(answer, wait) == [answer |-> answer, wait |-> wait, here |-> ~Plain]
NotRun == [answer |-> "none", wait |-> 0, here |-> TRUE]
Lost   == [answer |-> "lost", wait |-> 0, here |-> TRUE]

\* lost and slow: the ticks that the clock lost in this lease, and in this round.
\* heard: of a lease of the longer max_ttl. read: the masters whose notes this round has read. noted: the
\* masters whose notes had that lease when the client last read them.
Idle == [phase |-> "idle", left |-> 0, round |-> 0, lost |-> 0, slow |-> 0, interrupted |-> FALSE,
         heard |-> FALSE, read |-> {}, noted |-> {}]

TypeOK ==
    /\ key \in [Masters -> [Locks -> [owner: Clients \cup {NoOne, Over}, left: 0..T]]]
    /\ memory \in [Masters -> [note: Note, age: 0..Guard, start: 0..Guard, clean: BOOLEAN, longer: BOOLEAN,
                               unearned: BOOLEAN, synced: BOOLEAN, marked: BOOLEAN]]
    /\ client \in [Clients -> [phase: {"idle", "acquiring", "holding"}, left: 0..T, round: 0..T,
                               lost: 0..Drift, slow: 0..Drift, interrupted: BOOLEAN,
                               heard: BOOLEAN, read: SUBSET Masters, noted: SUBSET Masters]]
    /\ vote \in [Clients -> [Masters -> [answer: Answer, wait: 0..Guard, here: BOOLEAN]]]
    /\ losses \in 0..Losses

(* Rule 3.6, the handshake: the first script on a connection. It goes by the master's memory of that moment. *)
\* The server's start is remembered only where something may still look at it.
StartCounts == "evict" \in Faults \/ Broken \cap {"3.6 look", "3.6 judged by this note",
    "3.6 first use needs a clean server", "3.6 first use is judged on the master"} # {}

(* First use: a memory without a note, on a clean server, is as old as the server. The client sends two
   scripts. The first one writes a note that says "as young as can be", the second one looks at the server and
   finds the same note, unused. No lease was granted in between, so they are one step here. The client asks
   for it only if no master has a used note; the model does without this condition. *)
Greeted(m, k) ==
    LET trusted == /\ k.note = "none" /\ Kept("3.6 first use is judged on the master")
                   /\ k.clean \/ ~Kept("3.6 first use needs a clean server")
        durable == k.note = "none" /\ k.synced /\ ~Kept("3.6 durable needs a note")
        always  == k.synced /\ (k.marked \/ ~Kept("3.6 durable in its last life"))
        kept    == k.note = "foreign" /\ ((always /\ k.clean) \/ ~Kept("3.6 foreign note"))
        age     == IF durable THEN Guard ELSE IF trusted THEN k.start ELSE IF kept THEN k.age ELSE 0
    IN IF k.note = "own" THEN k
       ELSE [k EXCEPT !.note = "own", !.age = age, !.marked = k.synced,
                      !.start = IF StartCounts THEN @ ELSE 0, !.clean = StartCounts => @]

\* A master that lost something: its handshake comes at once, or at any time.
AfterLoss(m, k) == IF "handshake" \in Faults THEN k ELSE Greeted(m, k)

Handshake(m) ==
    /\ memory[m].note # "own"
    /\ memory' = [memory EXCEPT ![m] = Greeted(m, @)]
    /\ UNCHANGED <<key, client, vote, losses>>

\* A client saw that no master had a note. Its handshake comes late, and trusts the start of the server.
LateFirstUse(m) ==
    /\ ~Kept("3.6 first use is judged on the master")
    /\ memory[m].note = "none" /\ memory[m].start = Guard
    /\ memory' = [memory EXCEPT ![m].note = "own", ![m].age = Guard]
    /\ UNCHANGED <<key, client, vote, losses>>

\* The age that a granting, renewing or healing script finds. It reads the note in the same call.
Known(k) == k.note # "none" \/ ~Kept("3.6 look") \/ ~Kept("3.6 no note is young")
Age(k) == CASE ~Kept("3.6 look")                                    -> k.start
            [] k.note = "own" /\ ~Kept("3.6 judged by this note")   -> k.start
            [] k.note = "none"                                      -> Guard
            [] OTHER                                                -> k.age

\* No command reaches a new life of a server before its handshake.
Reachable(m) == memory[m].note # "foreign" \/ ~Kept("3.6 handshake")

(* What a client counts.                                                   *)
Holding(l) == {c \in Clients : client[c].phase = "holding" /\ Name(c) = l}
Valid(c)   == client[c].phase = "holding" /\ client[c].left > 0
Margin     == IF Kept("3.1 drift") THEN Drift ELSE 0

\* A round that has begun takes time.
Begun(c) == IF Plain THEN client[c].phase # "idle" /\ \E m \in Masters : vote[c][m] # Lost
                     ELSE \E m \in Masters : vote[c][m].answer \in {"old", "young", "healed"}

\* Rule 3.6: the greater max_ttl of the fleet, once the client has heard of it.
LongGuard(c) == IF client[c].heard THEN Guard ELSE OwnGuard(c)
LongD(c)     == IF Kept("3.7 one D for the fleet") /\ (client[c].heard \/ OwnGuard(c) = Guard) THEN D ELSE OwnD(c)

\* Rule 3.7: no acquire that was sent before now can still count a vote when the validity ends.
InTime(c) == IF Kept("3.7 less, not equal") THEN LongD(c) + Margin < client[c].left
                                            ELSE LongD(c) + Margin <= client[c].left

Counts(c, m) ==
    LET v     == vote[c][m]
        holds == client[c].phase = "holding"
        any   == \/ holds /\ InTime(c)
                 \/ holds /\ ~Kept("3.7 healed votes wait")
    IN v.here /\ CASE v.answer = "old"    -> v.wait <= Guard - LongGuard(c) \/ any
                   [] v.answer = "young"  -> any \/ (holds /\ ~Kept("3.7 young yes waits"))
                   [] v.answer = "healed" -> any
                   [] OTHER               -> FALSE

HasQuorum(c) == Cardinality({m \in Masters : Counts(c, m)}) >= Quorum

(* The commands of a client run on a master.                               *)
\* So many ticks the round may still go on. An answer that cannot count until then is worth nothing.
Rest(c) == Drift + IF client[c].phase = "holding"
                   THEN IF Kept("3.5 before the old validity ends") THEN client[c].left - 1 ELSE Lease(c)
                   ELSE (IF Kept("3.7 limit D") THEN OwnD(c) ELSE Lease(c) - 1) - client[c].round

\* What an answer is worth, by the note k that the same command read.
Judged(c, k) ==
    LET wait   == Guard - Age(k)
        missed == Guard - OwnGuard(c) + Rest(c)
    IN CASE Known(k) /\ ~Kept("3.6 judged again") /\ wait <= Guard - LongGuard(c) -> Answered("old", 0)
         [] Known(k) /\ (wait <= missed \/ Plain) -> Answered("old", wait)
         [] client[c].phase = "holding" -> Answered("young", 0)
         [] OTHER -> Lost

\* A renewal and a healing leave a longer lease in the note. A grant does not: the attempt may fail.
IsLonger(c) == TwoMaxTtl /\ c \notin Short
Writes(c, m, grants) ==
    LET raises == client[c].phase = "holding" \/ (grants /\ ~Kept("3.11 a grant raises no note"))
    IN /\ key' = [key EXCEPT ![m][Name(c)] = [owner |-> c, left |-> Lease(c)]]
       /\ memory' = IF IsLonger(c) /\ raises /\ memory[m].note # "none" /\ ~memory[m].longer
                    THEN [memory EXCEPT ![m].longer = TRUE, ![m].unearned = ~HasQuorum(c) /\ client[c].phase # "holding"]
                    ELSE memory

\* The reply brings the note. A refusal does, too; to leave it out only lets more votes count.
Hears(c, m, k) == [client[c] EXCEPT !.heard = @ \/ (OwnGuard(c) < Guard /\ k.longer),
                                    !.read = IF "reads all notes" \in Variants THEN @ \cup {m} ELSE @,
                                    !.noted = IF IsLonger(c) /\ k.longer THEN @ \cup {m} ELSE @ \ {m}]

Runs(c, m, phase, answer, grants) ==
    /\ vote[c][m] = NotRun /\ Reachable(m)
    /\ Writes(c, m, grants)
    /\ vote' = [vote EXCEPT ![c][m] = answer]
    /\ client' = [client EXCEPT ![c] = [Hears(c, m, memory'[m]) EXCEPT !.phase = phase]]
    /\ UNCHANGED losses

\* A free master grants. A refusal changes nothing, and neither does silence. The first answer of
\* an attempt is one that can count: an attempt without one is over when it begins.
Grant(c, m) ==
    /\ client[c].phase = "acquiring" \/ (client[c].phase = "idle" /\ ~Plain)
    /\ key[m][Name(c)].owner = NoOne
    /\ Begun(c) \/ Judged(c, memory[m]) # Lost
    /\ Runs(c, m, "acquiring", Judged(c, memory[m]), TRUE)

\* Rule 3.11: a quorum granted a longer lease. The client has it noted where its key stands, before it counts.
Raise(c, m) ==
    /\ IsLonger(c) /\ client[c].phase = "acquiring" /\ HasQuorum(c) /\ m \notin client[c].noted
    /\ key[m][Name(c)].owner = c /\ memory[m].note # "none" /\ Reachable(m)
    /\ key' = [key EXCEPT ![m][Name(c)].left = Lease(c)]
    /\ memory' = [memory EXCEPT ![m].longer = TRUE]
    /\ client' = [client EXCEPT ![c].noted = @ \cup {m}]
    /\ UNCHANGED <<vote, losses>>

IsNoted(c) == \/ ~IsLonger(c) \/ client[c].phase # "acquiring" \/ Cardinality(client[c].noted) >= Quorum
              \/ ~Kept("3.11 noted before it counts") \/ ~Kept("3.11 a grant raises no note")

Extend(c, m) ==
    /\ client[c].phase = "holding" /\ key[m][Name(c)].owner = c
    /\ Runs(c, m, "holding", Judged(c, memory[m]), FALSE)

\* Rule 3.7: the key is put back where it is missing, never over another owner's.
Heal(c, m) ==
    /\ client[c].phase = "holding" /\ key[m][Name(c)].owner = NoOne
    /\ Runs(c, m, "holding", Answered(IF Kept("3.7 young yes waits") THEN "young" ELSE "healed", 0), TRUE)

\* A renewal of an earlier round runs. It writes, and nobody reads its answer. In order, on one
\* connection, it runs before the command of this round.
LateWrite(c, m) ==
    /\ client[c].phase = "holding" /\ ("late" \in Faults \/ ~Begun(c) \/ vote[c][m] = NotRun)
    /\ key[m][Name(c)].owner \in {c, NoOne}
    /\ Reachable(m)
    /\ Writes(c, m, key[m][Name(c)].owner = NoOne)
    /\ UNCHANGED <<client, vote, losses>>

\* The note of a master that refused, or that has not answered yet: "reads all notes" only.
Read(c, m) ==
    /\ "reads all notes" \in Variants /\ Begun(c) /\ m \notin client[c].read
    /\ client' = [client EXCEPT ![c] = Hears(c, m, memory[m])]
    /\ UNCHANGED <<key, memory, vote, losses>>

\* "nothing reduced" only: the reply arrives, and the client begins an attempt before any answer.
Reply(c, m) ==
    /\ ~vote[c][m].here
    /\ vote' = [vote EXCEPT ![c][m].here = TRUE]
    /\ UNCHANGED <<key, memory, client, losses>>

Start(c) ==
    /\ Plain /\ client[c].phase = "idle"
    /\ client' = [client EXCEPT ![c].phase = "acquiring"]
    /\ UNCHANGED <<key, memory, vote, losses>>

(* The client decides.                                                     *)
Rests(c)    == [Idle EXCEPT !.noted = client[c].noted]
NewRound(c) == vote' = [vote EXCEPT ![c] = [m \in Masters |-> NotRun]]
NoRound(c)  == vote' = [vote EXCEPT ![c] = [m \in Masters |-> IF Plain THEN Lost ELSE NotRun]]

\* Rule 3.1: the validity counts from before the first byte was sent, and the drift is taken off.
Validity(c) == Lease(c) - Margin - (IF Kept("3.1 stamp before sending") THEN client[c].round ELSE 0)

Win(c) ==
    /\ client[c].phase # "idle" /\ HasQuorum(c) /\ Validity(c) > 0 /\ IsNoted(c)
    /\ "reads all notes" \in Variants => client[c].read = Masters
    /\ client' = [o \in Clients |->
           IF o = c THEN [client[c] EXCEPT !.phase = "holding", !.left = Validity(c), !.round = 0,
                                           !.lost = client[c].slow, !.slow = 0, !.read = {}]
           ELSE IF o \in Holding(Name(c)) /\ client[o].left = 0
                THEN [client[o] EXCEPT !.interrupted = TRUE] ELSE client[o]]
    /\ NoRound(c)
    /\ UNCHANGED <<key, memory, losses>>

\* An undo, a release or a loss: rule 3.4, the release of exactly this owner.
Without(k, c) == IF k.owner # c THEN k ELSE IF "remains" \in Faults THEN [k EXCEPT !.owner = Over] ELSE Free

End(c) ==
    /\ client[c].phase # "idle"
    /\ client' = [client EXCEPT ![c] = Rests(c)]
    /\ key' = [m \in Masters |-> [l \in Locks |-> Without(key[m][l], c)]]
    /\ NewRound(c)
    /\ UNCHANGED <<memory, losses>>

\* A round of renewal is given up, and another one is sent.
Again(c) ==
    /\ Valid(c) /\ (Begun(c) \/ Plain)
    /\ client' = [client EXCEPT ![c].round = 0, ![c].slow = 0, ![c].read = {}]
    /\ NewRound(c)
    /\ UNCHANGED <<key, memory, losses>>

(* Time passes.                                                            *)
Older(age, n) == Min(age + n, Guard)

\* n ticks later. The clock of the client lost lag of them.
Aged(c, n, lag) ==
    LET k     == client[c]
        step  == n - lag
        round == IF Begun(c) THEN Min(k.round + step, Lease(c)) ELSE 0
        left  == IF k.left > step THEN k.left - step ELSE 0
        next  == [k EXCEPT !.round = round, !.left = left,
                           !.lost = IF k.phase = "holding" THEN @ + lag ELSE 0,
                           !.slow = IF Begun(c) THEN @ + lag ELSE 0]
        dead  == CASE k.phase = "idle"    -> TRUE
                   [] k.phase = "holding" -> /\ left = 0
                                             /\ Kept("3.5 before the old validity ends") \/ ~Begun(c) \/ round >= Lease(c)
                   [] OTHER               -> \/ round >= Lease(c) - Margin
                                             \/ round > OwnD(c) /\ Kept("3.7 limit D")
    IN IF dead THEN Rests(c) ELSE next

\* lag: the ticks that each client's clock loses. Trace.tla takes many ticks at once.
Passes(n, lag) ==
    LET ended == {c \in Clients : client[c].phase # "idle" /\ Aged(c, n, lag[c]).phase = "idle"}
        later(k) == LET o == IF k.owner \in ended THEN Without(k, k.owner) ELSE k
                    IN IF o.left <= n THEN Free ELSE [o EXCEPT !.left = @ - n]
    IN /\ client' = [c \in Clients |-> Aged(c, n, lag[c])]
       /\ vote' = [c \in Clients |-> [m \in Masters |->
              IF c \in ended THEN NotRun
              ELSE IF vote[c][m].wait > 0 THEN [vote[c][m] EXCEPT !.wait = @ - Min(n, @)]
              ELSE vote[c][m]]]
       /\ key' = [m \in Masters |-> [l \in Locks |-> later(key[m][l])]]
       /\ memory' = [m \in Masters |-> [memory[m] EXCEPT
              !.age   = IF memory[m].note = "none" THEN 0 ELSE Older(@, n),
              !.start = IF memory[m].note = "own" /\ ~StartCounts THEN 0 ELSE Older(@, n)]]
       /\ UNCHANGED losses

Tick ==
    \E slow \in SUBSET {c \in Clients : client[c].phase # "idle" /\ client[c].lost < Drift /\ client[c].slow < Drift} :
        Passes(1, [c \in Clients |-> IF c \in slow THEN 1 ELSE 0])

(* Masters lose their memory.                                              *)
\* On one connection a restart ends the commands that are under way. No reply outlives it.
CutOff(m) ==
    vote' = [c \in Clients |->
        IF ~vote[c][m].here \/ ("late" \notin Faults /\ Begun(c) /\ vote[c][m] = NotRun)
        THEN [vote[c] EXCEPT ![m] = Lost] ELSE vote[c]]

Loses(m, locks, found) ==
    /\ losses > 0 /\ losses' = IF Losses = 99 THEN losses ELSE losses - 1
    /\ key' = [key EXCEPT ![m] = locks]
    /\ memory' = [memory EXCEPT ![m] = AfterLoss(m, found)]
    /\ UNCHANGED client

NoLock == [l \in Locks |-> Free]

RestartEmpty(m) == (\E synced \in Lives(m) : Loses(m, NoLock, Empty(synced))) /\ CutOff(m)

Flush(m) ==
    /\ "flush" \in Faults
    /\ Loses(m, NoLock, [Empty(memory[m].synced) EXCEPT !.start = memory[m].start, !.clean = FALSE])
    /\ UNCHANGED vote

\* The memory of a moment ago: no lock, this lock, or that of an earlier round of a holder; with an
\* old note, or from before there was one. A promoted replica has it, too, and never counts as clean.
\* Left out: a life that is cut before its own note is on the disk (docs/guarantees.md, assumption 5).
RestartOlder(m) ==
    /\ "older" \in Faults
    /\ \E l \in Locks : \E owner \in {NoOne, key[m][l].owner} \cup Holding(l) :
       \E left \in IF owner = NoOne THEN {0} ELSE IF owner \in Holding(l) THEN 1..Lease(owner) ELSE {key[m][l].left} :
       \E note \in {"none", "foreign"}, clean \in BOOLEAN, synced \in Lives(m) :
           /\ clean => ~memory[m].synced
           /\ Loses(m, [key[m] EXCEPT ![l] = [owner |-> owner, left |-> left]],
                    [note |-> note, clean |-> clean, start |-> 0, age |-> IF note = "none" THEN 0 ELSE Guard,
                     longer |-> note = "foreign" /\ memory[m].longer,
                     unearned |-> note = "foreign" /\ memory[m].unearned,
                     synced |-> synced, marked |-> note = "foreign" /\ ~clean /\ memory[m].marked])
           /\ CutOff(m)

\* appendonly yes, appendfsync always: all is there, under another run_id.
RestartWhole(m) ==
    /\ m \in Durable
    /\ \E synced \in Lives(m) : memory' = [memory EXCEPT ![m] = AfterLoss(m, [@ EXCEPT
           !.synced = synced, !.note = IF @ = "none" THEN @ ELSE "foreign", !.start = 0,
           !.clean = @ \/ memory[m].note = "none" \/ "forgets" \in Faults])]
    /\ CutOff(m) /\ UNCHANGED <<key, client, losses>>

Evict(m) ==
    /\ "evict" \in Faults /\ memory[m].note # "none"
    /\ memory' = [memory EXCEPT ![m] = AfterLoss(m, [@ EXCEPT !.note = "none", !.age = 0, !.longer = FALSE,
                                                            !.unearned = FALSE])]
    /\ UNCHANGED <<key, client, vote, losses>>

\* The clock was ahead when the master wrote its note, and is set back: the note comes from the future.
SetBack(m) ==
    /\ "set back" \in Faults /\ memory[m].note # "none"
    /\ memory' = [memory EXCEPT ![m].age = IF Kept("3.6 a note from the future is no note") THEN 0 ELSE Guard]
    /\ UNCHANGED <<key, client, vote, losses>>

(* Remains of dead attempts: a command writes late, a release comes late.  *)
LateKey(m, l) ==
    /\ "remains" \in Faults /\ key[m][l].owner = NoOne
    /\ key' = [key EXCEPT ![m][l] = [owner |-> Over, left |-> T]]
    /\ UNCHANGED <<memory, client, vote, losses>>

LateRelease(m, l) ==
    /\ "remains" \in Faults
    /\ key[m][l].owner = Over \/ (~Kept("3.4 release checks the owner") /\ key[m][l].owner # NoOne)
    /\ key' = [key EXCEPT ![m][l] = Free]
    /\ UNCHANGED <<memory, client, vote, losses>>

\* A fleet that has run for long, and has no note yet.
Init ==
    /\ key = [m \in Masters |-> NoLock]
    /\ memory = [m \in Masters |-> AfterLoss(m, [Empty(m \in Durable) EXCEPT !.start = Guard])]
    /\ client = [c \in Clients |-> Idle]
    /\ vote = [c \in Clients |-> [m \in Masters |-> NotRun]]
    /\ losses = Losses

OfClient(c) == \/ Start(c) \/ Win(c) \/ End(c) \/ Again(c)
               \/ \E m \in Masters : \/ Grant(c, m) \/ Raise(c, m) \/ Extend(c, m) \/ Heal(c, m)
                                     \/ LateWrite(c, m)
                                     \/ Read(c, m) \/ Reply(c, m)

OfMaster(m) == \/ Handshake(m) \/ LateFirstUse(m) \/ Evict(m) \/ SetBack(m)
               \/ RestartEmpty(m) \/ Flush(m) \/ RestartOlder(m) \/ RestartWhole(m)
               \/ \E l \in Locks : LateKey(m, l) \/ LateRelease(m, l)

Next == Tick \/ (\E c \in Clients : OfClient(c)) \/ (\E m \in Masters : OfMaster(m))
Spec == Init /\ [][Next]_vars

(* What is promised.                                                       *)
Exclusion == \A a, b \in Clients : Valid(a) /\ Valid(b) /\ Name(a) = Name(b) => a = b

\* No hold comes back to life after another client held the lock in between.
NoneRevived == \A c \in Clients : ~(client[c].interrupted /\ Valid(c))

\* Rule 3.11: no note tells of a longer lease that no quorum has granted.
NoteIsEarned == \A m \in Masters : ~memory[m].unearned

(* These are violated on purpose: a model in which nothing happens is safe, too. *)
HealedQuorum(c) == HasQuorum(c) /\ Valid(c) /\
    Cardinality({m \in Masters : vote[c][m].answer = "old" /\ vote[c][m].wait = 0}) < Quorum
NobodyHoldsTwo == \A a, b \in Clients : Valid(a) /\ Valid(b) => a = b
NoHealedQuorum == \A c \in Clients : ~HealedQuorum(c)
NoneOutlives   == \A c \in Clients : HealedQuorum(c) => \E m \in Masters : memory[m].age >= Guard
NoNoteKept     == \A m \in Masters : memory[m].note = "foreign" => Greeted(m, memory[m]).age = 0

\* Masters that are alike, and clients that are alike, may change their names.
Alike(group) == IF group = {} THEN {} ELSE Permutations(group)
Symmetry == Alike(Durable) \cup Alike(Masters \ Durable)
            \cup UNION {Alike((Clients \cap a) \cap b) : a \in {Short, Clients \ Short}, b \in {Second, Clients \ Second}}
=============================================================================
