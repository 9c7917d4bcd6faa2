"""Fence: agree with the masters on the fencing token of a grant.

Each master gives a token above all that it gave before, and as high as was proposed. If a majority gave the
same one, that is the token; a later majority has a master in common with it, which gives a higher one. If
they differ, the largest is written to a majority first. Source: Attiya, Bar-Noy and Dolev, "Sharing memory
robustly in message-passing systems" (JACM 1995), the register with several writers.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..model import Code
from ..rules import commands
from ..rules.options import LockOptions
from .port import Masters, WaitGenerator


def agreed_on(given: Sequence[int], quorum: int) -> int:
    """The token that a quorum gave, of those ``given`` with the votes for one owner; 0: none."""
    if given.count(given[0]) >= quorum:
        return given[0]
    token = max(given, key=given.count)
    return token if given.count(token) >= quorum else 0


def agree(
    masters: Masters, options: LockOptions, owner: str, given: Sequence[int], until: float
) -> WaitGenerator[int]:
    """The token of a grant to ``owner`` where masters gave different ones; 0: not before ``until``.

    A round trip for each try, nearly always one.
    """
    token = max(given)
    while (left := until - masters.context.clock()) > 0:
        timeout = min(options.lease.request_timeout, left)
        ballot = yield from masters.call(commands.fence(options.name, owner, token), timeout)
        votes = list(ballot.votes.values())
        if ballot.granted >= ballot.quorum:
            return token
        if ballot.answered < ballot.quorum:
            return 0
        # Somebody's late write was faster: above that one, too.
        token = max(vote.token for vote in votes if vote.code != Code.FAULT) + 1
    return 0
