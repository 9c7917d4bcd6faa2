"""Play a schedule: its fleet, its clients at work, what goes wrong, and all that was promised and not kept.

1. No two valid leases of one lock overlap, and nobody believes in one that another owner had since.
2. Fencing tokens grow from each holder to the next.
3. When the faults have ended, everybody who waits gets the lock within `BOUND_S`, and all threads end.
4. Nothing is left on the masters but the last fencing tokens and the markers.
5. What was released and confirmed is on no quorum any more; what was evicted does not come back.
6. Nobody is refused for a lease that nobody got, for the age of an old memory, or where he has the lock.
7. No exception but those of rlock comes out of a call.
8. `oracles.py` has what is promised besides where less goes wrong.
"""

from __future__ import annotations

import gc
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from rlock.errors import LeaseLostError, QuorumUnreachableError, RLockError
from rlock.model import LeaseState
from rlock.procedures.acquire import AT_ONCE, FOR_EVER
from rlock.procedures.port import WaitGenerator
from rlock.rules.holds import Hold
from rlock.rules.keys import NOTE
from rlock.rules.options import LockOptions
from rlock.rules.timing import QUEUE_TTL_S, lease_ms

from .client import Client
from .events import Bench, Latency, Program, Thread, Wait, sleep
from .faults import ACTS, Nemesis
from .hands import change_kind, hand_over
from .hosts import EPOCH_US, Host
from .oracles import Oracles
from .recorder import Recorder
from .referee import Violation
from .repeated import REBIRTH_S
from .schedules import BUSY, FLEETS, HELD_UP_S, MORE_EVENTS, OPTIONS, SHORT_TTL, Schedule, Step
from .world import World

LOCKS = ("a", "{b}")
#: All threads of all clients have had all locks once more by then: a connection that fell silent is noticed
#: by TCP (11 s); a restart guard (1 s), a lease (1 s), the pause before a dead master is dialled again (2 s),
#: and a claim with the look after it for each waiter.
BOUND_S = 30.0
#: Done behind an event, with the client and the master of it.
Then = Callable[[Client | None, Host | None], object]
#: The options of one acquire: its random numbers, and the job of its thread.
Job = Callable[[Client, Thread], WaitGenerator[None]]


@dataclass
class Outcome:
    schedule: Schedule
    violations: list[Violation]
    states: set[int]  # abstract states of a lock that came up: see `Oracles.state`
    grants: int
    faults: Counter[str]
    history: list[str]

    def __str__(self) -> str:
        return f"seed {self.schedule.seed}: " + "; ".join(map(str, self.violations))


class Play:
    """One schedule that is being played."""

    def __init__(self, schedule: Schedule, *, history: bool = False, record: bool = False) -> None:
        self.schedule = schedule
        setup = self.setup = schedule.setup
        self.calm_s = schedule.calm_s
        dice = self.dice = Random(f"fleet {schedule.seed}")
        self.fleet = FLEETS[setup.fleet]
        self.world = World(
            setup.masters,
            schedule.seed,
            Latency(0.0005, setup.jitter),
            Latency(0.0005, setup.jitter / 10),
            skew=setup.skew,
            drift=0.004,
            max_ttl=max(options.max_ttl for options in self.fleet),
            replicas=setup.replicas,
            spare=setup.spare,
            may_kill=setup.may_kill,
        )
        self.world.history = [] if history else None
        self.locks = LOCKS[: setup.locks]
        self.threads: list[Thread] = []
        self.closers: list[Thread] = []
        self.jobs: dict[Thread, deque[Job]] = {}
        self.benches: dict[Thread, Bench] = {}
        #: Where those sit that hold a lock; the owners that are told to give it back.
        self._holding, self._told = Bench(), set[str]()
        self.busy, self.pause_s = setup.mode in BUSY, 1.0 if setup.mode == "leases" else 0.3
        self.over = False
        self._happened: Counter[str] = Counter()
        self._behind: dict[tuple[str, int], list[Then]] = {}  # what comes behind the n-th event of a kind
        for host in self.world.hosts:
            host.durable = dice.random() < setup.durable
            if record:
                # As in Lock.tla: the milliseconds of all masters begin together.
                host.skew, host.rate = round(host.skew, 3), 1.0
            self._past(host)
            if setup.ahead:
                host.had_tokens(self.locks, setup.ahead, dice, share=0.5 if setup.mode == "messages" else 1.0)
        if record:
            self.world.recorder = Recorder(self.world.hosts, self.locks, lease_ms(OPTIONS.ttl))
        self.oracles = Oracles(self)
        self.world.happens, self.world.on_lost = self._happens, self.oracles.lost
        for i in range(setup.clients):
            begins = 0.0 if setup.joined else dice.uniform(0.0, 0.5)
            self.world.events.at(begins, partial(self.join, Random(f"client {schedule.seed} {i}")))
        for step in schedule.steps:
            act = partial(self._do, step)
            if step.after:
                self.behind(step.after, step.nth, partial(self._later, step.at, act))
            else:
                self.world.events.at(step.at, partial(act, None, None))

    def _past(self, host: Host) -> None:
        """What has been before."""
        if self.setup.past == "new":
            host.master.forget()
        elif self.setup.past != "vouched":
            ahead_us = int(self.dice.uniform(5.0, 600.0) * 1e6) if self.setup.past == "ahead" else 0
            since_us = EPOCH_US + (ahead_us or -3_600_000_000)
            longest = 0 if self.setup.past == "unused" else self.world.max_ttl_ms
            host.master.write(NOTE, f"{host.term} {since_us} {longest}")
            host.clock_was_set = bool(ahead_us)

    # -- events and steps --------------------------------------------------------------------------

    def behind(self, what: str, nth: int, action: Then) -> None:
        """Do something behind the ``nth`` event of a kind from now on."""
        self._behind.setdefault((what, self._happened[what] + nth), []).append(action)

    def _happens(self, what: str, client: Client | None, host: Host | None, owner: str) -> None:
        self._happened[what] += 1
        for action in self._behind.pop((what, self._happened[what]), ()):
            action(client, host)
        self.oracles.see(what, client, host, owner)
        if what == "grant" and self.setup.mode == "leases" and self.world.referee.held(self.locks[0]):
            self._happens("rival", client, host, owner)
            holds = [hold for each in self.world.clients for hold in each.holds]
            if any(hold.lease.state is LeaseState.SUSPECT for hold in holds):
                self._happens("threat", client, host, owner)

    def _later(self, delay: float, act: Then, client: Client | None, host: Host | None) -> None:
        self.world.events.after(delay, partial(act, client, host))

    def _do(self, step: Step, actor: Client | None, there: Host | None) -> None:
        if self.over or self.world.events.now >= self.calm_s:
            return
        self.world.tell(f"STEP {step.what}")
        dice = Random(step.seed)
        if step.what == "take":
            self.take(dice)
        else:
            ACTS[step.what](Nemesis(self, dice, actor, there))

    # -- clients at work ---------------------------------------------------------------------------

    def join(self, dice: Random) -> Client:
        """A new client, with a thread or two."""
        options = dice.choice(self.fleet)
        rate, offset = 1 + dice.uniform(-0.005, 0.005), dice.uniform(0.0, 1000.0)
        client = self.world.client(options, joined=self.setup.joined, offset=offset, rate=rate)
        guard = client.context.guard
        guard.on_uncounted = partial(self.oracles.guarded, client, guard.on_uncounted)
        client.older = self.setup.older > 0.0 and dice.random() < self.setup.older
        client.kept, client.kept_only = (self.setup.pauses, 0.2), "watchdog"
        for there, _ in client.ways if self.setup.far else ():
            there.extra = dice.choice((0.1, 0.5, 1.0, 3.0)) if dice.random() < self.setup.far else 0.0
        for host, (there, _) in zip(self.world.hosts, client.ways, strict=True):
            if self.setup.cut_off and dice.random() < self.setup.cut_off:
                there.shut()
                Nemesis(self, dice).until(there.open, host=host)
        if self.setup.mode == "slow":  # masters answer within the time-out, some of them nearly too late
            slow = self.dice.choice((0.3, 0.45, 0.6, 0.9))
            for there, back in (*client.ways, *client.message_ways):
                there.extra = back.extra = self.dice.choice((0.0, 1.0, 1.0)) * slow * client.timeout / 2
        if self.setup.switches:
            client.may_switch(self.setup.switches)
        if self.setup.kills:
            self._kill_again(client)
        many = self.setup.mode == "races" or self.setup.switches > 0.0
        for _ in range(dice.choice((1, 2, 3) if many else (1, 1, 1, 2))):
            thread = client.thread()
            self.threads.append(thread)
            self.jobs[thread] = deque()
            self.benches[thread] = Bench()
            thread.start(self.until_closed(client, self.work(client, thread)))
        return client

    def _kill_again(self, client: Client) -> None:
        def kill() -> None:
            if not self.over and not client.dead:
                for connection in client.commands.links:
                    connection.cut()
                self._kill_again(client)

        self.world.events.after(client.random.expovariate(self.setup.kills), kill)

    def newcomer(self, dice: Random) -> None:
        client = self.join(dice)
        self._give(next(thread for thread in self.threads if thread.client is client), dice)

    def take(self, dice: Random) -> None:
        """A thread gets a job: take a lock, and give it back."""
        if alive := [thread for thread in self.threads if not thread.client.dead]:
            self._give(dice.choice(alive), dice)

    def _give(self, thread: Thread, dice: Random) -> None:
        self.jobs[thread].append(partial(self.use, dice))
        thread.client.do(self.benches[thread].poke)

    def until_closed(self, client: Client, work: Program) -> Program:
        try:
            yield from work
        except RLockError:
            if not client.holds.closed:
                raise

    def work(self, client: Client, thread: Thread) -> Program:
        jobs, bench, events = self.jobs[thread], self.benches[thread], self.world.events
        while events.now < self.calm_s:
            with suppress(QuorumUnreachableError, KeyboardInterrupt):  # the user tries again
                if not jobs and self.busy:
                    yield from sleep(client.random.choice((0.0, client.random.uniform(0.0, self.pause_s))))
                    yield from self.use(client.random, client, thread)
                elif not jobs:
                    yield Wait((self.calm_s - events.now) * 1.01, bench, lambda: bool(jobs))
                elif events.now < self.calm_s:
                    yield from jobs.popleft()(client, thread)
        for name in self.locks:
            fair = client.random.random() < 0.3
            hold = yield from client.locking(thread, self.options(client, name, client.random, fair=fair))
            if hold is not None:
                yield from self.let_go(client, hold)

    def options(
        self, client: Client, name: str, dice: Random, *, fair: bool, renew: bool = True
    ) -> LockOptions:
        setup, ttl = self.setup, client.options.ttl
        if setup.mode not in ("slow", "stops", "hand-off") and setup.fleet in ("short", "long"):
            short = SHORT_TTL if setup.fleet == "short" else OPTIONS.ttl
            ttl = dice.choice((ttl, short) if setup.mode == "deaths" else (ttl, ttl, ttl, short))
            ttl = setup.overdue_ttl if setup.habit == "overdue" else ttl
        keeps, shared = (share > 0.0 and dice.random() < share for share in (setup.keeps, setup.readers))
        least = dice.uniform(0.0, client.options.max_ttl) if keeps else 0.0
        lease, fair = client.options.lease(ttl), fair or shared
        return LockOptions(name, lease, fair=fair, renew=renew, hold_at_least=least, shared=shared)

    def use(self, dice: Random, client: Client, thread: Thread) -> WaitGenerator[None]:
        habit = self.setup.habit
        if self.setup.mode in MORE_EVENTS and dice.random() < 0.3:
            yield from client.curious(dice.choice(self.locks))
            return
        overdue = habit == "overdue"  # nobody gives back a lease before its end
        renew = dice.random() < {"waiting": 1.0, "fixed": 0.0, "overdue": 0.0, "any": 0.7}.get(habit, 0.95)
        name, fair = dice.choice(self.locks), dice.random() < (0.7 if overdue else 0.35)
        options = self.options(client, name, dice, fair=fair, renew=renew)
        until, chance = FOR_EVER, dice.random() + (overdue or habit == "waiting")
        if habit == "grabbing" or (habit in ("trying", "apart") and chance < 0.5):
            until = AT_ONCE
        elif habit in ("always", "trying", "apart"):
            if chance < (0.3 if self.setup.mode == "races" else 0.1):
                until = client.clock() + dice.uniform(0.02, 1.5)
        elif chance < 0.15:
            until = AT_ONCE
        elif chance < 0.35:
            until = client.clock() + dice.uniform(0.02, 2.0)
        hold = yield from client.locking(thread, options, until)
        if hold is None:
            return
        # A fixed lease is often held to its end, and a little longer.
        ttl = options.lease.ttl
        longest = 1.0 + 1.5 * ttl if habit == "apart" else 2.5
        spans = [(0.0, 0.02), (0.05, 0.3), (0.5, longest) if renew else (0.9 * ttl, 1.5 * ttl)]
        spans = {"apart": spans[2:], "overdue": [(ttl, ttl + 9.0)], "grabbing": spans[:1]}.get(habit, spans)
        held_s = dice.uniform(*dice.choice(spans))
        with suppress(KeyboardInterrupt, LeaseLostError):
            if dice.random() < 0.2:
                token = hold.token
                yield from sleep(held_s / 2)
                yield from client.locking(thread, options)
                if hold.token != token:
                    self.world.referee.accuse(hold.name, hold.owner, "", "another token when nested")
                yield from client.unlocking(hold)
                held_s /= 2
            looks = dice.choice((1, 3, 12)) if self.busy else 1
            if self.busy and dice.random() < 0.3:  # or until somebody waits for it
                delay = dice.choice((0.0, dice.uniform(0.0, 0.005), dice.uniform(0.0, 0.03)))
                told = partial(self._later, delay, lambda *_: self.tell_to_let_go(hold))
                self.behind("queued", 1, told)
            for _ in range(looks):
                if not self.over:  # nobody need wait for it then
                    yield Wait(held_s / looks, self._holding, lambda: self.over or hold.owner in self._told)
                if dice.random() < (0.8 if self.busy else 0.5):
                    self.world.referee.believes(client, hold)
        kept = yield from change_kind(self, client, thread, hold, dice)
        yield from hand_over(self, client, kept, dice)
        yield from self.let_go(client, kept)

    def let_go(self, client: Client, hold: Hold) -> WaitGenerator[None]:
        """Release as often as it was acquired, whatever comes in between."""
        referee, rivals = self.world.referee, self.world.referee.rivals(hold)
        if self.busy:
            self._happens("release", client, None, hold.owner)
            with suppress(KeyboardInterrupt):  # what happens at this instant happens before
                yield from sleep(0.0)
        while hold in client.holds:
            with suppress(LeaseLostError, KeyboardInterrupt):
                yield from client.unlocking(hold)
                for owner in rivals[:1]:
                    referee.accuse(hold.name, hold.owner, owner, "released as if nobody had had it")

    def tell_to_let_go(self, *holds: Hold) -> None:
        """They are given back now, or all are, instead of when their owners wanted to."""
        all_holds = holds or [hold for client in self.world.clients for hold in client.holds]
        self._told |= {hold.owner for hold in all_holds}
        self._holding.poke()

    # -- from the beginning to the end -------------------------------------------------------------

    def play(self) -> Outcome:
        world, referee = self.world, self.world.referee
        world.events.at(self.calm_s, self._calm)
        world.events.at(self.calm_s + REBIRTH_S, lambda: None)  # there may be nothing else to look at
        try:
            # Three times as long where each round takes most of a second.
            world.run(self.calm_s + BOUND_S * (3 if self.setup.mode == "slow" else 1), self._ended)
        except Exception as error:  # out of a call of a user, or of the watchdog
            referee.accuse("", type(error).__name__, "", f"raised {error!s:.80}")
        if referee.violations:
            pass  # the first one tells more than what comes of it
        elif not self._ended():
            waiting = [thread.label for thread in self.threads if not (thread.over or thread.client.dead)]
            if not self.oracles.long_lease:
                referee.accuse("", " ".join(waiting), "", "still waiting")
        else:
            # What was held up may still arrive, and take a place in a queue again.
            world.run(world.events.now + HELD_UP_S + QUEUE_TTL_S + 1.0)
            self.oracles.look_for_remains()
        world.close()
        schedule, states, grants = self.schedule, self.oracles.states, len(referee.entered)
        faults = Counter(step.what for step in schedule.steps)
        return Outcome(schedule, referee.violations, states, grants, faults, world.history or [])

    def _calm(self) -> None:
        """From now on nothing goes wrong any more; what has gone wrong is felt until it is noticed."""
        self.over = True
        self.world.tell("the faults end")
        for client in self.world.clients:
            client.kept = (0.0, 0.0)
            for there, back in (*client.ways, *client.message_ways):
                for way in (there, back):
                    way.open(wide=True)
                    if self.setup.mode != "slow":
                        way.extra = 0.0
            if client.stopped and not client.dead:
                client.resume(client.random)
        for host in self.world.servers:
            host.tripwire = False
            host.nonsense.clear()
            host.drops = ""
            if host.stopped:
                host.go_on()
        for group in self.world.groups.values():
            group.mend()
        for bench in (self._holding, *self.benches.values()):
            bench.poke()

    def _ended(self) -> bool:
        # Nobody begins after the last one has been born again.
        return self.world.events.now >= self.calm_s + REBIRTH_S and all(
            thread.over or thread.client.dead for thread in (*self.threads, *self.closers)
        )


def play(schedule: Schedule, *, history: bool = False, **how: Any) -> Outcome:
    collecting = gc.isenabled()
    gc.disable()
    try:
        return Play(schedule, history=history, **how).play()
    finally:
        if collecting:
            gc.enable()
