"""The public operations. Each is a generator: it prepares, yields the call under test, and tidies up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Any

import rlock
from rlock.rules.keys import NOTE, is_shared, readers
from rlock.testing import MemoryMasters

Call = Callable[[], object]
Operation = Callable[["Scene"], Iterator[Call]]

#: How long another owner keeps the lock for which an operation waits.
HELD_S = 0.004
#: Of a hold that changes hands.
LEASE_S = 1.5
NAME = "x"


def left(masters: Iterable[Any]) -> list[str]:
    """Keys on the masters that a hold or a waiter left there."""
    found: list[str] = []
    for master in masters:
        with master.mutex:
            keys = [key for key in list(master._keys.keys) if master._keys.look(key)]
        found += [key for key in keys if key != NOTE and not key.endswith(":fence")]
    return found


def wait_until(done: Callable[[], object], seconds: float) -> None:
    until = time.monotonic() + seconds
    while not done() and time.monotonic() < until:
        time.sleep(0.0005)


def entering(lock: AbstractContextManager[object]) -> Call:
    """A call that enters a block and leaves it."""

    def work() -> None:
        with lock:
            pass

    return work


def disagree(masters: MemoryMasters, owner: str) -> list[str]:
    """Whether fewer masters than a quorum have an owner's hold."""
    among = [readers(NAME)] if is_shared(owner) else [NAME]
    entries = [master._keys.look(key) for master in masters for key in among]
    has = [name for entry in entries if entry is not None for name in (*entry.fields, *entry.scores)]
    return [f"it is held by {owner}, and the masters have {has}"] * (has.count(owner) <= len(masters) // 2)


class Scene:
    """The client under test, another client of the same masters, and threads."""

    def __init__(self, masters: list[Any]) -> None:
        self.masters = masters
        self.client = rlock.Client(masters, ttl=8.0)
        self.other = rlock.Client(masters, ttl=8.0)
        self.lock = self.client.lock(NAME)
        self.changed = 0  # acquires of `lock` by a signal handler or a finalizer, less its releases
        self._threads: list[threading.Thread] = []

    def start(self, work: Call) -> None:
        thread = threading.Thread(target=work, daemon=True)
        self._threads.append(thread)
        thread.start()

    def holder(self, client: rlock.Client, seconds: float = HELD_S, *, wait: bool = True) -> None:
        """Another owner that has the lock now, or waits for it, and keeps it for a time."""
        taken = threading.Event()

        def work() -> None:
            with suppress(rlock.RLockError), client.lock(NAME):  # the client may be closed meanwhile
                taken.set()
                time.sleep(seconds)

        self.start(work)
        taken.wait(5 if wait else 0)

    def join(self) -> list[str]:
        until = time.monotonic() + 2.0
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        return [thread.name for thread in self._threads if thread.is_alive()]


def acquire(scene: Scene) -> Iterator[Call]:
    yield scene.lock.acquire


def acquire_first(scene: Scene) -> Iterator[Call]:
    """The first use of a client, which connects."""
    fresh = rlock.Client(scene.client._endpoints, ttl=8.0)
    scene.client.close()
    scene.client, scene.lock = fresh, fresh.lock(NAME)
    yield scene.lock.acquire


def try_busy(scene: Scene) -> Iterator[Call]:
    with scene.other.lock(NAME):
        yield lambda: scene.lock.acquire(blocking=False)


def release(scene: Scene) -> Iterator[Call]:
    scene.lock.acquire()
    yield scene.lock.release


def with_block(scene: Scene) -> Iterator[Call]:
    yield entering(scene.lock)


def nested(scene: Scene) -> Iterator[Call]:
    with scene.lock:
        yield entering(scene.lock)
        if scene.lock.hold_count == 2:  # between the acquire and the block, as with any lock
            scene.lock.release()


def contended(
    scene: Scene, *, here: bool = False, fair: bool = False, held_s: float = HELD_S, timeout: float = -1
) -> Iterator[Call]:
    """Another owner has the lock. ``here``: another thread of the client, which hands it over."""
    scene.holder(scene.client if here else scene.other, held_s)
    scene.lock = scene.client.lock(NAME, fair=fair)
    yield lambda: scene.lock.acquire(timeout=timeout)


def hand_over(scene: Scene) -> Iterator[Call]:
    """A release while another thread of the client waits."""
    scene.lock.acquire()
    scene.holder(scene.client, 0.0, wait=False)
    notifications = scene.client._engine().notifications
    wait_until(lambda: notifications.next_waiter(NAME), 1.0)
    yield scene.lock.release


def renew(scene: Scene) -> Iterator[Call]:
    from rlock._sync.runtime import run

    scene.lock.acquire()
    engine = scene.client._engine()
    yield lambda: run(engine.watchdog._look_after(list(engine.holds)))
    scene.lock.check()


def ask(scene: Scene) -> Iterator[Call]:
    lock = scene.lock
    with lock:
        yield lambda: (lock.locked(), lock.is_owned(), lock.fencing_token, lock.lost.is_set())


def close(scene: Scene) -> Iterator[Call]:
    """With two holds of this thread, one of another, and an acquire under way."""
    kept, held, locks = threading.Event(), threading.Event(), [scene.lock, scene.client.lock("y")]
    for lock in locks:
        lock.acquire()

    def hold() -> None:
        scene.client.lock("z").acquire()
        held.set()
        kept.wait(5)

    def wait() -> None:
        with suppress(rlock.RLockError):
            scene.client.lock(NAME).acquire(timeout=3.0)

    scene.start(hold)
    scene.start(wait)
    held.wait(5)
    yield scene.client.close
    kept.set()
    scene.client.close()
    for lock in locks:
        with suppress(rlock.LeaseLostError):
            lock.release()


def leader(scene: Scene) -> Iterator[Call]:
    campaign = scene.client.leader(NAME)

    def work() -> None:
        with campaign:
            campaign.wait(2.0)

    yield work
    if not campaign._end:  # before the first line of __exit__, as with anything that `with` leaves
        campaign.__exit__()


def semaphore(scene: Scene) -> Iterator[Call]:
    permits = scene.client.semaphore(NAME, permits=2)
    yield entering(permits)
    while permits.permit is not None:
        permits.release()


def several(scene: Scene) -> Iterator[Call]:
    names = scene.client.locks([NAME, "y", "z"])
    yield entering(names)
    for name in names.names:
        if scene.client.lock(name).hold_count:
            scene.client.lock(name).release()


def condition(scene: Scene) -> Iterator[Call]:
    waiting = threading.Condition(scene.lock)

    def work() -> None:
        with waiting:
            waiting.wait(0.005)

    yield work


def detach(scene: Scene) -> Iterator[Call]:
    """Short: after Ctrl-C behind the last line of rlock nobody has the handle."""
    scene.lock.acquire()
    yield lambda: scene.lock.detach(0.1)


def adopt(scene: Scene) -> Iterator[Call]:
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
    wait_until(lambda: scene.lock.hold_count or not left(scene.masters), LEASE_S)


def reader(
    scene: Scene, *, releases: bool = False, within: bool = False, behind: bool = False
) -> Iterator[Call]:
    """``within``: the writer has it as well. ``behind``: another owner is the writer."""
    lock = scene.client.read_write_lock(NAME)
    if behind:
        scene.holder(scene.other)
    if within:
        lock.writer.acquire()
    scene.lock = lock.reader
    if releases:
        lock.reader.acquire()
    yield lock.reader.release if releases else lock.reader.acquire


def write(scene: Scene, *, reads: bool, reader: bool = False) -> Iterator[Call]:
    """The release of a writer while readers wait, of its own process and of another.

    ``reads``: it reads on. ``reader``: that is the lock under test.
    """
    lock = scene.client.read_write_lock(NAME)
    lock.writer.acquire()
    if reads:
        lock.reader.acquire()
    for client in (scene.client, scene.other):
        scene.start(partial(_try, client.read_write_lock(NAME).reader))
    wait_until(lambda: scene.client.status(NAME).queue_length == 2, 1.0)
    scene.lock = lock.reader if reader else lock.writer
    yield lock.writer.release


def _try(reader: rlock.RLock) -> None:
    with suppress(rlock.RLockError), reader:
        pass


def reader_condition(scene: Scene) -> Iterator[Call]:
    scene.lock = scene.client.read_write_lock(NAME).reader
    return condition(scene)


OPERATIONS: dict[str, Operation] = {
    "acquire": acquire,
    "acquire, first use": acquire_first,
    "try a busy lock": try_busy,
    "release": release,
    "with": with_block,
    "nested with": nested,
    "contended acquire": contended,
    "hand-over to it": partial(contended, here=True),
    "acquire, time over": partial(contended, held_s=0.03, timeout=0.01),
    "fair acquire": partial(contended, fair=True),
    "release to a thread": hand_over,
    "renewal": renew,
    "locked, check, lost": ask,
    "close": close,
    "leader": leader,
    "semaphore": semaphore,
    "several names": several,
    "Condition.wait": condition,
    "detach": detach,
    "adopt": adopt,
    "acquire a reader": reader,
    "acquire, in the writer": partial(reader, within=True),
    "acquire, after a writer": partial(reader, behind=True),
    "release a reader": partial(reader, releases=True),
    "release, in the writer": partial(reader, releases=True, within=True),
    "release to readers": partial(write, reads=False),
    "release, and read on": partial(write, reads=True),
    "end of its writer": partial(write, reads=True, reader=True),
    "Condition of a reader": reader_condition,
}

#: The operations that acquire, or release, once; the others do both, or none.
ACQUIRES = {
    name
    for name in OPERATIONS
    if "acquire" in name or name in ("adopt", "hand-over to it", "try a busy lock")
}
RELEASES = {name for name in OPERATIONS if "release" in name or name == "detach"}


def change(name: str, result: object, error: BaseException | None) -> int:
    """By how much an operation that ended so has changed the hold count of its lock."""
    if name in ACQUIRES:
        return int(result is True)
    not_held = type(error) in (rlock.NotHeldError, RuntimeError)  # of Condition.wait
    if name in RELEASES:
        return 0 if not_held else -1
    return int(not_held)  # a `with` block whose release came too late
