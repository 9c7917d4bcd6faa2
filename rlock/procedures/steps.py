"""What a procedure may ask of its driver, and what all procedures of one client share."""

from __future__ import annotations

import enum
import logging
import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

from ..clock import Clock
from ..errors import OptionsError, QuorumUnreachableError
from ..events import News
from ..model import Code, Verdict
from ..rules import command_templates, commands
from ..rules.commands import Command
from ..rules.options import LockOptions
from ..rules.quorum import Ballot, Settle, quorum
from ..rules.restart_guard import Guard
from ..rules.tickets import FleetTime, Place
from ..rules.wire import OWN, Wire

log = logging.getLogger("rlock")


@dataclass(frozen=True)
class ClientContext:
    """What every procedure of one client goes by."""

    masters: Sequence[str]  # their names, for messages
    clock: Clock
    random: Random
    guard: Guard
    client_id: str = ""  # this client among all that wait
    time: FleetTime = field(default_factory=FleetTime)
    wire: Wire = OWN

    @property
    def news(self) -> News:
        """What came up while a mutex was held."""
        return self.guard.news

    def release(self, name: str, owner: str, **options: Any) -> Command:
        """See `commands.release`; told as this client's waiters hear it, and those who share the lock."""
        if not options and not self.wire.shared:
            return command_templates.release(name, owner, self.wire)
        if self.wire.shared and options.get("next_waiter") is None:
            # They stand in no queue of ours: what was always handed on would never be theirs, and they would
            # sleep over a vote that was taken back in silence.
            options.update(to_all=True, hand_on=True, publish=True)
        return commands.release(name, owner, wire=self.wire, **options)

    @property
    def quorum(self) -> int:
        """Votes that win."""
        return quorum(len(self.masters))


class Tell:
    """Send to all masters (or ``targets``) and wait for nothing. Answer: None."""

    __slots__ = ("command", "resend_for", "targets")

    def __init__(
        self, command: Command, targets: Sequence[int] | None = None, resend_for: float = 0.0
    ) -> None:
        self.command = command
        self.targets = targets
        #: A master that cannot be reached now gets it when it is back, within so many seconds.
        self.resend_for = resend_for


class Ask:
    """Send to all masters (or ``targets``) and wait until the round is settled. Answer: a `Ballot`."""

    __slots__ = ("command", "late", "resend_for", "rounds", "settle", "stay", "targets", "timeout")

    def __init__(
        self,
        command: Command,
        timeout: float,
        settle: Settle = Settle.VERDICT,
        targets: Sequence[int] | None = None,
        *,
        resend_for: float = 0.0,
        late: Command | None = None,
        stay: bool = False,
    ) -> None:
        self.command = command
        self.timeout = timeout
        self.settle = settle
        self.targets = targets
        #: A master that cannot be reached now gets it when it is back, within so many seconds.
        self.resend_for = resend_for
        #: What it gets then, if that is another command.
        self.late = command if late is None else late
        #: Answers are counted also when the round is settled; see `Rest`.
        self.stay = stay
        #: The driver's own, for `Rest`.
        self.rounds: Sequence[Any] = ()


class AskMany:
    """Several rounds at once, pipelined. Answer: their ballots, in order."""

    __slots__ = ("asks", "rounds")

    def __init__(self, asks: Sequence[Ask]) -> None:
        self.asks = asks
        #: The driver's own, for `Rest`.
        self.rounds: Sequence[Any] = ()


class Rest:
    """Wait for answers that rounds were settled without. Answer: None.

    At most until their time-out, and ``until``. What comes later is counted if the round says so
    (`Ask.stay`), but nobody waits for it.
    """

    __slots__ = ("asked", "until")

    def __init__(self, asked: Ask | AskMany, until: float = math.inf) -> None:
        self.asked = asked
        self.until = until


class Standing:
    """Whether the channels of a lock are subscribed to already, on a quorum of masters. Answer: bool."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class Listen:
    """Hear for a waiter: subscribe and see it confirmed. Answer: on how many masters it stands.

    Again: only the answer of now. The driver ends it when the procedure ends, however it ends.
    """

    __slots__ = ("place", "timeout")

    def __init__(self, place: Place, timeout: float) -> None:
        self.place = place
        self.timeout = timeout


class Unlisten:
    """Hear no more: from now on nobody takes this waiter for one that is there. Answer: None."""

    __slots__ = ()


class Wake(enum.Enum):
    """Why a parked waiter goes on."""

    TIME = "time"  # the instant has come
    FREE = "free"  # a quorum of masters told all who listen, or a subscription had to be made again
    HANDED = "handed"  # masters handed the lock to this waiter: a quorum, or some and no more came
    GRANTED = "granted"  # another thread of this process released it in its favour: see `Place.local_grant`


class Park:
    """Sleep until an instant, or until there is a reason to try. Answer: a `Wake`."""

    __slots__ = ("until",)

    def __init__(self, until: float) -> None:
        self.until = until


OtherStep = Tell | AskMany | Rest | Standing | Listen | Unlisten | Park
Step = Ask | OtherStep
T = TypeVar("T")
Procedure = Generator[Step, Any, T]


def faults(context: ClientContext, ballot: Ballot) -> dict[str, str]:
    """Each master that gave no vote, with the reason."""
    told = {}
    for i, master in enumerate(context.masters):
        vote = ballot.votes.get(i)
        if vote is None:
            if not ballot.settled:  # else it was decided without this one, which may be well
                told[master] = "no answer in time"
        elif vote.fault is not None:
            told[master] = vote.fault.text
        elif vote.code == Code.NOT_A_LOCK:
            told[master] = (
                "the key holds something that no lock wrote (another type, or a hash with other fields): "
                "rename the lock, or delete the key if it is not needed"
            )
    return told


def no_quorum(
    context: ClientContext, options: LockOptions, verdict: Verdict, ballot: Ballot
) -> QuorumUnreachableError:
    """The error for a round after which nobody can say that somebody else has the lock."""
    name = options.name
    if verdict is Verdict.TOO_LATE:
        limit = options.lease.longest
        late = f"it, or another one, did not answer in time: an acquire must be over within {limit:.3g} s"
        return QuorumUnreachableError(name, context.quorum, 0, dict.fromkeys(context.masters, late))
    error = unreachable(context, name, ballot)
    if verdict is Verdict.SPLIT:
        for i, owner in ballot.standing().items():
            error.faults.setdefault(
                context.masters[i], f"it voted for {owner}, which was not seen to have a quorum"
            )
    return error


def unreachable(context: ClientContext, name: str, ballot: Ballot) -> QuorumUnreachableError:
    """The error for a round in which fewer than a quorum answered."""
    told, now = faults(context, ballot), context.clock()
    for i, vote in ballot.votes.items():
        if vote.guarded and vote.fault is None:
            told[context.masters[i]] = context.guard.fault(i, now)
    if any(vote.guarded for vote in ballot.votes.values()):
        # Once, at the end: it would stand behind each of them.
        last = list(told)[-1]
        told[last] += " (`rlock init` makes new masters usable at once; not while something may be locked)"
    return QuorumUnreachableError(name, context.quorum, ballot.answered, told)


def tell_of_failure(error: QuorumUnreachableError, failures: int) -> None:
    """Log why nobody gets the lock: at the first failure, and from the eighth on at each doubling."""
    # A wait without end must not be silent.
    if failures == 1 or (failures >= 8 and failures & (failures - 1) == 0):
        log.warning("still waiting (failed rounds: %d): %s", failures, error)


def impossible(context: ClientContext, name: str, ballot: Ballot) -> OptionsError:
    """The error for a lock that no waiting can get: settings have to change first."""
    told = "; ".join(f"{master}: {fault}" for master, fault in faults(context, ballot).items())
    return OptionsError(
        f"lock {name!r} is out of order until this is mended on enough of the "
        f"{len(context.masters)} masters for a quorum of {context.quorum}: {told}"
    )
