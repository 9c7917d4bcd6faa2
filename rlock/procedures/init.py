"""Init: an operator states that no lock is held on new masters, so they may vote at once."""

from __future__ import annotations

from ..errors import OptionsError
from ..model import Code
from ..rules import commands
from ..rules.quorum import Settle
from .failures import faults
from .port import Masters, Request, WaitGenerator


def init(masters: Masters, timeout: float) -> WaitGenerator[dict[str, str | None]]:
    """Lift the restart guard of every master that answers, until its next restart.

    Returns None for each master that accepted, otherwise its fault. Two round trips.
    """
    context = masters.context
    guard = context.guard
    if not guard.on:
        raise OptionsError("restart_guard=0 has turned the restart guard off: there is nothing to lift")
    # The first handshake of each connection has written the note; this one changes nothing.
    ballot = yield from masters.call(commands.handshake("", "volatile"), timeout, Settle.ALL)
    found: dict[str, str | None] = dict.fromkeys(context.masters, "no answer in time")
    found |= faults(context, ballot)
    answering = [i for i, vote in ballot.votes.items() if vote.code != Code.FAULT]
    requests = [
        Request(commands.handshake(guard.run_id(i), "vouched"), timeout, Settle.ALL, targets=(i,))
        for i in answering
    ]
    ballots = yield from masters.call_many(requests)
    for i, noted in zip(answering, ballots, strict=True):
        vote = noted.votes.get(i)
        if vote is not None:
            found[context.masters[i]] = None if vote.fault is None else vote.fault.text
    return found
