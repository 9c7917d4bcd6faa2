"""Inspect: who holds a lock, or why nobody can say; and what an operator states.

An operator removes a hold, or states that new masters may vote.
"""

from collections import Counter
from collections.abc import Collection
from dataclasses import replace

from ..errors import OptionsError, QuorumUnreachableError
from ..model import Code, LockStatus, MasterStatus, Verdict, Waiter
from ..rules import commands
from ..rules.keys import holder_identity, owner_of_waiter, since, writer_identity
from ..rules.options import MIN_TTL, LockOptions
from ..rules.quorum import Ballot, Settle
from .port import ClientContext, Masters, Request, WaitGenerator


def _ask(masters: Masters, name: str, timeout: float) -> WaitGenerator[Ballot]:
    context = masters.context
    command = commands.status(name, guarded=context.guard.on, list_readers=True)
    ballot = yield from masters.call(Request(command, timeout, Settle.ALL))
    if ballot.hopeless:
        raise impossible(context, name, ballot)
    if ballot.answered < ballot.quorum:
        raise unreachable(context, name, ballot)
    return ballot


def _queue(ballot: Ballot) -> tuple[int, tuple[Waiter, ...]]:
    """The length of the queue, and its first waiters, by a quorum: a minority may have old places."""
    lengths = sorted((vote.queue.length for vote in ballot.votes.values()), reverse=True)
    tickets: dict[str, list[int]] = {}
    for vote in ballot.votes.values():
        for waiter, ticket in vote.queue.waiters:
            tickets.setdefault(waiter, []).append(ticket)
    standing = [(max(told), waiter) for waiter, told in tickets.items() if len(told) >= ballot.quorum]
    length = lengths[ballot.quorum - 1] if len(lengths) >= ballot.quorum else 0
    owners = [owner_of_waiter(waiter) for _, waiter in sorted(standing)]
    return length, tuple(Waiter(owner, since(owner)) for owner in owners)


def locked(masters: Masters, name: str, timeout: float) -> WaitGenerator[bool]:
    """Whether some owner may hold it; False is certain about leases that are longer than this takes.

    Raises `QuorumUnreachableError` if too few answered, or too many may have forgotten an unnamed holder.
    """
    ballot, held = yield from _ask_twice(masters, name, timeout)
    if held and not ballot.most_named()[1]:
        raise unreachable(masters.context, name, ballot)
    return held


def _ask_twice(masters: Masters, name: str, timeout: float) -> WaitGenerator[tuple[Ballot, bool]]:
    """Answers of a round, the second if nobody was named before, and whether an owner may have a quorum.

    The answers of one round are of different instants: an owner's votes may have moved among the masters
    meanwhile. A master that says "free" twice was free in between, unless a lease is shorter than that.
    """
    ballot = yield from _ask(masters, name, timeout)
    if (held := may_be_held(masters.context, ballot)) or ballot.quorum == 1:
        return ballot, held
    again = yield from _ask(masters, name, timeout)
    named = ballot.most_named()[1] > 0
    too_long = named and masters.context.clock() - ballot.sent_at >= MIN_TTL
    return (ballot if named else again), too_long or may_be_held(masters.context, ballot, again)


def may_be_held(context: ClientContext, *ballots: Ballot) -> bool:
    """Whether an owner may have a quorum: one that masters name, or one that they have forgotten."""
    # These count against "free" whomever they name. A young master may have lost an earlier grant. A group
    # names a holder without its replicas: a former primary may still name an old one.
    groups = context.groups
    votes = [(i, vote) for ballot in ballots for i, vote in ballot.votes.items()]
    unsure = {i for i, vote in votes if vote.guarded or (vote.holder and groups.get(i))}
    owners = [(i, owner) for i, vote in votes for owner in (vote.holder, *vote.queue.readers) if owner]
    # While a writer becomes a reader, some masters name the one, and some the other.
    kinds = holder_identity, writer_identity
    named = {(i, identity(owner)) for i, owner in owners for identity in kinds if i not in unsure}
    most = max(Counter(owner for _, owner in named).values(), default=0)
    answered = Counter(i for i, vote in votes if vote.code != Code.FAULT)
    missing = len(context.masters) - list(answered.values()).count(len(ballots))
    return most + len(unsure) + missing >= context.quorum


def status(masters: Masters, name: str, timeout: float) -> WaitGenerator[LockStatus]:
    """The view of each master, and of a quorum. Raises `QuorumUnreachableError` if fewer answered."""
    ballot, held = yield from _ask_twice(masters, name, timeout)
    return told(masters.context, name, ballot, free=not held)


def told(context: ClientContext, name: str, ballot: Ballot, *, free: bool | None = None) -> LockStatus:
    """The status of a lock by a ballot of `commands.status`. ``free``: nobody has it; None: by this one."""
    if free is None:
        free = not ballot.most_named()[1] and not may_be_held(context, ballot)
    wrong = faults(context, ballot)
    views = []
    for i, master in enumerate(context.masters):
        vote = ballot.votes.get(i)
        if master in wrong or vote is None:
            views.append(MasterStatus(master, None, fault=wrong.get(master)))
        elif vote.code == Code.FOREIGN:
            remaining = vote.ttl_ms / 1000 if vote.ttl_ms >= 0 else None
            views.append(MasterStatus(master, vote.holder, vote.hold_count, remaining, guarded=vote.guarded))
        else:
            views.append(MasterStatus(master, None, guarded=vote.guarded))
    length, waiters = _queue(ballot)
    claim, most = ballot.most_named()
    mine = [view for view in views if view.holder is not None and holder_identity(view.holder) == claim]
    if most < context.quorum:
        free = free and ballot.answered >= ballot.quorum
        return LockStatus(name, None, None, 0, None, context.quorum, tuple(views), length, waiters, free)
    holder = mine[0].holder or ""
    # The hold ends when fewer than a quorum of keys are left: the q-th longest lease counts.
    rests = sorted((view.remaining for view in mine if view.remaining is not None), reverse=True)
    remaining = rests[context.quorum - 1] if len(rests) >= context.quorum else None
    count, quorum = max(view.hold_count for view in mine), context.quorum
    named = Counter(reader for vote in ballot.votes.values() for reader in vote.queue.readers)
    readers = tuple(Waiter(owner, since(owner)) for owner in sorted(named) if named[owner] >= quorum)
    found = LockStatus(name, holder, since(holder), count, remaining, quorum, tuple(views), length, waiters)
    return replace(found, readers=readers)


def evict(
    masters: Masters, name: str, timeout: float, owners: Collection[str] | None = None
) -> WaitGenerator[list[str]]:
    """Remove all holders (or those of ``owners``) from a quorum, or raise; their owner tokens."""
    evicted, more = list[str](), True
    while more:
        ballot = yield from _ask(masters, name, timeout)
        before, votes = len(evicted), ballot.votes.values()
        # All readers are named together, and each of them has a key of its own.
        named = [owner for vote in votes for owner in vote.queue.readers or (vote.holder,) if owner]
        for holder in [each for each in dict.fromkeys(named) if owners is None or each in owners]:
            # The masters note the eviction: otherwise the holder's watchdog would put the key back.
            command = commands.evict(masters.context.wire, name, holder, 2 * masters.context.guard.max_ttl)
            done = yield from masters.call(Request(command, timeout, Settle.ALL))
            if sum(vote.code != Code.FAULT for vote in done.votes.values()) < done.quorum:
                raise unreachable(masters.context, name, done)
            if done.granted:
                evicted.append(holder)
        full = any(len(vote.queue.readers) >= commands.STATUS_READERS for vote in votes)
        more = full and len(evicted) > before
    return evicted


def init(masters: Masters, timeout: float) -> WaitGenerator[dict[str, str | None]]:
    """Lift the restart guard of every master that answers, until its next restart.

    Returns None for each master that accepted, otherwise its fault. Two round trips.
    """
    context = masters.context
    guard = context.guard
    if not guard.on:
        raise OptionsError("restart_guard=0 has turned the restart guard off: there is nothing to lift")
    # The first handshake of each connection has written the note; this one changes nothing.
    ballot = yield from masters.call(Request(commands.handshake("", "volatile"), timeout, Settle.ALL))
    found: dict[str, str | None] = dict.fromkeys(context.masters, "no answer in time")
    found |= faults(context, ballot)
    answering = [i for i, vote in ballot.votes.items() if vote.code != Code.FAULT]
    vouched = [commands.handshake(guard.run_id(i), "vouched") for i in answering]
    requests = [Request(one, timeout, Settle.ALL, (i,)) for i, one in zip(answering, vouched, strict=True)]
    ballots = yield from masters.call_many(requests)
    for i, noted in zip(answering, ballots, strict=True):
        if (vote := noted.votes.get(i)) is not None:
            found[context.masters[i]] = None if vote.fault is None else vote.fault.text
    return found


def faults(context: ClientContext, ballot: Ballot) -> dict[str, str]:
    found = {}
    for i, master in enumerate(context.masters):
        if (vote := ballot.votes.get(i)) is None:
            if not ballot.settled:  # otherwise the ballot was decided without this master
                too = ": its replicas have to answer, too" if context.groups.get(i) else ""
                found[master] = f"no answer in time{too}"
        elif vote.fault is not None:
            found[master] = vote.fault.text
        elif vote.code == Code.NOT_A_LOCK:
            found[master] = (
                "the key holds something that no lock wrote (another type, or a hash with other fields): "
                "rename the lock, or delete the key if it is not needed"
            )
    return found


def no_quorum(
    context: ClientContext, options: LockOptions, verdict: Verdict, ballot: Ballot
) -> QuorumUnreachableError:
    """The error for a round in which no quorum named a holder."""
    if verdict is Verdict.TOO_LATE:
        limit = options.lease.longest
        late = f"it, another one or this process was too slow: an acquire must be over within {limit:.3g} s"
        return QuorumUnreachableError(options.name, context.quorum, 0, dict.fromkeys(context.masters, late))
    error = unreachable(context, options.name, ballot)
    if verdict in (Verdict.SPLIT, Verdict.HELD):
        seen = "was not seen to have a quorum" if verdict is Verdict.SPLIT else "may still give its vote back"
        for i, owner in ballot.standing().items():
            error.faults.setdefault(context.masters[i], f"it voted for {owner}, which {seen}")
    return error


def unreachable(context: ClientContext, name: str, ballot: Ballot) -> QuorumUnreachableError:
    """The error for a round in which fewer than a quorum answered."""
    found, now = faults(context, ballot), context.clock()
    for i, vote in ballot.votes.items():
        if vote.guarded and vote.fault is None:
            found[context.masters[i]] = context.guard.fault(i, now)
    if any(vote.guarded for vote in ballot.votes.values()):
        last = list(found)[-1]
        found[last] += " (`rlock init` makes new masters usable at once; not while something may be locked)"
    return QuorumUnreachableError(name, context.quorum, ballot.answered, found)


def impossible(context: ClientContext, name: str, ballot: Ballot) -> OptionsError:
    """The error for a lock that needs other settings first: waiting cannot help."""
    found = "; ".join(f"{master}: {fault}" for master, fault in faults(context, ballot).items())
    return OptionsError(
        f"lock {name!r} cannot be acquired until enough masters accept it "
        f"({context.quorum} of {len(context.masters)} needed): {found}"
    )
