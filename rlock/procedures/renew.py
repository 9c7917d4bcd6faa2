"""Renew: prolong many leases in few round trips, each by a quorum of its own. Heal: put missing keys back.

So a lock outlives the restart of all masters, one after another, and a lease gets those that it lacks.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from ..events import MasterHealed
from ..model import Code, FaultKind, LeaseState, Vote
from ..rules import commands, timing
from ..rules.command_templates import Command
from ..rules.holds import Hold
from ..rules.lease import Answer, LeaseEvent, LockVotes
from ..rules.quorum import Ballot, Settle
from .port import ClientContext, Masters, Request, WaitGenerator
from .release import end

BATCH = 100  # locks in one command: it blocks a master for about 0.2 ms

Make = Callable[..., Command]  # `commands.renew` or `commands.heal`
Missing = Mapping[int, Sequence[Hold]]  # the holds that each master lacks
Healed = defaultdict[Hold, list[Answer]]


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
    requests = [request(context, commands.renew, one, Settle.WON_OR_ALL, count_late=True) for one in batched]
    ballots = yield from masters.call_many(requests)
    _end_again(masters, holds)
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
    leases = [(hold.name, hold.owner, hold.count, hold.token) for hold in holds]
    command = make(timing.lease_ms(holds[0].lease.ttl), leases, guarded=context.guard.on)
    # A key that is put back behind its release, or the end of its lease, would have no holder.
    wanted = partial(_stand, context, holds) if make is commands.heal else None
    return Request(command, holds[0].options.lease.request_timeout, settle, wanted=wanted, **how)


def in_batches(holds: Iterable[Hold]) -> Iterator[list[Hold]]:
    """Batches of one ttl, of writers or of readers. Locks that a master refused come apart.

    Otherwise the master refuses the others, too.
    """
    groups: dict[tuple[float, bool, bool], list[Hold]] = {}
    for hold in holds:
        kind = hold.lease.ttl, hold.options.shared, bool(hold.renewal.refused_until)
        groups.setdefault(kind, []).append(hold)
    for group in groups.values():
        for start in range(0, len(group), BATCH):
            yield group[start : start + BATCH]


def heal(masters: Masters, round_: RenewalRound, until: float) -> WaitGenerator[list[RenewalOutcome]]:
    """Put back the missing keys; the outcomes that `renew` left undecided.

    Waits for the last replies to the renewal, at most until ``until``. Sends nothing if no key is missing.
    """
    yield from masters.collect([ballot for _, ballot in round_.batches], until)
    yield from _repeat_refused(masters, commands.renew, round_.batches)
    _end_again(masters, [hold for holds, _ in round_.batches for hold in holds])
    missing, healed = _missing(masters, round_), Healed(list)
    if missing:
        yield from _put_back(masters, missing, healed)
    return [judge(masters.context, hold, votes, healed[hold]) for hold, votes in round_.undecided]


def _missing(masters: Masters, round_: RenewalRound) -> Missing:
    missing: defaultdict[int, list[Hold]] = defaultdict(list)
    now = masters.context.clock()
    if any(hold.lease.confirmation is not None for holds, _ in round_.batches for hold in holds):
        masters.read_arrived()  # otherwise a lease that a late confirmation proves would be taken for lost
    for holds, ballot in round_.batches:
        complete = ballot.granted == ballot.masters
        for index, hold in enumerate(holds):
            before = hold.renewal.last_votes
            votes = hold.renewal.last_votes = None if complete else LockVotes(ballot, index)
            # After the end of a lease another owner may have the lock.
            if votes and hold.lease.state_at(now) in (LeaseState.HELD, LeaseState.SUSPECT):
                # A master that is too slow may have answered the renewal before this one.
                earlier = before.absent() if before else []
                for master in [*votes.absent(), *(i for i in earlier if i not in ballot.votes)]:
                    missing[master].append(hold)
    return missing


def _put_back(masters: Masters, missing: Missing, healed: Healed) -> WaitGenerator[None]:
    context = masters.context
    batches = [(master, batch) for master, holds in missing.items() for batch in in_batches(holds)]
    ballots = yield from masters.call_many(
        [request(context, commands.heal, batch, Settle.ALL, targets=(master,)) for master, batch in batches]
    )
    asked = zip([batch for _, batch in batches], ballots, strict=True)
    yield from _repeat_refused(masters, commands.heal, asked)
    for (master, batch), ballot in zip(batches, ballots, strict=True):
        vote = ballot.votes.get(master)
        if vote is not None and vote.code != Code.FAULT:
            for hold, code in zip(batch, vote.codes, strict=True):
                healed[hold].append((master, code, vote.guarded))
            if count := sum(code == Code.HEALED for code in vote.codes):
                context.pending_events.add(MasterHealed(context.masters[master], count))


def _stand(context: ClientContext, holds: Sequence[Hold]) -> bool:
    """Whether none has ended, right before the first byte is sent."""
    now, held = context.clock(), (LeaseState.HELD, LeaseState.SUSPECT)
    # Not `state_at`: it gives up a confirmation, which may have arrived meanwhile.
    return all(hold.lease.state in held and now < hold.lease.valid_until for hold in holds)


def _end_again(masters: Masters, holds: Iterable[Hold]) -> None:
    """Repeat the ends that came during a renewal: otherwise it would give a kept lock its own lease."""
    for hold in holds:
        if hold.options.hold_at_least and hold.lease.state is LeaseState.RELEASED:
            end(masters, hold)


def _repeat_refused(
    masters: Masters, make: Make, batches: Iterable[tuple[Sequence[Hold], Ballot]]
) -> WaitGenerator[None]:
    """Repeat lock by lock each batch that a master's ACL refused; the replies replace its vote.

    A master refuses a whole script for one forbidden key, so all locks of the batch would run out. A lock
    that is refused alone is left out for a ttl: otherwise many of them would delay all renewals.
    """
    context, now = masters.context, masters.context.clock()
    repeats: list[tuple[int, Hold, LockVotes]] = []
    for holds, ballot in batches:
        for master, vote in list(ballot.votes.items()):
            if _is_denied(vote) and len(holds) > 1:
                ballot.votes[master] = Vote(Code.FOREIGN, codes=[Code.FAULT] * len(holds))
                for i, hold in enumerate(holds):
                    if hold.renewal.refused_until.get(master, now) <= now:
                        repeats.append((master, hold, LockVotes(ballot, i)))
    for start in range(0, len(repeats), BATCH):
        chunk = repeats[start : start + BATCH]
        ballots = yield from masters.call_many(
            [request(context, make, [hold], Settle.ALL, targets=(master,)) for master, hold, _ in chunk]
        )
        for (master, hold, votes), answer in zip(chunk, ballots, strict=True):
            alone = answer.votes.get(master)
            if alone is not None and alone.fault is None:
                votes.replace(master, alone)
            elif alone is not None and _is_denied(alone):
                until = context.clock() + hold.lease.ttl
                hold.renewal.refused_until = {**hold.renewal.refused_until, master: until}


def _is_denied(vote: Vote) -> bool:
    return vote.fault is not None and vote.fault.kind is FaultKind.DENIED
