"""Random schedules: a seed is a fleet, a workload and its faults; what was promised is checked.

1. No two valid leases of one lock overlap.
2. Fencing tokens grow from each holder to the next.
3. When the faults have ended, everybody who waits gets the lock within `BOUND_S`, and all threads end.
4. Nothing is left on the masters but the last fencing tokens and the markers.
5. What was released and confirmed is on no quorum any more.
"""

from __future__ import annotations

import gc
from collections import Counter
from dataclasses import dataclass
from random import Random

from rlock.errors import LeaseLostError, QuorumUnreachableError
from rlock.procedures.acquire import AT_ONCE, FOR_EVER
from rlock.procedures.port import WaitGenerator
from rlock.rules.holds import Hold
from rlock.rules.keys import NOTE
from rlock.rules.options import ClientOptions, LockOptions
from rlock.rules.timing import QUEUE_TTL_S, lease_ms

from .client import Client
from .driver import Program, Thread, sleep
from .events import Latency
from .faults import HELD_UP_S, REBIRTH_S, Nemesis
from .hosts import EPOCH_US
from .recorder import Recorder
from .world import Network, Violation, World

#: Short leases: more of them begin and end in a second of virtual time.
OPTIONS = ClientOptions(ttl=1.0, max_ttl=1.0)
#: The lease of some of the acquires.
SHORT_TTL = 0.4
LOCKS = ("a", "{b}")
#: When the faults end.
CALM_S = 4.0
#: The part of the schedules that have groups.
WITH_GROUPS = 0.3
#: All threads of all clients have had all locks once more by then: a connection that fell silent is noticed
#: by TCP (11 s); a restart guard (1 s), a lease (1 s), the pause before a dead master is dialled again (2 s),
#: and a claim with the look after it for each waiter.
BOUND_S = 30.0


@dataclass
class Outcome:
    seed: int
    violations: list[Violation]
    grants: int
    confirmed: int
    restarts: int
    failovers: int
    groups: int
    faults: Counter[str]
    commands: int
    virtual_s: float
    took_s: float  # from the end of the faults until everybody had had all locks
    history: list[str]

    def __str__(self) -> str:
        return f"seed {self.seed}: " + "; ".join(map(str, self.violations))


class Schedule:
    """One fleet, one workload, and what goes wrong."""

    def __init__(self, seed: int, *, history: bool = False, record: bool = False) -> None:
        self.seed = seed
        dice = self.dice = Random(f"schedule {seed}")
        masters = dice.choice((1, 2, 3, 3, 3, 3, 4, 5, 5))
        replicas = {} if record else drawn_groups(Random(f"groups {seed}"))
        if replicas:
            masters = 1 if len(replicas) == 1 and dice.random() < 0.6 else 3
        # In a group one WAIT may come behind another one: both have to end within 67 ms for a short lease.
        jitter = dice.choice((0.0002, 0.001, 0.005, 0.005 if replicas else 0.02))
        latency = Latency(0.0005, jitter)
        skew = dice.choice((0.005, 0.005, 0.2))
        network = Network(latency, latency, Latency(0.0005, jitter / 10))
        self.world = World(masters, seed, network, skew=skew, drift=0.004, max_ttl=1.0, replicas=replicas)
        self.world.may_kill = dice.random() < 0.85
        if history:
            self.world.history = []
        if record:
            for host in self.world.hosts:
                host.set_the_clock_right()
        self.locks = LOCKS[: dice.choice((1, 1, 2))]
        self.threads: list[Thread] = []
        past = dice.random()
        if past < 0.5:
            for host in self.world.hosts:
                if past < 0.15:
                    host.master.forget()  # a fleet that has never been used
                else:
                    host.master.write(NOTE, f"{host.term} {EPOCH_US - 3_600_000_000} 1000")
        durable = dice.choice((0.0, 0.0, 0.0, 0.5, 1.0))
        for host in self.world.hosts:
            host.durable = dice.random() < durable
        if record:
            self.world.recorder = Recorder(self.world.hosts, self.locks, lease_ms(OPTIONS.ttl))
        for _ in range(dice.choice((2, 2, 3, 3, 4))):
            self.world.events.at(dice.uniform(0.0, 0.5), self.newcomer)
        self.nemesis = Nemesis(self.world, dice, self.newcomer, self.locks[0])

    def newcomer(self) -> None:
        random = self.world.random
        client = self.world.client(
            OPTIONS, joined=False, offset=random.uniform(0.0, 1000.0), rate=1 + random.uniform(-0.005, 0.005)
        )
        for _ in range(random.choice((1, 1, 1, 2))):
            thread = client.thread()
            self.threads.append(thread)
            thread.start(self.work(client, thread))
        if random.random() < 0.3:
            client.thread().start(self.look(client))

    def look(self, client: Client) -> Program:
        """Ask who has the lock, again and again; a client that only looks learns of a flush by that."""
        while self.world.events.now < CALM_S:
            try:
                yield from sleep(self.world.random.uniform(0.0, 0.5))
                yield from client.looking(self.locks[0])
            except (QuorumUnreachableError, KeyboardInterrupt):
                pass

    def work(self, client: Client, thread: Thread) -> Program:
        random, events = self.world.random, self.world.events
        if random.random() < 0.2:
            # Connected from the first moment, and idle until much has happened.
            try:
                yield from client.looking(self.locks[0])
                yield from sleep(random.uniform(1.0, CALM_S))
            except (QuorumUnreachableError, KeyboardInterrupt):
                pass
        while events.now < CALM_S:
            try:
                yield from sleep(random.choice((0.0, random.uniform(0.0, 0.05), random.uniform(0.0, 0.5))))
                yield from self.use(client, thread)
            except QuorumUnreachableError:
                pass  # the user tries again
            except KeyboardInterrupt:
                pass
        for name in self.locks:
            hold = yield from client.locking(thread, self.options(name, fair=random.random() < 0.3))
            if hold is not None:
                yield from let_go(client, hold)

    def options(self, name: str, *, fair: bool, renew: bool = True) -> LockOptions:
        ttl = self.world.random.choice((None, None, None, SHORT_TTL))
        return LockOptions(name, OPTIONS.lease(ttl), fair=fair, renew=renew)

    def use(self, client: Client, thread: Thread) -> WaitGenerator[None]:
        random = self.world.random
        renew = random.random() < 0.7
        options = self.options(random.choice(self.locks), fair=random.random() < 0.35, renew=renew)
        until = FOR_EVER
        if (chance := random.random()) < 0.15:
            until = AT_ONCE
        elif chance < 0.45:
            until = client.clock() + random.uniform(0.02, 2.0)
        hold = yield from client.locking(thread, options, until)
        if hold is None:
            return
        # A fixed lease is often held to its end, and a little longer.
        ttl = options.lease.ttl
        spans = ((0.0, 0.02), (0.05, 0.3), (0.5, 2.5) if renew else (0.9 * ttl, 1.5 * ttl))
        held_s = random.uniform(*random.choice(spans))
        try:
            if random.random() < 0.2:
                token = hold.token
                yield from sleep(held_s / 2)
                yield from client.locking(thread, options)
                if hold.token != token:
                    self.world.referee.accuse(hold.name, hold.owner, "", "another token when nested")
                yield from client.unlocking(hold)
                held_s /= 2
            yield from sleep(held_s)
        except (KeyboardInterrupt, LeaseLostError):
            pass
        yield from let_go(client, hold)

    def play(self) -> Outcome:
        world, nemesis = self.world, self.nemesis
        referee = world.referee
        faults = Counter(nemesis.plan(self.dice.randint(1, 10), 0.2, CALM_S))
        world.events.at(CALM_S, nemesis.end)
        world.events.at(CALM_S + REBIRTH_S, lambda: None)  # there may be nothing else to look at
        world.run(CALM_S + BOUND_S, self.over)
        took_s = world.events.now - CALM_S
        if not self.over():
            waiting = [thread.label for thread in self.threads if not (thread.over or thread.client.dead)]
            referee.accuse("", " ".join(waiting), "", "still waiting")
        else:
            # What was held up may still arrive, and take a place in a queue again.
            world.run(world.events.now + HELD_UP_S + QUEUE_TTL_S + 1.0)
            self.look_for_remains()
        virtual_s = world.events.now
        world.close()
        return Outcome(
            self.seed,
            referee.violations,
            len(referee.entered),
            referee.confirmed,
            nemesis.restarts,
            nemesis.failovers,
            len(world.groups),
            faults,
            world.sent.total(),
            virtual_s,
            took_s,
            world.history or [],
        )

    def over(self) -> bool:
        # Nobody begins after the last one has been born again.
        return self.world.events.now >= CALM_S + REBIRTH_S and all(
            thread.over or thread.client.dead for thread in self.threads
        )

    def look_for_remains(self) -> None:
        for host in self.world.hosts:
            keys = [key for key in list(host.master.keys) if host.master.look(key) is not None]
            for key in keys:
                if key != NOTE and not key.endswith(":fence"):
                    self.world.referee.accuse(key, f"m{host.index}", "", "left behind")
            for channel, listening in host.master.subscribers.items():
                if any(not session.connection.closed for session in listening):  # type: ignore[attr-defined]
                    self.world.referee.accuse(channel, f"m{host.index}", "", "still subscribed")


def drawn_groups(dice: Random) -> dict[int, int]:
    """Which masters of a schedule are groups, with the number of their replicas."""
    groups = dice.choice((1, 1, 1, 2, 3)) if dice.random() < WITH_GROUPS else 0
    return {master: dice.choice((1, 1, 2)) for master in range(groups)}


def let_go(client: Client, hold: Hold) -> WaitGenerator[None]:
    """Release as often as it was acquired, whatever comes in between."""
    while hold in client.holds:
        try:
            yield from client.unlocking(hold)
        except (LeaseLostError, KeyboardInterrupt):
            pass


def play(seed: int, *, history: bool = False) -> Outcome:
    collecting = gc.isenabled()
    gc.disable()
    try:
        return Schedule(seed, history=history).play()
    finally:
        if collecting:
            gc.enable()
