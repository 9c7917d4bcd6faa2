"""Contestants that take turns: who runs, runs alone, and in every round the order is drawn anew."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from .contestant import Contestant, Failed, Unsupported
from .field import Entry
from .results import Row

TTL_MS = 10_000
#: A contestant that says nothing for so long has failed. Its acquires wait up to 10 s.
PATIENCE_S = 12.0
#: What a batch takes, about: short, so that noise of the machine hits all alike.
BATCH_S = 0.025
MAX_BATCH = 25
#: First pairs of a batch that do not count: the caches belong to whoever ran before.
UNCOUNTED = 2


class Clock:
    """What is left of a budget."""

    def __init__(self, budget_s: float) -> None:
        self._end = time.monotonic() + budget_s

    def left(self) -> float:
        return max(0.0, self._end - time.monotonic())

    def part(self, share: float) -> Clock:
        """A clock for a share of what is left now."""
        return Clock(self.left() * share)


@dataclass(eq=False)
class Runner:
    """One contestant in one setting, and what it did. Once it has failed it takes no more turns."""

    entry: Entry
    urls: Sequence[str]
    contestant: Contestant | None = None
    error: str | None = None
    #: What it said when it was opened.
    version: str = ""
    #: Durations in nanoseconds, a list for each turn.
    rounds: list[list[float]] = field(default_factory=list)
    failed: int = 0
    pair_s: float = 0.0
    #: The longest that a turn took.
    longest_s: float = 0.0

    @property
    def key(self) -> str:
        return self.entry.key

    @property
    def runs(self) -> bool:
        return self.contestant is not None

    def fail(self, error: BaseException) -> None:
        """It is out, for this reason."""
        kind = type(error).__name__
        # What a worker reports has the kind of its own error in front already.
        told = str(error) if isinstance(error, Failed) and _has_kind(str(error)) else f"{kind}: {error}"
        self.error = told.replace("\n", " ")[:300]
        self.close()

    def send(self, verb: str, **request: Any) -> None:
        """Ask, and do not wait. A failure shows in `error`."""
        if self.contestant is not None:
            try:
                self.contestant.send(verb, **request)
            except Failed as error:
                self.fail(error)

    def answer(self, timeout: float = PATIENCE_S) -> dict[str, Any] | None:
        """What it says; None if it failed, also earlier."""
        if self.contestant is None:
            return None
        try:
            return self.contestant.answer(timeout)
        except (Failed, Unsupported, ValueError) as error:
            self.fail(error)
            return None

    def ask(self, verb: str, timeout: float = PATIENCE_S, **request: Any) -> dict[str, Any] | None:
        self.send(verb, **request)
        return self.answer(timeout)

    def batch(self, verb: str, lock: str, timeout: float = PATIENCE_S) -> None:
        """A turn of pairs, as many as fit into it, the first of them not counted."""
        fitting = max(1, min(MAX_BATCH, int(BATCH_S / self.pair_s))) if self.pair_s else 1
        # One of many milliseconds does not care for caches, and has no time to waste.
        uncounted = UNCOUNTED if fitting > 5 * UNCOUNTED else 0
        began = time.monotonic()
        self.take(self.ask(verb, timeout, lock=lock, count=fitting + uncounted), uncounted)
        self.longest_s = max(self.longest_s, time.monotonic() - began)

    def take(self, reply: dict[str, Any] | None, uncounted: int = 0) -> None:
        """Note what a turn gave."""
        if reply is None:
            return
        if reply["errors"]:
            self.failed += len(reply["errors"])
            self.error = self.error or str(reply["errors"][0])[:300]
        if took := reply["ns"][uncounted:]:
            self.rounds.append(took)
        if reply["ns"]:
            self.pair_s = statistics.median(reply["ns"]) / 1e9
        elif reply["errors"]:
            # Nothing but failures: one at a time, or a peer that waits 10 s for each overruns its turn.
            self.pair_s = BATCH_S

    def forget(self) -> None:
        """What it did until now does not count; that it is out does."""
        self.rounds.clear()
        self.failed, self.longest_s = 0, 0.0
        if self.runs:
            self.error = None

    def row(self, figures: dict[str, float]) -> Row:
        """Its row, with what failed."""
        if self.failed:
            figures = {**figures, "failed": float(self.failed)}
        return Row(figures, {}, self.error)

    def close(self) -> None:
        if self.contestant is not None:
            self.contestant.close()
            self.contestant = None


def _has_kind(text: str) -> bool:
    head, colon, _ = text.partition(":")
    return bool(colon) and head.isidentifier()


class Lineup:
    """Runners, opened side by side and ended with the block."""

    def __init__(self, chosen: Iterable[tuple[Entry, Sequence[str]]]) -> None:
        self.runners = [Runner(entry, list(urls)) for entry, urls in chosen]

    def __enter__(self) -> Lineup:
        try:
            for runner in self.runners:
                try:
                    runner.contestant = runner.entry.start()
                except (Failed, OSError) as error:
                    runner.fail(error)
            for runner in self.runners:
                runner.send("open", **runner.entry.opening(runner.urls, TTL_MS))
            for runner in self.runners:
                if (opened := runner.answer(30.0)) is not None:
                    runner.version = f"{opened['version']}, {opened['runtime']}"
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for runner in self.runners:
            runner.close()

    def turns(self, dice: random.Random, clock: Clock) -> Iterator[Runner]:
        """Those that run, one after another: one whole round at least, then until time is up."""
        first = True

        def fits(runner: Runner) -> bool:
            # One that stalls at times would stall beyond the end.
            return runner.runs and (first or clock.left() > runner.longest_s)

        while first or clock.left() > 0:
            order = [runner for runner in self.runners if fits(runner)]
            if not order:
                return
            dice.shuffle(order)
            for runner in order:
                if fits(runner):
                    yield runner
            first = False

    def warm_up(self, verb: str, lock: Callable[[Runner], str], dice: random.Random, clock: Clock) -> None:
        """Turns that do not count: connections, scripts, compilers, and what a batch takes of each."""
        for runner in self.turns(dice, clock):
            runner.batch(verb, lock(runner))
        for runner in self.runners:
            runner.forget()


def gather(asked: Iterable[Runner], timeout: float) -> Iterator[tuple[Runner, dict[str, Any] | None]]:
    """The answers of some that were asked at the same time. Who has none after this time is out."""
    until = time.monotonic() + timeout
    for runner in asked:
        ran = runner.runs
        answer = runner.answer(max(0.01, until - time.monotonic()))
        if ran and runner.error and runner.error.startswith("Failed: no answer within"):
            # Not what was left of the time when it was its turn to be heard.
            runner.error = f"Failed: no answer within {timeout:g} s"
        yield runner, answer


def without_twins(entries: Sequence[Entry]) -> list[Entry]:
    """Leave out the tuned ones whose untuned twin is there.

    They differ in how often they look for a lock that is busy, and in what follows nobody's lock is.
    """
    keys = {entry.key for entry in entries}
    return [entry for entry in entries if not (entry.tuned and entry.key.removesuffix("-tuned") in keys)]


def meeting(entries: Sequence[Entry], masters: int) -> list[Entry]:
    """Those for which so many masters are something else than one."""
    return [entry for entry in entries if entry.masters == "many" or masters == 1]


def a_few(entries: Sequence[Entry]) -> list[Entry]:
    """For a quick run: the first peer of each language, and all that are ours or a floor.

    A virtual machine of Java warms up for longer than a quick scenario takes.
    """
    languages = {"Java"}
    chosen = []
    for entry in entries:
        if entry.family != "peer" or entry.language not in languages:
            chosen.append(entry)
        if entry.family == "peer":
            languages.add(entry.language)
    return chosen
