"""Cancel an operation of rlock.asyncio behind the n-th callback of an event loop, and look for what is left.

A task can be cancelled between any two callbacks of its loop, and nowhere else. So these are all instants:
each suspension while it waits, and again when its result has come and it has not run. Time is virtual.
"""

from __future__ import annotations

import asyncio
import gc
import selectors
import warnings
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import rlock
import rlock.asyncio
from rlock import clock
from rlock.testing import MemoryMasters

from . import instants
from .instants import Stuck, is_ours, place
from .operations import OF_TASKS
from .scene import NAME, TURN_S, Scene, left

if TYPE_CHECKING:
    from .__main__ import Row

#: How long one run may take, and an acquire behind the operation: less than the second after which masters
#: take back a lock that they have handed to a waiter that is gone.
LIMIT_S, SOON_S = 20.0, 0.9
AGAIN, ALL = "again and again", "with ours"


class Instant(instants.Instant):
    """The ``at``-th callback behind which the task is cancelled.

    ``work``: AGAIN, also behind each one after it; ALL, together with the client's own tasks.
    """

    def __init__(self, at: int, work: str) -> None:
        super().__init__(at)
        self._work = work
        self.task: asyncio.Task[Any] | None = None  # the task, while the operation is under way

    def on_callback(self) -> None:
        if self.task is None or self.task.done():
            return
        self.passed += 1
        if self.passed == self.at:
            self.place = _place(self.task.get_coro())
            if self._work == ALL:
                for task in asyncio.all_tasks(self.task.get_loop()):
                    if task.get_name() in ("rlock-watchdog", "rlock-dial"):
                        task.cancel()
        if self.passed == self.at or (self.reached and self._work == AGAIN):
            self.task.cancel()


def _place(waiting: Any) -> str:
    """Where rlock's part of a task waits."""
    found = "outside"
    while waiting is not None:
        frame = getattr(waiting, "cr_frame", None) or getattr(waiting, "gi_frame", None)
        if frame is not None and is_ours(frame.f_code):
            found = place(frame)
        waiting = getattr(waiting, "cr_await", None) or getattr(waiting, "gi_yieldfrom", None)
    return found


class _Selector(selectors.DefaultSelector):
    """Lets the time pass instead of waiting."""

    def __init__(self, until: float) -> None:
        super().__init__()
        self.now, self.until = 0.0, until

    def select(self, timeout: float | None = None) -> Any:
        found = super().select(0)
        if timeout is None and not found:
            raise Stuck("a loop in which nothing is due")
        self.now += max(timeout or 0.0, TURN_S)
        if self.now > self.until:
            raise Stuck(f"{self.until:g} s")
        return found


def cancel(row: Row, at: int) -> tuple[Instant, list[str]]:
    """Run the operation once in a loop of its own; what is wrong, also by asyncio and Python."""
    instant, selector, wrong = Instant(at, row.work), _Selector(LIMIT_S), list[str]()
    loop, genuine = asyncio.SelectorEventLoop(selector), asyncio.Handle._run

    def run_callback(handle: asyncio.Handle) -> None:
        genuine(handle)
        instant.on_callback()

    loop.time = lambda: selector.now  # type: ignore[method-assign]
    loop.set_exception_handler(
        lambda _, context: wrong.append(f"{context['message']}: {context.get('exception', '')!r}")
    )
    with ExitStack() as stack:
        stack.enter_context(patch.object(asyncio.Handle, "_run", run_callback))
        stack.enter_context(patch.object(clock, "now", loop.time))
        warned = stack.enter_context(warnings.catch_warnings(record=True))
        warnings.simplefilter("always")
        try:
            wrong += loop.run_until_complete(_scene(row, instant))
        except Stuck as stuck:
            wrong.append(f"it stands still for {stuck}, behind {instant.place}")
        except (Exception, asyncio.CancelledError) as error:
            wrong.append(f"behind it: {error!r}")
        tasks = asyncio.all_tasks(loop)
        wrong += [f"{task.get_name()} still runs" for task in tasks]
        for task in tasks:
            task.cancel()
        selector.until += LIMIT_S
        if tasks:
            loop.run_until_complete(asyncio.wait(tasks, timeout=1.0))
        loop.run_until_complete(loop.shutdown_asyncgens())
        gc.collect()  # a task that was never awaited complains now
        loop.close()
    return instant, wrong + [str(each.message) for each in warned]


async def _scene(row: Row, instant: Instant) -> list[str]:
    masters, ends = MemoryMasters(row.masters), asyncio.Event()
    scene = Scene(masters, tasks=True, beside=row.beside)
    for client in (scene.client, scene.other):
        client._engine().context.random.seed(instant.at)  # a failure comes again
        async with client.lock("warm"):
            pass
    busy = asyncio.create_task(scene.busy(ends), name="busy") if row.beside else None
    await asyncio.create_task(_victim(row, scene, instant), name="victim")
    for client, who in (scene.other, "another client"), (scene.client, "another task"):
        if not client._closed:
            await asyncio.create_task(_takes(scene, client, who))
    ends.set()
    if busy is not None:
        await busy
    for _ in range(round(SOON_S / TURN_S)):
        if not (found := left(masters) + [*notes(scene.client), *notes(scene.other)]):
            break
        await asyncio.sleep(TURN_S)
    scene.wrong += [f"left behind: {found}"] * bool(found) + scene.refusals
    for client in (scene.client, scene.other):
        await client.close()
    for _ in range(3):  # the turns in which connections end, and cancelled tasks
        await asyncio.sleep(0)
    return scene.wrong


async def _victim(row: Row, scene: Scene, instant: Instant) -> None:
    got: object = None
    async with OF_TASKS[row.name](scene) as operation:
        instant.task = asyncio.current_task()
        try:
            got = await operation()
            if instant.reached:
                scene.wrong.append("the cancellation is lost")
        except asyncio.CancelledError:
            pass
        except Exception as error:
            scene.wrong.append(repr(error))
        instant.task = None
        scene.wrong += scene.disagrees(1 if got is True else scene.keeps)
        if scene.keeps == 0 and scene.lock.hold_count:
            await scene.lock.release()
        if scene.keeps == 0 and scene.frees:
            await _takes(scene, scene.client, "the same task")
    await scene.ended()
    if not scene.client._closed:
        await _takes(scene, scene.client, "the same task, later,")


async def _takes(scene: Scene, client: rlock.asyncio.Client, who: str) -> None:
    for name in (NAME, "another"):
        lock = client.lock(name)
        if await lock.acquire(timeout=SOON_S):
            await lock.release()
        else:
            scene.wrong.append(f"{who} does not get {name!r}")


def notes(client: rlock.asyncio.Client) -> list[object]:
    """What a client keeps of holds and of acquires under way."""
    engine = client._here()
    if engine is None:
        return []
    under_way = engine.under_way
    kept = [under_way.acquiring, under_way.releasing, engine._local_queue._lines]
    return [*engine.holds, *(each for each in kept if each)]
