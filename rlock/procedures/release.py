"""Release: give the lease up on every master and wake those who wait."""

from __future__ import annotations

import enum

from ..model import Code
from ..rules.holds import Hold
from ..rules.options import LeaseOptions
from ..rules.quorum import Ballot
from ..rules.tickets import Place
from ..rules.timing import LOCAL_HAND_OFFS
from .steps import Ask, ClientContext, Procedure, Tell


class Released(enum.Enum):
    """What became of a release."""

    DONE = "done"  # a quorum freed it
    NOT_OURS = "not ours"  # a quorum no longer knew the owner: the hold had been lost unnoticed
    UNSURE = "unsure"  # neither; what is left ends with the lease


def release(
    context: ClientContext,
    name: str,
    owner: str,
    lease: LeaseOptions,
    *,
    waiter: str = "",
    next_waiter: Place | None = None,
    next_owner: str = "",
    barging: bool = False,
) -> Procedure[Ballot]:
    """One round to all masters; those that cannot be reached get it when they are back.

    ``waiter``: a place of the holder that goes with it. ``next_waiter``: a waiter of this process that is to
    have it next, under the token ``next_owner``, on each master where it is the first in the queue, or
    everywhere if ``barging``.
    """
    # Delivered later, it must not favour one who may have gone by then.
    late = context.release(name, owner, waiter=waiter) if waiter else context.release(name, owner)
    command = late
    if next_waiter is not None:
        token = context.time.us(context.clock())
        command = context.release(
            name,
            owner,
            waiter=waiter,
            next_waiter=next_waiter,
            next_owner=next_owner,
            barging=barging,
            token=token,
        )
    try:
        ballot: Ballot = yield Ask(command, lease.request_timeout, resend_for=lease.ttl, late=late)
    except GeneratorExit:
        raise
    except BaseException:
        # Ctrl-C: it may have reached some masters only, and the rest would keep the lock for a ttl.
        yield Tell(late, resend_for=lease.ttl)
        raise
    return ballot


def may_barge(hold: Hold, next_waiter: Place | None) -> bool:
    """Whether an heir may have the lock before those who came earlier.

    Only between those who do not ask for order, and not for ever: the threads of one process could keep
    a lock among themselves.
    """
    fair = hold.options.fair or (next_waiter is not None and next_waiter.fair)
    return not fair and hold.hops < LOCAL_HAND_OFFS


def maybe_handed(ballot: Ballot | None, masters: int) -> list[int]:
    """The masters that gave the lock to the heir, or may yet do so."""
    votes = {} if ballot is None else ballot.votes
    return [
        i
        for i in range(masters)
        if (vote := votes.get(i)) is None
        or vote.code == Code.FAULT
        or (ballot is not None and i in ballot.resent)  # "not ours" may be the heir, by a first delivery
        or (vote.code == Code.YES and vote.ttl_ms > 0)
    ]


def handed_tokens(ballot: Ballot) -> list[int]:
    """The fencing tokens that masters gave to the heir with the lock, of those whose votes count."""
    votes = list(ballot.votes.values())
    # A lease of its own: a master that restarted may have voted for somebody else before.
    return [vote.token for vote in votes if vote.code == Code.YES and vote.ttl_ms > 0 and not vote.guarded]


def handed_on(ballot: Ballot) -> bool:
    """Whether masters told somebody else that it is their turn."""
    return any(vote.hold_count > 0 and vote.code == Code.YES for vote in list(ballot.votes.values()))


def outcome(context: ClientContext, ballot: Ballot) -> Released:
    """Judge the answers."""
    if ballot.granted >= context.quorum:
        return Released.DONE
    freed = denied = 0
    for i, vote in list(ballot.votes.items()):
        if vote.code == Code.YES or (vote.code != Code.FAULT and i in ballot.resent):
            # Not ours at a second delivery: the first one freed it, or handed it on, and its reply was
            # lost.
            freed += 1
        elif vote.code in (Code.ABSENT, Code.FOREIGN) and vote.guarded:
            # It restarted, or was flushed: the lease was valid all the same, nobody else could have it.
            freed += 1
        elif vote.code != Code.FAULT:
            denied += 1
    if freed >= context.quorum:
        return Released.DONE
    return Released.NOT_OURS if denied >= context.quorum else Released.UNSURE
