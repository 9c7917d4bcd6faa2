"""A scripted driver: masters that answer what a test says, a clock that moves when it says."""

from __future__ import annotations

import math
import re
import weakref
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, NamedTuple, TypeVar

from rlock._client.engine import Engine
from rlock.errors import QuorumUnreachableError
from rlock.model import Code, Fault, FaultKind, Vote
from rlock.procedures import port
from rlock.procedures.acquire import acquire
from rlock.procedures.contender import Contender, Grant
from rlock.procedures.port import ClientContext, Masters, Notifications, Port, Request, WaitGenerator, Wake
from rlock.procedures.withdraw import withdraw
from rlock.rules import scripts
from rlock.rules.command_templates import Command
from rlock.rules.holds import Hold, OwnerKey, ThreadLiveness
from rlock.rules.options import ClientOptions, LockOptions
from rlock.rules.quorum import Ballot, Settle
from rlock.rules.restart_guard import Guard
from rlock.rules.tickets import Place

Step = TypeVar("Step")
YES = Vote(Code.YES, "me:1", token=9)
ABSENT = Vote(Code.ABSENT)
FORGETFUL = ABSENT._replace(guarded=True)
DOWN = Vote(Code.FAULT, fault=Fault(FaultKind.DOWN, "connection refused"))
DENIED = Vote(Code.FAULT, fault=Fault(FaultKind.DENIED, "WRONGPASS"))
ODD = Vote(Code.NOT_A_LOCK)
LIVENESS = ThreadLiveness()
KEY = OwnerKey("a", weakref.ref(LIVENESS))
OPTIONS = LockOptions("orders:42", ClientOptions().lease(None))


def a_hold(
    name: str = "x", sent_at: float = 1000.0, ttl: float = 10.0, *, owner: str = "me:1", renew: bool = True
) -> Hold:
    return Hold(KEY, LockOptions(name, ClientOptions().lease(ttl), renew=renew), owner, sent_at, token=77)


def held_by(holder: str = "them:1", ttl_ms: int = 9_000, ticket: int = 7) -> Vote:
    return Vote(Code.FOREIGN, holder, 1, ttl_ms, ticket=ticket)


def cast(votes: Sequence[Vote | None], settle: Settle = Settle.VERDICT) -> Ballot:
    """A ballot with the vote of each master; None: it has not answered."""
    ballot = Ballot(len(votes), settle)
    for i, vote in enumerate(votes):
        if vote is not None:
            ballot.cast(i, vote)
    return ballot


class Call(Request):
    """A command whose ballot somebody waits for."""


class Send(Request):
    """A command for which nobody waits."""


class Collect(NamedTuple):
    until: float


class Subscribe(NamedTuple):
    contender: Contender


class Unsubscribe(NamedTuple):
    contender: Contender


class Wait(NamedTuple):
    contender: Contender
    until: float


class World(Port, Masters, Notifications):
    """Masters that answer what the test says, and a clock that moves when the test says.

    Procedures run on it as on a driver. Each wait is yielded, so a test can stop there and interrupt.
    """

    def __init__(self, masters: int = 3, *rounds: Sequence[Vote | None], **settings: Any) -> None:
        self.now = 1000.0
        self.size = masters
        self.rounds = list(rounds)
        #: The masters' answers to a script, in place of the rounds.
        self.replies: dict[scripts.Script, Callable[[Call, int], Vote]] = {}
        self.steps: list[Any] = []
        self.park: Callable[[Wait], Wake] = self._sleep
        self.subscribed = False
        self.heard_by = masters
        self.call_takes = 0.0
        self.last = Ballot(masters)
        #: The master, and its vote, that comes while somebody waits for the last ones.
        self.late: tuple[int, Vote] | None = None
        self.grant: Grant | None = None
        self.failures: list[QuorumUnreachableError] = []
        self.polls = True  # whether the contender polls for all waiters of its process
        self.masters = self.notifications = self
        self.under_way = port.UnderWay()
        names = [f"redis://m{i}" for i in range(masters)]
        guard = Guard(masters, 10.0)
        guard.noted = 10.0
        self.context = ClientContext(names, lambda: self.now, Random(1), guard, "client_id")
        self.contender = self.contend(math.inf)
        assert all(hasattr(self, name) for name in settings)
        vars(self).update(settings)

    def _sleep(self, step: Wait) -> Wake:
        self.now = max(self.now, step.until)
        return Wake.TIME

    def contend(self, until: float, options: LockOptions = OPTIONS, label: str = "a") -> Contender:
        self.contender = Contender(OwnerKey(label, lambda: True), options, until, self.now)
        return self.contender

    def acquire(self, until: float, options: LockOptions = OPTIONS, label: str = "a") -> Grant | None:
        """What an acquire came to; as an engine does it."""
        contender = self.contend(until, options, label)
        try:
            return self.grant if self.run(acquire(self, contender)) else None
        except BaseException:
            withdraw(self, contender)
            raise

    def won(self, until: float, options: LockOptions = OPTIONS, label: str = "a") -> Grant:
        grant = self.acquire(until, options, label)
        assert grant is not None
        return grant

    def run(self, procedure: WaitGenerator[Any]) -> Any:
        while True:
            try:
                procedure.send(None)
            except StopIteration as stop:
                return stop.value

    def kinds(self) -> list[str]:
        return [type(step).__name__ for step in self.steps]

    def sent(self, script: scripts.Script) -> list[Any]:
        return [s for s in self.steps if isinstance(s, (Call, Send)) and s.command.script is script]

    def note(self, step: Step) -> Step:
        self.steps.append(step)
        return step

    def call(self, request: Request) -> WaitGenerator[Ballot]:
        yield (step := self.note(Call(*request)))
        return self.answer(step)

    def answer(self, step: Call) -> Ballot:
        targets = range(self.size) if step.targets is None else step.targets
        ballot = Ballot(len(targets), step.settle, sent_at=self.now)
        self.now += self.call_takes
        ballot.decided_at = self.now
        if (reply := self.replies.get(step.command.script)) is not None:
            for i in targets:
                ballot.cast(i, reply(step, i))
            return ballot
        votes = self.rounds.pop(0) if len(self.rounds) > 1 else self.rounds[0]
        for i in targets:
            vote = votes[i]
            if vote is not None and vote.code == Code.YES:
                if step.command.script in (scripts.STATUS, scripts.WAIT):
                    vote = vote._replace(code=Code.FOREIGN)
                elif step.command.script is scripts.ACQUIRE:
                    vote = vote._replace(holder=step.command.echo or "")
            if vote is not None:
                ballot.cast(i, vote)
        self.last = ballot
        return ballot

    def call_many(self, requests: Sequence[Request]) -> WaitGenerator[list[Ballot]]:
        ballots = []
        for request in requests:
            ballot = yield from self.call(request)
            ballots.append(ballot)
        return ballots

    def collect(self, ballots: Sequence[Ballot], until: float = math.inf) -> WaitGenerator[None]:
        yield self.note(Collect(until))
        if self.late is not None:
            ballots[0].cast(*self.late)

    def start(self, request: Request) -> Ballot:
        return self.answer(self.note(Call(*request)))

    def read_arrived(self) -> None: ...

    def send(self, command: Command, targets: Any = None, *, resend_for: float = 0.0) -> None:
        self.note(Send(command, 0.0, targets=targets, resend_for=resend_for))

    def is_subscribed(self, name: str) -> bool:
        return self.subscribed

    def subscribe(self, contender: Contender, timeout: float) -> WaitGenerator[int]:
        yield self.note(Subscribe(contender))
        return self.heard_by

    def wait(self, contender: Contender, until: float) -> WaitGenerator[Wake]:
        yield (step := self.note(Wait(contender, until)))
        return self.park(step)

    def unsubscribe(self, contender: Contender, *, withdrawn: bool) -> None:
        if withdrawn:
            self.note(Unsubscribe(contender))

    def doubt(self, contender: Contender) -> None: ...

    def polls_for(self, contender: Contender) -> Sequence[Place]:
        return [contender.place] if contender.place is not None and self.polls else []

    def enter(self, contender: Contender) -> WaitGenerator[bool]:
        yield from ()
        return True

    def leave(self, contender: Contender) -> None: ...

    def prepare(self, contender: Contender) -> WaitGenerator[None]:
        yield from ()

    def admit(self, contender: Contender, grant: Grant) -> bool:
        self.grant = grant
        return True

    def owns(self, contender: Contender) -> bool:
        return False

    def taken(self, name: str) -> bool:
        return False

    def report_place(self, contender: Contender) -> None:
        Engine.report_place(self, contender)  # type: ignore[arg-type]

    def report_failure(self, error: QuorumUnreachableError, failures: int) -> None:
        self.failures.append(error)


def words(step: Call | Send) -> tuple[Any, ...]:
    """EVALSHA, the hash, the number of keys, the keys, the arguments."""
    return step.command.by_sha()


def said(step: Call | Send) -> tuple[Any, ...]:
    """The arguments, in the order of the script's header."""
    whole = words(step)
    return whole[3 + int(whole[2]) :]


def named(step: Call | Send, argument: str) -> str:
    """An argument by its name in the script's header, where ARGV[n] is the last; empty if it is left out."""
    given: list[str] = [*said(step)]
    count = len(given)
    names = re.findall(r"^-- ARGV\[(\d+|n(?:-1)?)\] +(\w+) ", step.command.script.source, re.MULTILINE)
    assert argument in (name for _, name in names)
    found = {name: given.pop() for place, name in reversed(names) if place.startswith("n")}
    found |= dict(zip((name for place, name in names if place.isdecimal()), given, strict=False))
    assert len(found) == count, "an argument that the header does not name"
    return found.get(argument, "")
