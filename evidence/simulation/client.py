"""One simulated client: the engine of `rlock/_client/engine.py`, in virtual time.

What is added: the referee is told who has the lock; a thread may be kept from running behind each call;
processes are killed. Replies are read only while some thread of the client waits for a round: a vote that
comes after its round was decided lies unread until the next one. Messages are read only while some thread is
parked or subscribes, and now and then by the one that keeps house.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar, cast

from rlock._client import calls, subscriptions, watchdog
from rlock._client.connection import MasterConnection, PendingReply
from rlock._client.connections import Wiring
from rlock._client.engine import Engine
from rlock.errors import LeaseLostError, QuorumUnreachableError, RLockError
from rlock.model import Code
from rlock.procedures.acquire import AT_ONCE, FOR_EVER, acquire
from rlock.procedures.contender import Contender
from rlock.procedures.inspect import evict, locked
from rlock.procedures.port import Request, WaitGenerator, Wake
from rlock.procedures.release import Released
from rlock.procedures.renew import RenewalOutcome
from rlock.rules import scripts
from rlock.rules.handles import Handle
from rlock.rules.holds import Hold, OwnerKey
from rlock.rules.keys import hold_name
from rlock.rules.lease import LeaseEvent
from rlock.rules.options import ClientOptions, LockOptions
from rlock.rules.quorum import Ballot
from rlock.rules.timing import drift, guard_time

from .connections import Connection, Connections
from .events import Process, Program, Runtime, Thread, Wait, Way, sleep
from .referee import valid_for
from .traces import leases

if TYPE_CHECKING:
    from .world import World

T = TypeVar("T")
#: The functions before and behind which another thread may run, by the part of the client.
SWITCHED = {
    "calls": ("send", "start", "read_arrived"),
    "subscriptions": ("unsubscribe",),
    "": ("admit", "finish", "give_back", "leave"),
}


class Calls(calls.Calls[Connection]):
    """One connection to each master."""

    _connections: Connections

    def __init__(self, client: Client, wiring: Wiring) -> None:
        super().__init__(wiring)
        self._client = client

    def call(self, request: Request) -> WaitGenerator[Ballot]:
        self._client.current.asked[request.command.script.name] += 1
        return (yield from self._client.kept_behind(self._judged(request)))

    def _judged(self, request: Request) -> WaitGenerator[Ballot]:
        """No vote counts of a memory that is too young for the longest lease that its client knows of."""
        ballot, guard, command = (yield from super().call(request)), self._guard, request.command
        if command.script is scripts.ACQUIRE and ballot.granted >= ballot.quorum:
            for i, vote in ballot.votes.items():
                age = self._clock() - guard._epochs[i].whole_from
                young = guard_time(self._client.options.max_ttl) < age < guard_time(guard.max_ttl)
                if vote.code == Code.YES and young:
                    what = "won by the vote of a memory that is too young"
                    self._client.world.referee.accuse(command.words[1], self._client.label, f"m{i}", what)
        place = command.by_sha()[6] if command.script is scripts.WAIT else ""
        if any(vote.holder and vote.holder in place for vote in ballot.votes.values()):
            self._client.world.happens("found", self._client, None, "")  # by a look: it was handed the lock
        return ballot

    def call_many(self, requests: Sequence[Request]) -> WaitGenerator[list[Ballot]]:
        yield from self._client.kept_waiting("decided")  # before what it decided on is sent
        return (yield from self._client.kept_behind(super().call_many(requests)))

    def collect(self, ballots: Sequence[Ballot], until: float = math.inf) -> WaitGenerator[None]:
        return (yield from self._client.kept_behind(super().collect(ballots, until)))

    def _post(self, server: MasterConnection[Connection], pending: PendingReply, packed: bytes) -> bool:
        recorder = self._client.world.recorder
        if recorder is not None:
            recorder.sends(pending.call, pending.command)
        if server.connection is not None:
            server.connection.unwritten = len(server.connection.pending)
        back = leases(pending.command) if pending.command.script is scripts.HEAL else []
        for hold in [hold for hold in self._client.holds if (hold.name, hold.owner) in back]:
            if valid_for(self._client, hold) <= 0.0:
                self._client.world.referee.accuse(hold.name, hold.owner, "", "put back behind its lease")
        return super()._post(server, pending, packed)


class Subscriptions(subscriptions.Subscriptions[Connection]):
    """One connection for messages to each master."""

    _connections: Connections

    def __init__(self, client: Client, wiring: Wiring, pass_on: Callable[[str, str, int], object]) -> None:
        super().__init__(wiring, pass_on)
        self._client = client

    def subscribe(self, contender: Contender, timeout: float) -> WaitGenerator[int]:
        return (yield from self._client.kept_behind(super().subscribe(contender, timeout)))

    def wait(self, contender: Contender, until: float) -> WaitGenerator[Wake]:
        return (yield from self._client.kept_behind(super().wait(contender, until)))

    def waiting(self, name: str) -> bool:
        found = self._by_name.get(name)
        return found is not None and next(found.drawn(), None) is not None


class Watchdog(watchdog.Watchdog):
    """One thread, as long as something is held."""

    def __init__(self, client: Client) -> None:
        super().__init__(client.holds, client.masters)
        self._client = client
        self._runs = False

    def _start(self) -> None:
        if not self._runs:
            self._runs = True
            client = self._client
            # Later, because the caller has the mutex.
            client.after(0.0, lambda: Thread(client, f"{client.label}/watchdog").start(self._run_gen()))

    def _apply(self, outcomes: Sequence[RenewalOutcome]) -> list[Hold]:
        lost = super()._apply(outcomes)
        if self._client.world.recorder is not None:
            self._client.world.recorder.renewed(outcomes)
        for hold, event, _ in outcomes:
            if event is LeaseEvent.FAILED:
                self._client.world.happens("suspect", self._client, None, hold.owner)
        return lost

    def report_loss(self, hold: Hold, reason: str = "", cause: str = "") -> None:
        self._client.world.on_lost(self._client, hold)
        super().report_loss(hold, reason, cause)

    def _ended(self) -> None:
        self._runs = False

    def _failed(self, error: BaseException) -> None:
        raise error  # a real client would log it, and hide a defect from the test

    def stop(self) -> None:
        self.stopped = True
        self._parker.wake()

    def _call_on_lost(self, on_lost: watchdog.OnLost, error: LeaseLostError) -> None:
        on_lost(error)


class Client(Process, Engine):
    """``offset`` and ``rate`` say how its clock runs: offset + rate x the time of the world."""

    def __init__(
        self, world: World, label: str, options: ClientOptions, joined: bool, offset: float, rate: float
    ) -> None:
        Process.__init__(self, world.events)
        self.world = world
        self.label = label
        self.options = options
        #: It has a longer lease than the fleet; it was stopped before; when it was killed.
        self.careless = self.was_stopped = False
        #: It is of a version that does not understand the message of a hand-off: CHANGELOG.md.
        self.older = False
        self.died_at = 0.0
        self._offset, self.rate = offset, rate
        replicas = [world.groups[i].configured if i in world.groups else None for i in range(world.masters)]
        endpoints = [SimpleNamespace(label=f"m{i}", replicas=k, tls=False) for i, k in enumerate(replicas)]
        Engine.__init__(self, endpoints, options, self._now, Runtime(self))
        # Each client has random numbers of its own, out of the seed: it goes on
        # as before without a step of another one.
        self.random: Random = world.dice(label)
        client_id = f"{self.random.getrandbits(64):016x}"
        self.context = replace(self.context, random=self.random, client_id=client_id, new_owner=world.token)
        time: Any = self.context.time
        time.note = partial(self._noted, time.note)
        #: There and back, for commands and for messages.
        self.ways: list[tuple[Way, Way]] = [(Way(), Way()) for _ in world.hosts]
        self.message_ways: list[tuple[Way, Way]] = [(Way(), Way()) for _ in world.hosts]
        self.current: Thread
        self.running: list[Thread] = []
        #: How often a thread is kept from running between two steps, and how long in the mean.
        self.kept = (0.0, 0.0)
        #: Only those of its threads that have this in their names; and until when some thread has been kept.
        self.kept_only, self.kept_until = "", 0.0
        self.switches = 0.0  # how often another thread runs before or behind something that waits for nothing
        parts = partial(Calls, self), partial(Subscriptions, self)
        self._compose(partial(Connections, self), lambda *_: Watchdog(self), *parts)
        self.calls: Calls = cast("Calls", self.masters)
        self.subscriptions: Subscriptions = cast("Subscriptions", self.notifications)
        self.commands, self.messages = self.calls._connections, self.subscriptions._connections
        self._threads = 0
        if joined:
            self.commands.join()

    def _now(self) -> float:
        return self._offset + self.rate * self.events.now

    def _noted(self, genuine: Callable[..., None], master: int, time_us: int, at: float) -> None:
        """A time that is wrong by more than the guard lasts may make a token lower than an earlier one."""
        genuine(master, time_us, at)
        host, now_us = self.world.named(master), time_us + (self.clock() - at) * 1e6
        if abs(host.time_us() - now_us) > 1.1e6 * self.options.max_ttl and not host.clock_ever_set:
            self.world.referee.accuse("", self.label, host.name, "takes an old time for that of its master")

    def lasts(self, seconds: float) -> float:
        """How long so many seconds of this client's clock are in the world."""
        return seconds / self.rate

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

    def may_switch(self, chance: float) -> None:
        """Let other threads run where real ones may be switched, and not only where they wait."""
        self.switches = chance
        for part, names in SWITCHED.items():
            of = getattr(self, part) if part else self
            for name in names:
                setattr(of, name, partial(self._switched, getattr(of, name)))

    def _switched(self, function: Callable[..., T], *words: Any, **how: Any) -> T:
        self._switch()
        answer = function(*words, **how)
        self._switch()
        return answer

    def _switch(self) -> None:
        if not self.switches or self.random.random() >= self.switches or self.dead:
            return
        if any(each._is_owned() for each in (self.calls._mutex, self.subscriptions._mutex, self.holds.mutex)):
            return  # others would have to wait for it
        self.pause(self.random.expovariate(1 / self.random.choice((0.002, 0.02))))

    def pause(self, seconds: float, *, first: bool = False) -> None:
        """Switch off the thread that runs, for so long and until its process runs; ``first``: before that."""
        current = self.current
        self.world.tell(f"{current.label} is switched off")
        self.kept_until = max(self.kept_until, self.events.now + seconds)
        self.world.meanwhile(seconds, lambda: first or self.dead or not self.stopped)
        self.current = current
        if current.runs and current.over:
            raise GeneratorExit  # killed meanwhile
        self.world.tell(f"{current.label} goes on")

    def thread(self) -> Thread:
        self._threads += 1
        return Thread(self, f"{self.label}/t{self._threads - 1}")

    def begin(self, program: Program, label: str = "") -> Thread:
        """A thread of its own runs this, as soon as the process runs, and no master runs a command."""
        thread = Thread(self, f"{self.label}/{label}") if label else self.thread()
        self.after(0.0, lambda: thread.start(program))
        return thread

    def kill(self) -> None:
        """Its kernel closes the connections, before anything in it could be undone."""
        super().kill()
        self.holds.closed = True
        self.died_at = self.events.now
        self.commands.close()
        self.messages.close()
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
        if self.holds.again(key, options):
            return self.holds.find(key, options.hold_name)
        contender = Contender(key, options, until, self.clock(), self.holds.beside(key, options))
        try:
            got = self.finish(contender, got=(yield from acquire(self, contender)))
        except BaseException as error:
            self.give_back(contender, error)
            raise
        if not got:
            return None
        hold = self.holds.find(key, options.hold_name)
        if self.holds.closed:
            raise RLockError("closed behind the grant")
        assert hold is not None
        if self.switches and self.holds.remaining(hold) <= 0.0:
            return hold  # as if it had been stopped right behind the acquire
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
        elif outcome is Released.DONE:
            self.world.referee.confirm(hold)
        return outcome

    def closing(self) -> Program:
        """Close, as a process that ends in good order: its other threads go on for a moment."""
        yield from self._close_gen()
        self.world.happens("closed", self, None, "")
        self.events.after(self.random.choice((0.0, 0.1)), self.kill)

    def trying_once(
        self, name: str, waits_s: float = 0.0, held_s: float = 0.0, *, shared: bool = False
    ) -> Program:
        """Acquire, and give it back at once or after a while."""
        options = LockOptions(name, self.options.lease(None), fair=shared, shared=shared)
        with suppress(QuorumUnreachableError, LeaseLostError, KeyboardInterrupt):
            until = self.clock() + waits_s if waits_s else AT_ONCE
            hold = yield from self.locking(self.current, options, until)
            if hold is not None:
                if held_s:
                    yield from sleep(held_s)
                yield from self.unlocking(hold)

    def curious(self, name: str) -> Program:
        """Ask a few times whether somebody may hold a lock; the referee checks that "no" is true."""
        for _ in range(3):
            try:
                held, began = self.world.referee.held(name), self.events.now
                if not (yield from locked(self.masters, name, self.timeout)):
                    self.world.referee.free(self, name, held, self.events.now - began)
                yield from sleep(self.random.uniform(0.0, 0.5))
            except (RLockError, KeyboardInterrupt) as error:
                if type(error) is RLockError and not self.holds.closed:
                    raise
                if isinstance(error, QuorumUnreachableError) and not error.faults:
                    self.world.referee.accuse(name, self.label, "", "told nobody why it could not answer")

    def evict(self, name: str) -> Program:
        with suppress(RLockError, KeyboardInterrupt):  # the operator has to come again
            yield from evict(self.masters, name, self.timeout)
