"""One simulated client: the engine of `rlock/_client/engine.py`, in virtual time.

What is added: the referee is told who has the lock; a thread may be kept from running; processes are killed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from rlock._client import local_queue
from rlock._client.engine import Engine
from rlock._client.waits import Waits
from rlock.errors import QuorumUnreachableError
from rlock.procedures.acquire import FOR_EVER
from rlock.procedures.attempt import Asked
from rlock.procedures.inspect import evict, locked
from rlock.procedures.release import Released
from rlock.rules.holds import Hold, OwnerKey
from rlock.rules.options import ClientOptions, LockOptions

from .calls import Calls
from .driver import Bench, Driver, Program, Thread, Wait, sleep
from .events import Process, Way
from .subscriptions import Subscriptions
from .watchdog import Watchdog

if TYPE_CHECKING:
    from .world import World

T = TypeVar("T")


class LocalTurn(local_queue.LocalTurn):
    """A thread's place in a line."""

    __slots__ = ("_bench", "_stirred")

    _bench: Bench
    _stirred: bool

    def prepare(self) -> None:
        self._bench = Bench()
        self._stirred = False

    def stir(self) -> None:
        self._stirred = True
        self._bench.poke()

    def sleeping(self, timeout: float) -> Waits[None]:
        if not self._stirred:
            yield Wait(timeout, self._bench, lambda: self._stirred)
        self._stirred = False


class Client(Process, Engine):
    """``offset`` and ``rate`` say how its clock runs: offset + rate x the time of the world."""

    def __init__(
        self,
        world: World,
        label: str,
        options: ClientOptions | None = None,
        *,
        offset: float = 0.0,
        rate: float = 1.0,
        joined: bool = True,
    ) -> None:
        Process.__init__(self, world.events)
        options = options or ClientOptions()
        self.world = world
        self.label = label
        self._offset, self._rate = offset, rate
        Engine.__init__(self, [f"m{host.index}" for host in world.hosts], options, self._now)
        # What an engine leaves to chance comes out of the seed here.
        self.context = replace(
            self.context, random=world.random, client_id=f"{world.random.getrandbits(64):016x}"
        )
        self.ways = [(Way(), Way()) for _ in world.hosts]
        self.current: Thread
        self.running: list[Thread] = []
        #: How often a thread is kept from running between two steps, and how long in the mean.
        self.kept = (0.0, 0.0)
        timeout = options.lease(None).request_timeout
        self.calls = self._calls = Calls(self, timeout)
        self.subscriptions = self._subscriptions = Subscriptions(self, timeout)
        self._driver = Driver(self)
        self._watchdog = Watchdog(self)
        self._timeout = timeout
        self._threads = 0
        if joined:
            self.calls.connections.join()

    def _now(self) -> float:
        return self._offset + self._rate * self.events.now

    def lasts(self, seconds: float) -> float:
        """How long so many seconds of this client's clock are in the world."""
        return seconds / self._rate

    def kept_waiting(self) -> Waits[None]:
        """The thread that runs may be kept from it for a while."""
        chance, mean = self.kept
        if chance and self.world.random.random() < chance:
            yield Wait(self.world.random.expovariate(1 / mean))

    def kept_behind(self, program: Waits[T]) -> Waits[T]:
        """The same, behind a program, whatever ends that."""
        try:
            answer = yield from program
        except (Exception, KeyboardInterrupt):
            yield from self.kept_waiting()
            raise
        yield from self.kept_waiting()
        return answer

    def thread(self) -> Thread:
        self._threads += 1
        return Thread(self, f"{self.label}/t{self._threads - 1}")

    def kill(self) -> None:
        """Its kernel closes the connections, before anything in it could be undone."""
        super().kill()
        self.closed = True
        for connections in (self.calls.connections, self.subscriptions.connections):
            connections.close()
        for thread in list(self.running):
            thread.end()

    def key(self) -> OwnerKey:
        return self.current.key

    def _turn(self, name: str) -> LocalTurn:
        return LocalTurn(name)

    def _holding(self) -> None: ...

    # -- what threads do, under the eyes of the referee --------------------------------------------------

    def locking(self, thread: Thread, options: LockOptions, until: float = FOR_EVER) -> Waits[Hold | None]:
        """Acquire, as `Engine.acquire` of rlock/_sync; the hold, or None. ``until`` by the client's clock."""
        key = thread.key
        hold = self.holds.find(key, options.name)
        if hold is not None:
            self.nested(hold)
            return hold
        asked = Asked()
        try:
            got = yield from self.acquiring(key, options, until, asked)
        except BaseException as error:
            self.give_back(key, options, asked, error)
            raise
        if not got:
            return None
        hold = self.holds.find(key, options.name)
        assert hold is not None
        self.world.referee.enter(self, hold)
        return hold

    def unlocking(self, hold: Hold) -> Waits[None]:
        """Release. Raises `LeaseLostError` after a loss."""
        if hold.count == 1:
            self.world.referee.leave(hold)
        yield from self.releasing(hold, hold.count - 1)

    def _giving_up(self, hold: Hold) -> Waits[tuple[Released, bool]]:
        released, handed = yield from super()._giving_up(hold)
        if released is Released.DONE:
            self.world.referee.confirm(hold)
        return released, handed

    def looking(self, name: str) -> Waits[bool]:
        """Whether somebody may hold a lock; the referee checks that "no" is true."""
        held = self.world.referee.held(name)
        answer = yield from self.performing(locked(self.context, name, self._timeout))
        if not answer:
            self.world.referee.free(name, held)
        return answer

    def evict(self, name: str) -> Program:
        """An operator's removal of whoever holds a lock."""
        try:
            yield from self.performing(evict(self.context, name, self._timeout))
        except (QuorumUnreachableError, KeyboardInterrupt):
            pass  # the operator has to come again


def cycle(
    client: Client,
    thread: Thread,
    options: LockOptions,
    *,
    hold_s: float,
    pause_s: float = 0.0,
    times: int = 1,
) -> Program:
    """A program: so many times acquire, hold and release."""
    for _ in range(times):
        hold: Any = yield from client.locking(thread, options)
        yield from sleep(hold_s)
        yield from client.unlocking(hold)
        yield from sleep(pause_s)
