"""Failures: the errors for a ballot, with the reason of each master."""

from __future__ import annotations

from ..errors import OptionsError, QuorumUnreachableError
from ..model import Code, Verdict
from ..rules.options import LockOptions
from ..rules.quorum import Ballot
from .port import ClientContext


def faults(context: ClientContext, ballot: Ballot) -> dict[str, str]:
    """Each master that gave no vote, with the reason."""
    found = {}
    for i, master in enumerate(context.masters):
        vote = ballot.votes.get(i)
        if vote is None:
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
        late = f"it, or another one, did not answer in time: an acquire must be over within {limit:.3g} s"
        return QuorumUnreachableError(options.name, context.quorum, 0, dict.fromkeys(context.masters, late))
    error = unreachable(context, options.name, ballot)
    if verdict is Verdict.SPLIT:
        for i, owner in ballot.standing().items():
            error.faults.setdefault(
                context.masters[i], f"it voted for {owner}, which was not seen to have a quorum"
            )
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
