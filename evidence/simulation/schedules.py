"""Random schedules as values: a fleet, and a list of steps. One can be saved, replayed, changed and shrunk.

A step has random numbers of its own (`Step.seed`): it does the same if others are left out.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from random import Random
from typing import Any, NamedTuple

from rlock.rules.options import ClientOptions

from .kinds import FAILOVERS, FITTING, HABITS, KINDS, MODES, SETUPS

HELD_UP_S = 3.0  # how long something is stopped, or on its way, at the most
SHORT_TTL = 0.4  # the lease of some of the acquires
#: Short leases: more of them begin and end in a second of virtual time.
OPTIONS = ClientOptions(ttl=1.0, max_ttl=1.0)
LONG = ClientOptions(ttl=3.0, max_ttl=3.0)
BRIEF = ClientOptions(ttl=0.3, max_ttl=0.3, request_timeout=0.08)
#: By name: the options of a fleet, of which each client has one.
FLEETS: dict[str, tuple[ClientOptions, ...]] = {
    "short": (OPTIONS,),
    "long": (LONG,),
    "patient": (ClientOptions(ttl=3.0, max_ttl=3.0, request_timeout=0.95),),
    "hasty": (ClientOptions(ttl=1.0, max_ttl=1.0, request_timeout=0.32),),
    "brief": (BRIEF,),
    "two": (LONG, BRIEF),
}
#: When the faults end.
CALM_S = {"short": 4.0, "hasty": 4.0, "brief": 4.0, "long": 7.0, "patient": 7.0, "two": 6.0}
CARELESS = (4.0, 86_400.0, 2e13)  # the leases with which a careless client tries in vain
#: Events behind which a step may come; and those that only some modes have.
EVENTS = ("enter", "leave", "grant", "hand-off")
MORE_EVENTS = {
    "groups": ("promote", "promote"),
    "guard": ("loss", "loss"),
    # "rival": a grant while another owner has the lock.
    "leases": ("enter", "release", "loss", "rival", "rival", "renew", "renew", "absent"),
}
#: The same where hand-offs are what matters: "claim" is an enter by messages, "queued" a refusal with a
#: place in the queue, "release" comes before the first byte of one, "renew" before the answer to a renewal.
MOMENTS = (*EVENTS, "claim", "queued", "release", "renew", "hand-off", "claim")
RARE = {"suspect", "threat", "absent"}  # events of which a schedule has a few at the most
DISTURBING = {"restart", "keep from running", "silence", "lose commands"}  # behind these a waiter may be slow
#: Faults that come behind each event of a kind.
REPEATED = (
    "one fewer", "out of reach", "onlookers", "broken off", "overtaken", "stray tokens", "uneven",
    "late healers", "late looks", "close slowly", "stop reading", "late transfers",
)  # fmt: skip
#: Modes in which the lock goes from hand to hand all the time.
BUSY = ("hand-off", "races", "stops", "leases", "messages")
SWARMS = ("storm", "groups", "guard", *BUSY)  # modes in which everything may go wrong at once
CLOSE = ("deaths", *SWARMS[1:])  # modes in which a step often disturbs the same moment as another one
#: The part of the schedules that have readers: of most modes, of some, and where leases are kept apart.
READING, READING_OFTEN, READING_APART = 0.15, {"slow": 0.6, "stops": 0.3, "deaths": 0.4}, 0.4
#: The part of the races in which nothing goes wrong: among readers, messages that cross are enough.
CROSSING = 0.5
#: Modes in which holders often keep a lock beyond their release, and the part of their schedules.
KEEPING, KEEPING_OFTEN = ("cuts", "slow", "stops", "messages"), 0.2
#: Steps of schedules of the habit "overdue" in which clients are closed, often with a lost hold.
CLOSING = (*["close client"] * 2, *["close slowly"] * 3, *["die asking"] * 3, "late scripts")
#: The part of the schedules of a mode whose threads are switched anywhere.
SWITCHING = {"storm": 0.3, "races": 0.4, "hand-off": 0.3, "messages": 0.2, "deaths": 0.2}
FOREIGN = {"nonsense", "stranger", "mirror"}  # steps of other programs
#: What the specification of evidence/spec/Trace.tla does not have.
UNTRACED = {*FOREIGN, "close client", "init", "careless", "set a clock back", "flush scripts"}


class Step(NamedTuple):
    """``at``: by the clock of the world, or after the ``nth`` event of a kind."""

    at: float
    what: str
    seed: int
    after: str = ""
    nth: int = 0


@dataclass(frozen=True)
class Setup:
    """A fleet and its clients. ``replicas``: of its first masters, which are groups."""

    masters: int = 3
    clients: int = 3
    mode: str = "storm"
    fleet: str = "short"
    jitter: float = 0.001
    skew: float = 0.005
    past: str = "vouched"
    locks: int = 1
    durable: float = 0.0
    may_kill: bool = True
    joined: bool = False
    replicas: tuple[int, ...] = ()
    spare: bool = False
    habit: str = "any"
    far: float = 0.0  # the part of the ways from a client to a master that are slow all the time
    older: float = 0.0  # the part of the clients that are of an older version
    cut_off: float = 0.0  # the part of the ways from a client to a master that are shut at first
    ahead: float = 0.0  # the part of the masters whose last fencing token is ahead of their clocks
    resent: float = 0.0  # the part of the rounds beside a valid lease that too few masters answer in time
    resets: float = 0.0  # how often the connection ends as well when a fault that comes again shuts a way
    pauses: float = 0.0  # how often the watchdogs are kept from running for a moment, between any two steps
    keeps: float = 0.0  # the part of the acquires whose lock stays taken for a time, even if it is released
    hands: float = 0.0  # the part of the holds that change hands
    overdue_ttl: float = 0.7  # the lease of the habit "overdue"
    readers: float = 0.0  # the part of the acquires that are of readers; some writers read on then
    kills: float = 0.0  # how often in a second all connections of a client for commands end
    switches: float = 0.0  # how often another thread of a client runs where the first one waits for nothing


@dataclass(frozen=True)
class Schedule:
    seed: int
    setup: Setup
    steps: tuple[Step, ...]

    @property
    def calm_s(self) -> float:
        # Behind a failover the restart guard has to end, and something has to happen then.
        return CALM_S[self.setup.fleet] + (2.0 if self.setup.mode == "groups" else 0.0)

    def dumps(self, **more: Any) -> str:
        return json.dumps({**more, "seed": self.seed, "setup": asdict(self.setup), "steps": self.steps})

    @classmethod
    def loads(cls, text: str) -> Schedule:
        value = json.loads(text)
        setup = Setup(**{**value["setup"], "replicas": tuple(value["setup"]["replicas"])})
        return cls(value["seed"], setup, tuple(Step(*step) for step in value["steps"]))


def _weighted(dice: Random, weights: dict[str, int]) -> str:
    return dice.choices(list(weights), list(weights.values()))[0]


def drawn_setup(dice: Random, *, traced: bool = False) -> Setup:
    """``traced``: one that evidence/spec/Trace.tla can follow."""
    mode = "storm" if traced else _weighted(dice, MODES)
    if mode in SETUPS:
        values = {name: dice.choice(v) if type(v) is tuple else v for name, v in SETUPS[mode].items()}
        setup = Setup(mode=mode, **values)
        if setup.habit == "grabbing":
            setup = replace(setup, clients=dice.choice((2, 3)), jitter=0.0002)
            return replace(setup, far=0.0, ahead=0.0, keeps=0.0)
        if setup.habit == "apart":
            setup = replace(setup, masters=3, cut_off=0.0, fleet=dice.choice(("hasty", "patient", "patient")))
            setup = replace(setup, jitter=0.0002, pauses=0.0, resets=dice.choice((0.0, 0.5, 0.5)))
            resent = replace(setup, clients=2, fleet="hasty", resets=0.5, resent=0.9)
            return resent if dice.random() < 0.4 else setup
        return replace(setup, past="unused") if setup.fleet == "two" else setup
    groups = dice.choice((1, 1, 1, 1, 1, 1, 2, 3)) if mode == "groups" else 0
    replicas = tuple(dice.choice((1, 1, 2)) for _ in range(groups))
    masters = dice.choice((1, 2, 3, 3, 3, 3, 3, 4, 5, 5) if mode == "storm" else (1, 3, 3, 3, 3))
    if replicas:
        masters = 1 if len(replicas) == 1 and dice.random() < 0.9 else 3
    new = "unused" if mode == "guard" else "new"
    fleets = {"short": 6, "long": 1} if replicas else {"short": 6, "long": 3, "patient": 1, "two": 2}
    if mode == "guard":
        fleets = {"hasty": 1, "two": 2, "brief": 1}
    return Setup(
        masters,
        dice.choice((2, 2, 2, 3, 4) if replicas else (2, 2, 3, 3, 4)),
        mode,
        "short" if traced else _weighted(dice, fleets),
        # In a group one WAIT may come behind another one: both have to end within 67 ms for a short lease.
        dice.choice((0.0002, 0.001, 0.005, 0.005 if replicas else 0.02)),
        dice.choice((0.005, 0.005, 0.2, 0.2 if replicas or traced else 30.0)),
        dice.choice((*[new] * (12 if mode == "guard" else 1), "noted", "noted", *["vouched"] * 3)),
        dice.choice((1, 1, 1, 2)),
        dice.choice((0.0, 0.0, 0.0, 0.5, 1.0)),
        dice.random() < 0.85,
        dice.random() < 0.6,
        replicas,
        bool(replicas) and dice.random() < 0.7,
        dice.choice(HABITS),
        older=0.0 if traced else dice.choice((0.0, 0.0, 0.0, 0.5)),
        cut_off=dice.choice((0.0, 0.2, 0.3)) if mode == "guard" else 0.0,
        keeps=dice.choice((0.0, 0.0, 0.3)) if mode == "storm" and not traced else 0.0,
        hands=dice.choice((0.0, 0.0, 0.3)) if mode == "storm" and not traced else 0.0,
    )


def swarm(dice: Random, setup: Setup, *, traced: bool = False) -> dict[str, int]:
    """A few of the kinds of steps, with how often each happens: each schedule has others."""
    kinds = {**KINDS[setup.mode], **(dict.fromkeys(FAILOVERS, 0) if setup.replicas else {})}
    kinds = {what: FAILOVERS.get(what, weight) for what, weight in kinds.items()}
    if setup.fleet == "two":
        kinds.pop("careless", None)  # one that learns of its lease has another restart guard
    if dice.random() < 0.8:
        kinds.pop("nonsense", None)
    elif "nonsense" in kinds:
        kinds.pop("careless", None)  # its undo may be lost, and its lease is a day
    chosen = [what for what in kinds if not (traced and what in UNTRACED)]
    if setup.mode == "races" and dice.random() < 0.5:
        chosen = [what for what in chosen if what not in DISTURBING]
    if setup.mode in SWARMS and dice.random() < 0.8:
        of = sorted(chosen, key=lambda what: dice.random() ** (1 / kinds[what] ** 0.5), reverse=True)
        chosen = of[: dice.choice((2, 3, 3, 4, 5, 7))]
        if setup.mode == "groups":
            chosen = [_weighted(dice, FAILOVERS), *of[: dice.choice((0, 0, 1, 2))]]
        if setup.habit == "apart":
            last = [] if setup.resent else dice.choice((["broken off"], ["newcomer"], of[:1]))
            chosen = ["one fewer", "out of reach", "restart after a grant", *last]
            if not setup.resent and dice.random() < 0.6:
                chosen = ["one fewer", "out of reach", "onlookers"]
            if setup.readers:
                chosen = ["out of reach", "late healers"]
        if setup.mode == "messages" and dice.random() < 0.4:
            beside = dice.choice(("one fewer", "one fewer", "stray tokens"))
            chosen = ["overtaken", beside, *of[: dice.choice((0, 0, 1))]]
        if setup.mode == "messages" and setup.hands and dice.random() < 0.6:
            chosen = ["late transfers"]
        elif setup.habit == "grabbing":
            chosen = ["uneven", "stray tokens", *of[: dice.choice((0, 0, 1))]]
    return {what: kinds[what] for what in chosen}


def events(mode: str) -> tuple[str, ...]:
    if mode == "leases":
        return MORE_EVENTS[mode]
    return MOMENTS if mode in BUSY else EVENTS + MORE_EVENTS.get(mode, ())


def _comes_again(what: str, setup: Setup) -> bool:
    return what in REPEATED or (what == "restart after a grant" and setup.habit == "apart")


def drawn_step(dice: Random, what: str, setup: Setup) -> Step:
    seed = dice.getrandbits(32)
    if _comes_again(what, setup) and dice.random() < (0.9 if setup.resent else 0.6):
        return Step(0.0, what, seed)
    if dice.random() < 0.5:
        # A failover does harm when the restart guard has ended.
        until = CALM_S[setup.fleet] * (0.4 if what in FAILOVERS else 1.0)
        return Step(round(dice.uniform(0.0, until), 4), what, seed)
    delay = dice.choice((0.0, dice.uniform(0.0, 0.01), dice.uniform(0.0, 0.1), dice.uniform(0.0, 1.2)))
    behind = FITTING.get(setup.mode, {}).get(what, events(setup.mode))
    if setup.mode == "leases":
        delay = delay if dice.random() < 0.5 else 0.0
    nth = dice.choice((1, 1, 2, 2, 3, 4, 5, 7))
    if setup.mode in BUSY and dice.random() < 0.5:
        nth = dice.randint(1, 40)
    event = dice.choice(behind)
    return Step(round(delay, 4), what, seed, event, nth if event not in RARE else 1 + nth % 4)


def _beside(dice: Random, step: Step, other: Step) -> Step:
    """Often a step that disturbs the same moment as another one."""
    if dice.random() < 0.5:
        return step
    delay = dice.choice((0.0, 0.0, dice.uniform(-0.002, 0.01), dice.uniform(-0.1, 0.1)))
    return step._replace(at=round(max(0.0, other.at + delay), 4), after=other.after, nth=other.nth)


def drawn(seed: int, *, traced: bool = False, setup: Setup | None = None) -> Schedule:
    dice = Random(f"schedule {seed}")
    setup = setup or drawn_setup(dice, traced=traced)
    also = Random(f"readers {seed}")
    reading = READING_APART if setup.habit == "apart" else READING_OFTEN.get(setup.mode, READING)
    if not traced and also.random() < reading:
        setup = replace(setup, readers=also.choice((0.3, 0.6, 0.9)), keeps=0.0)
    elif not traced and setup.mode in KEEPING and also.random() < KEEPING_OFTEN:
        setup = replace(setup, keeps=0.6)
    switching = Random(f"switches {seed}")
    if not traced and switching.random() < SWITCHING.get(setup.mode, 0.0):
        # One master: a lost reply is then a lost ballot.
        masters = switching.choice((1, setup.masters))
        setup = replace(setup, masters=masters, switches=switching.choice((0.1, 0.6)), keeps=0.0)
        setup = replace(setup, kills=0.0 if setup.mode == "deaths" else switching.choice((0.0, 3.0, 15.0)))
    crossing = Random(f"crossing {seed}")
    if not traced and setup.mode == "races" and crossing.random() < CROSSING:
        return Schedule(seed, replace(setup, readers=crossing.choice((0.3, 0.6, 0.9))), ())
    if setup.habit == "overdue":
        more = crossing.choice(((), ("die asking",) * 2, ("close slowly", "die asking"), CLOSING, CLOSING))
        early = ["leave early"] * also.choice((0, 0, 1, 2))
        if setup.readers:  # the reader with the longest lease often leaves before the others
            setup = replace(setup, overdue_ttl=crossing.choice((1.3, 1.7, 2.5)))
            more, early = (), ["leave early"] * crossing.choice((2, 3))
        setup = replace(setup, switches=0.6 if more is CLOSING else setup.switches)
        whats = (*["take"] * crossing.choice((3, 4, 5)), *early, *more)
        until = 1.5 * setup.overdue_ttl  # so that several wait behind one lease
        steps = [
            Step(round(crossing.uniform(0.0, until), 4), what, crossing.getrandbits(32)) for what in whats
        ]
        if more and (more is CLOSING or crossing.random() < 0.7):  # before anybody has the lock
            steps[-1] = steps[-1]._replace(at=0.0)
        for i, step in enumerate(steps):
            if step.what == "close client":
                steps[i] = step._replace(at=step.at / 50, after="leave", nth=1)
        return Schedule(seed, replace(setup, clients=4), tuple(sorted(steps)))
    kinds = swarm(dice, setup, traced=traced)
    # Half of them are small: few steps that disturb each other.
    small = dice.random() < 0.5
    takes = ["take"] * (0 if setup.mode in BUSY else dice.randint(2, 6 if small else 5 * setup.clients))
    weights = [weight**0.5 for weight in kinds.values()]
    faults = dice.choices(list(kinds), weights, k=dice.randint(2, 5) if small else dice.randint(1, 10))
    again = [what for what in kinds if _comes_again(what, setup)]
    faults = again + [what for what in faults if what not in again]
    if setup.mode == "groups":
        del faults[dice.randint(1, 4) :]  # behind each failover nobody gets a lock for a while
        takes += ["take"] * 6
    steps = [drawn_step(dice, what, setup) for what in (*takes, *faults)]
    for i in range(1, len(steps) if setup.mode in CLOSE else 0):
        steps[i] = _beside(dice, steps[i], steps[i - 1])
    return Schedule(seed, setup, tuple(sorted(steps)))


def mutated(schedule: Schedule, other: Schedule, seed: int) -> Schedule:
    """A schedule near to one that was worth keeping; ``other``: one that may give it some of its steps."""
    dice = Random(f"mutation {seed}")
    steps, setup = list(schedule.steps), schedule.setup
    for _ in range(dice.choice((1, 1, 2, 3, 5))):
        kind = dice.random()
        i = dice.randrange(len(steps)) if steps else -1
        if kind < 0.3 or i < 0:
            what = _weighted(dice, {**swarm(dice, setup), "take": 5})
            steps.append(drawn_step(dice, what, setup))
            if setup.mode in CLOSE:
                steps[-1] = _beside(dice, steps[-1], dice.choice(steps))
        elif kind < 0.45:
            del steps[i]
        elif kind < 0.6:
            steps[i] = steps[i]._replace(seed=dice.getrandbits(32))
        elif kind < 0.8:
            at = steps[i].at + dice.choice((-1, 1)) * dice.choice((0.001, 0.01, 0.1, 0.5)) * dice.random()
            steps[i] = steps[i]._replace(at=round(max(0.0, at), 4))
        elif kind < 0.9:
            steps[i] = drawn_step(dice, steps[i].what, setup)
        elif other.setup.mode == setup.mode and bool(other.setup.replicas) == bool(setup.replicas):
            steps += dice.sample(other.steps, min(len(other.steps), dice.randint(1, 4)))
    if dice.random() < 0.1:
        setup = replace(setup, clients=dice.choice((2, 3, 4)))
    seed = schedule.seed if dice.random() < 0.7 else seed
    return Schedule(seed, setup, tuple(sorted(steps[:60])))


def without(schedule: Schedule, left_out: Sequence[int]) -> Schedule:
    gone = set(left_out)
    return replace(schedule, steps=tuple(step for i, step in enumerate(schedule.steps) if i not in gone))
