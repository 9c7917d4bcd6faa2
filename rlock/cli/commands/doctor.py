"""`rlock doctor`: what is wrong with the masters, and what to do about it."""

from __future__ import annotations

import click

from ...rules.keys import WIRES
from .. import exits
from ..doctor.acl import Scope
from ..doctor.examine import examine
from ..doctor.facts import Fleet, Trouble
from ..doctor.facts import as_json as facts_as_json
from ..doctor.findings import Finding, Severity, diagnose
from ..doctor.report import report
from ..options import seconds_option
from ..output import json_option, print_json, show
from ..settings import Settings, settings_options


@click.command()
@click.option(
    "--name",
    metavar="NAME",
    help="Check the permissions for the lock NAME, or for all names that begin so: 'orders:*'.",
)
@click.option("--strict", is_flag=True, help="Exit with 1 if there are warnings, too.")
@seconds_option(
    "--measure",
    within=(0, 3600),
    default=2.0,
    told="Seconds between two looks at the masters' clocks; 0: one look, which tells no rate.",
)
@json_option
@settings_options
def doctor(*, name: str | None, strict: bool, measure: float, as_json: bool, settings: Settings) -> int:
    """Check every master, and say what to do about each finding.

    An error: locking does not work, or is not safe. A warning: it works, and a fault will hurt. A note: good
    to know. What each check means is in docs/doctor.md.

    It changes nothing, but for a lock of its own that it takes, gives back and removes. It needs no more
    permissions than a client of the lock, and sees more with +info and +config|get. It takes some seconds,
    also with masters that are dead.

    Exit status: 0 no errors; 1 errors, or with --strict warnings; 69 fewer than a quorum of masters can be
    reached; 64 no masters are named, or they refuse the user or the password.
    """
    client = settings.client()
    options = client._options
    scope, timeout = Scope(name, WIRES[options.interop]), options.lease(None).request_timeout
    fleet = Fleet((), options.ttl, options.max_ttl, timeout, options.restart_guard)
    examine(client._endpoints, fleet, scope, measure)
    findings = diagnose(fleet)
    if as_json:
        masters = [facts_as_json(facts, fleet) for facts in fleet.masters]
        print_json({"masters": masters, "quorum": fleet.quorum, "findings": findings})
    else:
        for line in report(fleet, findings):
            show(line)
    return _code(fleet, findings, strict=strict)


def _code(fleet: Fleet, findings: list[Finding], *, strict: bool) -> int:
    refusing = sum(facts.trouble in (Trouble.DENIED, Trouble.REFUSING) for facts in fleet.masters)
    if refusing > len(fleet.masters) - fleet.quorum:
        return exits.USAGE
    if sum(facts.reached for facts in fleet.masters) < fleet.quorum:
        return exits.UNREACHABLE
    failing = {Severity.ERROR, Severity.WARNING} if strict else {Severity.ERROR}
    return exits.FAILED if any(finding.severity in failing for finding in findings) else 0
