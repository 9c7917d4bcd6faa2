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
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from multiprocessing import get_context
from random import Random
from tempfile import TemporaryFile
from typing import Any, NamedTuple

import rlock

KEPT_S = 20.0  # the hold is kept for this long without an owner; longer than a round, also on a busy machine
WORK_S = 0.004
LATE_S = 60.0  # longer than any process takes
FORK = get_context("fork")
#: After a kill the handle may be refused: what the killed process had done, the refusal, the outcome.
REFUSALS = [
    ("begin", "may still give its vote back", "the one that was killed was about to adopt it"),
    ("begin", "has the lock: it adopted", "the one that was killed had adopted it"),
    ("leave", "nobody has the lock", "the one that was killed had released it"),
]


class Event(NamedTuple):
    who: str
    what: str  # begin, enter, leave, handle, refused, released, killed
    told: Any = None


Tell = Callable[..., None]


def _work(lock: rlock.RLock, tell: Tell, dice: Random) -> None:
    tell("enter", lock.fencing_token)
    time.sleep(dice.uniform(0.0, WORK_S))
    lock.check()
    tell("leave")


def holder(urls: Sequence[str], name: str, dice: Random, tell: Tell) -> None:
    lock = rlock.Client(urls, max_ttl=KEPT_S).lock(name)
    assert lock.acquire(timeout=30)
    _work(lock, tell, dice)
    tell("handle", lock.detach(KEPT_S))


def adopter(urls: Sequence[str], handle: str, dice: Random, tell: Tell) -> None:
    tell("begin")
    try:
        lock = rlock.Client(urls, max_ttl=KEPT_S).adopt(handle)
    except rlock.RLockError as error:
        tell("refused", str(error))
        return
    _work(lock, tell, dice)
    lock.release()
    tell("released")


def rival(urls: Sequence[str], name: str, dice: Random, tell: Tell) -> None:
    lock = rlock.Client(urls, max_ttl=KEPT_S).lock(name)
    while True:
        with suppress(rlock.QuorumUnreachableError):
            if lock.acquire(blocking=False):
                _work(lock, tell, dice)
                lock.release()
        time.sleep(dice.uniform(0.0, WORK_S))


def judge(events: Iterable[Event], outcome: str) -> list[str]:
    """What is wrong in a round: two at a time, somebody in between, or a loss without a reason."""
    wrong, inside, detached, token = [outcome] * outcome.startswith("lost"), set[str](), False, 0
    for who, what, told in events:
        if what == "enter":
            wrong += [f"{who} enters beside {other}" for other in inside]
            inside.add(who)
            if who == "rival":
                wrong += ["the rival has a token that is not greater"] * (detached and told <= token)
                wrong += ["the rival was in between"] * (outcome.startswith("adopted") and detached)
            elif who == "holder":
                token = told
            else:
                detached = False
                wrong += ["the adopter has another token"] * (told != token)
        elif what == "handle":
            detached = True
        elif what in ("leave", "killed"):
            inside.discard(who)
    return wrong


def play(urls: Sequence[str], name: str, dice: Random) -> tuple[str, list[str]]:
    """One round: what came of it, and what is wrong."""
    with TemporaryFile("a+b") as file:  # all append to it, so its lines are in the order of time

        def tell(who: str, what: str, told: Any = None) -> None:
            line = json.dumps(Event(who, what, told))
            os.write(file.fileno(), f"{line}\n".encode())  # one write: whole, also if it is killed

        def events() -> list[Event]:
            # Not by the offset, which the children share: each of their lines moves it to the end.
            return [Event(*json.loads(line)) for line in os.pread(file.fileno(), 1 << 20, 0).splitlines()]

        def start(work: Callable[..., None], who: str, of: str) -> Any:
            given = (urls, of, Random(dice.random()), partial(tell, who))
            process = FORK.Process(target=work, args=given, name=who)
            process.start()
            return process

        def end(process: Any, after_s: float) -> dict[str, Any]:
            """What it has told, when it has ended; it is killed after so long."""
            process.join(after_s)
            process.kill()
            process.join()
            if process.exitcode == -signal.SIGKILL:
                tell(process.name, "killed")
            else:
                assert process.exitcode == 0, f"{process.name} failed: {events()}"
            return {what: told for who, what, told in events() if who == process.name}

        def killed_after(mean_s: float) -> float:
            return dice.uniform(0.0, mean_s) if dice.random() < 0.5 else LATE_S

        first, third = start(holder, "holder", name), start(rival, "rival", name)
        try:
            handle = end(first, killed_after(0.2)).get("handle")
            outcome = "killed before it had a handle"
            if handle is not None:
                second = last = end(start(adopter, "adopter", handle), killed_after(0.15))
                outcome, killed = "adopted", "killed" in second
                if killed:
                    outcome, last = "adopted by another one", end(start(adopter, "another", handle), LATE_S)
                if refused := last.get("refused"):
                    reasons = (told for did, text, told in REFUSALS if did in second and text in refused)
                    outcome = (killed and next(reasons, "")) or f"lost without a reason: {refused}"
        finally:
            end(third, 0.0)
        return outcome, judge(events(), outcome)


def rounds(urls: Sequence[str], count: int, seed: int) -> tuple[Counter[str], list[str]]:
    dice, outcomes, wrong = Random(seed), Counter[str](), list[str]()
    for number in range(count):
        outcome, faults = play(urls, f"x{number}", dice)
        outcomes[outcome] += 1
        wrong += [f"round {number}: {fault}" for fault in faults]
    return outcomes, wrong
