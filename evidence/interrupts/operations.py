"""The public operations. Each context manager prepares, yields the call under test, and tidies up.

A `Scene` is one of threads or one of tasks. Coroutines of a scene of threads await nothing: `drive` runs each
in the thread that calls it.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from inspect import isawaitable
from typing import Any

import rlock
import rlock.asyncio
from rlock._async import runtime as for_tasks
from rlock._sync import runtime as for_threads
from rlock.recipes.leader import AsyncLeader
from rlock.rules.keys import NOTE, is_shared, readers
from rlock.testing import MemoryMasters

from .turns import TURN_S

#: How long another owner keeps the lock for which an operation waits.
HELD_S = 0.004
#: Of a hold that changes hands.
LEASE_S = 1.5
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


def disagree(masters: MemoryMasters, owner: str) -> list[str]:
    """Whether fewer masters than a quorum have an owner's hold."""
    among = [readers(NAME)] if is_shared(owner) else [NAME]
    entries = [master._keys.look(key) for master in masters for key in among]
    has = [name for entry in entries if entry is not None for name in (*entry.fields, *entry.scores)]
    return [f"it is held by {owner}, and the masters have {has}"] * (has.count(owner) <= len(masters) // 2)


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
        """A new client."""
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
        """Wait for an event."""
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

    async def holder(self, client: Any, seconds: float = HELD_S) -> None:
        """Another owner that has the lock now, and keeps it for a time."""
        taken = self.event()

        async def hold() -> None:
            try:
                async with within(client.lock(NAME)):
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
        await self.until(lambda: client._engine().notifications.next_waiter(name))

    def owns(self, count: int) -> None:
        """A block runs: it must have the lock."""
        if not self.lock.is_owned() or self.lock.hold_count != count:
            self.wrong.append("a block runs without the lock")

    def disagrees(self, count: int) -> list[str]:
        """Whether the client tells its owner the truth, and the masters have what it holds."""
        lock, owned = self.lock, self.lock.is_owned()
        if (lock.hold_count, owned) != (count, count > 0 and not self.client._closed):
            return [f"hold_count is {lock.hold_count} and is_owned() {owned}, for {count} acquires"]
        # A reader in the writer: masters know the writer.
        holds = [hold.writer or hold for hold in lock._holders()[:1] if owned]
        return [each for hold in holds for each in disagree(self.masters, hold.owner)]

    async def busy(self, ends: Any) -> None:
        """Acquire and release another lock all the time."""
        try:
            while not ends.is_set():
                async with within(self.client.lock("busy")):
                    await self.sleep(TURN_S if self.tasks else 0)
        except rlock.RLockError as error:
            if not self.client._closed:
                self.refusals.append(f"the second owner: {error!r}")


# -- the operations -----------------------------------------------------------------------------------------


@asynccontextmanager
async def acquire(scene: Scene) -> AsyncIterator[Call]:
    yield scene.lock.acquire


@asynccontextmanager
async def first_use(scene: Scene) -> AsyncIterator[Call]:
    """The first use of a client, which connects: in a task in some turns."""
    await call(scene.client.close)
    for master in scene.masters if scene.tasks else ():
        _connects_slowly(master)
    scene.client = scene.connected()
    scene.lock = scene.client.lock(NAME)
    yield scene.lock.acquire


def _connects_slowly(master: Any) -> None:
    genuine = master.connect

    def slowly(options: Any) -> Any:
        yield from asyncio.sleep(TURN_S).__await__()
        connection = yield from genuine(options)
        try:
            yield from asyncio.sleep(TURN_S).__await__()
        except BaseException:
            connection.close()
            raise
        return connection

    master.connect = slowly


@asynccontextmanager
async def reconnect(scene: Scene, *, held: bool = False) -> AsyncIterator[Call]:
    async with first_use(scene):
        await call(scene.lock.acquire)
    if not held:
        await call(scene.lock.release)
    for master in scene.masters:
        master.down()
        master.up()
    yield scene.lock.release if held else scene.lock.acquire


@asynccontextmanager
async def busy(scene: Scene) -> AsyncIterator[Call]:
    scene.frees = False
    async with within(scene.other.lock(NAME)):
        yield partial(scene.lock.acquire, blocking=False)


@asynccontextmanager
async def release(scene: Scene) -> AsyncIterator[Call]:
    await call(scene.lock.acquire)
    yield scene.lock.release


async def _block(scene: Scene, count: int) -> None:
    async with within(scene.lock):
        scene.owns(count)
        await scene.sleep(0)


@asynccontextmanager
async def block(scene: Scene) -> AsyncIterator[Call]:
    yield partial(_block, scene, 1)


@asynccontextmanager
async def nested(scene: Scene) -> AsyncIterator[Call]:
    async with within(scene.lock):
        scene.keeps = 1
        yield partial(_block, scene, 2)
        if scene.lock.hold_count == 2:  # Ctrl-C between the acquire and the block, as with any lock
            await call(scene.lock.release)


@asynccontextmanager
async def contended(
    scene: Scene,
    *,
    here: bool = False,
    fair: bool = False,
    behind: bool = False,
    held_s: float = HELD_S,
    timeout: float = -1,
) -> AsyncIterator[Call]:
    """Another owner has the lock. ``here``: of this client. ``behind``: behind one that waits."""
    scene.lock = scene.client.lock(NAME, fair=fair)
    await scene.holder(scene.client if here else scene.other, held_s)
    if behind:
        await scene.waiter(scene.client)
    yield partial(scene.lock.acquire, timeout=timeout)


@asynccontextmanager
async def split_votes(scene: Scene) -> AsyncIterator[Call]:
    """All masters but one have a vote for some dead contender, which ends soon."""
    for i, master in enumerate([*scene.masters][:-1]):
        with master.mutex:
            master._keys.look(NAME)
            master._keys._set(NAME, f"somebody:{i:032x}", "1")
            master._keys._pexpire(NAME, "25")
    yield scene.lock.acquire


@asynccontextmanager
async def hand_over(scene: Scene, *, here: bool) -> AsyncIterator[Call]:
    """A release while another owner waits."""
    await call(scene.lock.acquire)
    await scene.waiter(scene.client if here else scene.other)
    yield scene.lock.release


@asynccontextmanager
async def renew(scene: Scene) -> AsyncIterator[Call]:
    await call(scene.lock.acquire)
    scene.keeps, engine = 1, scene.client._engine()
    run: Any = for_tasks.run if scene.tasks else for_threads.run
    yield lambda: run(engine.watchdog._look_after(list(engine.holds)))
    scene.lock.check()
    await call(scene.lock.release)


@asynccontextmanager
async def ask(scene: Scene) -> AsyncIterator[Call]:
    lock, client = scene.lock, scene.client

    async def work() -> None:
        await call(lock.locked)
        _ = lock.is_owned(), lock.fencing_token, lock.lost.is_set()
        for question in (partial(client.status, NAME), client.init, partial(client.evict, "another")):
            if scene.tasks:
                await call(question)

    async with within(lock):
        scene.keeps = 1
        yield work


@asynccontextmanager
async def lost(scene: Scene) -> AsyncIterator[Call]:
    async with within(scene.lock):
        scene.keeps = 1
        yield partial(scene.lock.lost.wait, 0.002)


@asynccontextmanager
async def close(scene: Scene) -> AsyncIterator[Call]:
    """With a hold of this owner, one of another, and two acquires under way."""
    ends, held = scene.event(), scene.event()

    async def hold() -> None:
        lock = scene.client.lock("z")
        await call(lock.acquire)
        held.set()
        await scene.set(ends)
        with suppress(rlock.LeaseLostError):
            await call(lock.release)

    async with within(scene.other.lock("y")):
        await call(scene.lock.acquire)
        scene.keeps = 1
        scene.start(hold, "holder")
        await scene.set(held)
        for name in (NAME, "y"):
            await scene.waiter(scene.client, name)
        yield scene.client.close
        if not scene.tasks:  # after Ctrl-C
            scene.client.close()
        ends.set()
        await scene.ended()
        if len(closed := [each for each in scene.refusals if "closed" in each]) == 2:
            scene.refusals.clear()
        else:
            scene.wrong.append(f"two waiters of a closed client: {closed}")
    with suppress(rlock.LeaseLostError):
        await call(scene.lock.release)


@asynccontextmanager
async def leader(scene: Scene) -> AsyncIterator[Call]:
    campaign = scene.client.leader(NAME)

    def work() -> None:
        with campaign:
            campaign.wait(2.0)

    yield work
    if not campaign._end:  # before the first line of __exit__, as with anything that `with` leaves
        campaign.__exit__()


@asynccontextmanager
async def leader_and_rival(scene: Scene) -> AsyncIterator[Call]:
    """Into the lead and out of it; beside a rival, whose callbacks must not overlap."""
    leads: list[str] = []

    def campaign(client: rlock.asyncio.Client, name: str) -> AsyncLeader:
        async def started(_: int) -> None:
            if leads:
                scene.wrong.append(f"{name} leads while {leads} does")
            leads.append(name)
            await asyncio.sleep(TURN_S)

        async def stopped() -> None:
            await asyncio.sleep(TURN_S)
            leads.remove(name)

        return client.leader(NAME, started, stopped)

    ours = campaign(scene.client, "ours")

    async def work() -> None:
        async with ours:
            await ours.wait(2.0)

    if not scene.beside:
        yield work
        return
    scene.frees = False
    async with campaign(scene.other, "the rival") as rival:
        await rival.wait(1.0)
        rival_resigns = asyncio.get_running_loop().call_later(HELD_S, rival.resign)
        yield work
        rival_resigns.cancel()
        await rival.wait(1.0)
        if not rival.is_leader():
            scene.wrong.append("the rival does not lead behind it")


@asynccontextmanager
async def semaphore(scene: Scene, *, full: bool = False) -> AsyncIterator[Call]:
    """``full``: other owners have its permits for a moment."""
    permits, taken = scene.client.semaphore(NAME, permits=2), scene.event()

    async def hold() -> None:
        here, there = (client.semaphore(NAME, permits=2) for client in (scene.client, scene.other))
        async with within(there), within(here):
            taken.set()
            await scene.sleep(HELD_S)

    async def work() -> None:
        async with within(permits):
            if permits.permit is None:
                scene.wrong.append("a block runs without its permit")
            await scene.sleep(0)

    if full:
        scene.start(hold, "holder")
        await scene.set(taken)
    yield work
    while permits.permit is not None and not scene.tasks:  # after Ctrl-C
        permits.release()


@asynccontextmanager
async def several(scene: Scene, *, contended: bool = False) -> AsyncIterator[Call]:
    names = scene.client.locks([NAME, "y", "z"])

    async def work() -> None:
        async with within(names):
            scene.owns(1)
            await scene.sleep(0)

    if contended:
        await scene.holder(scene.other)
    yield work
    for lock in map(scene.client.lock, () if scene.tasks else names.names):  # after Ctrl-C
        if lock.hold_count:
            lock.release()


@asynccontextmanager
async def condition(scene: Scene, *, reader: bool = False) -> AsyncIterator[Call]:
    if reader:
        scene.lock = scene.client.read_write_lock(NAME).reader
    waiting = threading.Condition(scene.lock)

    def work() -> None:
        with waiting:
            waiting.wait(0.005)

    yield work


@asynccontextmanager
async def detach(scene: Scene) -> AsyncIterator[Call]:
    """Short: after Ctrl-C behind the last line of rlock nobody has the handle."""
    await call(scene.lock.acquire)
    yield partial(scene.lock.detach, 0.1)


@asynccontextmanager
async def adopt(scene: Scene) -> AsyncIterator[Call]:
    """Behind it the caller has the hold, or the handle is good, or nobody has the lock.

    A master that was told late that it is given back may keep it for the handle, until the lease ends.
    """
    scene.lock.acquire()
    handle, reason = scene.lock.detach(LEASE_S), ""
    yield lambda: scene.client.adopt(handle, ttl=LEASE_S) is not None
    for _ in range(100):  # an undo may need a new connection
        if scene.lock.hold_count:
            break
        try:
            scene.other.adopt(handle, ttl=LEASE_S).release()
            break
        except rlock.RLockError as error:
            reason = str(error)
        if "nobody has the lock" in reason:
            break
        time.sleep(0.001)
    else:
        raise AssertionError(f"an owner whom nobody knows keeps it: {reason}")
    await scene.until(lambda: scene.lock.hold_count or not left(scene.masters), LEASE_S)


@asynccontextmanager
async def reader(
    scene: Scene, *, releases: bool = False, inside: bool = False, behind: bool = False
) -> AsyncIterator[Call]:
    """``inside``: the writer has it as well. ``behind``: another owner is the writer."""
    lock = scene.client.read_write_lock(NAME)
    if behind:
        await scene.holder(scene.other)
    if inside:
        await call(lock.writer.acquire)
    scene.lock = lock.reader
    if releases:
        await call(lock.reader.acquire)
    yield lock.reader.release if releases else lock.reader.acquire


@asynccontextmanager
async def write(scene: Scene, *, reads: bool, reader: bool = False) -> AsyncIterator[Call]:
    """The release of a writer while readers wait, of its own client and of another.

    ``reads``: it reads on. ``reader``: that is the lock under test.
    """
    lock = scene.client.read_write_lock(NAME)
    await call(lock.writer.acquire)
    if reads:
        await call(lock.reader.acquire)
    for client in (scene.client, scene.other):
        await scene.waiter(client, shared=True)
    scene.lock, scene.keeps = lock.reader if reader else lock.writer, int(reads)
    yield lock.writer.release
    if scene.tasks:  # a writer whose release was interrupted is released later
        await scene.ended()
    if reads and scene.tasks:
        await lock.reader.release()


#: Of threads and of tasks.
BOTH: dict[str, Operation] = {
    "acquire": acquire,
    "acquire, first use": first_use,
    "try a busy lock": busy,
    "release": release,
    "with": block,
    "nested with": nested,
    "contended acquire": contended,
    "hand-over to it": partial(contended, here=True),
    "acquire, time over": partial(contended, held_s=0.03, timeout=0.01),
    "fair acquire": partial(contended, fair=True),
    "renewal": renew,
    "questions": ask,
    "close": close,
    "semaphore": semaphore,
    "several names": several,
    "release a reader": partial(reader, releases=True),
    "release to readers": partial(write, reads=False),
}
OF_THREADS: dict[str, Operation] = {
    **BOTH,
    "release to a thread": partial(hand_over, here=True),
    "leader": leader,
    "Condition.wait": condition,
    "detach": detach,
    "adopt": adopt,
    "acquire a reader": reader,
    "acquire, in the writer": partial(reader, inside=True),
    "acquire, after a writer": partial(reader, behind=True),
    "release, in the writer": partial(reader, releases=True, inside=True),
    "release, and read on": partial(write, reads=True),
    "end of its writer": partial(write, reads=True, reader=True),
    "Condition of a reader": partial(condition, reader=True),
}
OF_TASKS: dict[str, Operation] = {
    **BOTH,
    "acquire, reconnect": reconnect,
    "release, reconnect": partial(reconnect, held=True),
    "behind a waiter": partial(contended, behind=True),
    "fair, behind a waiter": partial(contended, behind=True, fair=True),
    "split votes": split_votes,
    "release to a task": partial(hand_over, here=True),
    "release to a client": partial(hand_over, here=False),
    "lost.wait": lost,
    "leader": leader_and_rival,
    "full semaphore": partial(semaphore, full=True),
    "acquire a reader": partial(reader, behind=True),
    "release, and read on": partial(write, reads=True, reader=True),
    "several, contended": partial(several, contended=True),
}

#: The operations that acquire, or release, once; the others do both, or none.
ACQUIRES = {
    name
    for name in OF_THREADS
    if "acquire" in name or name in ("adopt", "hand-over to it", "try a busy lock")
}
RELEASES = {name for name in OF_THREADS if "release" in name or name == "detach"}


def change(name: str, result: object, error: BaseException | None) -> int:
    """By how much an operation that ended so has changed the hold count of its lock."""
    if name in ACQUIRES:
        return int(result is True)
    not_held = type(error) in (rlock.NotHeldError, RuntimeError)  # of Condition.wait
    if name in RELEASES:
        return 0 if not_held else -1
    return int(not_held)  # a `with` block whose release came too late
