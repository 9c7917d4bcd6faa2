"""Findings, and the list of all checks: what `rlock doctor` and docs/doctor.md know."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
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

    check: str
    severity: Severity
    master: str | None  # None: it is about the fleet
    what: str
    why: str
    action: str
    commands: tuple[str, ...] = ()  # lines for redis-cli or valkey-cli, to copy


class Told(NamedTuple):
    """A finding as a check tells it, which knows neither its own name nor where it looks."""

    severity: Severity
    what: str
    why: str
    action: str
    commands: tuple[str, ...] = ()
    master: str | None = None  # for checks of a fleet that can name one


def error(what: str, why: str, action: str, *commands: str, master: str | None = None) -> Told:
    """Locking does not work, or is not safe."""
    return Told(Severity.ERROR, what, why, action, commands, master)


def warning(what: str, why: str, action: str, *commands: str, master: str | None = None) -> Told:
    """It works; a fault will hurt."""
    return Told(Severity.WARNING, what, why, action, commands, master)


def note(what: str, why: str, action: str, *commands: str, master: str | None = None) -> Told:
    """Good to know."""
    return Told(Severity.NOTE, what, why, action, commands, master)


class Check(NamedTuple):
    """One entry of the list."""

    name: str
    meaning: str
    worst: Severity
    of_master: Callable[[Facts, Fleet], Iterable[Told]] | None
    of_fleet: Callable[[Fleet], Iterable[Told]] | None


#: All checks by name, in the order in which they are written down in checks/.
CHECKS: dict[str, Check] = {}

MasterCheck = Callable[[Facts, Fleet], Iterator[Told]]
FleetCheck = Callable[[Fleet], Iterator[Told]]


def of_master(name: str, worst: Severity, meaning: str) -> Callable[[MasterCheck], MasterCheck]:
    """A check that looks at one master."""

    def add(run: MasterCheck) -> MasterCheck:
        CHECKS[name] = Check(name, meaning, worst, run, None)
        return run

    return add


def of_fleet(name: str, worst: Severity, meaning: str) -> Callable[[FleetCheck], FleetCheck]:
    """A check that looks at all masters together."""

    def add(run: FleetCheck) -> FleetCheck:
        CHECKS[name] = Check(name, meaning, worst, None, run)
        return run

    return add


def diagnose(fleet: Fleet) -> list[Finding]:
    """All that is to be said, the worst first, and in the order of the masters."""
    found: list[Finding] = []
    for check in CHECKS.values():
        if check.of_fleet is not None:
            found += (_finding(check, told, told.master) for told in check.of_fleet(fleet))
        if check.of_master is not None:
            for facts in fleet.masters:
                found += (_finding(check, told, facts.master) for told in check.of_master(facts, fleet))
    order = {facts.master: i for i, facts in enumerate(fleet.masters)}
    return sorted(found, key=lambda each: (each.severity.rank, order.get(each.master or "", -1)))


def _finding(check: Check, told: Told, master: str | None) -> Finding:
    return Finding(check.name, told.severity, master, told.what, told.why, told.action, told.commands)
