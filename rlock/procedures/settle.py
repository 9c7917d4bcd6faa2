"""Settle: the end of an acquire that may not wait any longer and has not got the lock.

"Somebody else had it" is answered only if one owner was seen on a quorum of masters. A split vote is no
proof of that: each contender may stand in the way of all others. So the leader (`Ballot.leader`) keeps its
votes and asks again (`attempt`). The others have given theirs back; they look here until one owner has a
quorum, and ask again if nobody gets it. docs/election.md.
"""

from __future__ import annotations

from ..model import Verdict
from ..rules import commands
from ..rules.quorum import Ballot, Settle
from ..rules.timing import SETTLE_TRIES
from .attempt import Grant, Waiting, attempt
from .steps import Ask, Procedure, impossible, no_quorum

#: HELD: as long as it is not certain (`Waiting.note`).
_OPEN = (Verdict.SPLIT, Verdict.HELD)


def settle(waiting: Waiting) -> Procedure[Grant | None]:
    """None: somebody else had it during this call. Sends nothing if that is known already.

    Raises `QuorumUnreachableError` where nobody can say so after `SETTLE_TRIES` pauses.
    """
    context, options = waiting.context, waiting.options
    timeout = options.lease.request_timeout
    seen: dict[int, str] = {}
    while waiting.verdict in _OPEN and not waiting.contended and waiting.settling < SETTLE_TRIES:
        yield waiting.pause()
        status = commands.status(options.name, waiters=1, guarded=context.guard.on, refused=True)
        look: Ballot = yield Ask(status, timeout, Settle.HOLDER)
        waiting.note(look.judge(context.clock(), 0.0), look)
        before, seen = seen, look.standing()
        if waiting.verdict is not Verdict.SPLIT or (seen and (seen != before or not look.split())):
            continue
        # It is free; or those who have votes do not move: they are dead, stopped, or about to give up.
        waiting.passed_over.update(seen.values())
        outcome = yield from attempt(waiting, timeout, keep=True)
        if isinstance(outcome, Grant):
            return outcome
        if outcome.hopeless and outcome.foreign_holder() is None:
            raise impossible(context, options.name, outcome)
    if waiting.verdict in (Verdict.UNREACHABLE, Verdict.TOO_LATE) or not waiting.contended:
        raise no_quorum(context, options, waiting.verdict, waiting.ballot)
    return None
