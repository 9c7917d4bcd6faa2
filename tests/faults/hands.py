"""A hold that changes hands between processes that are killed at random instants, beside a rival.

In each round one process acquires, works and detaches, and another one adopts, works and releases. Half of
them get SIGKILL at some instant. Then a third process tries the same handle again.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from multiprocessing import get_context
from random import Random
from tempfile import TemporaryFile
from typing import Any, NamedTuple

import rlock

#: The hold is kept for this long without an owner. Longer than a round, also on a busy machine.
KEPT_S = 20.0
WORK_S = 0.004
FORK = get_context("fork")


class Event(NamedTuple):
    who: str
    what: str  # enter, leave, handle, refused, released
    at: float
    told: Any = None


class Child:
    """A forked process, which says what it does; it may be killed at some instant."""

    def __init__(self, who: str, work: Callable[[Callable[..., None]], None], kill_after: float) -> None:
        self.who, self.events, self.killed = who, list[Event](), False
        self._told = TemporaryFile()  # noqa: SIM115 (`end` closes it)
        self._kill_at = time.monotonic() + kill_after
        self._process = FORK.Process(target=work, args=(self._tell,))
        self._process.start()

    def _tell(self, what: str, told: Any = None) -> None:
        line = json.dumps([self.who, what, time.monotonic(), told])
        os.write(self._told.fileno(), f"{line}\n".encode())  # one write: whole, also if it is killed

    def end(self, by_force: bool = False) -> list[Event]:
        """Its events, when it has ended; it is killed at its instant, or now."""
        self._process.join(0.0 if by_force else max(0.0, self._kill_at - time.monotonic()))
        self._process.kill()
        self._process.join()
        self.killed = self._process.exitcode == -signal.SIGKILL
        with self._told as told:
            told.seek(0)
            self.events = [Event(*json.loads(line)) for line in told]
        if self.killed:
            self.events.append(Event(self.who, "killed", time.monotonic()))
        assert self.killed or not self._process.exitcode, f"{self.who} failed: {self.events}"
        return self.events


def _work(lock: rlock.RLock, tell: Callable[..., None], dice: Random) -> None:
    tell("enter", lock.fencing_token)
    time.sleep(dice.uniform(0.0, WORK_S))
    lock.check()
    tell("leave")


def holder(urls: Sequence[str], name: str, dice: Random, tell: Callable[..., None]) -> None:
    lock = rlock.Client(urls, max_ttl=KEPT_S).lock(name)
    assert lock.acquire(timeout=30)
    _work(lock, tell, dice)
    tell("handle", lock.detach(KEPT_S))


def adopter(urls: Sequence[str], handle: str, dice: Random, tell: Callable[..., None]) -> None:
    tell("begin")
    try:
        lock = rlock.Client(urls, max_ttl=KEPT_S).adopt(handle)
    except rlock.RLockError as error:
        tell("refused", str(error))
        return
    _work(lock, tell, dice)
    lock.release()
    tell("released")


def rival(urls: Sequence[str], name: str, dice: Random, tell: Callable[..., None]) -> None:
    lock = rlock.Client(urls, max_ttl=KEPT_S).lock(name)
    while True:
        with suppress(rlock.QuorumUnreachableError):
            if lock.acquire(blocking=False):
                _work(lock, tell, dice)
                lock.release()
        time.sleep(dice.uniform(0.0, WORK_S))


def judge(events: Sequence[Event], outcome: str) -> list[str]:
    """What is wrong in a round: two at a time, somebody in between, or a loss without a reason."""
    wrong, inside, detached, token = [], dict[str, float](), False, 0
    for event in sorted(events, key=lambda event: event.at):
        if event.what == "enter":
            wrong += [f"{event.who} enters beside {other}" for other in inside]
            inside[event.who] = event.at
            if event.who == "rival":
                wrong += ["the rival has a token that is not greater"] * (detached and event.told <= token)
                wrong += ["the rival was in between"] * (outcome.startswith("adopted") and detached)
            elif event.who == "holder":
                token = event.told
            else:
                detached = False
                wrong += ["the adopter has another token"] * (event.told != token)
        elif event.what == "handle":
            detached = True
        elif event.what in ("leave", "killed"):
            inside.pop(event.who, None)
    return wrong


def play(urls: Sequence[str], number: int, dice: Random) -> tuple[str, list[str]]:
    """One round: what came of it, and what is wrong."""
    name, late = f"x{number}", 60.0

    def at(mean: float) -> float:
        return dice.uniform(0.0, mean) if dice.random() < 0.5 else late

    def start(who: str, work: Any, of: str, kill_after: float) -> Child:
        return Child(who, partial(work, urls, of, Random(dice.random())), kill_after)

    first = start("holder", holder, name, at(0.2))
    third = start("rival", rival, name, late)
    try:
        outcome, events = _between(start, first, at(0.15))
    finally:
        others = third.end(by_force=True)
    wrong = judge([*events, *others], outcome)
    return outcome, wrong + [outcome] * outcome.startswith("lost")


def _between(start: Callable[..., Child], first: Child, kill_after: float) -> tuple[str, list[Event]]:
    """What came of the handle, and the events of the holder and of the adopters."""
    events = [*first.end()]
    handle = next((event.told for event in events if event.what == "handle"), None)
    if handle is None:
        return "killed before it had a handle", events
    second = start("adopter", adopter, handle, kill_after)
    events += second.end()
    if not second.killed:
        last, outcome = second.events, "adopted"
    else:
        last, outcome = start("another", adopter, handle, 60.0).end(), "adopted by another one"
        events += last
    refused = next((event.told for event in last if event.what == "refused"), "")
    done = {event.what for event in second.events} if second.killed else set()
    if "begin" in done and "may still give its vote back" in refused:
        outcome = "the one that was killed was about to adopt it"
    elif "begin" in done and "has the lock: it adopted" in refused:
        outcome = "the one that was killed had adopted it"
    elif "leave" in done and "nobody has the lock" in refused:
        outcome = "the one that was killed had released it"
    elif refused:
        outcome = f"lost without a reason: {refused}"
    return outcome, events


def rounds(urls: Sequence[str], count: int, seed: int) -> tuple[Counter[str], list[str]]:
    dice, outcomes, wrong = Random(seed), Counter[str](), list[str]()
    for number in range(count):
        outcome, faults = play(urls, number, dice)
        outcomes[outcome] += 1
        wrong += [f"round {number}: {fault}" for fault in faults]
    return outcomes, wrong
