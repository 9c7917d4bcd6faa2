"""Contestants that take turns: one runs at a time, and each round draws its order anew."""

from __future__ import annotations

import random
import re
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .contestants import Contestant
from .counters import family
from .figures import durations
from .results import Row
from .worker import Failed, Unsupported, Worker

TTL_MS = 10_000
#: A worker that is silent for this time has failed. Its acquires wait up to 10 s.
PATIENCE_S = 12.0
#: A machine that starts many runtimes at the same time needs long for each.
OPEN_S = 60.0
#: How long the waiter may wait: less than the patience with its reply.
WAIT_MS = 10_000
#: About the time of a batch: short, so that noise of the machine hits all alike.
BATCH_S = 0.025
MAX_BATCH = 25
#: First pairs of a batch that do not count: the caches still hold the data of the process that ran before.
UNCOUNTED = 2


class Clock:
    def __init__(self, budget_s: float) -> None:
        self._end = time.monotonic() + budget_s

    def left(self) -> float:
        return max(0.0, self._end - time.monotonic())

    def part(self, share: float) -> Clock:
        return Clock(self.left() * share)


@dataclass(eq=False)
class Runner:
    """One contestant in one setting, and its times. Once it has failed it takes no more turns."""

    contestant: Contestant
    urls: Sequence[str]
    ttl_ms: int = TTL_MS
    worker: Worker | None = None
    #: Its processes: a runtime may have a launcher.
    pids: list[int] = field(default_factory=list)
    error: str | None = None
    #: The reply to `open`.
    version: str = ""
    #: Durations in nanoseconds, a list for each turn.
    rounds: list[list[float]] = field(default_factory=list)
    failed: int = 0
    pair_s: float = 0.0
    #: The longest that a turn took.
    longest_s: float = 0.0

    @property
    def key(self) -> str:
        return self.contestant.key

    @property
    def runs(self) -> bool:
        return self.worker is not None

    def start(self) -> None:
        """Start its process; `opened` waits until it is connected."""
        try:
            self.worker = self.contestant.start()
        except (Failed, OSError) as error:
            self.fail(error)
        self.send("open", **self.contestant.opening(self.urls, self.ttl_ms))

    def opened(self) -> None:
        """Wait until it is connected, or has failed."""
        if (opened := self.answer(OPEN_S)) is not None and self.worker is not None:
            self.version = f"{opened['version']}, {opened['runtime']}"
            self.pids = family(self.worker.pid)

    def fail(self, error: BaseException) -> None:
        self.error = reason(error)
        self.close()

    def send(self, verb: str, **request: Any) -> None:
        """Ask, and do not wait. A failure shows in `error`."""
        if self.worker is not None:
            try:
                self.worker.send(verb, **request)
            except Failed as error:
                self.fail(error)

    def answer(self, timeout: float = PATIENCE_S) -> dict[str, Any] | None:
        """Its reply; None if it failed, also earlier."""
        if self.worker is None:
            return None
        try:
            return self.worker.answer(timeout)
        except (Failed, Unsupported, ValueError) as error:
            self.fail(error)
            return None

    def ask(self, verb: str, timeout: float = PATIENCE_S, **request: Any) -> dict[str, Any] | None:
        self.send(verb, **request)
        return self.answer(timeout)

    def must(self, verb: str, timeout: float = PATIENCE_S, **request: Any) -> dict[str, Any]:
        """Its reply. Raises `Failed` if it has failed."""
        self.send(verb, **request)
        return replies([self], timeout)[0]

    def batch(self, lock: str, timeout: float = PATIENCE_S, nested: bool = False) -> int:
        """A turn of pairs, as many as fit into it, the first of them not counted. How many it had in all."""
        fitting = max(1, min(MAX_BATCH, int(BATCH_S / self.pair_s))) if self.pair_s else 1
        # Caches do not matter to a pair of many milliseconds.
        uncounted = UNCOUNTED if fitting > 5 * UNCOUNTED else 0
        began = time.monotonic()
        self.take(self.ask("loop", timeout, lock=lock, count=fitting + uncounted, nested=nested), uncounted)
        self.longest_s = max(self.longest_s, time.monotonic() - began)
        return fitting + uncounted

    def take(self, reply: dict[str, Any] | None, uncounted: int = 0) -> None:
        if reply is None:
            return
        if reply["errors"]:
            self.failed += len(reply["errors"])
            self.error = self.error or str(reply["errors"][0])[:300]
        took = [float(ended - asked) for _, asked, _, _, ended in reply["sections"] if ended]
        if took[uncounted:]:
            self.rounds.append(took[uncounted:])
        if took:
            self.pair_s = statistics.median(took) / 1e9
        elif reply["errors"]:
            # Only failures: ask for one pair next time. A peer that waits 10 s for each would overrun its
            # turn.
            self.pair_s = BATCH_S

    def forget(self) -> None:
        """Its times until now do not count; that it has failed does."""
        self.rounds.clear()
        self.failed, self.longest_s = 0, 0.0
        if self.runs:
            self.error = None

    def row(self) -> Row:
        """Its row: the durations of its pairs, and its failures."""
        row = Row.of_rounds(durations(self.rounds), self.error)
        if count := sum(map(len, self.rounds)):
            row.figures["count"] = float(count)
        if self.failed:
            row.figures["failed"] = float(self.failed)
        return row

    def close(self) -> None:
        if self.worker is not None:
            self.worker.close()
            self.worker = None


def reason(error: BaseException) -> str:
    """The text of a failure in a row: ``Kind: text``. The reply of a worker has that form already."""
    text = str(error)
    if isinstance(error, Unsupported) or not isinstance(error, Failed) or not re.match(r"[\w.]+: ", text):
        text = f"{type(error).__name__}: {text}"
    return " ".join(text.split())[:300]


class Runners:
    """Runners, opened side by side and ended with the block."""

    def __init__(self, chosen: Iterable[tuple[Contestant, Sequence[str]]], ttl_ms: int = TTL_MS) -> None:
        self.runners = [Runner(contestant, list(urls), ttl_ms) for contestant, urls in chosen]

    def __enter__(self) -> Runners:
        try:
            for runner in self.runners:
                runner.start()
            for runner in self.runners:
                runner.opened()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for runner in self.runners:
            runner.close()

    def turns(self, rng: random.Random, clock: Clock) -> Iterator[Runner]:
        """The runners, one after another: one whole round at least, then until time is up."""
        first = True

        def fits(runner: Runner) -> bool:
            # A runner that stalls at times would stall beyond the end.
            return runner.runs and (first or clock.left() > runner.longest_s)

        while first or clock.left() > 0:
            order = [runner for runner in self.runners if fits(runner)]
            if not order:
                return
            rng.shuffle(order)
            for runner in order:
                if fits(runner):
                    yield runner
            first = False

    def warm_up(
        self, lock: Callable[[Runner], str], rng: random.Random, clock: Clock, nested: bool = False
    ) -> None:
        """Turns that do not count: for connections, scripts and compilers, and to size the batches."""
        for runner in self.turns(rng, clock):
            runner.batch(lock(runner), nested=nested)
        for runner in self.runners:
            runner.forget()


def gather(asked: Iterable[Runner], timeout: float) -> Iterator[tuple[Runner, dict[str, Any] | None]]:
    """The answers of runners that were asked at the same time. No answer in this time is a failure."""
    until = time.monotonic() + timeout
    for runner in asked:
        ran = runner.runs
        answer = runner.answer(max(0.01, until - time.monotonic()))
        if ran and runner.error and runner.error.startswith("Failed: no answer within"):
            # Otherwise the text would name the rest of the time at its turn.
            runner.error = f"Failed: no answer within {timeout:g} s"
        yield runner, answer


def replies(asked: Sequence[Runner], timeout: float = PATIENCE_S) -> list[dict[str, Any]]:
    """The answers of runners that were asked at the same time. Raises `Failed` if one has failed."""
    found = [answer for _, answer in gather(asked, timeout)]
    if failed := [runner.error for runner in asked if runner.error]:
        raise Failed(failed[0])
    return [answer for answer in found if answer is not None]


class HandOver(NamedTuple):
    """Of the holder's acquire; and from its call of release to the return of the waiter's acquire."""

    acquire_ns: int
    hand_off_ns: int


@dataclass(eq=False)
class Pair:
    """A holder and a waiter of one contestant."""

    holder: Runner
    waiter: Runner
    error: str | None = None

    @property
    def runs(self) -> bool:
        return self.holder.runs and self.waiter.runs

    def hand_over(self, lock: str, wait_s: float) -> HandOver | None:
        """The holder releases when the waiter has waited for this time. None: it failed, or never waited."""
        acquired = self.holder.ask("acquire", lock=lock, wait_ms=WAIT_MS)
        if acquired is None:
            return None
        self.waiter.send("acquire", lock=lock, wait_ms=WAIT_MS)
        time.sleep(wait_s)
        self.holder.send("release", lock=lock)
        # The waiter's reply first: reading the holder's would take a core from the waiter.
        got = self.waiter.answer(PATIENCE_S)
        released = self.holder.answer()
        if released is None or got is None:
            return None
        if not acquired["acquired"] or not got["acquired"]:
            self.error = f"TimeoutError: not acquired within {WAIT_MS / 1000:g} s"
            return None
        self.waiter.ask("release", lock=lock)
        if got["asked"] >= released["began"]:
            return None
        return HandOver(acquired["entered"] - acquired["asked"], got["entered"] - released["began"])


def pairs_of(runners: Sequence[Runner]) -> list[Pair]:
    """Each two runners that follow each other belong together."""
    return [Pair(holder, waiter) for holder, waiter in zip(runners[::2], runners[1::2], strict=True)]


def taking_turns(contestants: Sequence[Contestant], masters: int, quick: bool) -> list[Contestant]:
    """The contestants that use this number of masters, in scenarios in which no lock is waited for.

    Without the tuned twins: these differ from the others only in waiting.
    """
    keys = {one.key for one in contestants}
    found = [one for one in contestants if one.masters == "many" or masters == 1]
    found = [one for one in found if not (one.tuned and one.key.removesuffix("-tuned") in keys)]
    return a_few(found) if quick else found


def a_few(contestants: Sequence[Contestant]) -> list[Contestant]:
    """For a quick run: the first peer of each language, all of ours, and the floors.

    Without Java: a virtual machine warms up for longer than a quick scenario takes.
    """
    languages = {"Java"}
    chosen = []
    for contestant in contestants:
        if contestant.family != "peer" or contestant.language not in languages:
            chosen.append(contestant)
        if contestant.family == "peer":
            languages.add(contestant.language)
    return chosen
