"""rlock.asyncio behind the interface of the blocking client: each thread of a test drives a task of its own.

So the contract tests, which know threads, say the same of tasks.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from functools import cache, partial
from inspect import isawaitable, isfunction
from typing import Any, TypeVar

import rlock.asyncio
from rlock import ReadWriteLock

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

    def here(self, what: Callable[[], Any]) -> Any:
        """Call it in the calling thread's task, and await what it returns if that is a coroutine."""

        async def work() -> Any:
            value = what()
            return await value if isawaitable(value) else value

        return self.run(work)


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
    if os.environ.get("RLOCK_TEST_LOOP") != "uvloop":
        return Loop()
    import uvloop

    return Loop(uvloop.new_event_loop)


class Client:
    """As `rlock.Client`."""

    def __init__(self, masters: Any, ttl: float = 10.0, **options: Any) -> None:
        self.loop = the_loop()
        self.inner = rlock.asyncio.Client(masters, ttl, **options)

    def lock(self, name: str, **options: Any) -> Lock:
        return Lock(self, self.inner.lock(name, **_told_in_a_thread(options)))

    def read_write_lock(self, name: str, **options: Any) -> ReadWriteLock[Lock]:
        reader, writer = self.inner.read_write_lock(name, **_told_in_a_thread(options))
        return ReadWriteLock(Lock(self, reader), Lock(self, writer))

    def locks(self, *names: Any, **options: Any) -> Lock:
        return Lock(self, self.inner.locks(*names, **options))

    def adopt(self, handle: str, **options: Any) -> Lock:
        return Lock(self, self.loop.run(lambda: self.inner.adopt(handle, **options)))

    def close(self) -> None:
        self.loop.run(self.inner.close)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _engine(self) -> InTask:
        return InTask(self.loop, self.loop.here(self.inner._engine))

    def __getattr__(self, name: str) -> Any:
        return getattr(InTask(self.loop, self.inner), name)

    def __repr__(self) -> str:
        return repr(self.inner)


def _told_in_a_thread(options: dict[str, Any]) -> dict[str, Any]:
    """A callback of a test may block, as one of a blocking client may."""
    on_lost = options.get("on_lost")
    return options if on_lost is None else {**options, "on_lost": partial(asyncio.to_thread, on_lost)}


class InTask:
    """An object of rlock.asyncio as the calling thread's task sees it; its coroutines are awaited."""

    def __init__(self, loop: Loop, inner: Any) -> None:
        self._loop = loop
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        def found() -> Any:
            return getattr(self._inner, name)

        if not isfunction(getattr(type(self._inner), name, None)):
            return self._loop.here(found)
        return lambda *args, **options: self._loop.here(lambda: found()(*args, **options))


class Lock(InTask):
    """As `rlock.RLock`."""

    def __init__(self, client: Client, inner: Any) -> None:
        super().__init__(client.loop, inner)
        self._client = client

    def __enter__(self) -> Lock:
        self.__aenter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.__aexit__(*error)

    @property
    def lost(self) -> InTask:
        return InTask(self._loop, self._loop.here(lambda: self._inner.lost))

    # What the standard library's tests of RLock ask of a lock.

    def _is_owned(self) -> Any:
        return self.is_owned()

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
        return str(self._loop.here(lambda: repr(self._inner)))
