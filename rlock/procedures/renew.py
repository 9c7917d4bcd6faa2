"""Renew: prolong many leases in few round trips, each by a majority of its own; and heal.

To heal is to put a holder's key back on a master that has lost it, so that a lock outlives the restart of
all masters, one after another. It also fills up a lease that was won on fewer masters than there are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..events import MasterHealed, tell
from ..model import Code, FaultKind, LeaseState, Vote
from ..rules import commands
from ..rules.command_templates import Command
from ..rules.holds import Hold
from ..rules.lease import LeaseEvent
from ..rules.quorum import Ballot, Settle
from ..rules.timing import heals_until, lease_ms
from .port import ClientContext, Masters, Request, WaitGenerator

#: Locks in one command: enough to make a round cheap, few enough not to block a master (some 0.2 ms).
BATCH = 100
#: A batch that a master refuses goes out again in so many parts, and each part that it refuses likewise.
PARTS = 10

#: The command for some locks of one length of lease.
Make = Callable[[float, Sequence[Hold]], Command]


class Renewal(NamedTuple):
    """What a round did to one lease."""

    hold: Hold
    event: LeaseEvent
    sent_at: float


@dataclass(frozen=True)
class Round:
    """The rounds of one renewal, and what they came to so far."""

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
        if code == Code.FAULT:
            return  # refused for this lock alone: neither yes nor no
        if code == Code.YES and not guarded:
            self.yes += 1
        elif code in (Code.YES, Code.HEALED):
            self.guarded += 1
        elif not guarded:
            # What stands on a master whose votes do not count is nobody's lock, and no loss of ours.
            self.denied += code != Code.ABSENT

    def event(self, context: ClientContext, hold: Hold, quorum: int) -> LeaseEvent:
        """What it means for the lease."""
        if self.yes >= quorum:
            return LeaseEvent.RENEWED
        # A master that lost its memory may have granted the lock to somebody before it lost it. What it
        # says now counts as long as that other one must lack a vote: docs/guarantees.md.
        in_time = context.clock() < heals_until(hold.lease.valid_until, context.guard.max_ttl)
        if in_time and self.yes + self.guarded >= quorum:
            return LeaseEvent.RENEWED
        # A definite answer, unlike silence: no reason to wait for the end of the validity.
        denied = self.denied + (self.gone if context.wire.shared else 0)
        return LeaseEvent.DISOWNED if denied >= quorum else LeaseEvent.FAILED


def renew(masters: Masters, holds: Sequence[Hold]) -> WaitGenerator[Round]:
    """Ask all masters to prolong ``holds``; the caller applies what was decided, then calls `heal`."""
    batches: list[list[Hold]] = []
    context, requests = masters.context, list[Request]()
    make = _renewing(context)
    for ttl in {hold.lease.ttl for hold in holds}:
        for batch in _batches([hold for hold in holds if hold.lease.ttl == ttl]):
            batches.append(batch)
            request = Request(make(ttl, batch), _timeout(batch), Settle.WON_OR_ALL, count_late=True)
            requests.append(request)
    ballots = yield from masters.call_many(requests)
    lacking = (pair for pair in zip(batches, ballots, strict=True) if pair[1].granted < pair[1].quorum)
    yield from _in_parts(masters, lacking, make)
    decided: list[Renewal] = []
    undecided: list[tuple[Hold, Ballot, int]] = []
    for batch, ballot in zip(batches, ballots, strict=True):
        if ballot.granted >= ballot.quorum:
            # A quorum has prolonged all of them: nothing to be counted one by one.
            decided += [Renewal(hold, LeaseEvent.RENEWED, ballot.sent_at) for hold in batch]
            continue
        for index, hold in enumerate(batch):
            count = Count(ballot, index)
            event = count.event(context, hold, ballot.quorum)
            if event is LeaseEvent.FAILED and count.absent:
                undecided.append((hold, ballot, index))
            else:
                decided.append(Renewal(hold, event, ballot.sent_at))
    return Round(batches, ballots, decided, undecided)


def heal(masters: Masters, round_: Round, until: float = math.inf) -> WaitGenerator[list[Renewal]]:
    """Put the keys back that are missing; what became of the leases that `renew` left open.

    Waits for the last answers to the renewal, at most its request time-out and ``until``. No network where
    all masters have all keys.
    """
    context = masters.context
    yield from masters.collect(round_.ballots, until)
    # Locks with a quorum, too: on a master that refused the batch they would run out.
    yield from _in_parts(masters, zip(round_.batches, round_.ballots, strict=True), _renewing(context))
    missing: dict[tuple[int, float], list[Hold]] = {}
    for batch, ballot in zip(round_.batches, round_.ballots, strict=True):
        if ballot.granted == ballot.masters:
            for index, hold in enumerate(batch):
                hold.renewed_by = ballot, index
            continue
        for index, hold in enumerate(batch):
            # Only what is valid, on our own clock: a lease that has ended may be somebody else's.
            if hold.lease.state_at(context.clock()) in (LeaseState.HELD, LeaseState.SUSPECT):
                for master in _absent(hold, ballot, index):
                    missing.setdefault((master, hold.lease.ttl), []).append(hold)
            hold.renewed_by = ballot, index
    healed: dict[Hold, list[tuple[int, bool]]] = {}
    if missing:
        try:
            yield from _put_back(masters, missing, healed)
        finally:
            _bury(masters, missing)
    renewals = []
    for hold, ballot, index in round_.open:
        count = Count(ballot, index)
        for code, guarded in healed.get(hold, ()):
            count.add(code, guarded=guarded)
        renewals.append(Renewal(hold, count.event(context, hold, ballot.quorum), ballot.sent_at))
    return renewals


def _absent(hold: Hold, ballot: Ballot, index: int) -> list[int]:
    """The masters that lack the lock; of one that is too slow for us, what it said the last time."""
    absent = Count(ballot, index).absent
    if hold.renewed_by is not None:
        absent += [i for i in Count(*hold.renewed_by).absent if i not in ballot.votes]
    return absent


def _put_back(
    masters: Masters,
    missing: dict[tuple[int, float], list[Hold]],
    healed: dict[Hold, list[tuple[int, bool]]],
) -> WaitGenerator[None]:
    """Ask each master for what it misses; its codes go into ``healed``."""
    sent: list[tuple[int, list[Hold]]] = []
    context, requests = masters.context, list[Request]()
    make = _healing(context)
    for (master, ttl), holds in missing.items():
        for batch in _batches(holds):
            requests.append(Request(make(ttl, batch), _timeout(batch), Settle.ALL, targets=(master,)))
            sent.append((master, batch))
    ballots = yield from masters.call_many(requests)
    yield from _in_parts(masters, zip([batch for _, batch in sent], ballots, strict=True), make)
    for (master, batch), ballot in zip(sent, ballots, strict=True):
        vote = ballot.votes.get(master)
        if vote is None or vote.code == Code.FAULT:
            continue
        for hold, code in zip(batch, vote.codes, strict=True):
            healed.setdefault(hold, []).append((code, vote.guarded))
        back = sum(1 for code in vote.codes if code == Code.HEALED)
        if back:
            tell(MasterHealed(context.masters[master], back))


def _bury(masters: Masters, missing: dict[tuple[int, float], list[Hold]]) -> None:
    """Release again what was released meanwhile: the healing may have come behind the release."""
    lacking: dict[Hold, list[int]] = {}
    for (master, _), holds in missing.items():
        for hold in holds:
            if hold.lease.state is LeaseState.RELEASED:
                lacking.setdefault(hold, []).append(master)
    for hold, targets in lacking.items():
        command = commands.free(masters.context.wire, hold.name, hold.owner, hold.waiter)
        masters.send(command, targets, resend_for=hold.lease.ttl)


class _Refused(NamedTuple):
    """Locks of a batch that one master refused, each with its place in the batch."""

    ballot: Ballot
    master: int
    locks: Sequence[tuple[int, Hold]]

    def parts(self) -> Iterator[_Refused]:
        """The same in some parts."""
        size = math.ceil(len(self.locks) / PARTS)
        for start in range(0, len(self.locks), size or 1):
            yield self._replace(locks=self.locks[start : start + size])


def _in_parts(
    masters: Masters, pairs: Iterable[tuple[Sequence[Hold], Ballot]], make: Make
) -> WaitGenerator[None]:
    """Repeat in parts the batches that a master refused; its answers become its vote in the ballot.

    A master refuses a whole script for one key that its ACL forbids, and the other locks of the batch would
    be lost with that one. A lock that was refused alone is left out for a ttl: many of those, asked for
    again and again, would keep the others waiting.
    """
    refused = []
    for batch, ballot in pairs:
        for master, vote in list(ballot.votes.items()):
            if _denied(vote) and len(batch) > 1:
                now, locks = masters.context.clock(), enumerate(batch)
                known = [(i, hold) for i, hold in locks if hold.refused.get(master, now) <= now]
                refused.append(_Refused(ballot, master, known))
                ballot.votes[master] = vote._replace(codes=[Code.FAULT] * len(batch))
    while parts := [part for each in refused for part in each.parts()]:
        refused = []
        for start in range(0, len(parts), BATCH):
            some = parts[start : start + BATCH]
            ballots = yield from masters.call_many([_asked_again(part, make) for part in some])
            for part, answer in zip(some, ballots, strict=True):
                told = answer.votes.get(part.master)
                if told is not None and told.fault is None:
                    _merge(part, told)
                elif told is not None and _denied(told):
                    refused.append(part)
        for part in refused:
            if len(part.locks) == 1:
                ((_, hold),) = part.locks
                hold.refused = {**hold.refused, part.master: masters.context.clock() + hold.lease.ttl}
        refused = [part for part in refused if len(part.locks) > 1]


def _denied(vote: Vote) -> bool:
    return vote.fault is not None and vote.fault.kind is FaultKind.DENIED


def _asked_again(part: _Refused, make: Make) -> Request:
    holds = [hold for _, hold in part.locks]
    command = make(holds[0].lease.ttl, holds)
    return Request(command, _timeout(holds), Settle.ALL, targets=(part.master,))


def _merge(part: _Refused, vote: Vote) -> None:
    """Put the answer to a part in the place of the refusal of the batch."""
    votes, master = part.ballot.votes, part.master
    before = votes[master]
    codes = list(before.codes)
    for (i, _), code in zip(part.locks, vote.codes, strict=True):
        codes[i] = code
    votes[master] = Vote(Code.FOREIGN, codes=codes, guarded=before.guarded or vote.guarded)


def _renewing(context: ClientContext) -> Make:
    def make(ttl: float, holds: Sequence[Hold]) -> Command:
        leases = [(hold.name, hold.owner, hold.count) for hold in holds]
        return commands.renew(lease_ms(ttl), leases, guarded=context.guard.on)

    return make


def _healing(context: ClientContext) -> Make:
    def make(ttl: float, holds: Sequence[Hold]) -> Command:
        leases = [(hold.name, hold.owner, hold.count, hold.token) for hold in holds]
        return commands.heal(lease_ms(ttl), leases, guarded=context.guard.on)

    return make


def _batches(holds: Sequence[Hold]) -> Iterator[list[Hold]]:
    """Those that a master refused apart from the others, whose batches it would refuse with them."""
    for some in ([hold for hold in holds if not hold.refused], [hold for hold in holds if hold.refused]):
        for start in range(0, len(some), BATCH):
            yield some[start : start + BATCH]


def _timeout(batch: Sequence[Hold]) -> float:
    return batch[0].options.lease.request_timeout
