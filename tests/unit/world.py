"""A scripted driver: masters that answer what a test says, a clock that moves when it says."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from rlock.model import Code, Fault, FaultKind, Vote
from rlock.procedures.attempt import Asked
from rlock.procedures.steps import (
    Ask,
    AskMany,
    ClientContext,
    Listen,
    Park,
    Procedure,
    Rest,
    Standing,
    Tell,
    Wake,
)
from rlock.rules import commands, replies
from rlock.rules.options import ClientOptions, LockOptions
from rlock.rules.quorum import Ballot
from rlock.rules.restart_guard import Guard

YES = Vote(Code.YES, "me:1", token=9)
ABSENT = Vote(Code.ABSENT)
DOWN = Vote(Code.FAULT, fault=Fault(FaultKind.DOWN, "connection refused"))
DENIED = Vote(Code.FAULT, fault=Fault(FaultKind.DENIED, "WRONGPASS"))
ODD = Vote(Code.NOT_A_LOCK)
OPTIONS = LockOptions("orders:42", ClientOptions().lease(None))


def held_by(holder: str = "them:1", ttl_ms: int = 9_000, ticket: int = 7) -> Vote:
    return Vote(Code.FOREIGN, holder, 1, ttl_ms, ticket=ticket)


class World:
    """A driver whose masters answer what the test says, and whose clock moves when the test says."""

    def __init__(self, masters: int = 3, *rounds: Sequence[Vote | None]) -> None:
        self.now = 1000.0
        self.masters = masters
        self.rounds = list(rounds)
        self.steps: list[Any] = []
        self.park: Callable[[Park], Wake] = self._sleep
        self.standing = False
        self.heard_by = masters
        self.ask_takes = 0.0
        #: What masters answer to a round that was decided without them, while somebody waits for it.
        self.stragglers: dict[int, Vote] = {}
        self.last = Ballot(masters)
        self.asked = Asked()
        names = [f"redis://m{i}" for i in range(masters)]
        self.context = ClientContext(names, lambda: self.now, Random(1), Guard(names, 10.0), "client_id")

    def _sleep(self, step: Park) -> Wake:
        self.now = max(self.now, step.until)
        return Wake.TIME

    def answer(self, step: Any) -> Any:
        self.steps.append(step)
        if isinstance(step, Ask):
            targets = range(self.masters) if step.targets is None else step.targets
            votes = self.rounds.pop(0) if len(self.rounds) > 1 else self.rounds[0]
            ballot = Ballot(len(targets), step.settle, sent_at=self.now)
            self.now += self.ask_takes
            ballot.decided_at = self.now
            for i in targets:
                vote = votes[i]
                if vote is not None and vote.code == Code.YES:
                    if step.command.decode is replies.decode_refused:
                        vote = vote._replace(code=Code.FOREIGN)
                    elif step.command.script is commands.ACQUIRE:
                        vote = vote._replace(holder=step.command.echo or "")
                if vote is not None:
                    ballot.cast(i, vote)
            self.last = ballot
            return ballot
        if isinstance(step, Rest):
            for i, vote in self.stragglers.items():
                self.last.cast(i, vote)
        if isinstance(step, AskMany):
            return [self.answer(ask) for ask in step.asks]
        if isinstance(step, Standing):
            return self.standing
        if isinstance(step, Listen):
            return self.heard_by
        if isinstance(step, Park):
            return self.park(step)
        return None

    def run(self, procedure: Procedure[Any]) -> Any:
        answer = None
        while True:
            try:
                answer = self.answer(procedure.send(answer))
            except StopIteration as stop:
                return stop.value

    def kinds(self) -> list[str]:
        return [type(step).__name__ for step in self.steps]

    def sent(self, script: commands.Script) -> list[Any]:
        return [s for s in self.steps if isinstance(s, (Ask, Tell)) and s.command.script is script]


def words(step: Ask | Tell) -> tuple[Any, ...]:
    """EVALSHA, the hash, the number of keys, the keys, the arguments."""
    return step.command.by_sha()


def said(step: Ask | Tell) -> tuple[Any, ...]:
    """The arguments, in the order of the script's header."""
    whole = words(step)
    return whole[3 + int(whole[2]) :]


def named(step: Ask | Tell, argument: str) -> str:
    """An argument by its name in the script's header; empty where it is left out."""
    place = re.search(rf"^-- ARGV\[(\d+)\] +{argument} ", step.command.script.source, re.MULTILINE)
    assert place is not None
    return "".join(said(step)[int(place[1]) - 1 : int(place[1])])
