"""Acquire, from the first round to the hold.

1. The contender enters the local queue: one owner of each process at a time asks the masters (`acquire`).
2. It asks all masters once (`attempt`). A quorum of grants wins.
3. After a lost round a table gives its next move (`rules/waiting.py`). The usual moves are: subscribe, try
   again at once for a place in the queue, then sleep. Without that second try it could miss a release.
4. A quorum's messages can be a grant (`claim`). Another message, an expiry or a poll of one master ends its
   sleep, and it goes on with 2 (`_contend`).
5. If its time ends after a split vote, it finds out whether somebody has the lock (`settle`).
6. A grant is checked against the clock once more, and becomes a hold (`Port.admit`).

The queue is like AQS: docs/how-it-works.md.
"""

import math
from collections.abc import Sequence

from ..model import Code, Vote
from ..rules import commands, keys, timing
from ..rules.holds import Hold
from ..rules.options import LockOptions
from ..rules.quorum import Settle
from ..rules.tickets import Place
from ..rules.waiting import Move, Stage, Step, next_move
from .attempt import attempt, settle, take_place
from .contender import Contender, Findings, Grant
from .hand_off import claim
from .inspect import impossible, no_quorum
from .port import Port, Request, WaitGenerator, Wake
from .withdraw import leave_queue, step_aside, take_back

AT_ONCE = -math.inf
FOR_EVER = math.inf


def acquire(port: Port, contender: Contender) -> WaitGenerator[bool]:
    """Try until `Contender.until` (an instant, AT_ONCE or FOR_EVER). False: another owner had the lock.

    Raises `QuorumUnreachableError` if the time is over and no quorum names a holder. Raises `OptionsError` as
    soon as no waiting can help. After any exception the caller must `withdraw`.
    """
    name = contender.name
    if contender.writer is not None:
        return _read_within(port, contender, contender.writer)
    if contender.until == AT_ONCE and not contender.options.shared and port.taken(name):
        # Another owner of this process has a valid lease, so the masters need not be asked.
        return False
    # In fair mode each owner draws its ticket at once, not after the owners before it in this process.
    lines_up = contender.until > AT_ONCE and not contender.options.fair
    try:
        if lines_up and not (yield from port.enter(contender)):
            # First: otherwise the owners behind it would wait for its last try.
            port.leave(contender)
            # The owner in front may have waited for masters without a vote: then no holder is known.
            if port.taken(name):
                return False
            contender.until = AT_ONCE
        yield from port.prepare(contender)
        while True:
            grant = yield from _contend(port, contender)
            if grant is None:
                # First: a hand-off to this place during `settle` would be lost.
                leave_queue(port, contender)
                if not port.owns(contender):
                    grant = yield from settle(port, contender)
            if grant is None or port.admit(contender, grant):
                break
            # Its validity has ended since the verdict, or a signal handler has become the reader.
            leave_queue(port, contender)
            take_back(port, contender)
            contender.findings = Findings()
            if port.owns(contender):
                grant = None
                break
        if grant is not None:
            contender.step(Step.GRANT)
            if contender.place is not None:
                port.notifications.unsubscribe(contender, withdrawn=False)
        if lines_up:
            port.leave(contender)
        return grant is not None
    except BaseException:
        # Before `withdraw`, which a second Ctrl-C may prevent: the next owner must see that this one left.
        contender.is_withdrawn = True
        raise


def _read_within(port: Port, contender: Contender, writer: Hold) -> bool:
    """Make a reader's hold of the writer's. The masters learn of it when the writer is released."""
    fresh, uuid = port.context.new_owner(contender.label), writer.owner.rpartition(":")[2]
    owner = f"{contender.label}:{uuid[: keys.BANNED]}{fresh[-12:]}"  # an eviction of the writer bans it, too
    contender.owners.append(owner)
    return port.admit(contender, Grant(owner, writer.acquired_at, token=writer.token))


def _contend(port: Port, contender: Contender) -> WaitGenerator[Grant | None]:
    """Try, and wait as the table says, until a round is won. None: the time is over."""
    context, options, findings = port.context, contender.options, contender.findings
    until, clock, random = contender.until, context.clock, context.random
    failures = splits = 0
    wake, nudged = Wake.TIME, False
    if until > AT_ONCE and port.notifications.is_subscribed(options.name):
        # Another waiter of this process has subscribed: the first round can ask for a place.
        yield from _subscribe(port, contender, 0.0)
    while True:
        timeout = time_for(until - clock(), options)
        grant = yield from attempt(port, contender, timeout, keep=until == AT_ONCE)
        if grant is not None:
            return grant._replace(handed=True) if wake is Wake.HANDED else grant
        if findings.holder is not None and port.owns(contender):
            return None  # otherwise it would wait for its own release
        ballot, now = findings.ballot, clock()
        if contender.stage in (Stage.JOINING, Stage.WAITING):
            port.report_place(contender)
        findings.partial = findings.partial + 1 if wake is Wake.HANDED else 0
        move = next_move(contender.lost_round(now, nudged=nudged))
        nudged = move is Move.NUDGE
        if nudged:
            yield from _nudge(port, contender, timeout)
            if contender.stage is Stage.NEW:
                continue
            move = next_move(contender.lost_round(now, nudged=True))
            nudged = False
        if move is Move.FAIL:
            raise impossible(context, options.name, ballot)
        if move is Move.STOP:
            return None
        if move is Move.RETRY:
            failures += 1
            port.report_failure(no_quorum(context, options, findings.verdict, ballot), failures)
            wait = timing.unreachable_wait(random, failures)
            wake = yield from port.notifications.wait(contender, min(now + wait, until))
        elif move is Move.SUBSCRIBE:
            # A release before the confirmation sends no message here, so another try follows at once.
            failures = 0
            yield from _subscribe(port, contender, timeout)
            continue
        elif move is Move.BACK_OFF:
            failures, splits = 0, splits + 1
            certain = ballot.split()
            if not certain and splits > 1:
                port.report_failure(no_quorum(context, options, findings.verdict, ballot), splits)
            wait = timing.split_wait(random, splits, ballot.decided_at - ballot.sent_at, certain=certain)
            wake = yield from port.notifications.wait(contender, min(now + wait, until))
        else:
            failures = splits = 0
            wake = yield from _sleep(port, contender, briefly=move is Move.SLEEP_BRIEFLY)
        if wake is Wake.FREE:
            wake = yield from _spread(port, contender)
        if wake is Wake.HANDED:
            if contender.place is not None:
                contender.place.aside = False  # otherwise its next round could not take the lock
            grant = claim(port, contender)
            if grant is not None:
                return grant
            if [message.note for message in findings.handed.values()].count(keys.EVICTED) >= context.quorum:
                leave_queue(port, contender)  # it waits on with another place
        if wake is Wake.TIME and clock() >= until:
            return None


def time_for(remaining: float, options: LockOptions) -> float:
    """The time-out of a round: at most the remaining time, but long enough for a round to succeed."""
    timeout = options.lease.request_timeout
    return timeout if remaining <= 0 else min(timeout, max(remaining, timing.LAST_ROUND_S))


def _nudge(port: Port, contender: Contender, timeout: float) -> WaitGenerator[None]:
    """Make free masters hand the lock to their first live waiter. One call skips a few dead waiters only."""
    context = port.context
    votes = contender.findings.ballot.votes
    masters = [i for i, vote in votes.items() if vote.code == Code.QUEUED]
    nudge, until = commands.nudge(context.wire, contender.name), context.clock() + timeout
    while masters and context.clock() < until:
        ballot = yield from port.masters.call(Request(nudge, timeout, Settle.ALL, masters))
        masters = [i for i, vote in ballot.votes.items() if vote.hold_count == commands.UNFINISHED]


def _subscribe(port: Port, contender: Contender, timeout: float) -> WaitGenerator[None]:
    """Subscribe. The next round asks for a place in the queue if a quorum confirms in time."""
    take_place(port.context, contender)
    confirmed = yield from port.notifications.subscribe(contender, timeout)
    contender.confirmed_by(confirmed, port.context.quorum)


def _sleep(port: Port, contender: Contender, *, briefly: bool) -> WaitGenerator[Wake]:
    """Sleep while another owner has the lock. Returns the reason to wake up.

    `Wake.TIME` before the contender's time is over: the lock may be free, or the next round can ask for a
    place. A message may be lost, and a holder may die. So the first waiter of each process polls one
    master now and then, each time another one. It polls for all waiters of the process.
    """
    context, findings = port.context, contender.findings
    clock, until, ballot, holder = context.clock, contender.until, findings.ballot, findings.holder
    ttls = [vote.ttl_ms for vote in ballot.votes.values() if vote.code == Code.FOREIGN]
    free_at = clock() + timing.expiry_wait(ttls, ballot.quorum - ballot.granted)
    # A lease that no quorum named may be a dead contender's: then the polls of a quorum come early.
    master, early_polls = -1, ballot.quorum if holder is None else 0
    briefly = briefly or early_polls > 0
    while True:
        # Asked each time: otherwise a slow or lost subscription would make this waiter poll for ever.
        confirmed = yield from port.notifications.subscribe(contender, 0.0)
        hears, place = confirmed >= context.quorum, contender.place
        if contender.confirmed_by(confirmed, context.quorum) or (hears and place is not None and place.aside):
            place.aside = False  # type: ignore[union-attr]
            return Wake.TIME
        poll_at = clock() + timing.poll_wait(context.random, subscribed=not briefly and hears)
        briefly = False
        wake = yield from port.notifications.wait(contender, min(free_at, until, poll_at))
        if wake is not Wake.TIME or clock() >= until:
            return wake
        if not hears and (yield from port.notifications.subscribe(contender, 0.0)) < context.quorum:
            step_aside(port, contender)
        places = port.notifications.polls_for(contender)
        if not places:
            # The holder may have renewed its lease since this waiter's last round.
            free_at, holder = math.inf, None
            continue
        if clock() >= free_at:
            return wake
        master = context.random.randrange(ballot.masters) if master < 0 else master
        vote, master = yield from _ask_one(port, contender, master, places)
        if vote is not None and (vote.code == Code.ABSENT or vote.holder in [each.owner for each in places]):
            port.notifications.doubt(contender)
        if vote is None or vote.code != Code.FOREIGN:
            return Wake.TIME
        if place is not None and vote.holder == place.owner:
            return Wake.HANDED
        if vote.ttl_ms >= 0:
            expires_at = clock() + timing.expiry_wait([vote.ttl_ms], 1)
            named = keys.holder_identity(vote.holder)
            if named != holder and early_polls <= 0:  # a later holder, or a dead one on this master alone
                early_polls = ballot.quorum
            early_polls, briefly = early_polls - 1, early_polls > 1
            # The same holder has renewed its lease. The lock is free sooner if another one has stopped after
            # a hand-off, or is dead and on this master alone; or if its longest reader has left.
            renewed = named == holder and vote.holder != keys.READERS
            free_at, holder = (max if renewed else min)(free_at, expires_at), named


def _ask_one(
    port: Port, contender: Contender, last: int, places: Sequence[Place]
) -> WaitGenerator[tuple[Vote | None, int]]:
    """The vote of the next master after ``last`` that answers, and its index."""
    context, masters = port.context, contender.findings.ballot.masters
    vote = None
    for _ in range(masters):
        stand = [place for place in places if not place.aside]
        if contender.stage is Stage.WAITING and stand:
            command = commands.wait(*stand)
        else:
            command = commands.status(contender.name, waiters=1, guarded=context.guard.on)
        last = (last + 1) % masters
        timeout = time_for(contender.until - context.clock(), contender.options)
        ballot = yield from port.masters.call(Request(command, timeout, Settle.ALL, (last,)))
        vote = ballot.votes.get(last)
        if vote is not None and vote.code != Code.FAULT:
            break
        # Another waiter may have left meanwhile. A master would hand the lock to its place, and so to nobody.
        places = [place for place in (contender.place,) if place is not None]
    return vote, last


def _spread(port: Port, contender: Contender) -> WaitGenerator[Wake]:
    """Delay this try if one message wakes all waiters (with Redisson).

    Otherwise all ask at once, and none gets a quorum: 16 processes on 3 masters were eight times slower.
    """
    context, findings = port.context, contender.findings
    # Not while a master is down: a waiting Redisson client would then always be first.
    crowd = context.wire.shared and context.quorum > 1 and not findings.ballot.faulted
    if contender.place is None or not crowd:
        return Wake.FREE
    wait = timing.spread_wait(context.random, findings.queue_length, findings.took_s)
    at = min(context.clock() + wait, contender.until)
    wake = Wake.FREE
    # Messages about undone votes must not end the delay.
    while wake in (Wake.FREE, Wake.TIME) and context.clock() < at:
        wake = yield from port.notifications.wait(contender, at)
    return Wake.FREE if wake is Wake.TIME else wake
