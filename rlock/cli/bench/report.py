"""The measurement of `rlock bench`, part by part. Each part is reported as soon as it is done."""

from __future__ import annotations

import os
import platform
import statistics
import tempfile
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ... import __version__
from ..._client.libraries import default as library
from ...client import Client
from ...rules.quorum import quorum
from ...testing.contention.checker import overlaps
from ...testing.contention.figures import delays, hand_offs, jain, owner_changes
from ...testing.contention.history import Attempt
from ...testing.contention.journal import SECOND, now_ns
from ...testing.contention.processes import WorkerError, WorkerProcesses
from ...testing.contention.worker import Load
from ..output import show
from .latency import Probe, measure

#: Shares of the time: alone, hand-off, contended in default and in fair mode.
ALONE, HAND_OFF, CONTENDED, FAIR = 0.3, 0.3, 0.25, 0.15
#: The share of a contended part that does not count.
LEAD = 0.1
#: The shortest hold of the hand-off part: meanwhile the other process asks, subscribes and parks.
PARK_S = 0.02
#: For the interpreters to start on a loaded machine, and for the last sections behind the end of a part.
PATIENCE_S = 30.0
#: For one acquire.
TIMEOUT_S = 5.0


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    seconds: float
    processes: int
    hold: float
    prefix: str


Tell = Callable[[dict[str, Any]], object]


def perform(client: Client, environment: Mapping[str, str], plan: Plan, tell: Tell) -> int:
    """Measure everything; the number of overlaps, which a lock keeps at 0. Raises WorkerError."""
    run = uuid.uuid4().hex
    names = [f"{plan.prefix}{run}{part}" for part in ("", ":hand-off", ":contended", ":fair")]
    with ExitStack() as stack:
        probes = []
        for endpoint in client._endpoints:
            probes.append(Probe(endpoint))
            stack.callback(probes[-1].close)
        for probe in probes:
            stack.callback(probe.forget, names)
        tell(_setup(client, probes, plan))
        times = measure(client, probes, names[0], plan.seconds * ALONE)
        for probe in probes:
            tell({"measured": "latency", "master": probe.master, "fault": probe.fault} | spread(probe.times))
        pairs = spread(times)
        tell({"measured": "pair", **pairs, "pairs_per_second": len(times) / sum(times)})
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rlock-bench-")))
        workers = WorkerProcesses(plan.processes, folder, environment)
        stack.callback(workers.end)
        workers.wait(PATIENCE_S)
        hold = max(PARK_S, 5 * (pairs["p50"] or 0.0))
        load = Load(names[1], (hold, hold), (hold / 2, hold / 2), timeout=TIMEOUT_S)
        holds = contend(workers, load, plan.seconds * HAND_OFF, processes=2)
        wrong = len(overlaps(holds))
        times = delays(hand_offs(holds, waited=int(hold / 2 * SECOND)))
        tell({"measured": "hand-off", **spread(times), "hold": hold})
        for fair, share in ((False, CONTENDED), (True, FAIR)):
            load = Load(names[3 if fair else 2], (plan.hold, plan.hold), fair=fair, timeout=TIMEOUT_S)
            holds = contend(workers, load, plan.seconds * share, plan.processes)
            wrong += len(overlaps(holds))
            tell(_contended(holds, plan, fair, plan.seconds * share * (1 - LEAD)))
    return wrong


def contend(workers: WorkerProcesses, load: Load, seconds: float, processes: int) -> list[Attempt]:
    """Let so many processes contend; the holds that count.

    The first tenth is for connecting and queueing. Holds that last beyond the end count for nobody.
    """
    begin_at = now_ns() + SECOND // 20
    end_at = begin_at + int(seconds * SECOND)
    load = replace(load, buffered=True, begin_at=begin_at, end_at=end_at)
    for worker in workers.workers[:processes]:
        worker.order(load)
    workers.wait(seconds + PATIENCE_S)
    for process, error in workers.history.errors:
        raise WorkerError(f"{process}: {error}")
    workers.history.horizon = now_ns()  # all are idle: every line has been read
    opened_at = begin_at + int(seconds * LEAD * SECOND)
    holds = [hold for hold in workers.history.holds if hold.lock == load.lock]
    return [hold for hold in holds if hold.grant.at >= opened_at and (hold.left_at or end_at) < end_at]


def spread(times: Sequence[float]) -> dict[str, Any]:
    """Count, percentiles and maximum; None where there is no time."""
    if not times:
        return {"count": 0, "p50": None, "p90": None, "p99": None, "max": None}
    cuts = statistics.quantiles([*times, *times] if len(times) == 1 else times, n=100, method="inclusive")
    return {"count": len(times), "p50": cuts[49], "p90": cuts[89], "p99": cuts[98], "max": max(times)}


def _contended(holds: Sequence[Attempt], plan: Plan, fair: bool, seconds: float) -> dict[str, Any]:
    counted = Counter(hold.process for hold in holds)
    return {
        "measured": "contended",
        "fair": fair,
        "processes": plan.processes,
        "hold": plan.hold,
        "sections": len(holds),
        "sections_per_second": len(holds) / seconds,
        "owner_changes_per_second": len(owner_changes(holds)) / seconds,
        "jain": jain([*counted.values(), *[0] * (plan.processes - len(counted))]),
        "overlaps": len(overlaps(holds)),
    }


def _setup(client: Client, probes: Sequence[Probe], plan: Plan) -> dict[str, Any]:
    return {
        "measured": "setup",
        "masters": [{"master": probe.master, "fault": probe.fault} for probe in probes],
        "quorum": quorum(len(probes)),
        "ttl": client.ttl,
        "seconds": plan.seconds,
        "rlock": __version__,
        "library": f"{library.__name__}-py {library.__version__}",
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
    }


class Lines:
    """The same for people."""

    def __call__(self, told: dict[str, Any]) -> None:
        """One part."""
        getattr(self, f"_{told['measured'].replace('-', '_')}")(told)

    def _setup(self, told: dict[str, Any]) -> None:
        show(
            f"rlock {told['rlock']}, {told['library']}, Python {told['python']}, "
            f"{told['machine']}, {told['cores']} cores, load {told['load']:.1f}"
        )
        show(f"{len(told['masters'])} masters, quorum {told['quorum']}, ttl {told['ttl']:g} s")
        show()
        show(f"{'milliseconds':<34} {'p50':>8} {'p90':>8} {'p99':>8} {'max':>8} {'count':>8}")

    def _row(self, title: str, told: dict[str, Any], note: str = "") -> None:
        if not told["count"]:
            show(f"{title:<34} {'none':>8}  {told.get('fault') or note}")
            return
        cells = " ".join(f"{told[key] * 1e3:8.3f}" for key in ("p50", "p90", "p99", "max"))
        show(f"{title:<34} {cells} {told['count']:8d}{f'  {note}' if note else ''}")

    def _latency(self, told: dict[str, Any]) -> None:
        self._row(f"ping {told['master']}", told, told["fault"] or "")

    def _pair(self, told: dict[str, Any]) -> None:
        self._row("acquire + release", told, f"{told['pairs_per_second']:,.0f} a second")

    def _hand_off(self, told: dict[str, Any]) -> None:
        self._row("release to next owner", told, "another process, which was waiting")

    def _contended(self, told: dict[str, Any]) -> None:
        mode = "fair" if told["fair"] else "default"
        fairness = "-" if told["jain"] is None else f"{told['jain']:.3f}"
        show()
        show(
            f"{told['processes']} processes, {mode} mode, held for {told['hold'] * 1e3:g} ms: "
            f"{told['sections_per_second']:,.0f} sections a second, "
            f"{told['owner_changes_per_second']:,.0f} owner changes a second,"
        )
        show(f"  Jain's index {fairness} (1: all had as many turns), overlaps {told['overlaps']}")
