"""Settle: the end of an acquire that may wait no longer and has not got the lock.

The acquire may return False only if one owner was seen on a quorum of masters. After a split vote, each
contender may only be blocking the others. So the leader (`Ballot.leader`) keeps its votes and asks again
(`attempt`). The others look until one owner has a quorum, and ask again if none gets it:
docs/how-it-works.md.
"""

from __future__ import annotations

from ..model import Verdict
from ..rules import commands
from ..rules.quorum import Settle
from ..rules.timing import SETTLE_TRIES
from .attempt import attempt, pause
from .contender import Contender, Grant
from .failures import impossible, no_quorum
from .port import Port, WaitGenerator

#: Verdicts that do not prove a holder. HELD: the owner may still lack a vote (`Findings.note`).
_OPEN = (Verdict.SPLIT, Verdict.HELD)


def settle(port: Port, contender: Contender) -> WaitGenerator[Grant | None]:
    """Find a holder. None: another owner had the lock during this call. Sends nothing if that is known.

    Raises `QuorumUnreachableError` if no quorum names an owner after `SETTLE_TRIES` pauses.
    """
    context, options, findings = port.context, contender.options, contender.findings
    timeout = options.lease.request_timeout
    seen: dict[int, str] = {}
    while findings.verdict in _OPEN and not findings.contended and findings.settling < SETTLE_TRIES:
        yield from pause(port, contender)
        status = commands.status(options.name, waiters=1, guarded=context.guard.on)
        look = yield from port.masters.call(status, timeout, Settle.HOLDER)
        findings.note(look.judge(context.clock(), 0.0), look)
        before, seen = seen, look.standing()
        if findings.verdict is not Verdict.SPLIT or (seen and (seen != before or not look.split())):
            continue
        # The lock is free, or the owners of the votes are dead, stopped, or about to give up.
        findings.passed_over.update(seen.values())
        grant = yield from attempt(port, contender, timeout, keep=True)
        if grant is not None:
            return grant
        if findings.ballot.hopeless and findings.ballot.foreign_holder() is None:
            raise impossible(context, options.name, findings.ballot)
    if findings.verdict not in _OPEN or not findings.contended:
        raise no_quorum(context, options, findings.verdict, findings.ballot)
    return None
