"""TLC finds what a case says, and wrong traces are no behaviours of Lock.tla.

`python -m evidence.spec.conformance` follows the schedules of the simulation.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from evidence.spec.__main__ import ROWS, Case
from evidence.spec.conformance import LEASE, Trace, explained, lost, recorded
from evidence.spec.tlc import HERE, MissingError, result_of

from ..simulation.schedules import drawn
from ..simulation.traces import Event

#: A fleet that has run for long, and the first owner of a lock.
BEGIN: list[Event] = [
    *((0, "handshake", master, 0, LEASE) for master in (1, 2, 3)),
    (5, "client", 0, 1, 0),
    (10, "grant", 1, 1, LEASE),
    (12, "grant", 2, 1, LEASE),
]
HELD: list[Event] = [*BEGIN, (15, "counts", 1, 1, 0), (15, "counts", 2, 1, 0), (15, "win", 2, 1, 980)]
#: The first owner asks, and a master has lost its memory.
FLUSHED: list[Event] = [*BEGIN[:4], (6, "flush", 3, 0, 0), (7, "handshake", 3, 0, 0)]
#: A master comes back with an old note, and the fleet has never granted a lease.
RESTARTED: list[Event] = [*HELD, (21, "older", 3, 0, 0), (31, "handshake", 3, 0, 0)]
RIGHT = {"held": HELD, "first use": [*RESTARTED, (32, "first", 3, 0, 12)]}
#: By what is wrong; the last event is the one that no action allows.
WRONG: dict[str, list[Event]] = {
    "a vote that was not given": [*BEGIN, (15, "counts", 3, 1, 0)],
    "a win by one vote": [*BEGIN, (15, "counts", 1, 1, 0), (15, "win", 1, 1, 980)],
    "a validity that is too long": [*BEGIN, (15, "win", 2, 1, 999)],
    "a win after the limit D": [*BEGIN, (350, "win", 2, 1, 600)],
    "a grant over a lease": [*HELD, (20, "client", 0, 2, 0), (21, "grant", 2, 2, LEASE)],
    "a release of another owner's lease": [*HELD, (20, "freed", 1, 0, 0)],
    "a lease that is forgotten": [*HELD, (20, "refused", 3, 1, 0)],
    "a note that is older than the memory": [*HELD, (20, "flush", 3, 0, 0), (30, "handshake", 3, 0, 500)],
    "a first use that makes a memory too old": [*RESTARTED, (32, "first", 3, 0, 13)],
    "a renewal after the end": [*HELD, (1100, "extend", 1, 1, LEASE)],
    "a vote of a young memory": [*FLUSHED, (10, "grant", 3, 1, 3), (12, "counts", 3, 1, 0)],
}


def made(name: str, events: Sequence[Event]) -> Trace:
    return Trace(name, 3, events, (False, False))


def not_followed(traces: Sequence[Trace]) -> list[str]:
    try:
        return [trace.name for trace in lost(traces)]
    except MissingError as error:
        pytest.skip(str(error))


def test_wrong_traces_are_not_followed() -> None:
    traces = [made(name, events) for name, events in (RIGHT | WRONG).items()]
    assert not_followed(traces) == list(WRONG)


def test_a_deviation_names_the_event_at_which_it_stops() -> None:
    name = "a grant over a lease"
    assert not_followed([made(name, WRONG[name])])
    found = explained(made(name, [*WRONG[name], (400, "end", 0, 2, 0)]))
    assert found.number == len(WRONG[name]) - 1
    assert "at 21 ms: grant, master 2, client 2" in str(found)


def test_each_event_of_the_specification_happens_in_some_schedule() -> None:
    known = set(re.findall(r'what = "(\w+)"', (HERE / "Trace.tla").read_text()))
    schedules = (drawn(seed, traced=True) for seed in range(120))
    seen = {event[1] for each in schedules for trace in recorded(each) for event in trace.events}
    assert seen == known


@pytest.mark.parametrize("case", [case for case in ROWS if case.quick], ids=lambda case: case.name)
def test_tlc_finds_what_the_case_says(case: Case) -> None:
    try:
        result = case.search()
    except MissingError as error:
        pytest.skip(str(error))
    assert case.expects(result), f"{result.violated} in {result.steps} steps"


def test_a_search_that_was_stopped_is_not_called_safe() -> None:
    progress = "Progress(9): 8,123 states generated, 1,204 distinct states found, 96 states left on queue."
    with pytest.raises(RuntimeError, match="did not finish"):
        result_of(progress, 1.0)
    assert result_of(f"{progress}\nModel checking completed. No error has been found.", 1.0).violated is None
