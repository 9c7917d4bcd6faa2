"""Transfer: a hold changes hands. `detach` gives its lease to a handle, `adopt` takes it from there.

A handle has an owner token of its own, so no late command of the old holder touches its lease. The adopter
puts its own token in that place on a quorum. It keeps the fencing token: each later holder gets a greater
one than the handle's mark from a quorum, and a master that gave such a token has no vote. So nobody had the
lock in between. `evidence/spec/Detach.tla` shows that each condition is needed.
"""

from ..errors import LeaseLostError
from ..model import Code, Verdict
from ..rules import commands, keys, timing
from ..rules.handles import NOT_KNOWN, Handle, checksum
from ..rules.holds import Hold
from ..rules.lease import LockVotes
from ..rules.options import LockOptions
from ..rules.quorum import Ballot, Settle
from .attempt import pause
from .contender import Contender, Grant
from .fencing import note_lease
from .inspect import no_quorum, unreachable
from .port import ClientContext, Masters, Port, Request, WaitGenerator
from .release import Released


def fleet(context: ClientContext) -> list[str]:
    found = map(context.guard.run_id, range(len(context.masters)))
    return [checksum(run_id)[:4] if run_id else NOT_KNOWN for run_id in found]


def handle_of(context: ClientContext, hold: Hold, ttl: float) -> Handle:
    process = hold.owner_key.label.rpartition("/")[0]  # without the thread: a handle has to be short
    owner = context.new_owner(f"{process}/handle")
    return Handle(hold.name, owner, hold.token, hold.token, hold.count, timing.lease_ms(ttl), fleet(context))


def detach(port: Port, hold: Hold, handle: Handle) -> WaitGenerator[Released]:
    """Give the lease of a hold that has ended to its handle. The caller frees both unless DONE."""
    context, masters, timeout = port.context, port.masters, hold.options.lease.request_timeout
    taken = commands.transfer(handle, hold.owner, handle.owner, guarded=context.guard.on)
    ballot = yield from masters.call(Request(taken, timeout, Settle.WON_OR_ALL))
    if hold.waiter:
        # Behind it, or it would free the hold. A master without it may have handed the lock to its place.
        masters.send(commands.leave_queue(context.wire, hold.name, hold.waiter), resend_for=hold.lease.ttl)
    # It makes no holder, so a young master counts. The adopter asks again.
    votes = list(ballot.votes.values())
    denied = sum(not vote.guarded and vote.code in (Code.ABSENT, Code.FOREIGN) for vote in votes)
    if denied >= context.quorum:
        return Released.NOT_OURS
    given = [vote.token for vote in votes if vote.code == Code.YES or (vote.guarded and vote.ttl_ms > 0)]
    if len(given) >= context.quorum:
        if max(given) > handle.mark:
            handle = yield from mark(masters, hold, handle, max(given) + 1)
        # Only now: a detach that fails must keep nobody out for longer than its hold.
        entry = hold.name, handle.owner, handle.hold_count, hold.token
        prolonged = commands.renew(handle.lease_ms, [entry], guarded=context.guard.on)
        ballot = yield from masters.call(Request(prolonged, timeout, Settle.WON_OR_ALL))
        codes = [code for _, code, _ in LockVotes(ballot, 0).answers()]
        if codes.count(Code.YES) >= context.quorum:
            hold.mark = handle.mark
            return Released.DONE
    raise unreachable(context, hold.name, ballot)


def mark(masters: Masters, hold: Hold, handle: Handle, token: int) -> WaitGenerator[Handle]:
    """Store a mark of the handle's own: some master gave a greater token, as to an acquire that failed."""
    command = commands.fence(handle.name, handle.owner, token)
    ballot = yield from masters.call(Request(command, hold.options.lease.request_timeout, Settle.WON_OR_ALL))
    # A young master counts: it keeps what it stores from now on.
    stored = sum(vote.code == (Code.FAULT if vote.guarded else Code.YES) for vote in [*ballot.votes.values()])
    in_time = masters.context.clock() < hold.lease.valid_until  # so nobody had the lock before the mark
    return handle._replace(mark=token) if in_time and stored >= ballot.quorum else handle


def adopt(port: Port, contender: Contender, handle: Handle) -> WaitGenerator[None]:
    """Take the lease of a handle. After an exception the caller must `withdraw`.

    Raises `LeaseLostError` if nobody can take it any more, `QuorumUnreachableError` if somebody still may.
    """
    context, options = port.context, contender.options
    yield from port.prepare(contender)
    while True:
        owner = context.new_owner(contender.key.label)
        contender.owners.append(owner)
        lost, taken = None, False
        try:
            grant, verdict, ballot = yield from take(port.masters, options, handle, owner)
            taken = grant is not None and port.admit(contender, grant)
            lost = None if taken else refusal(context, handle, ballot)
        finally:
            if not taken:
                # Only where this adopter's own token stands: another one may have been faster.
                back = commands.transfer(handle, owner, handle.owner, guarded=context.guard.on)
                gone = commands.undo(context.wire, handle.name, owner, hand_on=False)
                longest = max(handle.lease_ms / 1000, options.lease.ttl)  # `note_lease` may have prolonged it
                port.masters.send(gone if lost else back, resend_for=longest)
        if taken:
            return
        contender.owners.remove(owner)
        contender.findings.note(verdict, ballot)
        unsettled = verdict in (Verdict.SPLIT, Verdict.HELD)  # several adopters, and none is certain
        if lost or not unsettled or contender.findings.settling >= timing.SETTLE_TRIES:
            raise lost or no_quorum(context, options, verdict, ballot)
        yield from pause(port, contender)


def take(
    masters: Masters, options: LockOptions, handle: Handle, owner: str
) -> WaitGenerator[tuple[Grant | None, Verdict, Ballot]]:
    """Take the lease for ``owner``, or prolong it if that is the handle's own. Two round trips.

    The first one leaves the rest of the lease: otherwise an adopt that fails would change its length. And it
    sets the hold count 0: otherwise another adopter would take one that gives it back for the winner.
    """
    context, lease = masters.context, options.lease
    begun = handle._replace(hold_count=0)
    command = commands.transfer(begun, handle.owner, owner, checked=True, guarded=context.guard.on)
    # A master that is not connected now would otherwise keep the handle's lease to its end.
    request = Request(command, lease.request_timeout, Settle.WON_OR_ALL, resend_for=handle.lease_ms / 1000)
    ballot = yield from masters.call(request)
    rests = sorted(vote.ttl_ms for vote in list(ballot.votes.values()) if vote.code == Code.YES)
    rest = rests[-ballot.quorum] / 1000 if len(rests) >= ballot.quorum else 0.0
    now, until = context.clock(), timing.won_until(ballot.sent_at, rest, lease.longest)
    verdict = ballot.judge(now, until)
    if verdict is Verdict.WON:
        count = handle.hold_count
        token = yield from note_lease(masters, options, owner, handle.token, until, count)
        if token and context.clock() < until:
            return Grant(owner, now, token=token, votes=len(rests), hold_count=count), verdict, ballot
        verdict = Verdict.TOO_LATE
    return None, verdict, ballot


def refusal(context: ClientContext, handle: Handle, ballot: Ballot) -> LeaseLostError | None:
    """Why nobody can take the lease of a handle any more; None: somebody may."""
    votes = [vote for vote in list(ballot.votes.values()) if not vote.guarded]
    other = ballot.foreign_holder(voters_only=True)
    absent = sum(vote.code == Code.ABSENT for vote in votes)
    passed = sum(vote.code == Code.FOREIGN and vote.holder == handle.owner for vote in votes)
    if other not in (None, handle.owner):
        named = [vote for vote in votes if vote.holder == other]
        if other != keys.READERS and not any(vote.hold_count or vote.token > handle.mark for vote in named):
            return None  # it has begun to adopt it, and may give it back
        reason = f"{other} has the lock: it adopted the handle before, or acquired it after the lease"
    elif absent + passed <= ballot.masters - ballot.quorum:
        return None
    elif passed:
        reason = "masters gave a greater fencing token since: another owner may have had the lock in between"
    elif {*fleet(context)} & {*handle.fleet, NOT_KNOWN}:
        lease = f"{handle.lease_ms / 1000:g} s"
        reason = f"nobody has the lock: it was released or evicted, or its lease of {lease} has ended"
    else:
        reason = "the handle knows the run_id of no master here: it is of another fleet, or all restarted"
    return LeaseLostError(handle.name, reason)
