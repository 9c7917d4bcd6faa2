"""All masters together: how many there are, whether they are different ones, and what fails at once."""

from __future__ import annotations

import ipaddress
from collections import defaultdict
from collections.abc import Iterator

from ...output import listed, seconds
from ..facts import Facts, Fleet
from ..findings import Severity, Told, error, note, of_fleet, warning

_HERE = "this machine"


@of_fleet("masters", Severity.WARNING, "An odd number of masters, three or more.")
def masters(fleet: Fleet) -> Iterator[Told]:
    """How many may fail."""
    count = len(fleet.masters)
    if count == 1:
        yield note(
            "there is one master",
            "that works, and there is nobody to take over: when it is away nobody gets a lock, and what is "
            "held is lost when its lease ends",
            "three masters on three machines survive the loss of one, five of two",
        )
    elif count % 2 == 0:
        yield warning(
            f"{count} masters are an even number: {fleet.quorum} have to agree, {fleet.spare} may fail",
            f"{count - 1} survive as many failures, with one server less that can fail"
            if count > 2
            else "each of the two stops all locks when it fails: that is worse than one master",
            f"use {count + 1}" + (f", or {count - 1}" if count > 2 else ", or one"),
        )


@of_fleet("duplicate", Severity.ERROR, "Each master is a server of its own.")
def duplicate(fleet: Fleet) -> Iterator[Told]:
    """A majority of one server is none."""
    by_server: dict[object, list[Facts]] = defaultdict(list)
    for facts in fleet.examined:
        place = (facts.address, facts.port) if facts.address else facts.master
        by_server[facts.run_id or place].append(facts)
    places: dict[object, list[Facts]] = defaultdict(list)
    for facts in fleet.examined:
        if facts.address:
            places[facts.address, facts.port].append(facts)
    told: set[tuple[str, ...]] = set()
    for same in [*by_server.values(), *places.values()]:
        names = tuple(facts.master for facts in same)
        if len(same) > 1 and names not in told:
            told.add(names)
            known = f" (run_id {same[0].run_id[:8]})" if same[0].run_id else f" ({same[0].address})"
            yield error(
                f"{listed(list(names))} are one server{known}",
                "a majority of one server is none: when it fails, all these votes are gone",
                "name each server once; for another vote start another server",
                master=names[-1],
            )


@of_fleet("hosts", Severity.WARNING, "No host, and no network, takes several masters with it.")
def hosts(fleet: Fleet) -> Iterator[Told]:
    """Failure domains, as far as addresses tell."""
    count = len(fleet.masters)
    by_host: dict[str, list[str]] = defaultdict(list)
    for facts in fleet.masters:
        if facts.address or facts.addresses:
            by_host[_host(facts)].append(facts.master)
    if count < 2 or not by_host:
        return
    if list(by_host) == [_HERE]:
        if len(by_host[_HERE]) == count:
            yield note(
                f"all {count} masters are on this machine",
                "they fail with it, and nobody elsewhere can use them: fine for tests and a first look",
                "put each on a machine of its own for anything else",
            )
        return
    for host, names in by_host.items():
        if len(names) > 1:
            fatal = len(names) > fleet.spare
            yield warning(
                f"{len(names)} of {count} masters may fail together: {listed(names)} are on {host}",
                f"that is more than the {fleet.spare} that may fail: without this host nobody gets a lock"
                if fatal
                else f"{fleet.spare} may fail, and this host alone takes {len(names)} of them",
                "put each master on a machine of its own (power, rack and zone as well)",
            )
    networks: dict[str, list[str]] = defaultdict(list)
    for host in by_host:
        if host != _HERE and (network := _network(host)):
            networks[network].append(host)
    for network, together in networks.items():
        names = [name for host in together for name in by_host[host]]
        if len(together) > 1 and len(names) > fleet.spare:
            yield note(
                f"{len(names)} of {count} masters are in one network, {network}",
                "one switch, rack or zone may take more masters than may fail",
                "where machines can be had in several zones, spread the masters over them",
            )


def _host(facts: Facts) -> str:
    return _HERE if facts.local else (facts.address or facts.addresses[0])


def _network(host: str) -> str | None:
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return str(ipaddress.ip_network((address, 24 if address.version == 4 else 64), strict=False))


@of_fleet("mixed-versions", Severity.NOTE, "All masters run one version.")
def mixed_versions(fleet: Fleet) -> Iterator[Told]:
    """Allowed, and a thing to remember."""
    versions: dict[str, list[str]] = defaultdict(list)
    for facts in fleet.examined:
        if facts.release:
            versions[f"{facts.flavour} {'.'.join(map(str, facts.release))}"].append(facts.master)
    if len(versions) > 1:
        yield note(
            "masters run different versions: "
            + "; ".join(f"{version} on {listed(names)}" for version, names in versions.items()),
            "that is allowed, as in the course of an upgrade",
            "upgrade the rest in its time, one after another",
        )


@of_fleet("databases", Severity.WARNING, "All URLs name the same database.")
def databases(fleet: Fleet) -> Iterator[Told]:
    """A client with another list would not see the locks."""
    by_number: dict[int, list[str]] = defaultdict(list)
    for facts in fleet.masters:
        by_number[facts.database].append(facts.master)
    if len(by_number) > 1:
        yield warning(
            "the URLs name different databases: "
            + "; ".join(f"{number} on {listed(names)}" for number, names in sorted(by_number.items())),
            "a client that names another one on a master neither sees the locks there nor is seen: most "
            "likely one of the URLs is wrong",
            "use one number everywhere, and the same for all clients",
        )


@of_fleet("votes", Severity.ERROR, "A quorum of masters has a vote now.")
def votes(fleet: Fleet) -> Iterator[Told]:
    """New deployments, mostly."""
    waits = sorted(facts.guarded for facts in fleet.examined)
    free = sum(wait == 0 for wait in waits)
    if free >= fleet.quorum or len(waits) < fleet.quorum:
        return
    until = waits[fleet.quorum - 1]
    yield error(
        f"{free} of {len(fleet.masters)} masters have a vote now, {fleet.quorum} are needed: the restart "
        f"guard holds the others back for {seconds(until)} more",
        "nobody gets a lock until then: what they have forgotten may still be locked",
        "wait; or, only if they are new and nothing can have been locked before: rlock init",
    )


@of_fleet("guard-off", Severity.WARNING, "The restart guard is on.")
def guard_off(fleet: Fleet) -> Iterator[Told]:
    """restart_guard=0 is for tests."""
    if fleet.guard_off:
        yield warning(
            "the restart guard of this client is off (RLOCK_RESTART_GUARD=0)",
            "a master that restarts can give a held lock to a second owner",
            "unset RLOCK_RESTART_GUARD; for new masters there is: rlock init",
        )


@of_fleet("probe", Severity.ERROR, "A lock of our own is acquired and released on all masters.")
def probe(fleet: Fleet) -> Iterator[Told]:
    """The real thing."""
    if fleet.probe is not None and fleet.probe.fault:
        yield error(
            f"a lock could not be acquired and released: {fleet.probe.fault}",
            "what this command cannot do, no client can",
            "see the findings about the masters; if there are none, this is a bug: please report it",
        )
