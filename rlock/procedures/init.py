"""Init: an operator's word that nothing is locked, for a fleet that is new."""

from __future__ import annotations

from ..errors import OptionsError
from ..model import Code
from ..rules import commands
from ..rules.quorum import Ballot, Settle
from .steps import Ask, AskMany, ClientContext, Procedure, faults


def init(context: ClientContext, timeout: float) -> Procedure[dict[str, str | None]]:
    """Lift the restart guard of every master that answers, for its present life.

    Answer: None for each master that took note, else what was wrong with it. Two round trips.
    """
    guard = context.guard
    if not guard.on:
        raise OptionsError("restart_guard=0 has turned the restart guard off: there is nothing to lift")
    # Each connection begins with a handshake, which has written the note and told the run_id: this looks.
    ballot: Ballot = yield Ask(commands.handshake("", "volatile"), timeout, Settle.ALL)
    found: dict[str, str | None] = dict.fromkeys(context.masters, "no answer in time")
    found |= faults(context, ballot)
    masters = [i for i, vote in ballot.votes.items() if vote.code != Code.FAULT]
    asks = [
        Ask(commands.handshake(guard.run_id(i), "vouched"), timeout, Settle.ALL, targets=(i,))
        for i in masters
    ]
    ballots: list[Ballot] = yield AskMany(asks)
    for i, noted in zip(masters, ballots, strict=True):
        vote = noted.votes.get(i)
        if vote is not None:
            found[context.masters[i]] = None if vote.fault is None else vote.fault.text
    return found
