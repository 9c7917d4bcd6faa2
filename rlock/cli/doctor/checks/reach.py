"""Can each master be reached, is it one, and is it fast enough?"""

from __future__ import annotations

from collections.abc import Iterator

from ...output import ms
from ..facts import ANSWERED, Facts, Fleet, Trouble
from ..findings import Severity, Told, error, note, of_fleet, of_master, warning

_NO_VOTE = "it has no vote; a quorum has to come from the others"

_ACTIONS = {
    Trouble.DNS: "mend the name in DNS or /etc/hosts, or name the master by its address",
    Trouble.REFUSED: "read its log, then start the server (with `appendfsync always` a full disk ends it); "
    "or correct host and port; a server that listens on 127.0.0.1 only needs `bind` in its configuration",
    Trouble.TIMEOUT: "is the machine up, does a firewall drop the packets, is the server stopped or busy? "
    "Try: redis-cli -h HOST -p PORT --latency",
    Trouble.UNREACHABLE: "is there a route to it? Try: ping HOST",
    Trouble.TLS: "does it speak TLS on this port (rediss:// in the URL asks for that), is its certificate "
    "for this host name and signed by an authority that this machine knows (?ssl_ca_certs=FILE)?",
    Trouble.PROTOCOL: "something else listens there: correct the port",
    Trouble.CLOSED: "something else listens there, or it wants TLS: then write rediss:// in the URL",
    Trouble.CROWDED: "find who holds so many connections (CLIENT LIST), or raise maxclients",
    Trouble.PROTECTED: "set a password and the right `bind`, in place of protected mode",
    Trouble.REFUSING: "correct what it complains about in the URL, such as the number of the database",
}
_WHAT = {
    Trouble.DNS: "its name cannot be resolved",
    Trouble.REFUSED: "nobody listens there",
    Trouble.TIMEOUT: "no answer in time",
    Trouble.UNREACHABLE: "it cannot be reached",
    Trouble.TLS: "no TLS connection can be made",
    Trouble.PROTOCOL: "what answers speaks another protocol",
    Trouble.CLOSED: "it closes the connection",
    Trouble.CROWDED: "it accepts no more connections",
    Trouble.PROTECTED: "it is in protected mode, and accepts connections from its own machine only",
    Trouble.REFUSING: "it refuses the connection",
}


@of_fleet("quorum", Severity.ERROR, "A quorum of masters can be reached.")
def quorum(fleet: Fleet) -> Iterator[Told]:
    """Fewer than a quorum: no lock."""
    reached = sum(facts.reached for facts in fleet.masters)
    if reached < fleet.quorum:
        yield error(
            f"{reached} of {len(fleet.masters)} masters can be reached, {fleet.quorum} are needed",
            "nobody can acquire a lock, and holders lose theirs when their leases end",
            "bring back what is missing; each master has its own finding",
        )


@of_master("reachable", Severity.ERROR, "Each master can be reached, and says nothing strange.")
def reachable(facts: Facts, fleet: Fleet) -> Iterator[Told]:
    """Network, names, TLS, protocol."""
    if facts.trouble is not None and facts.trouble is not Trouble.DENIED:
        yield error(f"{_WHAT[facts.trouble]}: {facts.fault}", _NO_VOTE, _ACTIONS[facts.trouble])
    elif facts.cut_short is not None:
        yield error(
            f"it answered at first, and then not any more: {facts.cut_short}",
            "what it did not answer is not checked",
            "does it hang, was it paused (CLIENT UNPAUSE ends that), or is a limit near (`clients`)? Look "
            "into its log, and run this again",
        )


@of_master("addresses", Severity.WARNING, "The name of a master stands for one address.")
def addresses(facts: Facts, fleet: Fleet) -> Iterator[Told]:
    """A name for several servers is no master."""
    for family, told in (("IPv4", "."), ("IPv6", ":")):
        many = [
            address for address in facts.addresses if told in address and (told == ":" or ":" not in address)
        ]
        if len(many) > 1:
            yield warning(
                f"its name stands for {len(many)} {family} addresses: {', '.join(many)}",
                "two connections may lead to two servers, and a master must be one",
                "name each master by a name or an address of its own",
            )


@of_master("proxy", Severity.ERROR, "Every connection leads to the same server.")
def proxy(facts: Facts, fleet: Fleet) -> Iterator[Told]:
    """Twemproxy, Envoy, a load balancer."""
    if facts.run_id and facts.other_run_id and facts.run_id != facts.other_run_id:
        yield error(
            f"two connections led to two servers (run_id {facts.run_id[:8]} and {facts.other_run_id[:8]})",
            "a lock that one connection takes another one does not see: a proxy or a load balancer in "
            "between, or it restarted just now",
            "name each server directly; if it restarted just now, run this again",
        )
    elif "info" in facts.permissions.unknown:
        yield error(
            "it does not know the command INFO: a proxy in between, or INFO was renamed",
            "the restart guard does not see restarts through a proxy that keeps client connections open, and "
            "then a restart can give a held lock away",
            "name the server itself, or take `rename-command INFO` out of its configuration",
        )


@of_master("latency", Severity.ERROR, "Round trips, and their spread, against the request time-out.")
def latency(facts: Facts, fleet: Fleet) -> Iterator[Told]:
    """Too slow is as good as dead."""
    typical, limit = facts.latency, fleet.request_timeout
    if typical is None:
        return
    worst = max(facts.round_trips)
    told = f"round trips of {ms(typical)}, the slowest of {len(facts.round_trips)} {ms(worst)}"
    remedy = "move clients or master closer, relieve it (SLOWLOG GET, INFO commandstats), or set a longer "
    remedy += "RLOCK_REQUEST_TIMEOUT on every client"
    if typical >= limit:
        yield error(f"{told}; the request time-out is {ms(limit)}", "most of its votes come too late", remedy)
    elif worst >= limit / 2:
        yield warning(
            f"{told}: near the request time-out of {ms(limit)}",
            "under more load its votes come too late, and it counts as dead",
            remedy,
        )
    elif worst - typical >= limit / 5:
        yield note(
            f"{told}: a wide spread",
            f"the request time-out is {ms(limit)}; there is room yet",
            "look who else uses the machine, if it stays so",
        )


@of_master("scripts", Severity.WARNING, "The lock's own scripts run fast.")
def slow_scripts(facts: Facts, fleet: Fleet) -> Iterator[Told]:
    """A server that is busy with others."""
    times = facts.script_round_trips
    if times and min(times) >= fleet.request_timeout / 2:
        yield warning(
            f"a script takes {ms(min(times))}, while the request time-out is {ms(fleet.request_timeout)}",
            "its votes come late: it does much else, or runs slow commands",
            "look for slow commands, and give the lock masters of its own",
            "SLOWLOG GET 10",
        )


@of_master("tls", Severity.NOTE, "Masters on other machines are spoken to with TLS.")
def tls(facts: Facts, fleet: Fleet) -> Iterator[Told]:
    """Who listens on the way reads names, and passwords."""
    if not facts.tls and not facts.local and (facts.trouble is None or facts.trouble in ANSWERED):
        also = ", and the password" if facts.with_password else ""
        yield note(
            "no TLS on the way to another machine",
            f"who can listen there reads the names of locks{also}",
            "use rediss:// URLs, unless the network is your own",
        )


@of_master("password", Severity.NOTE, "Masters on other machines ask for a password.")
def password(facts: Facts, fleet: Fleet) -> Iterator[Told]:
    """Who can connect can release every lock."""
    if facts.examined and not facts.local and not facts.with_password:
        yield note(
            "it asks for no password",
            "whoever can connect can take every lock away, and more",
            "make a user for the lock (README: the least permissions), and a password for `default`",
        )
