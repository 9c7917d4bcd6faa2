"""Renew: prolong many leases in few round trips, each by a quorum of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ..rules import commands
from ..rules.command_templates import Command
from ..rules.holds import Hold
from ..rules.lease import LeaseEvent
from ..rules.quorum import Ballot, Settle
from ..rules.renewal_votes import Answer, LockVotes
from ..rules.timing import lease_ms
from .port import ClientContext, Masters, Request, WaitGenerator

#: Locks in one command: it blocks a master for about 0.2 ms.
BATCH = 100

#: `commands.renew` or `commands.heal`.
Make = Callable[..., Command]


class RenewalOutcome(NamedTuple):
    hold: Hold
    event: LeaseEvent
    sent_at: float


class RenewalRound(NamedTuple):
    """One renewal of many leases, for `heal` to continue."""

    batches: Sequence[tuple[Sequence[Hold], Ballot]]
    decided: Sequence[RenewalOutcome]
    undecided: Sequence[tuple[Hold, LockVotes]]  # neither prolonged nor denied


def renew(masters: Masters, holds: Sequence[Hold]) -> WaitGenerator[RenewalRound]:
    """Prolong ``holds`` on all masters. The caller applies the decided outcomes, then calls `heal`."""
    context, batched = masters.context, list(in_batches(holds))
    requests = [
        request(context, commands.renew, batch, Settle.WON_OR_ALL, count_late=True) for batch in batched
    ]
    ballots = yield from masters.call_many(requests)
    batches = list(zip(batched, ballots, strict=True))
    decided: list[RenewalOutcome] = []
    undecided: list[tuple[Hold, LockVotes]] = []
    for batch, ballot in batches:
        if ballot.granted >= ballot.quorum:
            # A quorum prolonged the whole batch. Any other batch is judged lock by lock.
            decided += [RenewalOutcome(hold, LeaseEvent.RENEWED, ballot.sent_at) for hold in batch]
            continue
        for index, hold in enumerate(batch):
            votes = LockVotes(ballot, index)
            outcome = judge(context, hold, votes)
            if outcome.event is LeaseEvent.FAILED:
                undecided.append((hold, votes))
            else:
                decided.append(outcome)
    return RenewalRound(batches, decided, undecided)


def judge(
    context: ClientContext, hold: Hold, votes: LockVotes, healed: Sequence[Answer] = ()
) -> RenewalOutcome:
    """Judge the votes on one lock, with the replies of masters on which it was healed."""
    now, max_ttl, shared = context.clock(), context.guard.max_ttl, context.wire.shared
    event = votes.event(hold.lease.valid_until, now, max_ttl, healed, shared=shared)
    return RenewalOutcome(hold, event, votes.ballot.sent_at)


def request(context: ClientContext, make: Make, holds: Sequence[Hold], settle: Settle, **how: Any) -> Request:
    """The request for one batch: holds with the same ttl."""
    leases = [(hold.name, hold.owner, hold.count, hold.token) for hold in holds]
    command = make(lease_ms(holds[0].lease.ttl), leases, guarded=context.guard.on)
    return Request(command, holds[0].options.lease.request_timeout, settle, **how)


def in_batches(holds: Iterable[Hold]) -> Iterator[list[Hold]]:
    """Batches of one ttl. Locks that a master refused come apart: otherwise it refuses the others, too."""
    groups: dict[tuple[float, bool], list[Hold]] = {}
    for hold in holds:
        groups.setdefault((hold.lease.ttl, bool(hold.renewal.refused_until)), []).append(hold)
    for group in groups.values():
        for start in range(0, len(group), BATCH):
            yield group[start : start + BATCH]
