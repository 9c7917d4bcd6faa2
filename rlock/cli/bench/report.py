"""The whole measurement of `rlock bench`, one part after another, each told as soon as it is there."""

from __future__ import annotations

import os
import platform
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import redis

from ... import __version__
from ...client import Client
from ...rules.quorum import quorum
from ..output import show
from .crew import Crew
from .figures import Spread, hand_offs, jain, overlaps, owner_changes
from .laps import NESTED, Probe, measure

#: Shares of the time: alone, hand-off, contended in default and in fair mode.
ALONE, HAND_OFF, CONTENDED, FAIR = 0.3, 0.3, 0.25, 0.15
#: How long the one who hands off has the lock at least: the other one has to ask, subscribe and park.
PARK_S = 0.02


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    seconds: float
    processes: int
    hold: float
    prefix: str


Tell = Callable[[dict[str, Any]], object]


def perform(client: Client, environment: Mapping[str, str], plan: Plan, tell: Tell) -> int:
    """Measure everything; how many sections overlapped, which with a lock is none."""
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
        laps = measure(client, probes, names[0], plan.seconds * ALONE)
        for probe in probes:
            tell(
                {"measured": "latency", "master": probe.master, "fault": probe.fault}
                | _spread(Spread.of(probe.times))
            )
        pairs = Spread.of(laps.pairs)
        tell({"measured": "pair", **_spread(pairs), "pairs_per_second": _per_second(laps.pairs)})
        tell({"measured": "nested", **_spread(Spread.of(laps.nested)), "batch": NESTED})
        crew = stack.enter_context(Crew(plan.processes, environment))
        hold = max(PARK_S, 5 * (pairs.p50 or 0.0))
        seconds = plan.seconds * HAND_OFF
        sections = crew.contend(names[1], seconds, workers=2, hold=hold, think=hold / 2)
        wrong = overlaps(sections)
        tell({"measured": "hand-off", **_spread(Spread.of(hand_offs(sections, hold / 2))), "hold": hold})
        for fair, share in ((False, CONTENDED), (True, FAIR)):
            seconds = plan.seconds * share
            name = names[3] if fair else names[2]
            sections = crew.contend(name, seconds, workers=plan.processes, hold=plan.hold, fair=fair)
            wrong += overlaps(sections)
            counted = Counter(section.worker for section in sections)
            window = seconds * 0.9
            waits = Spread.of([section.entered - section.asked for section in sections])
            tell(
                {
                    "measured": "contended",
                    "fair": fair,
                    "processes": plan.processes,
                    "hold": plan.hold,
                    "sections": len(sections),
                    "sections_per_second": len(sections) / window,
                    "owner_changes_per_second": owner_changes(sections) / window,
                    "jain": jain([counted[number] for number in range(plan.processes)]),
                    "overlaps": overlaps(sections),
                    "waited_p50": waits.p50,
                    "waited_p99": waits.p99,
                    "waited_max": waits.max,
                }
            )
    return wrong


def _setup(client: Client, probes: Sequence[Probe], plan: Plan) -> dict[str, Any]:
    clock = time.get_clock_info("monotonic")
    return {
        "measured": "setup",
        "masters": [{"master": p.master, "server": p.server, "fault": p.fault} for p in probes],
        "quorum": quorum(len(probes)),
        "ttl": client.ttl,
        "seconds": plan.seconds,
        "rlock": __version__,
        "redis_py": redis.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "clock": f"{clock.implementation}, resolution {clock.resolution:g} s",
        "order": "round trip to each master, pair, nested pairs, and again; then hand-off, default, fair",
    }


def _spread(spread: Spread) -> dict[str, Any]:
    return {
        "count": spread.count,
        "p50": spread.p50,
        "p90": spread.p90,
        "p99": spread.p99,
        "max": spread.max,
    }


def _per_second(times: Sequence[float]) -> float | None:
    return len(times) / sum(times) if times else None


class Lines:
    """The same for people."""

    def __call__(self, told: dict[str, Any]) -> None:
        """One part."""
        getattr(self, f"_{told['measured'].replace('-', '_')}")(told)

    def _setup(self, told: dict[str, Any]) -> None:
        show(
            f"rlock {told['rlock']}, redis-py {told['redis_py']}, Python {told['python']}, "
            f"{told['machine']}, {told['cores']} cores, load {told['load']:.1f}"
        )
        show(f"{len(told['masters'])} masters, quorum {told['quorum']}, ttl {told['ttl']:g} s")
        for master in told["masters"]:
            told_by = master["fault"] or master["server"] or "does not tell its version"
            show(f"  {master['master']}  {told_by}")
        show(f"clock: {told['clock']}; order: {told['order']}")
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

    def _nested(self, told: dict[str, Any]) -> None:
        self._row("the same, nested", told, f"mean of {told['batch']} each")

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
        show(
            f"  Jain's index {fairness} (1: all had as many turns), overlaps {told['overlaps']}"
            + (
                f", waited p50 {told['waited_p50'] * 1e3:.1f} ms, p99 {told['waited_p99'] * 1e3:.1f} ms"
                if told["waited_p50"] is not None
                else ""
            )
        )
