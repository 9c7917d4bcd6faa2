"""Findings, and the table of all checks: the source of `rlock doctor` and of the table in docs/doctor.md."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from .facts import Facts, Fleet


class Severity(enum.Enum):
    """How bad it is."""

    ERROR = "error"  # locking does not work, or is not safe
    WARNING = "warning"  # it works; a fault will hurt
    NOTE = "note"  # good to know

    @property
    def rank(self) -> int:
        """0: the worst."""
        return list(Severity).index(self)


@dataclass(frozen=True)
class Finding:
    """One thing that was found, and what to do about it."""

    severity: Severity
    what: str
    why: str
    action: str
    commands: tuple[str, ...] = ()  # lines for redis-cli or valkey-cli, to copy
    master: str | None = None  # None: it is about the fleet
    check: str = ""  # filled in by `diagnose`


def _finding(
    severity: Severity, what: str, why: str, action: str, *commands: str, master: str | None = None
) -> Finding:
    return Finding(severity, what, why, action, commands, master)


error, warning, note = (partial(_finding, severity) for severity in Severity)


class Check(NamedTuple):
    """One entry of the table."""

    name: str
    worst: Severity
    meaning: str
    run: Callable[[Fleet], Iterator[Finding]]


#: All checks by name, in the order in which the modules of checks hold them.
CHECKS: dict[str, Check] = {}

FleetCheck = Callable[[Fleet], Iterator[Finding]]
MasterCheck = Callable[[Facts, Fleet], Iterator[Finding]]


def of_fleet(name: str, worst: Severity, meaning: str) -> Callable[[FleetCheck], FleetCheck]:
    """A check that looks at all masters together."""

    def add(run: FleetCheck) -> FleetCheck:
        CHECKS[name] = Check(name, worst, meaning, run)
        return run

    return add


def of_master(name: str, worst: Severity, meaning: str) -> Callable[[MasterCheck], MasterCheck]:
    """A check that looks at one master."""

    def add(run: MasterCheck) -> MasterCheck:
        def run_on_each(fleet: Fleet) -> Iterator[Finding]:
            for facts in fleet.masters:
                yield from (replace(found, master=facts.master) for found in run(facts, fleet))

        CHECKS[name] = Check(name, worst, meaning, run_on_each)
        return run

    return add


def diagnose(fleet: Fleet) -> list[Finding]:
    """All findings, the worst first, and in the order of the masters."""
    found = [replace(each, check=check.name) for check in CHECKS.values() for each in check.run(fleet)]
    order = {facts.master: i for i, facts in enumerate(fleet.masters)}
    return sorted(found, key=lambda each: (each.severity.rank, order.get(each.master or "", -1)))
