"""Release: give the lease up on every master and wake those who wait."""

from __future__ import annotations

import enum

from ..model import Code
from ..rules import scripts
from ..rules.options import LeaseOptions
from ..rules.quorum import Ballot
from .steps import Ask, Procedure, Tell, Terms


class Released(enum.Enum):
    """What became of a release."""

    DONE = "done"  # a quorum freed it
    NOT_OURS = "not ours"  # a quorum no longer knew the owner: the hold had been lost unnoticed
    UNSURE = "unsure"  # neither; what is left ends with the lease


def release(terms: Terms, name: str, owner: str, lease: LeaseOptions) -> Procedure[Released]:
    """One round to all masters; those that cannot be reached get it when they are back."""
    command = scripts.release(name, owner, publish=True)
    try:
        ballot = yield Ask(command, lease.request_timeout, owed_for=lease.ttl)
    except GeneratorExit:
        raise
    except BaseException:
        # Ctrl-C: it may have reached some masters only, and the rest would keep the lock for a ttl.
        yield Tell(command, owed_for=lease.ttl)
        raise
    return outcome(terms, ballot)


def outcome(terms: Terms, ballot: Ballot) -> Released:
    """Judge the answers."""
    freed = denied = 0
    for i, vote in list(ballot.votes.items()):
        if vote.code == Code.YES or (vote.code == Code.ABSENT and i in ballot.resent):
            # Absent after a second delivery: the first one freed it and its reply was lost.
            freed += 1
        elif vote.code != Code.FAULT:
            denied += 1
    if freed >= terms.quorum:
        return Released.DONE
    return Released.NOT_OURS if denied >= terms.quorum else Released.UNSURE
