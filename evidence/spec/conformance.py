"""``python -m evidence.spec.conformance``: each schedule of the simulation is a behaviour of Lock.tla.

The simulation runs the real code of the client, and writes what masters and clients do. TLC follows each
trace through evidence/spec/Trace.tla. A trace that it cannot follow to its end is a deviation.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from evidence.bugs import broken
from evidence.bugs.__main__ import found as saved
from evidence.simulation.play import Play
from evidence.simulation.schedules import OPTIONS, SHORT_TTL, Schedule, drawn
from evidence.simulation.traces import Event
from rlock.rules.timing import drift, lease_ms, longest_acquisition

from .tlc import MissingError, run

#: A key is gone in the millisecond behind its last one.
LEASE, SHORT_LEASE = lease_ms(OPTIONS.ttl) + 1, lease_ms(SHORT_TTL) + 1
#: The margin of the shorter lease. The longer lease has a greater margin, so its validity ends earlier.
DRIFT = round(drift(SHORT_TTL) * 1000)
EVENTS = 40_000  # so many events at most in one run of TLC: it reads them as one module
STRIDE = 1_000_000  # so many ticks of Lock.tla pass in one step at most
EXPLAINED = 5  # so many deviations are explained: each one takes a run of TLC
#: The bugs of evidence/bugs that a trace can show. The others concern what Trace.tla leaves out.
SEEN = (
    "guard off", "guard too short", "note not read", "no note is old", "life not compared", "naive healing",
    "validity from the end", "quorum N/2", "release without owner check", "no limit to an acquisition",
)  # fmt: skip
FAULTS = '{"flush", "late", "handshake", "older", "remains"}'


@dataclass(frozen=True)
class Trace:
    """The events of one lock in one schedule. ``short``: for each client, whether it has the short lease."""

    name: str
    masters: int
    events: Sequence[Event]
    short: Sequence[bool]


@dataclass(frozen=True)
class Deviation:
    """The event that no rule allows, or behind which a promise is broken."""

    trace: Trace
    number: int
    violated: str = ""

    def __str__(self) -> str:
        at, what, master, client, number = self.trace.events[self.number]
        event = f"event {self.number} at {at} ms: {what}, master {master}, client {client}, number {number}"
        return f"{self.trace.name}: {event}{self.violated and f': violates {self.violated}'}"


def recorded(schedule: Schedule) -> list[Trace]:
    play = Play(schedule, record=True)
    play.play()
    recorder, masters = play.world.recorder, len(play.world.hosts)
    assert recorder is not None
    return [
        Trace(f"seed {schedule.seed}, lock {trace.name}", masters, trace.events, trace.short)
        for trace in recorder.traces.values()
    ]


def lost(traces: Iterable[Trace]) -> list[Trace]:
    """The traces that TLC does not follow to their end. Raises ``MissingError``."""
    found: list[Trace] = []
    for chunk in chunks(traces):
        output = _followed(chunk, "CONSTRAINT Followed", "CHECK_DEADLOCK FALSE")
        if "Model checking completed. No error has been found." not in output:
            raise RuntimeError(f"TLC did not finish:\n{output[-3000:]}")
        followed = {int(number) for number in re.findall(r'<<"followed", (\d+)>>', output)}
        found += [trace for number, trace in enumerate(chunk, 1) if number not in followed]
    return found


def chunks(traces: Iterable[Trace]) -> list[list[Trace]]:
    """Traces of the same number of masters, so many as one run of TLC takes."""
    made: list[list[Trace]] = []
    for trace in sorted(traces, key=lambda trace: trace.masters):
        last = made[-1] if made else []
        full = sum(len(each.events) for each in last) + len(trace.events) > EVENTS
        if not last or full or last[0].masters != trace.masters:
            made.append([])
        made[-1].append(trace)
    return made


def explained(trace: Trace) -> Deviation:
    """Where TLC stops: at an event without a successor, or in a state that breaks a promise."""
    output = _followed([trace], "INVARIANTS TypeOK Exclusion NoneRevived", "CHECK_DEADLOCK TRUE")
    violated = re.search(r"Invariant (\w+) is violated", output)
    reached = re.findall(r"^/\\ next = (\d+)", output, re.MULTILINE)
    if not reached:
        raise RuntimeError(f"TLC did not say where it stopped:\n{output[-3000:]}")
    number = int(reached[-1]) - 1
    if violated:
        return Deviation(trace, max(0, number - 1), violated[1])
    return Deviation(trace, min(number, len(trace.events) - 1))


def _followed(traces: Sequence[Trace], *more: str) -> str:
    longs = max(trace.short.count(False) for trace in traces)
    shorts = max(trace.short.count(True) for trace in traces)
    longest = int(longest_acquisition(OPTIONS.max_ttl) * 1000)
    constants = {
        "Masters": f"1..{traces[0].masters}", "Durable": f"1..{traces[0].masters}",
        "Clients": f"1..{longs + shorts}", "Short": f"{longs + 1}..{longs + shorts}",
        "T": LEASE, "ShortT": SHORT_LEASE, "D": longest, "ShortD": longest, "Guard": LEASE,
        "ShortGuard": LEASE, "Drift": DRIFT, "Losses": 99, "Second": "{}", "Faults": FAULTS, "Broken": "{}",
        "Variants": "{}",
    }  # fmt: skip
    events = ",\n".join(_sequence(trace, longs) for trace in traces)
    data = [
        "---- MODULE TraceData ----",
        "EXTENDS Integers",
        *(f"The{name} == {value}" for name, value in constants.items()),
        f"Stride == {STRIDE}",
        f"Events == <<{events}>>",
        "====",
    ]
    config = ["SPECIFICATION TraceSpec", *more, "CONSTANTS", "    NoOne = NoOne", "    Over = Over"]
    config += [f"    {name} <- The{name}" for name in constants]
    return run("Trace", "\n".join(config), {"TraceData": "\n".join(data)}, briefly=True)


def _sequence(trace: Trace, longs: int) -> str:
    """The events in TLA+. The clients with the short lease come behind all others."""
    slots, seen = [0], [0, longs]
    for short in trace.short:
        seen[short] += 1
        slots.append(seen[short])
    lines = (
        f'<<{at},"{what}",{master},{slots[client]},{number}>>'
        for at, what, master, client, number in trace.events
    )
    return "<<" + ",\n".join(lines) + ">>"


def controls() -> int:
    """Break each rule in its saved schedule. Prints a table; how many rules no trace shows."""
    print("| rule broken in the code | stops at |")
    print("|---|---|", flush=True)
    unseen, schedules = 0, saved()
    for rule in SEEN:
        with broken(rule):
            found = lost(recorded(schedules[rule]))
        stop = explained(found[0]) if found else None
        unseen += stop is None
        told = "(!)" if stop is None else f"`{stop.violated or stop.trace.events[stop.number][1]}`"
        print(f"| `{rule}` | {told} |", flush=True)
    return unseen


def main() -> int:
    """Exit status: 0 all traces were followed; 1 one was not; 77 Java or TLC is missing."""
    parser = argparse.ArgumentParser(prog="python -m evidence.spec.conformance", description=__doc__)
    parser.add_argument("--seeds", type=int, default=300, help="how many schedules")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--controls", action="store_true", help="break each rule: some trace must show it")
    options = parser.parse_args()
    try:
        if options.controls:
            return 1 if controls() else 0
        began = time.monotonic()
        seeds = range(options.first, options.first + options.seeds)
        traces = [trace for seed in seeds for trace in recorded(drawn(seed, traced=True))]
        recorded_s = time.monotonic() - began
        found = lost(traces)
    except MissingError as error:
        print(error, file=sys.stderr)
        return 77  # automake's status of a test that cannot run here
    for trace in found[:EXPLAINED]:
        print(explained(trace))
    if found[EXPLAINED:]:
        print("also:", "; ".join(trace.name for trace in found[EXPLAINED:]))
    events = sum(len(trace.events) for trace in traces)
    print(
        f"{options.seeds} schedules, {len(traces)} traces, {events:,} events: {len(found)} deviations "
        f"({recorded_s:.0f} s to record, {time.monotonic() - began - recorded_s:.0f} s to follow)"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
