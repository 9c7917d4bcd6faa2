"""Guarding: an operator's word that nothing was locked before, for a fleet that is new."""

from __future__ import annotations

from ..errors import OptionsError
from ..model import Code
from ..rules import scripts
from ..rules.quorum import Ballot, Settle
from .steps import Ask, AskMany, Procedure, Terms, faults


def vouch(terms: Terms, timeout: float) -> Procedure[dict[str, str | None]]:
    """Lift the restart guard of every master that answers, for its present life.

    Answer: None for each master that took note, else what was wrong with it.
    """
    guard = terms.guard
    if not guard.on:
        raise OptionsError("restart_guard=0 has turned the restart guard off: there is nothing to lift")
    # The run_id comes with the connection.
    ballot: Ballot = yield Ask(scripts.status("rlock", waiters=1), timeout, Settle.ALL)
    told: dict[str, str | None] = dict.fromkeys(terms.masters, "no answer in time")
    told |= faults(terms, ballot)
    masters = [i for i, vote in ballot.votes.items() if vote.code != Code.FAULT]
    asks = [
        Ask(
            scripts.mark(guard.life(i) or "", None, guard.own_max_ttl_ms()),
            timeout,
            Settle.ALL,
            targets=(i,),
        )
        for i in masters
    ]
    ballots: list[Ballot] = yield AskMany(asks)
    for i, marked in zip(masters, ballots, strict=True):
        vote = marked.votes.get(i)
        if vote is not None:
            told[terms.masters[i]] = None if vote.fault is None else vote.fault.text
    return told
