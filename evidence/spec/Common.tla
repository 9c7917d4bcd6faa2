------------------------------- MODULE Common -------------------------------
(* Definitions of several modules. *)
EXTENDS Naturals, FiniteSets, TLC

CONSTANTS
    Masters,  \* a set of model values
    Broken    \* the rules that are left out

Kept(rule)  == rule \notin Broken
Min(a, b)   == IF a < b THEN a ELSE b
Max(a, b)   == IF a > b THEN a ELSE b
Minus(a, b) == IF a > b THEN a - b ELSE 0
MaxOf(S)    == CHOOSE x \in S : \A y \in S : y <= x
Majority    == Cardinality(Masters) \div 2 + 1
=============================================================================
