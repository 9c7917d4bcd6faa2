"""rlock.asyncio behind the interface of the blocking client: each thread of a test drives a task of its own.

So the contract tests, which know threads, say the same of tasks.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from functools import cache
from typing import Any, TypeVar

import rlock.asyncio
from rlock import LeaseLostError

T = TypeVar("T")
Work = Callable[[], Awaitable[Any]]


class Loop:
    """An event loop in a thread, and the tasks in it that threads of a test are."""

    def __init__(self, factory: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop) -> None:
        self.loop = factory()
        self._local = threading.local()
        self._thread = threading.Thread(target=self._run, name="event-loop", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def run(self, work: Work) -> Any:
        """Do it in the calling thread's task; its result, or its exception."""
        try:
            hand: _Hand = self._local.hand
        except AttributeError:
            hand = self._local.hand = _Hand(self.loop)
            self._local.pulse = _Pulse(hand)
        return hand.run(work)


class _Pulse:
    """Ends a task with its thread, which alone knows it: no frame does, of which a traceback may be kept."""

    def __init__(self, hand: _Hand) -> None:
        self._end = hand.end

    def __del__(self) -> None:
        self._end()


class _Hand:
    """What a thread drives its task with."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._work: asyncio.Queue[tuple[Work, Future[Any]] | None] = asyncio.Queue()
        self._task: Future[asyncio.Task[None]] = Future()
        name = threading.current_thread().name
        loop.call_soon_threadsafe(_start, loop, self._task, self._work, name)

    def run(self, work: Work) -> Any:
        done: Future[Any] = Future()
        task = self._task.result(20)
        self._loop.call_soon_threadsafe(self._work.put_nowait, (work, done))
        try:
            return done.result()
        except BaseException:
            if not done.done():
                # Ctrl-C came to the thread: it goes on to the task as a cancellation.
                self._loop.call_soon_threadsafe(task.cancel)
                done.exception(20)
            raise

    def end(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._work.put_nowait, None)


def _start(loop: asyncio.AbstractEventLoop, task: Future[Any], work: Any, name: str) -> None:
    task.set_result(loop.create_task(_live(work), name=name))


async def _live(queue: asyncio.Queue[tuple[Work, Future[Any]] | None]) -> None:
    while True:
        try:
            todo = await queue.get()
        except asyncio.CancelledError:
            continue  # Ctrl-C came when its work was done: without the task its thread would wait for ever
        if todo is None:
            return
        work, done = todo
        try:
            result = await work()
        except asyncio.CancelledError:
            done.set_exception(KeyboardInterrupt())
        except BaseException as error:
            # Without this frame: unittest's assertRaises clears those that it finds, and so would end us.
            left = error.__traceback__ and error.__traceback__.tb_next
            done.set_exception(error.with_traceback(left))
            del error, left
        else:
            done.set_result(result)
        del todo, work, done


@cache
def the_loop() -> Loop:
    """The one of all tests."""
    return Loop(_factory())


def _factory() -> Callable[[], asyncio.AbstractEventLoop]:
    if os.environ.get("RLOCK_TEST_LOOP") != "uvloop":
        return asyncio.new_event_loop
    import uvloop

    return uvloop.new_event_loop


class Client:
    """As `rlock.Client`."""

    def __init__(self, masters: Any, ttl: float = 10.0, **options: Any) -> None:
        self.loop = the_loop()
        self.inner = rlock.asyncio.Client(masters, ttl, **options)

    def lock(self, name: str, **options: Any) -> Lock:
        on_lost = options.get("on_lost")
        if on_lost is not None:
            options["on_lost"] = lambda error: _tell(on_lost, error)
        return Lock(self, self.inner.lock(name, **options))

    def status(self, name: str) -> Any:
        return self.loop.run(lambda: self.inner.status(name))

    def evict(self, name: str) -> Any:
        return self.loop.run(lambda: self.inner.evict(name))

    def init(self) -> Any:
        return self.loop.run(self.inner.init)

    def close(self) -> None:
        self.loop.run(self.inner.close)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _engine(self) -> Engine:
        async def engine() -> Any:
            return self.inner._engine()

        return Engine(self.loop, self.loop.run(engine))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def __repr__(self) -> str:
        return repr(self.inner)


async def _tell(on_lost: Callable[[LeaseLostError], object], error: LeaseLostError) -> None:
    # A callback of a test may block, as one of a blocking client may.
    done: Future[object] = Future()

    def call() -> None:
        try:
            done.set_result(on_lost(error))
        except BaseException as failure:
            done.set_exception(failure)

    threading.Thread(target=call, name="rlock-on-lost", daemon=True).start()
    await asyncio.wrap_future(done)


class Engine:
    """As the engine of a blocking client."""

    def __init__(self, loop: Loop, inner: Any) -> None:
        self.loop = loop
        self.inner = inner

    def perform(self, procedure: Any) -> Any:
        return self.loop.run(lambda: self.inner.perform(procedure))

    def hold(self, name: str) -> Any:
        async def hold() -> Any:
            return self.inner.hold(name)

        return self.loop.run(hold)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class Lock:
    """As `rlock.RLock`."""

    def __init__(self, client: Client, inner: rlock.asyncio.RLock) -> None:
        self._client = client
        self._inner = inner

    def acquire(self, blocking: bool = True, timeout: float = -1) -> Any:
        return self._client.loop.run(lambda: self._inner.acquire(blocking, timeout))

    def release(self) -> None:
        self._client.loop.run(self._inner.release)

    def __enter__(self) -> Lock:
        self._client.loop.run(self._inner.__aenter__)
        return self

    def __exit__(self, *error: Any) -> None:
        self._client.loop.run(lambda: self._inner.__aexit__(*error))

    def locked(self) -> Any:
        return self._client.loop.run(self._inner.locked)

    def statistics(self) -> Any:
        return self._client.loop.run(self._inner.statistics)

    def _here(self, what: Callable[[], Any]) -> Any:
        async def work() -> Any:
            return what()

        return self._client.loop.run(work)

    def is_owned(self) -> Any:
        return self._here(self._inner.is_owned)

    @property
    def hold_count(self) -> Any:
        return self._here(lambda: self._inner.hold_count)

    def remaining(self) -> Any:
        return self._here(self._inner.remaining)

    def check(self) -> None:
        self._here(self._inner.check)

    @property
    def fencing_token(self) -> Any:
        return self._here(lambda: self._inner.fencing_token)

    @property
    def lost(self) -> Lost:
        return Lost(self._client.loop, self._here(lambda: self._inner.lost))

    @property
    def name(self) -> str:
        return self._inner.name

    # What the standard library's tests of RLock ask of a lock.

    _is_owned = is_owned

    def _recursion_count(self) -> Any:
        return self.hold_count

    def _release_save(self) -> int:
        count: int = self.hold_count
        if not count:
            raise RuntimeError("cannot release un-acquired lock")
        for _ in range(count):
            self.release()
        return count

    def _acquire_restore(self, count: int) -> None:
        for _ in range(count):
            self.acquire()

    def __repr__(self) -> str:
        return str(self._here(lambda: repr(self._inner)))


class Lost:
    """As a `LossSignal` of a blocking client."""

    def __init__(self, loop: Loop, inner: Any) -> None:
        self._loop = loop
        self._inner = inner

    def is_set(self) -> Any:
        return self._inner.is_set()

    def wait(self, timeout: float | None = None) -> Any:
        return self._loop.run(lambda: self._inner.wait(timeout))
