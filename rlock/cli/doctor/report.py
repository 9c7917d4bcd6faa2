"""The report, for people: one block for each master, the findings, the worst first, and a closing line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ..output import counted, ms, percent, seconds, size, span, styled
from .facts import Facts, Fleet
from .findings import Finding, Severity

_COLOUR = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}


def report(fleet: Fleet, findings: Sequence[Finding]) -> Iterator[str]:
    """Line by line."""
    for facts in fleet.masters:
        worst = next((f.severity for f in findings if f.master == facts.master), None)
        name = styled(facts.master, bold=True)
        mark = styled("ok", fg="green") if worst is None else styled(worst.value, fg=_COLOUR[worst])
        yield f"{name}  {mark}"
        yield f"  {', '.join(_facts(facts, fleet))}"
    for finding, masters in _alike(findings):
        yield ""
        label = styled(f"{finding.severity.value} [{finding.check}]", fg=_COLOUR[finding.severity], bold=True)
        where = f"{', '.join(masters)}: " if masters else ""
        yield f"{label} {where}{finding.what}"
        yield f"  why: {finding.why}"
        yield f"  do:  {finding.action}"
        for command in finding.commands:
            yield f"       {styled(command, bold=True)}"
    yield ""
    yield closing(fleet, findings)


def _alike(findings: Sequence[Finding]) -> Iterator[tuple[Finding, list[str]]]:
    """Each finding once, with its masters: nobody reads the same text five times."""
    found: dict[Finding, list[str]] = {}
    for finding in findings:
        masters = found.setdefault(replace(finding, master=None), [])
        if finding.master is not None:
            masters.append(finding.master)
    yield from found.items()


def closing(fleet: Fleet, findings: Sequence[Finding]) -> str:
    """The counts."""
    counts = Counter(finding.severity for finding in findings)
    told = ", ".join(
        f"{counts[severity]} {severity.value}{'' if counts[severity] == 1 else 's'}" for severity in Severity
    )
    answered = sum(facts.examined for facts in fleet.masters)
    plural = "" if len(fleet.masters) == 1 else "s"
    return f"{answered} of {len(fleet.masters)} master{plural} answered, quorum {fleet.quorum}: {told}"


def _facts(facts: Facts, fleet: Fleet) -> Iterator[str]:
    if not facts.examined:
        yield facts.fault or "no answer"
        return
    timing, uptime = facts.timing, facts.number("uptime_in_seconds")
    if facts.version:
        yield f"{facts.flavour} {facts.version}"
    if facts.role and facts.target.replicas is not None:
        leads = f"primary {facts.target.address}:{facts.target.port}"
        yield f"{leads}, {len(facts.replica_addresses)} of {facts.target.replicas} replicas"
    elif facts.role:
        yield facts.role
    if timing.latency is not None:
        yield f"round trip {ms(timing.latency)} (at most {ms(max(timing.round_trips))})"
    if uptime is not None:
        yield f"up {seconds(uptime)}"
    if facts.memory.durable is not None:
        yield "durable" if facts.memory.durable else "forgets in a restart"
    used, limit = facts.number("used_memory"), facts.number("maxmemory")
    if used is not None:
        yield f"{size(used)} of {size(limit)}" if limit else size(used)
    if (clients := facts.number("connected_clients")) is not None:
        yield counted(clients, "client")
    if (offset := fleet.clock_offset(facts)) is not None:
        yield f"clock {'+' if offset[0] >= 0 else '-'}{span(offset[0])} ± {span(offset[1])}"
    if (rate := timing.rate()) is not None:
        yield f"rate {'+' if rate[0] >= 0 else '-'}{percent(rate[0])} ± {percent(rate[1])}"
    if facts.info is None:
        yield f"user {facts.target.user} may not ask for more"
