"""One simulated client: its holds, its releases and its watchdog, as `rlock/_sync/engine.py` has them."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

from rlock.errors import LeaseLostError
from rlock.model import LeaseState
from rlock.procedures import acquire as acquiring
from rlock.procedures.acquire import FOR_EVER
from rlock.procedures.release import Released, gave_heir, inherited, may_barge, outcome, release
from rlock.procedures.renew import renew
from rlock.procedures.steps import Procedure, Tell, Terms
from rlock.rules import scripts
from rlock.rules.holds import Due, Hold, Holds, OwnerKey, Pulse
from rlock.rules.keys import token_of, waiter_name
from rlock.rules.lease import LeaseEvent
from rlock.rules.options import LockOptions
from rlock.rules.places import Bequest
from rlock.rules.timing import CLAIM_S

from .driver import Enter, Perform, Program, Sleep, Thread
from .events import Action, Process
from .fanout import Fanout
from .listener import Listener

if TYPE_CHECKING:
    from .world import World


class Gate:
    """Of the threads that want one lock in default mode, one talks to the masters; the others wait."""

    def __init__(self) -> None:
        self._lines: dict[str, deque[Action]] = {}

    def enter(self, name: str, go_on: Action) -> bool:
        """Whether the way is free now; if not, ``go_on`` is called when it is."""
        if name not in self._lines:
            self._lines[name] = deque()
            return True
        self._lines[name].append(go_on)
        return False

    def leave(self, name: str) -> None:
        if self._lines[name]:
            self._lines[name].popleft()()
        else:
            del self._lines[name]


class Client(Process):
    """``offset`` and ``rate`` say how its clock runs: offset + rate x the time of the world."""

    def __init__(self, world: World, label: str, *, offset: float = 0.0, rate: float = 1.0) -> None:
        super().__init__(world.events)
        self.world = world
        self.label = label
        self._offset, self._rate = offset, rate
        masters = [f"m{i}" for i in range(len(world.hosts))]
        self.terms = Terms(masters, self.clock, world.random, f"{world.random.getrandbits(64):016x}")
        self.fanout = Fanout(self)
        self.listener = Listener(self)
        self.gate = Gate()
        self.holds = Holds()
        self.finished: deque[str] = deque(maxlen=64)
        self._keys: dict[Thread, tuple[OwnerKey, Pulse]] = {}

    def clock(self) -> float:
        return self._offset + self._rate * self.events.now

    def lasts(self, seconds: float) -> float:
        """How long so many seconds of this client's clock are in the world."""
        return seconds / self._rate

    def thread(self) -> Thread:
        thread = Thread(self, f"{self.label}/t{len(self._keys)}")
        pulse = Pulse()
        self._keys[thread] = OwnerKey(thread.label, pulse), pulse
        return thread

    def kill(self) -> None:
        super().kill()
        self.listener.hang_up()

    # -- acquire and release, as programs ----------------------------------------------------------------

    def acquire(self, thread: Thread, options: LockOptions, until: float = FOR_EVER) -> Program:
        """Answer: a `Hold`, or None."""
        if not options.fair and until > acquiring.AT_ONCE:
            yield Enter(options.name)
        hold = yield Perform(self._take(thread, options, until))
        if not options.fair and until > acquiring.AT_ONCE:
            self.gate.leave(options.name)
        if hold is not None:
            self.world.referee.enter(self, hold)
        return hold

    def _take(self, thread: Thread, options: LockOptions, until: float) -> Procedure[Hold | None]:
        asked: list[str] = []
        key = self._keys[thread][0]
        while True:
            grant = yield from acquiring.acquire(self.terms, options, key.label, until, asked)
            if grant is None:
                return None
            hold = Hold(key, options, grant.owner, grant.sent_at, waiter=grant.waiter, hops=grant.hops)
            if hold.lease.look(self.clock()) is LeaseState.HELD:
                self.holds.add(hold)
                self._watch(hold)
                return hold
            for owner in asked:
                waiter = waiter_name(owner, self.terms.station)
                command = scripts.release(options.name, owner, waiter=waiter, publish=False)
                self.fanout.tell(Tell(command, owed_for=options.lease.ttl))
            asked.clear()

    def release(self, hold: Hold) -> Program:
        """Answer: what became of it. Raises `LeaseLostError` if it was lost before."""
        self.world.referee.leave(hold)
        lost = hold.lease.look(self.clock()) is LeaseState.LOST
        self.holds.remove(hold)
        if lost:
            raise LeaseLostError(hold.name, hold.reason)
        hold.lease.on(LeaseEvent.RELEASE)
        self.finished.append(token_of(hold.waiter))
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
        ballot = yield Perform(procedure)
        given = False
        if heir is not None and inherited(ballot) >= ballot.quorum:
            given = self.listener.bequeath(heir, Bequest(successor, ballot.sent_at, hold.hops + 1))
        if heir is not None and not given and (maybe := gave_heir(ballot, len(self.terms.masters))):
            undo = scripts.release(hold.name, successor)
            self.fanout.tell(Tell(undo, maybe, owed_for=heir.lease_ms / 1000))
        released: Released = outcome(self.terms, ballot)
        return released

    def pass_on(self, name: str, token: str) -> None:
        """Give on at once what was handed to one of ours that has gone."""
        waiter = waiter_name(token, self.terms.station)
        if token in self.finished or any(hold.owner == token for hold in self.holds):
            return
        hand_on = all(hold.waiter != waiter for hold in self.holds)
        self.fanout.tell(Tell(scripts.release(name, token, waiter=waiter, hand_on=hand_on), owed_for=CLAIM_S))

    # -- the watchdog ------------------------------------------------------------------------------------

    def _watch(self, hold: Hold) -> None:
        due = hold.renew_at
        if hold.due is not Due.END:
            self.after(self.lasts(due - self.clock()), partial(self._look_after, hold, due))

    def _look_after(self, hold: Hold, due: float) -> None:
        if hold not in self.holds or hold.renew_at != due or hold.lease.look(self.clock()) is LeaseState.LOST:
            return

        def renewing() -> Program:
            (renewal,) = yield Perform(renew(self.terms, [hold]))
            if hold not in self.holds:
                return
            lease, event = hold.lease, renewal.event
            if event is LeaseEvent.RENEWED:
                state = lease.renewed(renewal.sent_at, self.clock())
            else:
                lease.look(self.clock())
                state = lease.on(event, "renewal")
            if state in (LeaseState.HELD, LeaseState.SUSPECT):
                hold.schedule(Due.RENEW if state is LeaseState.HELD else Due.RETRY, renewal.sent_at)
                self._watch(hold)

        Thread(self, f"{self.label}/watchdog").start(renewing())


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
        hold: Any = yield from client.acquire(thread, options)
        yield Sleep(hold_s)
        yield from client.release(hold)
        yield Sleep(pause_s)
