-------------------------------- MODULE Trace --------------------------------
(* The code follows the specification: each schedule of the simulation, written as a trace of events, is a
   behaviour of Lock.tla. One tick is one millisecond. evidence/spec/conformance.py writes TraceData and
   starts TLC.

   An event is <<instant, what, master, client, number>>. It is an action of Lock.tla on the master and for
   the client that the trace names. Each state has one successor at most, so a trace that is no behaviour
   stops at the event that no action allows.

   The specification leaves this out on purpose, and the trace maps it:
   - An owner token is a client, from its first grant to the end of its lease. Any other key on a master
     remains of a dead attempt: late commands, undone votes, and the key of a waiter that may claim the
     lock.
   - An attempt that keeps its votes and asks again is a new attempt.
   - An attempt that nobody gave up is over when the code may no longer win it: D after its first byte,
     also while its thread does not run. Its keys and late commands are remains from then on. A win after
     that counts no vote, so no action allows it.
   - An operator's eviction ends the lease at once.
   - The masters' clocks are right. Those of clients run as in the simulation.
   - A round begins with its first answer. So Validity and D are greater here than in the code by the way
     of the command, and for the longer lease by another 6 ms: Drift is that of the shorter one.
   - Guard is T. The code adds drift.
   - First use of a fleet whose notes say that no lease was granted: also a note of an earlier life is made
     as old as the server. In Lock.tla only a missing note is. The trace compares it with the last restart
     or flush, and goes on with the greater age.
   - Queues, tokens, hold counts, and the second max_ttl. *)
EXTENDS Lock, Integers, Sequences, TraceData

VARIABLES
    trace,  \* its number in Events
    next,   \* the number of its next event
    now,    \* its instant in ticks
    rate,   \* [Clients -> the ticks that its clock loses in a million]
    whole   \* [Masters -> the instant since when its memory is whole]

Event == Events[trace][next]

Same  == UNCHANGED vars
TheKey(m) == key[m][1]  \* each trace has one lock

\* The note that a script read. -2: it reads none; -1: there is none; else the age that the note tells.
\* A note may tell less than the true age, and never more.
Reads(m, age) ==
    CASE age = -2 -> TRUE
      [] age = -1 -> memory[m].note = "none"
      [] OTHER    -> memory[m].note = "own" /\ age <= memory[m].age + 1

\* Grant without one reduction: the first vote of an attempt may be one that cannot count.
AnyGrant(c, m) ==
    /\ client[c].phase \in {"idle", "acquiring"} /\ TheKey(m).owner = NoOne
    /\ Runs(c, m, "acquiring", Judged(c, memory[m]), TRUE)

\* The command of an acquire runs once more in the same round.
Redelivered(c, m) ==
    /\ client[c].phase = "acquiring" /\ vote[c][m] # NotRun /\ Reachable(m)
    /\ TheKey(m).owner \in {c, NoOne} /\ Writes(c, m, TRUE)
    /\ UNCHANGED <<client, vote, losses>>

\* A renewal before the attempt has won: it notes the lease, and prolongs the key. Raise without a second max_ttl.
Noted(c, m) ==
    /\ client[c].phase = "acquiring" /\ TheKey(m).owner = c
    /\ key' = [key EXCEPT ![m][1].left = Lease(c)]
    /\ UNCHANGED <<memory, client, vote, losses>>

\* c: the owner in the snapshot, 0: none.
FoundOlder(m, c, left) ==
    /\ RestartOlder(m)
    /\ key'[m][1] = IF c = 0 THEN Free ELSE [owner |-> c, left |-> left]
    /\ memory'[m].note = "foreign" /\ ~memory'[m].clean

Greets(m, number) ==
    /\ IF memory[m].note = "own" THEN Same ELSE Handshake(m)
    /\ number <= memory'[m].age + 1

FirstUse(m, number) ==
    /\ memory' = [memory EXCEPT ![m].age = Max(@, Min(now - whole[m], Guard))]
    /\ number <= memory'[m].age + 1
    /\ UNCHANGED <<key, client, vote, losses>>

Follows(what, m, c, number) ==
    CASE what = "client"    -> Same
      [] what = "grant"     -> Reads(m, number) /\ AnyGrant(c, m)
      [] what = "again"     -> Reads(m, number) /\ Redelivered(c, m)
      [] what = "extend"    -> Reads(m, number) /\ Extend(c, m)
      [] what = "heal"      -> Reads(m, number) /\ Heal(c, m)
      [] what = "late"      -> Reads(m, number) /\ LateWrite(c, m)
      [] what = "noted"     -> Reads(m, number) /\ Noted(c, m)
      [] what = "remains"   -> Reads(m, number) /\ LateKey(m, 1)
      [] what = "freed"     -> IF TheKey(m).owner = NoOne THEN Same ELSE LateRelease(m, 1)
      [] what = "refused"   -> Same /\ IF c = 0 THEN TheKey(m).owner # NoOne ELSE TheKey(m).owner = c
      [] what = "counts"    -> Same /\ Counts(c, m)
      [] what = "win"       -> Win(c) /\ m >= Quorum /\ number <= client'[c].left
      [] what = "round"     -> IF Begun(c) THEN Again(c) ELSE Same
      [] what = "end"       -> IF client[c].phase = "idle" THEN Same ELSE End(c)
      [] what = "handshake" -> Greets(m, number)
      [] what = "first"     -> IF memory[m].note = "own" THEN FirstUse(m, number) ELSE Greets(m, number)
      [] what = "empty"     -> RestartEmpty(m)
      [] what = "flush"     -> Flush(m)
      [] what = "whole"     -> RestartWhole(m)
      [] what = "older"     -> FoundOlder(m, c, number)

Lags(until) == [c \in Clients |-> (until * rate[c]) \div 1000000 - (now * rate[c]) \div 1000000]

\* Stride: so many ticks pass in one step at most. 1: each step is a Tick of Lock.tla.
TraceNext ==
    /\ next <= Len(Events[trace])
    /\ UNCHANGED trace
    /\ IF Event[1] > now
       THEN LET until == Min(Event[1], now + Stride)
            IN Passes(until - now, Lags(until)) /\ now' = until /\ UNCHANGED <<next, rate, whole>>
       ELSE /\ Follows(Event[2], Event[3], Event[4], Event[5])
            /\ next' = next + 1 /\ UNCHANGED now
            /\ rate' = IF Event[2] = "client" THEN [rate EXCEPT ![Event[4]] = Event[5]] ELSE rate
            /\ whole' = IF Event[2] \in {"empty", "flush", "older"} THEN [whole EXCEPT ![Event[3]] = now] ELSE whole

TraceInit == /\ Init /\ trace \in 1..Len(Events) /\ next = 1 /\ now = 0
             /\ rate = [c \in Clients |-> 0] /\ whole = [m \in Masters |-> -Guard]
TraceSpec == TraceInit /\ [][TraceNext]_<<vars, trace, next, now, rate, whole>>

\* A trace goes on while the promises are kept. TLC prints the number of each one that comes to its end.
Followed ==
    /\ TypeOK /\ Exclusion /\ NoneRevived
    /\ next > Len(Events[trace]) => PrintT(<<"followed", trace>>)
=============================================================================
