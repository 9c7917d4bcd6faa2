"""One simulated client: the engine of `rlock/_client/engine.py`, in virtual time.

What is added: the referee is told who has the lock; a thread may be kept from running; processes are killed.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

from rlock._client.engine import Engine
from rlock.errors import LeaseLostError, QuorumUnreachableError, RLockError
from rlock.procedures.acquire import AT_ONCE, FOR_EVER, acquire
from rlock.procedures.contender import Contender
from rlock.procedures.inspect import evict, locked
from rlock.procedures.port import WaitGenerator
from rlock.procedures.release import Released
from rlock.rules.handles import Handle
from rlock.rules.holds import Hold, OwnerKey
from rlock.rules.keys import hold_name
from rlock.rules.options import ClientOptions, LockOptions
from rlock.rules.timing import drift

from .calls import Calls, Subscriptions
from .connections import Connections, Endpoint
from .driver import Program, Runtime, Thread, Wait, sleep
from .events import Process, Way
from .referee import valid_for
from .watchdog import Watchdog

if TYPE_CHECKING:
    from .world import World

T = TypeVar("T")


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
        self.options = options
        #: It has a longer lease than the fleet; it was stopped before; when it was killed.
        self.careless = self.was_stopped = False
        #: It is of a version that does not understand the message of a hand-off: CHANGELOG.md.
        self.older = False
        self.died_at = 0.0
        self._offset, self._rate = offset, rate
        groups = {i: group.configured for i, group in world.groups.items()}
        endpoints = [Endpoint(f"m{host.index}", groups.get(i)) for i, host in enumerate(world.hosts)]
        Engine.__init__(self, endpoints, options, self._now, Runtime(self))
        # Each client has random numbers of its own, out of the seed: it goes on
        # as before without a step of another one.
        self.random: Random = world.dice(label)
        self.context = replace(
            self.context,
            random=self.random,
            client_id=f"{self.random.getrandbits(64):016x}",
            new_owner=world.token,
        )
        #: There and back, for commands and for messages.
        self.ways: list[tuple[Way, Way]] = [(Way(), Way()) for _ in world.hosts]
        self.message_ways: list[tuple[Way, Way]] = [(Way(), Way()) for _ in world.hosts]
        self.current: Thread
        self.running: list[Thread] = []
        #: How often a thread is kept from running between two steps, and how long in the mean.
        self.kept = (0.0, 0.0)
        #: Only those of its threads that have this in their names; and until when some thread has been kept.
        self.kept_only, self.kept_until = "", 0.0
        wiring = self._wiring(partial(Connections, self))
        self.calls, self.subscriptions = Calls(self, wiring), Subscriptions(self, wiring)
        self._compose(self.calls, self.subscriptions, lambda *_: Watchdog(self))
        self._threads = 0
        if joined:
            self.calls.connections.join()

    def _now(self) -> float:
        return self._offset + self._rate * self.events.now

    def lost_in_a_million(self) -> int:
        """The ticks of a million that its clock loses."""
        return max(0, round((1 - self._rate) * 1e6))

    def lasts(self, seconds: float) -> float:
        """How long so many seconds of this client's clock are in the world."""
        return seconds / self._rate

    def kept_waiting(self, where: str = "kept") -> WaitGenerator[None]:
        """The thread that runs may be kept from it for a while; ``where``: the event."""
        chance, mean = self.kept
        if chance and self.kept_only in self.current.label and self.random.random() < chance:
            seconds = self.random.expovariate(1 / mean)
            self.kept_until = max(self.kept_until, self.events.now + self.lasts(seconds))
            self.world.happens(where, self, None, "")
            yield Wait(seconds)

    def kept_behind(self, program: WaitGenerator[T]) -> WaitGenerator[T]:
        """The same, behind a program, whatever ends that."""
        try:
            answer = yield from program
        except (Exception, KeyboardInterrupt):
            yield from self.kept_waiting()
            raise
        yield from self.kept_waiting()
        return answer

    def slow_down(self, dice: Random) -> None:
        """Masters answer within the request time-out, some of them nearly too late."""
        slow = dice.choice((0.3, 0.45, 0.6, 0.9))
        for there, back in (*self.ways, *self.message_ways):
            there.extra = back.extra = dice.choice((0.0, 1.0, 1.0)) * slow * self.timeout / 2

    def thread(self) -> Thread:
        self._threads += 1
        return Thread(self, f"{self.label}/t{self._threads - 1}")

    def kill(self) -> None:
        """Its kernel closes the connections, before anything in it could be undone."""
        super().kill()
        self.holds.closed = True
        self.died_at = self.events.now
        for connections in (self.calls.connections, self.subscriptions.connections):
            connections.close()
        for thread in list(self.running):
            thread.end()

    def go_on(self) -> None:
        """As by SIGCONT, in any order."""
        if self.stopped and not self.dead:
            self.resume(self.random)

    def key(self) -> OwnerKey:
        return self.current.key

    def _holding(self) -> None: ...

    def locking(
        self, thread: Thread, options: LockOptions, until: float = FOR_EVER
    ) -> WaitGenerator[Hold | None]:
        """Acquire, as `Engine.acquire` of rlock/_sync; the hold, or None. ``until`` by the client's clock."""
        key = thread.key
        hold = self.holds.find(key, options.hold_name)
        if hold is not None and self.holds.nested(hold):
            return hold
        contender = Contender(key, options, until, self.clock(), self.holds.beside(key, options))
        try:
            got = self.finish(contender, got=(yield from acquire(self, contender)))
        except BaseException as error:
            self.give_back(contender, error)
            raise
        if not got:
            return None
        hold = self.holds.find(key, options.hold_name)
        assert hold is not None
        if hold.writer is None or not options.shared:
            self.world.referee.enter(self, hold)
        else:
            self.world.referee.reads_on(hold, hold.writer)
        return hold

    def unlocking(self, hold: Hold) -> WaitGenerator[None]:
        """Release. Raises `LeaseLostError` after a loss."""
        if hold.count == 1 and hold.writer is None:
            self.world.referee.leave(hold)
            reader = self.holds.find(hold.owner_key, hold_name(hold.name, shared=True))
            if reader is not None and reader.writer is hold and valid_for(self, reader) > 0.0:
                self.world.referee.enter(self, reader)
        yield from self.release_gen(hold)

    def prepare(self, contender: Contender) -> WaitGenerator[None]:
        yield from super().prepare(contender)
        yield from self.kept_waiting()

    def _give_up(self, hold: Hold, handle: Handle | None) -> WaitGenerator[Released]:
        yield from self.kept_waiting()
        began, rest = self.events.now, 0.0 if handle else hold.rest(self.clock())
        if rest:
            self.world.referee.kept[hold.owner] = (hold.name, began + rest)
        outcome = yield from super()._give_up(hold, handle)
        if outcome is Released.DONE and rest:
            self.world.referee.keep(hold, began + rest - drift(rest))
        elif outcome in (Released.DONE, Released.HANDED):
            self.world.referee.confirm(hold)
        return outcome

    def closing(self) -> Program:
        """Close, as a process that ends in good order: its other threads go on for a moment."""
        yield from self._close_gen()
        self.world.happens("closed", self, None, "")
        self.events.at(self.events.now + self.random.choice((0.0, 0.1)), self.kill)

    def trying_once(self, options: LockOptions, waits_s: float) -> Program:
        """Acquire, and give it back at once."""
        try:
            until = self.clock() + waits_s if waits_s else AT_ONCE
            hold = yield from self.locking(self.current, options, until)
            if hold is not None:
                yield from self.unlocking(hold)
        except (QuorumUnreachableError, LeaseLostError, KeyboardInterrupt):
            pass

    def looking(self, name: str) -> WaitGenerator[bool]:
        """Whether somebody may hold a lock; the referee checks that "no" is true."""
        held, began = self.world.referee.held(name), self.events.now
        answer = yield from locked(self.masters, name, self.timeout)
        if not answer:
            self.world.referee.free(name, held, self.events.now - began)
        return answer

    def curious(self, name: str) -> Program:
        """Look a few times."""
        for _ in range(3):
            try:
                yield from self.looking(name)
                yield from sleep(self.random.uniform(0.0, 0.5))
            except (QuorumUnreachableError, KeyboardInterrupt):
                pass

    def evict(self, name: str) -> Program:
        try:
            yield from evict(self.masters, name, self.timeout)
        except (RLockError, KeyboardInterrupt):
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
