"""The client under test, and the owners beside it: threads, or tasks.

Coroutines of a scene of threads await nothing: `drive` runs each in the thread that calls it.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from inspect import isawaitable
from typing import Any

import rlock
import rlock.asyncio
from rlock.rules.keys import NOTE, is_shared, readers
from rlock.testing import MemoryMasters

TURN_S = 0.0001  # the duration of one turn of the loop of tasks; otherwise busy tasks would stop the time
HELD_S = 0.004  # how long another owner keeps the lock for which an operation waits
NAME = "x"

Call = Callable[[], Any]
Operation = Callable[["Scene"], AbstractAsyncContextManager[Call]]


def drive(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine that awaits nothing."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise RuntimeError("a thread awaits nothing")


async def call(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Call a function of either kind of client."""
    value = function(*arguments, **options)
    return await value if isawaitable(value) else value


@asynccontextmanager
async def within(lock: Any) -> AsyncIterator[None]:
    """`with` or `async with`."""
    if hasattr(type(lock), "__aenter__"):
        async with lock:
            yield
    else:
        with lock:
            yield


def left(masters: Iterable[Any]) -> list[str]:
    """Keys on the masters that a hold or a waiter left there."""
    found: list[str] = []
    for master in masters:
        with master.mutex:
            keys = [key for key in list(master._keys.keys) if master._keys.look(key)]
        found += [key for key in keys if key != NOTE and not key.endswith(":fence")]
    return found


def disagree(masters: MemoryMasters, hold: Any) -> list[str]:
    """Whether fewer masters than a quorum have a hold."""
    key = readers(hold.name) if is_shared(hold.owner) else hold.name
    entries = [master._keys.look(key) for master in masters]
    has = [name for entry in entries if entry is not None for name in (*entry.fields, *entry.scores)]
    return [f"the masters have {has}, and not {hold.owner}"] * (has.count(hold.owner) <= len(masters) // 2)


def sleeps(client: Any, name: str) -> bool:
    """Whether an owner of this client has its place in the queue of a lock, and sleeps."""
    subscriptions = client._engine().notifications
    with subscriptions._mutex:
        found = subscriptions._by_name.get(name)
        return found is not None and any(waiter.inbox.asleep for waiter, _ in found.drawn())


class Scene:
    """The client under test, another client of the same masters, and the threads or tasks beside them."""

    def __init__(self, masters: MemoryMasters, *, tasks: bool, beside: bool) -> None:
        self.masters, self.tasks, self.beside = masters, tasks, beside
        self.client, self.other = self.connected(), self.connected()
        self.lock = self.client.lock(NAME)
        self.changed = 0  # acquires of `lock` by a signal handler or a finalizer, less its releases
        self.keeps = 0  # acquires of `lock` behind the operation, if it does not return True
        self.frees = True  # whoever else has the lock gives it back soon
        self.wrong: list[str] = []  # of tasks: the work of a signal handler may do more to a lock
        self.refusals: list[str] = []  # the errors that waiters got
        self._started: list[Any] = []

    def connected(self) -> Any:
        kind: Any = rlock.asyncio.Client if self.tasks else rlock.Client
        return kind([*self.masters], ttl=8.0)

    def event(self) -> Any:
        return asyncio.Event() if self.tasks else threading.Event()

    async def sleep(self, seconds: float) -> None:
        if self.tasks:
            await asyncio.sleep(seconds)
        else:
            time.sleep(seconds)

    async def until(self, done: Call, seconds: float = 5.0) -> None:
        pause_s = TURN_S if self.tasks else 0.0005
        for _ in range(round(seconds / pause_s)):
            if done():
                return
            await self.sleep(pause_s)

    async def set(self, event: Any) -> None:
        await call(event.wait, *(() if self.tasks else (5.0,)))

    def start(self, work: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
        """Let another owner work."""
        if self.tasks:
            self._started.append(asyncio.create_task(work(), name=name))
        else:
            self._started.append(threading.Thread(target=lambda: drive(work()), name=name, daemon=True))
            self._started[-1].start()

    async def ended(self) -> list[str]:
        """The end of all that was started; what did not end."""
        if self.tasks:
            await asyncio.gather(*self._started)
            return []
        for thread in self._started:
            thread.join(2.0)
        return [f"the {thread.name} has not ended" for thread in self._started if thread.is_alive()]

    async def holder(self, client: Any, seconds: float = HELD_S, name: str = NAME) -> None:
        """Another owner that has the lock now, and keeps it for a time."""
        taken = self.event()

        async def hold() -> None:
            try:
                async with within(client.lock(name)):
                    taken.set()
                    await self.sleep(seconds)
            except rlock.RLockError:
                if self.tasks:  # of a thread, the work of a signal handler may have closed the client
                    raise

        self.start(hold, "holder")
        await self.set(taken)

    async def waiter(self, client: Any, name: str = NAME, *, shared: bool = False) -> None:
        """An owner that waits for the lock."""

        async def wait() -> None:
            try:
                async with within(client.read_write_lock(name)[0 if shared else 1]):
                    pass
            except rlock.RLockError as error:
                self.refusals.append(repr(error))

        self.start(wait, "waiter")
        await self.until(lambda: sleeps(client, name))

    def owns(self, count: int) -> None:
        """A block runs: it must have the lock."""
        if not self.lock.is_owned() or self.lock.hold_count != count:
            self.wrong.append("a block runs without the lock")

    def disagrees(self, count: int) -> list[str]:
        """Whether the client tells its owner the truth, and the masters have what it holds."""
        lock, owned = self.lock, self.lock.is_owned()
        if (lock.hold_count, owned) != (count, count > 0 and not self.client._closed):
            return [f"hold_count is {lock.hold_count} and is_owned() {owned}, for {count} acquires"]
        return self.believes() if owned else []

    def believes(self) -> list[str]:
        """The holds that the client counts as held, and the masters do not have."""
        table = self.client._engine().holds
        held = [hold for hold in table if table.remaining(hold) > 0.0 and hold.name != "busy"]
        # A reader in the writer: masters know the writer.
        return [each for hold in held for each in disagree(self.masters, hold.writer or hold)]

    async def busy(self, ends: Any) -> None:
        """Acquire and release another lock all the time."""
        try:
            while not ends.is_set():
                async with within(self.client.lock("busy")):
                    await self.sleep(TURN_S if self.tasks else 0)
        except rlock.RLockError as error:
            if not self.client._closed:
                self.refusals.append(f"the second owner: {error!r}")
