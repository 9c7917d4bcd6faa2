"""One simulated client: `rlock/_sync/engine.py`, in virtual time.

The lease table, the undo, what is passed on and what is forgotten are the real code; `acquire` and `release`
are written again as programs, because they block.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, ClassVar

from rlock._sync.engine import Engine
from rlock._sync.turnstile import LOOK_S, Turn, Turnstile
from rlock._sync.watchdog import REASONS
from rlock.errors import LeaseLostError, QuorumUnreachableError
from rlock.model import LeaseState
from rlock.procedures.acquire import AT_ONCE, FOR_EVER
from rlock.procedures.inspect import evict
from rlock.procedures.release import Released, inherited, may_barge, outcome, release
from rlock.procedures.steps import Terms
from rlock.rules.guard import Guard
from rlock.rules.holds import Hold, Holds
from rlock.rules.keys import token_of
from rlock.rules.lease import LeaseEvent
from rlock.rules.options import ClientOptions, LockOptions
from rlock.rules.places import Bequest
from rlock.rules.quorum import Ballot

from .driver import Bench, Driver, Program, Thread, Wait, Waits, sleep
from .events import Process, Way
from .fanout import Fanout
from .listener import Listener
from .watchdog import Watchdog

if TYPE_CHECKING:
    from .world import World


class Gate(Turnstile):
    """Of the threads that want one lock in default mode, one talks to the masters; the others wait."""

    def __init__(self) -> None:
        super().__init__()
        self._bench = Bench()

    def entering(self, turn: Turn, timeout: float) -> Waits[bool]:
        """As `enter`."""
        with self._mutex:
            line = self._lines.get(turn.name)
            first = line is None
            if line is not None:
                line.waiting.append(turn)
                self._advance(line)
        if first:
            return self.enter(turn, timeout)
        while not self._is_first(turn):
            if timeout <= 0:
                return False
            yield Wait(min(timeout, LOOK_S), self._bench, lambda: self._is_first(turn))
            timeout -= LOOK_S
            if (line := self._lines.get(turn.name)) is not None:
                with self._mutex:
                    self._advance(line)
        return True

    def leave(self, turn: Turn) -> None:
        super().leave(turn)
        self._bench.poke()


class Client(Process, Engine):
    """``offset`` and ``rate`` say how its clock runs: offset + rate x the time of the world."""

    holding: ClassVar[set[Engine]] = set()

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
        self.clock = self._now
        self.numbers = itertools.count(1)
        self.ways = [(Way(), Way()) for _ in world.hosts]
        self.current: Thread
        self.running: list[Thread] = []
        #: How often a thread is kept from running between two steps, and how long in the mean.
        self.kept = (0.0, 0.0)
        masters = [f"m{i}" for i in range(len(world.hosts))]
        guard = Guard(masters, options.max_ttl, options.restart_guard)
        self.terms = Terms(masters, self.clock, world.random, guard, f"{world.random.getrandbits(64):016x}")
        timeout = options.lease(None).request_timeout
        self.mutex = world.mutex
        self.holds = Holds()
        self.closed = False
        self.fanout = self._fanout = Fanout(self, timeout)
        self.listener = self._listener = Listener(self, timeout)
        self.driver = self._driver = Driver(self)
        self.gate = Gate()
        self.watchdog = self._watchdog = Watchdog(self)
        self._asking = {}
        self._releasing = {}
        self._threads = 0
        if joined:
            self.fanout.join()

    def _now(self) -> float:
        return self._offset + self._rate * self.events.now

    def lasts(self, seconds: float) -> float:
        """How long so many seconds of this client's clock are in the world."""
        return seconds / self._rate

    def kept_waiting(self) -> float:
        """For how long the thread that runs is kept from it."""
        chance, mean = self.kept
        if not chance or self.world.random.random() >= chance:
            return 0.0
        return self.world.random.expovariate(1 / mean)

    def glance(self, bench: Bench) -> None:
        """A thread has begun to wait: it reads what has lain there unread."""
        serve = {self.fanout.bench: self.fanout.arrived, self.listener.bench: self.listener.arrived}
        if bench in serve:
            self.after(0.0, serve[bench])

    def thread(self) -> Thread:
        self._threads += 1
        return Thread(self, f"{self.label}/t{self._threads - 1}")

    def kill(self) -> None:
        """Its kernel closes the connections."""
        super().kill()
        self.closed = True
        for roster in (self.fanout.roster, self.listener.roster):
            roster.close()
        for thread in list(self.running):
            thread.end()

    # -- acquire and release, as programs ----------------------------------------------------------------

    def acquiring(self, thread: Thread, options: LockOptions, until: float = FOR_EVER) -> Waits[Hold | None]:
        """As `Engine.acquire`. Answer: the hold, or None. ``until`` by the client's clock."""
        key, name = thread.key, options.name
        hold = self.holds.find(key, name)
        if hold is not None:
            if hold.lease.look(self.clock()) is LeaseState.LOST:
                raise LeaseLostError(name, hold.reason)
            hold.count += 1
            return hold
        if until == AT_ONCE:
            got = not self.holds.taken(name, self.clock()) and (
                yield from self._contending(thread, options, until)
            )
        elif options.fair:
            got = yield from self._contending(thread, options, until)
        else:
            got = yield from self._in_turn(thread, options, until)
        if not got:
            return None
        hold = self.holds.find(key, name)
        assert hold is not None
        self.world.referee.enter(self, hold)
        return hold

    def _in_turn(self, thread: Thread, options: LockOptions, until: float) -> Waits[bool]:
        turn = Turn(options.name)
        try:
            if (yield from self.gate.entering(turn, until - self.clock())):
                return (yield from self._contending(thread, options, until))
        finally:
            turn.over = True
            self.gate.leave(turn)
        return not self.fanout.reachable and (yield from self._contending(thread, options, AT_ONCE))

    def _contending(self, thread: Thread, options: LockOptions, until: float) -> Waits[bool]:
        with self.mutex:
            if options.renew:
                self.watchdog.ensure()
        yield from self.fanout.meeting()
        asked: list[str] = []
        try:
            return (yield from self.driver.performing(self._take(thread.key, options, until, asked)))
        except GeneratorExit:
            raise
        except BaseException:
            hold = self.holds.find(thread.key, options.name)
            if hold is not None and hold.owner in asked:
                self._forget(hold)
            self._take_back(options, asked)
            raise

    def releasing(self, hold: Hold) -> Waits[Released | None]:
        """As `Engine.release_hold`. Answer: what became of it; None: it is held on. Raises after a loss."""
        left = hold.count - 1
        if left == 0:
            self.world.referee.leave(hold)
        try:
            with self.mutex:
                lost = hold.lease.look(self.clock()) is LeaseState.LOST
                reason = hold.reason
                hold.count = left
                if left == 0:
                    self._remove(hold)
                    hold.lease.on(LeaseEvent.RELEASE)
                    if not lost:
                        self._releasing[hold.owner] = hold
                        if hold.waiter:
                            self.driver.finished.append(token_of(hold.waiter))
            if lost:
                self.watchdog.report(hold, reason)
                raise LeaseLostError(hold.name, reason)
            if left:
                return None
            released: Released = yield from self._giving_up(hold)
        except GeneratorExit:
            raise
        except BaseException:
            if left == 0:
                self._forget(hold)
            raise
        finally:
            self._releasing.pop(hold.owner, None)
        if released is Released.NOT_OURS:
            self.watchdog.report(hold, REASONS[LeaseEvent.DISOWNED])
            raise LeaseLostError(hold.name, REASONS[LeaseEvent.DISOWNED])
        if released is Released.DONE:
            self.world.referee.confirm(hold)
        return released

    def _giving_up(self, hold: Hold) -> Waits[Released]:
        heir = self.listener.heir(hold.name)
        successor = "" if heir is None else self.world.token(heir.label)
        procedure = release(
            self.terms,
            hold.name,
            hold.owner,
            hold.options.lease,
            waiter=hold.waiter,
            heir=heir,
            successor=successor,
            barging=may_barge(hold, heir),
        )
        ballot: Ballot | None = None
        given = False
        try:
            ballot = yield from self.driver.performing(procedure)
            tokens = [] if heir is None else inherited(ballot)
            if heir is not None and len(tokens) >= ballot.quorum:
                bequest = Bequest(successor, ballot.sent_at, hold.hops + 1, tokens)
                given = self.listener.bequeath(heir, bequest)
        finally:
            if heir is not None and not given:
                self._disinherit(heir, successor, ballot)
        return outcome(self.terms, ballot)

    def evict(self, name: str) -> Program:
        """An operator's removal of whoever holds a lock."""
        try:
            yield from self.driver.performing(evict(self.terms, name, self.fanout._timeout))
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
        hold: Any = yield from client.acquiring(thread, options)
        yield from sleep(hold_s)
        yield from client.releasing(hold)
        yield from sleep(pause_s)
