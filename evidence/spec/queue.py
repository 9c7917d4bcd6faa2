"""The rows of Queue.tla: waiting ends, in the order of arrival, and each rule left out in turn."""

from __future__ import annotations

from .scopes import ALL, MODULES, Case

#: Three masters, two clients that come again and again, fair mode, no fault.
QUEUE = {
    "Masters": ALL,
    "Clients": "{c1, c2}",
    "Down": "{}",
    "Together": "{}",
    "NoOne": "NoOne",
    "Fair": "TRUE",
    "Crashes": "0",
    "Losses": "0",
    "Once": "FALSE",
    "Broken": "{}",
}
MODULES["Queue"] = (QUEUE, ("TypeOK", "OneHolder"), "")
#: Both are threads of one process.
THREADS = "{c1, c2}"
THREE = {"Clients": "{c1, c2, c3}", "Once": "TRUE"}
ORDER = ("TypeOK", "OneHolder", "FairOrder")
SYMMETRY = "SYMMETRY Symmetry"


def waits(name: str, promise: str, *, full: bool = False, **changes: str) -> Case:
    """``promise`` is a temporal property, so TLC must not use the symmetry of the clients."""
    return Case(f"queue: {name}", "Queue", changes, full=full, more=f"PROPERTIES {promise}")


def without(rule: str, promise: str = "EveryoneWins", **changes: str) -> Case:
    """A rule left out: ``promise`` must fail."""
    mode = "default mode " if promise == "SomebodyWins" else ""
    name, left_out = f"queue {mode}without: {rule}", {"Broken": f'{{"{rule}"}}', **changes}
    if promise == "FairOrder":
        return Case(name, "Queue", left_out, promise, invariants=("FairOrder",), more=SYMMETRY)
    return Case(name, "Queue", left_out, "a property", more=f"PROPERTIES {promise}")


def reached(name: str, invariant: str) -> Case:
    """A state that the model must reach: the invariant says that it never does."""
    return Case(f"queue reached: {name}", "Queue", {}, invariant, invariants=(invariant,), more=SYMMETRY)


QUEUES = (
    Case("queue: the order of arrival, three clients", "Queue", THREE, invariants=ORDER, more=SYMMETRY),
    waits("each waiter wins", "EveryoneWins"),
    waits("each waiter wins, one master down", "EveryoneWins", Down="{m3}"),
    waits("each waiter wins, one message lost", "EveryoneWins", Losses="1", full=True),
    waits("each waiter wins, one client crashes", "EveryoneWins", Crashes="1", full=True),
    waits(
        "each waiter wins, also if dead waiters get the lock for a moment",
        "EveryoneWins",
        full=True,
        Crashes="1",
        Broken='{"4 dead waiters are passed over"}',
    ),
    waits("default mode: somebody wins", "SomebodyWins", Fair="FALSE"),
    waits(
        "default mode: somebody wins, one message lost", "SomebodyWins", Fair="FALSE", Losses="1", full=True
    ),
    waits(
        "default mode: somebody wins, one client crashes",
        "SomebodyWins",
        Fair="FALSE",
        Crashes="1",
        full=True,
    ),
    waits("each waiter wins, one looks for its process", "EveryoneWins", Together=THREADS),
    waits(
        "each waiter wins, one looks, one message lost",
        "EveryoneWins",
        full=True,
        Losses="1",
        Together=THREADS,
    ),
    waits(
        "each waiter wins, one looks, one thread dies",
        "EveryoneWins",
        full=True,
        Crashes="1",
        Together=THREADS,
    ),
    without("4 a late look is made by another", Crashes="1", Together=THREADS),
    without("4 few messages wake", Down="{m3}", Together=THREADS),
    without("4 one order on all masters"),
    without("4 bounded sleep", Losses="1"),
    without("4 nudge", Crashes="1"),
    without("4 the place first", "FairOrder"),
    without("3.1 undo", Down="{m3}"),
    without("3.1 undo", "SomebodyWins", Fair="FALSE", Down="{m3}"),
    reached("a hand-off", "NobodyIsHandedTheLock"),
    reached("two wait on one master", "NobodyQueues"),
)
