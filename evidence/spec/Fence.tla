-------------------------------- MODULE Fence --------------------------------
(* Fencing tokens from independent masters (rule 3.8). There is no clock and no lease here, and the lock
   excludes nobody: a token has to be right exactly when the leases are not.

   A command may run at any time, also long after its sender gave up, or never. Replies are lost. The
   register is that of Attiya, Bar-Noy and Dolev, "Sharing memory robustly in message-passing systems",
   JACM 1995. *)
EXTENDS Common

CONSTANTS
    Owners,           \* a set of model values
    Nobody,
    Proposals,        \* an acquire proposes one of these: a clock that is ahead, or 0
    Rounds,           \* of writing back, then the owner gives up
    InTurn,           \* TRUE: nobody begins before the others have ended
    Late,             \* TRUE: commands run after their round, and replies are lost
    MayGiveUp         \* TRUE: an owner may end without a token at any time

VARIABLES
    stored,  \* [Masters -> [token, owner]]
    owner,   \* [Owners -> [phase, token, round, floor]]; floor: the highest token when it began
    sent,    \* commands under way: [kind, owner, token, to]
    answer   \* [Owners -> [Masters -> [token, yes]]], of the present round; token 0: none
vars == <<stored, owner, sent, answer>>

Silent       == [m \in Masters |-> [token |-> 0, yes |-> FALSE]]
Command(kind, o, token) == [kind: {kind}, owner: {o}, token: {token}, to: Masters]
Done         == {o \in Owners : owner[o].phase = "done"}
Busy         == {o \in Owners : owner[o].phase \in {"acquiring", "storing"}}

Init ==
    /\ stored = [m \in Masters |-> [token |-> 0, owner |-> Nobody]]
    /\ owner = [o \in Owners |-> [phase |-> "idle", token |-> 0, round |-> 0, floor |-> 0]]
    /\ sent = {}
    /\ answer = [o \in Owners |-> Silent]

Begin(o) ==
    /\ owner[o].phase = "idle" /\ (InTurn => Busy = {})
    /\ \E proposal \in Proposals :
           /\ owner' = [owner EXCEPT ![o] = [phase |-> "acquiring", token |-> proposal, round |-> 0,
                                             floor |-> MaxOf({0} \cup {owner[d].token : d \in Done})]]
           /\ sent' = sent \cup Command("acquire", o, proposal)
    /\ UNCHANGED <<stored, answer>>

(* The scripts.                                                            *)
\* A second delivery, and a nested acquire, find the owner and give the same token again.
Granted(now, c) ==
    CASE now.owner = c.owner                          -> now
      [] ~Kept("a proposal above the own counter")    -> [token |-> now.token + 1, owner |-> c.owner]
      [] OTHER                                        -> [token |-> MaxOf({now.token + 1, c.token}), owner |-> c.owner]

Accepts(now, c) ==
    \/ now.token < c.token
    \/ now.token = c.token /\ (now.owner = c.owner \/ ~Kept("an equal token of the same owner only"))

Stored(now, c) == IF now.token < c.token THEN [token |-> c.token, owner |-> c.owner] ELSE now

Run(c) ==
    LET o      == c.owner
        m      == c.to
        now    == stored[m]
        after  == IF c.kind = "acquire" THEN Granted(now, c) ELSE Stored(now, c)
        yes    == c.kind = "store" /\ Accepts(now, c)
        awaits == \/ c.kind = "acquire" /\ owner[o].phase = "acquiring"
                  \/ c.kind = "store" /\ owner[o].phase = "storing" /\ owner[o].token = c.token
    IN /\ c \in sent /\ sent' = sent \ {c}
       /\ stored' = [stored EXCEPT ![m] = after]
       /\ \/ awaits /\ answer' = [answer EXCEPT ![o][m] = [token |-> after.token, yes |-> yes]]
          \/ (Late \/ ~awaits) /\ UNCHANGED answer
       /\ UNCHANGED owner

(* The owner.                                                              *)
Answered(o)   == {m \in Masters : answer[o][m].token > 0}
Tokens(o)     == {answer[o][m].token : m \in Answered(o)}
Givers(o, t)  == {m \in Answered(o) : answer[o][m].token = t}
Acceptors(o)  == {m \in Masters : answer[o][m].yes}

Takes(o, token) ==
    /\ owner' = [owner EXCEPT ![o].phase = "done", ![o].token = token]
    /\ UNCHANGED <<stored, answer>>
    /\ sent' = IF Late THEN sent ELSE {c \in sent : c.owner # o}

OneRound(o) ==
    /\ owner[o].phase = "acquiring"
    /\ \E t \in Tokens(o) :
           /\ \/ Cardinality(Givers(o, t)) >= Majority
              \/ /\ ~Kept("one token from a quorum")
                 /\ Cardinality(Answered(o)) >= Majority /\ t = MaxOf(Tokens(o))
           /\ Takes(o, t)

Store(o, token) ==
    /\ owner[o].round < Rounds
    /\ owner' = [owner EXCEPT ![o].phase = "storing", ![o].token = token, ![o].round = @ + 1]
    /\ sent' = (IF Late THEN sent ELSE {c \in sent : c.owner # o}) \cup Command("store", o, token)
    /\ answer' = [answer EXCEPT ![o] = Silent]
    /\ UNCHANGED stored

\* The masters of a quorum gave different tokens: the greatest one is written back.
WriteBack(o) ==
    /\ owner[o].phase = "acquiring" /\ Cardinality(Answered(o)) >= Majority
    /\ \A t \in Tokens(o) : Cardinality(Givers(o, t)) < Majority
    /\ Kept("one token from a quorum")
    /\ Store(o, MaxOf(Tokens(o)))

StoredByQuorum(o) ==
    /\ owner[o].phase = "storing" /\ Cardinality(Acceptors(o)) >= Majority
    /\ Takes(o, owner[o].token)

\* Another owner was faster on some master: above its token, too.
Again(o) ==
    /\ owner[o].phase = "storing" /\ Cardinality(Acceptors(o)) < Majority
    /\ Cardinality(Answered(o)) >= Majority
    /\ Store(o, MaxOf(Tokens(o)) + 1)

GivesUp(o) ==
    /\ MayGiveUp /\ o \in Busy
    /\ owner' = [owner EXCEPT ![o].phase = "failed", ![o].token = 0]
    /\ sent' = IF Late THEN sent ELSE {c \in sent : c.owner # o}
    /\ UNCHANGED <<stored, answer>>

Next == \/ \E o \in Owners : Begin(o) \/ OneRound(o) \/ WriteBack(o) \/ StoredByQuorum(o) \/ Again(o) \/ GivesUp(o)
        \/ \E c \in sent : Run(c)
Spec == Init /\ [][Next]_vars

\* Each owner's token is above the tokens that were known when it began, and nobody else has it.
TokensGrow ==
    \A a \in Done : /\ owner[a].token > owner[a].floor
                    /\ \A b \in Done : owner[a].token = owner[b].token => a = b

(* Violated on purpose: a model in which nothing happens is safe, too.     *)
NobodyWroteBack == \A o \in Done : owner[o].round = 0
NotAllDone      == Done # Owners

Symmetry == Permutations(Masters) \cup Permutations(Owners)
=============================================================================
