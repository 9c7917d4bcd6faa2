"""Renew: prolong many leases in few round trips, each by a majority of its own; and heal.

To heal is to put a holder's key back on a master that has lost it, so that a lock outlives the restart of
all masters, one after another. It also fills up a lease that was won on fewer masters than there are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..events import MasterHealed, tell
from ..model import Code, LeaseState
from ..rules import scripts
from ..rules.holds import Hold
from ..rules.lease import LeaseEvent
from ..rules.quorum import Ballot, Settle
from ..rules.timing import heals_until, lease_ms
from .steps import Ask, AskMany, Procedure, Rest, Tell, Terms

#: Locks in one command: enough to make a round cheap, few enough not to block a master (some 0.2 ms).
BATCH = 100


class Renewal(NamedTuple):
    """What a round did to one lease."""

    hold: Hold
    event: LeaseEvent
    sent_at: float


@dataclass(frozen=True)
class Round:
    """The rounds of one renewal, and what they came to so far."""

    many: AskMany
    batches: Sequence[Sequence[Hold]]
    ballots: Sequence[Ballot]
    decided: Sequence[Renewal]  # to be applied at once: what is still to come may take a while
    open: Sequence[tuple[Hold, Ballot, int]]  # neither prolonged nor denied; masters may be healed


class Count:
    """What the masters answered about one lock of a batch."""

    __slots__ = ("absent", "denied", "gone", "guarded", "yes")

    def __init__(self, ballot: Ballot, index: int) -> None:
        self.yes = self.guarded = self.denied = 0
        #: Masters that lost nothing and lack the lock: somebody who shares it has deleted it by force.
        self.gone = 0
        self.absent: list[int] = []
        for master, vote in list(ballot.votes.items()):
            if vote.code == Code.FAULT:
                continue
            code = vote.codes[index]
            if code == Code.ABSENT:
                self.absent.append(master)
                self.gone += not vote.guarded
            else:
                self.add(code, guarded=vote.guarded)

    def add(self, code: int, *, guarded: bool) -> None:
        """Count an answer other than absent."""
        if code == Code.YES and not guarded:
            self.yes += 1
        elif code in (Code.YES, Code.HEALED):
            self.guarded += 1
        elif not guarded:
            # What stands on a master whose votes do not count is nobody's lock, and no loss of ours.
            self.denied += code != Code.ABSENT

    def event(self, terms: Terms, hold: Hold, quorum: int) -> LeaseEvent:
        """What it means for the lease."""
        if self.yes >= quorum:
            return LeaseEvent.RENEWED
        # A master that lost its memory may have granted the lock to somebody before it lost it. What it
        # says now counts as long as that other one must lack a vote: docs/guarantees.md.
        in_time = terms.clock() < heals_until(hold.lease.valid_until, terms.guard.max_ttl)
        if in_time and self.yes + self.guarded >= quorum:
            return LeaseEvent.RENEWED
        # A definite answer, unlike silence: no reason to wait for the end of the validity.
        denied = self.denied + (self.gone if terms.wire.shared else 0)
        return LeaseEvent.DISOWNED if denied >= quorum else LeaseEvent.FAILED


def renew(terms: Terms, holds: Sequence[Hold]) -> Procedure[Round]:
    """Ask all masters to prolong ``holds``; the caller applies what was decided, then calls `heal`."""
    batches: list[list[Hold]] = []
    asks: list[Ask] = []
    for ttl in {hold.lease.ttl for hold in holds}:
        for batch in _batches([hold for hold in holds if hold.lease.ttl == ttl]):
            leases = [(hold.name, hold.owner, hold.count) for hold in batch]
            command = scripts.renew(lease_ms(ttl), leases, guarded=terms.guard.on)
            batches.append(batch)
            asks.append(Ask(command, _timeout(batch), Settle.WON_OR_ALL, stay=True))
    many = AskMany(asks)
    ballots: list[Ballot] = yield many
    decided: list[Renewal] = []
    undecided: list[tuple[Hold, Ballot, int]] = []
    for batch, ballot in zip(batches, ballots, strict=True):
        if ballot.granted >= ballot.quorum:
            # A quorum has prolonged all of them: nothing to be counted one by one.
            decided += [Renewal(hold, LeaseEvent.RENEWED, ballot.sent_at) for hold in batch]
            continue
        for index, hold in enumerate(batch):
            count = Count(ballot, index)
            event = count.event(terms, hold, ballot.quorum)
            if event is LeaseEvent.FAILED and count.absent:
                undecided.append((hold, ballot, index))
            else:
                decided.append(Renewal(hold, event, ballot.sent_at))
    return Round(many, batches, ballots, decided, undecided)


def heal(terms: Terms, round_: Round, until: float = math.inf) -> Procedure[list[Renewal]]:
    """Put the keys back that are missing; what became of the leases that `renew` left open.

    Waits for the last answers to the renewal, at most its request time-out and ``until``. No network where
    all masters have all keys.
    """
    yield Rest(round_.many, until)
    missing: dict[tuple[int, float], list[Hold]] = {}
    for batch, ballot in zip(round_.batches, round_.ballots, strict=True):
        if ballot.granted == ballot.masters:
            for index, hold in enumerate(batch):
                hold.renewed_by = ballot, index
            continue
        for index, hold in enumerate(batch):
            # Only what is valid, on our own clock: a lease that has ended may be somebody else's.
            if hold.lease.state_at(terms.clock()) in (LeaseState.HELD, LeaseState.SUSPECT):
                for master in _absent(hold, ballot, index):
                    missing.setdefault((master, hold.lease.ttl), []).append(hold)
            hold.renewed_by = ballot, index
    healed: dict[Hold, list[tuple[int, bool]]] = {}
    if missing:
        try:
            yield from _put_back(terms, missing, healed)
        except GeneratorExit:
            raise
        except BaseException:
            yield from _bury(terms, missing)
            raise
        yield from _bury(terms, missing)
    renewals = []
    for hold, ballot, index in round_.open:
        count = Count(ballot, index)
        for code, guarded in healed.get(hold, ()):
            count.add(code, guarded=guarded)
        renewals.append(Renewal(hold, count.event(terms, hold, ballot.quorum), ballot.sent_at))
    return renewals


def _absent(hold: Hold, ballot: Ballot, index: int) -> list[int]:
    """The masters that lack the lock; of one that is too slow for us, what it said the last time."""
    absent = Count(ballot, index).absent
    if hold.renewed_by is not None:
        absent += [i for i in Count(*hold.renewed_by).absent if i not in ballot.votes]
    return absent


def _put_back(
    terms: Terms,
    missing: dict[tuple[int, float], list[Hold]],
    healed: dict[Hold, list[tuple[int, bool]]],
) -> Procedure[None]:
    """Ask each master for what it misses; its codes go into ``healed``."""
    sent: list[tuple[int, list[Hold]]] = []
    asks: list[Ask] = []
    for (master, ttl), holds in missing.items():
        for batch in _batches(holds):
            leases = [(hold.name, hold.owner, hold.count, hold.token) for hold in batch]
            command = scripts.heal(lease_ms(ttl), leases, guarded=terms.guard.on)
            asks.append(Ask(command, _timeout(batch), Settle.ALL, targets=(master,)))
            sent.append((master, batch))
    ballots: list[Ballot] = yield AskMany(asks)
    for (master, batch), ballot in zip(sent, ballots, strict=True):
        vote = ballot.votes.get(master)
        if vote is None or vote.code == Code.FAULT:
            continue
        for hold, code in zip(batch, vote.codes, strict=True):
            healed.setdefault(hold, []).append((code, vote.guarded))
        back = sum(1 for code in vote.codes if code == Code.HEALED)
        if back:
            tell(MasterHealed(terms.masters[master], back))


def _bury(terms: Terms, missing: dict[tuple[int, float], list[Hold]]) -> Procedure[None]:
    """Release again what was released meanwhile: the healing may have come behind the release."""
    masters: dict[Hold, list[int]] = {}
    for (master, _), holds in missing.items():
        for hold in holds:
            if hold.lease.state is LeaseState.RELEASED:
                masters.setdefault(hold, []).append(master)
    for hold, targets in masters.items():
        command = terms.release(hold.name, hold.owner, waiter=hold.waiter)
        yield Tell(command, targets, owed_for=hold.lease.ttl)


def _batches(holds: list[Hold]) -> Iterator[list[Hold]]:
    for start in range(0, len(holds), BATCH):
        yield holds[start : start + BATCH]


def _timeout(batch: Sequence[Hold]) -> float:
    return batch[0].options.lease.request_timeout
