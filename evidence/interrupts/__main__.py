"""``python -m evidence.interrupts``: a table of operations and instants, and each failure with its place."""

from __future__ import annotations

import argparse
import gc
import itertools
import logging
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import rlock
from rlock.testing import MemoryMasters

from . import cancellations, instants
from .instants import Instant, Stuck
from .operations import OF_TASKS, OF_THREADS, change
from .scene import NAME, Scene, call, drive, left

#: How long an operation may take, and another thread behind it; the pause before the work of `Runtime.later`.
LIMIT_S, SOON_S, LATE_S = 4.0, 1.0, 0.02
INTERRUPTED = "interrupted rlock's own code"
ENOUGH = 10  # after so many failures the rest of an operation is left out


@dataclass
class Row:
    name: str
    masters: int
    beside: bool
    work: str = ""  # that a signal handler does; "": it interrupts
    collects: bool = False  # the garbage collector does the work
    instants: int = 0
    failures: dict[str, list[str]] = field(default_factory=dict)  # by place

    @property
    def failed(self) -> int:
        return sum(map(len, self.failures.values()))

    def go_through(self, once: Callable[[Row, int], tuple[Any, list[str]]], step: Callable[[], int]) -> None:
        """Disturb the operation at one instant after another."""
        at = step()
        while self.failed < ENOUGH:
            instant, wrong = once(self, at)
            if not instant.reached:
                if wrong:
                    self.failures.setdefault("without a disturbance", []).extend(wrong[:1])
                return
            self.instants += 1
            if wrong:
                self.failures.setdefault(instant.place, []).append("; ".join(wrong))
            at += step()

    def __str__(self) -> str:
        beside = "not alone" if self.beside else "alone"
        work = self.work + (", gc" if self.collects else "")
        return (
            f"{self.name:<22}N={self.masters}  {beside:<10}{work:<19}"
            f"{self.instants:>6} instants {self.failed:>5} failures"
        )


Disturb = Callable[[Scene], AbstractContextManager[None]]


def run(row: Row, instant: Instant, disturb: Disturb) -> list[str]:
    """Run the operation once; what is wrong behind it."""
    masters, wrong = MemoryMasters(row.masters), []
    for master in masters:
        _shield(master, instant)
    sys.setswitchinterval(0.0005 if row.beside else 0.005)
    scene, ends = Scene(masters, tasks=False, beside=row.beside), threading.Event()
    for client in (scene.client, scene.other):
        with client.lock("warm"):
            pass
    runtime: Any = scene.client._engine().runtime
    runtime.later = lambda work, later=runtime.later: later(lambda: threading.Event().wait(LATE_S) or work())
    if row.beside:
        scene.start(partial(scene.busy, ends), "second thread")
    prepared = OF_THREADS[row.name](scene)
    operation = drive(prepared.__aenter__())
    before, result, failure = scene.lock.hold_count, None, None
    allowed = (TimeLimitError, rlock.RLockError, *[RuntimeError] * ("Condition" in row.name))
    try:
        with disturb(scene):
            result = drive(call(operation))
    except Stuck as stuck:
        wrong.append(f"the operation stands still in {stuck}")
    except Exception as error:
        failure = error
        if not row.work or not isinstance(error, allowed):
            wrong.append(repr(error))
    # CPython itself drops what is raised while it closes a generator.
    heard = isinstance(failure, TimeLimitError) or instant.place.endswith("<genexpr>")
    if row.work == "raises" and instant.place and not heard:
        wrong.append("what the signal handler raised is lost")
    try:
        with instants.limited(LIMIT_S):
            # A detach takes along what a signal handler has acquired.
            counts = row.work in SAME and row.name != "detach"
            if counts and not scene.client._closed and not wrong:
                count = before + scene.changed + change(row.name, result, failure)
                # A name that is released while the set is acquired is acquired again.
                wrong += scene.disagrees(max(count, 0) if row.name == "several names" else count)
            if not scene.client._closed and not wrong:
                wrong += _soon(scene.believes)
            with suppress(*([rlock.RLockError] if row.work in SAME or "closes" in row.work else [])):
                drive(prepared.__aexit__(None, None, None))
            for lock in (*scene.client.read_write_lock(NAME), scene.client.lock("held")):
                while lock.hold_count:
                    with suppress(rlock.LeaseLostError):
                        lock.release()
            wrong += _elsewhere(partial(_take_locks, scene)) + _left(masters)
            ends.set()
            wrong += drive(scene.ended())
            wrong += [each for each in scene.refusals if "second" in each]
            # A mutex that the main thread has kept would stop it.
            wrong += _elsewhere(scene.client.close)
            scene.other.close()
    except Stuck as stuck:
        wrong.append(f"behind it, the client stands still in {stuck}")
    except Exception as error:
        wrong.append(f"behind it: {error!r}")
    return wrong


def _elsewhere(work: Callable[[], object]) -> list[str]:
    """What is wrong when another thread does this, which takes a moment."""
    wrong, done = list[str](), threading.Event()

    def run_it() -> None:
        try:
            work()
        except Exception as error:
            wrong.append(f"another thread: {error!r}")
        done.set()

    threading.Thread(target=run_it, daemon=True).start()
    # Not by the clock: a busy machine may leave the whole process out for a second.
    took = next((i / 100 for i in range(400) if done.wait(0.01)), 4.0)
    if took > SOON_S:
        wrong.append("another thread stands still" if took == 4.0 else f"another thread took {took:.1f} s")
    return wrong


def _take_locks(scene: Scene) -> None:
    with suppress(*([rlock.RLockError] if scene.client._closed else [])):
        for name in (NAME, "another"):
            lock = scene.client.lock(name)
            if not lock.acquire(timeout=SOON_S):
                raise TimeoutError(f"it does not get {name!r}")
            lock.release()


def _soon(look: Callable[[], list[str]]) -> list[str]:
    """What is wrong still after a moment."""
    until = time.monotonic() + SOON_S
    while (found := look()) and time.monotonic() < until:
        time.sleep(0.001)
    return found


def _left(masters: MemoryMasters) -> list[str]:
    return _soon(lambda: [f"left on the masters: {key}" for key in left(masters) if "busy" not in key])


def _shield(master: Any, instant: Instant) -> None:
    connect = master.connect

    def connected(options: Any) -> Any:
        connection = yield from connect(options)
        for name in ("write", "fetch", "close"):
            setattr(connection, name, partial(instant.shield, getattr(connection, name)))
        return connection

    master.connect = connected


def _release(lock: Any) -> bool:
    if held := bool(lock.hold_count):
        lock.release()
    return held


def _enter(lock: Any) -> None:
    if lock.acquire(timeout=0.5):
        lock.release()


def _count(scene: Scene, holds: int) -> None:
    scene.changed += holds


class TimeLimitError(Exception):
    """A signal handler raises it, such as at a time limit of the program: no KeyboardInterrupt."""


def _raise(_: Scene) -> None:
    raise TimeLimitError


#: Work with the lock of the interrupted operation itself: its hold count must come out right.
SAME = ("releases it", "acquires it", "enters it")
#: The work of a signal handler, of a `__del__`, or of a dropped generator with `with lock:`.
WORK: dict[str, Callable[[Scene], object]] = {
    "releases it": lambda scene: _count(scene, -_release(scene.lock)),
    "acquires it": lambda scene: _count(scene, scene.lock.acquire(blocking=False)),
    "enters it": lambda scene: _enter(scene.lock),
    "releases": lambda scene: _release(scene.client.lock("held")),
    "acquires": lambda scene: _enter(scene.client.lock("third")),
    "closes another": lambda scene: scene.other.close(),
    "closes it": lambda scene: scene.client.close(),
    "raises": _raise,
    "asks": lambda scene: (scene.lock.is_owned(), repr(scene.lock), scene.client.lock("held").remaining()),
}


def interrupt(row: Row, at: int) -> tuple[Instant, list[str]]:
    """By a KeyboardInterrupt, or by the work of the row."""
    instant, errors = Instant(at), []

    @contextmanager
    def disturb(scene: Scene) -> Iterator[None]:
        def work() -> None:
            began = time.monotonic()
            try:
                WORK[row.work](scene)
            except rlock.RLockError as error:
                # Nothing else can be said to a handler that interrupted the client in a critical section.
                upgrades = isinstance(error, rlock.UpgradeError)
                if INTERRUPTED not in str(error) and not upgrades and not scene.client._closed:
                    errors.append(f"the work: {error!r}")
            if time.monotonic() - began > SOON_S:
                errors.append(f"the work took {time.monotonic() - began:.1f} s")

        instant.work = work if row.work else None
        if row.work == "releases":
            scene.client.lock("held").acquire()
        with (instants.collected if row.collects else instants.signalled)(instant, LIMIT_S):
            yield

    wrong = run(row, instant, disturb)
    return instant, errors + wrong


def rows(options: argparse.Namespace) -> Iterator[Row]:
    works: Sequence[str] = [*WORK] if options.again or options.collect else [""]
    names: Sequence[str] = [*OF_THREADS]
    if options.asyncio:
        works, names = ["", cancellations.AGAIN, cancellations.ALL], [*OF_TASKS]
    for work, name, masters, beside in itertools.product(works, names, options.masters, (False, True)):
        left_out = (options.work and work not in options.work) or (options.only and name not in options.only)
        left_out = left_out or (options.collect and work == "raises")
        # A second thread would use the client first.
        left_out = left_out or (beside and name == "acquire, first use" and not options.asyncio)
        if not left_out:
            yield Row(name, masters, beside, work, options.collect)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m evidence.interrupts", description=__doc__)
    parser.add_argument("--again", action="store_true", help="a signal handler that uses the client instead")
    parser.add_argument("--collect", action="store_true", help="the garbage collector uses it instead")
    parser.add_argument("--asyncio", action="store_true", help="a cancellation of a task instead")
    parser.add_argument("--only", action="append", help="these operations")
    parser.add_argument("--work", action="append", help="with --again, --collect or --asyncio: this work")
    parser.add_argument("--masters", type=int, nargs="+", default=[1, 3])
    parser.add_argument("--every", type=int, default=1, help="a sample: about every n-th instant, at random")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    options = parser.parse_args(words)
    logging.getLogger("rlock").addHandler(logging.NullHandler())
    logging.getLogger("rlock").propagate = False
    step = partial(random.Random(options.seed).randint, 1, 2 * options.every - 1)
    sys.unraisablehook = lambda _: None  # an interrupted finalizer
    if options.asyncio:
        gc.collect()
        gc.freeze()  # otherwise the collection behind each run would go through all objects
    began, total, failed = time.monotonic(), 0, 0
    for row in rows(options):
        row.go_through(cancellations.cancel if options.asyncio else interrupt, step)
        gc.collect()
        print(row, flush=True)
        for place, wrong in row.failures.items():
            print(f"    {place} ({len(wrong)}): {wrong[0]}", flush=True)
        total += row.instants
        failed += row.failed
    print(f"{total} instants, {failed} failures, {time.monotonic() - began:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
