"""Renew: prolong many leases in few round trips, each by a majority of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..model import Code
from ..rules import scripts
from ..rules.holds import Hold
from ..rules.lease import LeaseEvent
from ..rules.quorum import Ballot, Settle
from ..rules.timing import lease_ms
from .steps import Ask, AskMany, Procedure, Terms

#: Locks in one command: enough to make a round cheap, few enough not to block a master (some 0.2 ms).
BATCH = 100


@dataclass(frozen=True)
class Renewal:
    """What a round did to one lease."""

    hold: Hold
    event: LeaseEvent
    sent_at: float


def renew(terms: Terms, holds: Sequence[Hold]) -> Procedure[list[Renewal]]:
    """Ask all masters to prolong ``holds``; the caller applies the result to the leases."""
    batches: list[list[Hold]] = []
    asks: list[Ask] = []
    for ttl in {hold.lease.ttl for hold in holds}:
        same = [hold for hold in holds if hold.lease.ttl == ttl]
        for start in range(0, len(same), BATCH):
            batch = same[start : start + BATCH]
            command = scripts.renew(lease_ms(ttl), [(hold.name, hold.owner, hold.count) for hold in batch])
            batches.append(batch)
            asks.append(Ask(command, batch[0].options.lease.request_timeout, Settle.WON_OR_ALL))
    ballots = yield AskMany(asks)
    return [
        Renewal(hold, event, ballot.sent_at)
        for batch, ballot in zip(batches, ballots, strict=True)
        for hold, event in zip(batch, events(ballot, len(batch)), strict=True)
    ]


def events(ballot: Ballot, locks: int) -> list[LeaseEvent]:
    """For each lock of a batch, what the masters' answers mean."""
    if ballot.granted >= ballot.quorum:
        return [LeaseEvent.RENEWED] * locks
    answers = [vote.codes for vote in list(ballot.votes.values()) if vote.code != Code.FAULT]
    told = []
    for i in range(locks):
        yes = sum(1 for codes in answers if codes[i] == Code.YES)
        if yes >= ballot.quorum:
            told.append(LeaseEvent.RENEWED)
        elif len(answers) - yes >= ballot.quorum:
            # A definite answer, unlike silence: no reason to wait for the end of the validity.
            told.append(LeaseEvent.DISOWNED)
        else:
            told.append(LeaseEvent.FAILED)
    return told
