"""Facts: the answers of each master. No judgement here."""

from __future__ import annotations

import enum
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ...rules.quorum import quorum
from ...rules.replies import online
from ...rules.restart_guard import MemoryReport, Note
from ...rules.timing import guard_time
from ..numbers import whole
from .acl import Permissions


class Trouble(enum.Enum):
    """Why a master was not examined: what is wrong, and what to do."""

    DNS = (
        "its name cannot be resolved",
        "mend the name in DNS or /etc/hosts, or name the master by its address",
    )
    REFUSED = (
        "nobody listens there",
        "read its log, then start the server (with `appendfsync always` a full disk ends it); or correct "
        "host and port; a server that listens on 127.0.0.1 only needs `bind` in its configuration",
    )
    TIMEOUT = (
        "no answer in time",
        "is the machine up, does a firewall drop the packets, is the server stopped or busy, does the URL "
        "say rediss:// for a port without TLS? Try: redis-cli -h HOST -p PORT --latency",
    )
    UNREACHABLE = ("it cannot be reached", "is there a route to it? Try: ping HOST")
    TLS = (
        "no TLS connection can be made",
        "does it speak TLS on this port (rediss:// in the URL asks for that), is its certificate for this "
        "host name and signed by an authority that this machine knows (?ssl_ca_certs=FILE)?",
    )
    PROTOCOL = ("the server there speaks another protocol", "correct the port")
    CLOSED = (
        "it closes the connection",
        "a proxy without pub/sub, or another program, listens there; or it wants TLS: rediss:// in the URL",
    )
    CROWDED = (
        "it accepts no more connections",
        "find the program that holds so many connections (CLIENT LIST), or raise maxclients",
    )
    PROTECTED = (
        "it is in protected mode, and accepts connections from its own machine only",
        "set a password and the right `bind`, in place of protected mode",
    )
    DENIED = ("it refuses the user or the password", "correct user and password in the URL")
    REFUSING = (
        "it refuses the connection",
        "correct what it complains about in the URL, such as the number of the database",
    )
    CUT_SHORT = (
        "it answered at first, and then no more",
        "does it hang, was it paused (CLIENT UNPAUSE ends that), or is a limit near (`connections`)? Look "
        "into its log, and run this again",
    )

    @property
    def answered(self) -> bool:
        """The master was reached: not the network is at fault, but what it said."""
        return self.name in ("DENIED", "PROTECTED", "CROWDED", "REFUSING", "CUT_SHORT")


@dataclass(frozen=True)
class ClockSample:
    """A master's time, at the middle of a round trip. Seconds."""

    local_at: float  # on our clock, which counts on whatever is done to the wall clock
    time: float  # on the master's
    error: float  # half of the round trip: the master may have read its clock at either end of it

    @property
    def offset(self) -> float:
        """Difference between the master's clock and ours, whose zero is arbitrary."""
        return self.time - self.local_at


@dataclass
class Target:
    """What the URL says, and where it led."""

    master: str
    database: int = 0
    tls: bool = False
    local: bool = False  # on this machine
    user: str = "default"
    with_password: bool = False
    addresses: tuple[str, ...] = ()  # of its host name
    address: str | None = None  # of the connection
    port: int | None = None
    replicas: int | None = None  # as configured for its group; None: it is no group


@dataclass
class Timing:
    """Round trips in seconds, and the clock."""

    round_trips: list[float] = field(default_factory=list)
    scripts: list[float] = field(default_factory=list)
    clock: ClockSample | None = None
    clock_later: ClockSample | None = None
    replica_clocks: dict[str, ClockSample | str] = field(default_factory=dict)  # text: why there is none

    @property
    def latency(self) -> float | None:
        """The median round trip."""
        return statistics.median(self.round_trips) if self.round_trips else None

    def rate(self) -> tuple[float, float] | None:
        """How much faster than ours the clock runs (0.01: 1 %), and the uncertainty."""
        first, second = self.clock, self.clock_later
        if first is None or second is None or second.local_at <= first.local_at:
            return None
        passed = second.local_at - first.local_at
        return (second.offset - first.offset) / passed, (first.error + second.error) / passed


@dataclass
class Memory:
    """What a restart costs: durability, and the restart guard."""

    durable: bool | None = None  # a restart loses nothing; None: it does not tell
    report: MemoryReport | None = None
    guarded: float = 0.0  # seconds for which the restart guard gives it no vote
    guard_reason: str = ""

    @property
    def note(self) -> Note | None:
        """The note of the restart guard."""
        return Note.parse(self.report.note) if self.report else None


@dataclass
class Facts:
    """One master. ``None``: it does not tell, or was not asked."""

    target: Target
    trouble: Trouble | None = None
    fault: str | None = None  # the trouble, in the words of the master or the system
    timing: Timing = field(default_factory=Timing)
    memory: Memory = field(default_factory=Memory)
    info: dict[str, str] | None = None
    config: dict[str, str] = field(default_factory=dict)
    permissions: Permissions = field(default_factory=Permissions)
    other_run_id: str | None = None  # told by a second connection
    unheard: bool = False  # a published message reached nobody, though there was a subscriber
    twice: int = 0  # channels of one client each that have several subscribers
    write_fault: str | None = None  # why it granted no lock

    def text(self, name: str) -> str | None:
        """A field of INFO."""
        return None if self.info is None else self.info.get(name)

    def number(self, name: str) -> int | None:
        """A field of INFO that is a number."""
        return whole(self.text(name))

    @property
    def master(self) -> str:
        """Its name in reports."""
        return self.target.master

    @property
    def reached(self) -> bool:
        """It answered, whatever it said."""
        return self.trouble is None or self.trouble.answered

    @property
    def examined(self) -> bool:
        """It answered questions."""
        return self.trouble in (None, Trouble.CUT_SHORT)

    @property
    def flavour(self) -> str | None:
        """Redis, Valkey, or another name that the server calls itself."""
        if self.text("mvcc_depth") or "keydb" in (self.text("executable") or ""):
            return "KeyDB"  # otherwise it says that it is Redis
        for name in ("valkey", "dragonfly", "garnet", "kvrocks", "redis"):
            if self.text(f"{name}_version"):
                return name.capitalize()
        return None

    @property
    def version(self) -> str | None:
        """As it tells."""
        name = "redis" if self.flavour == "KeyDB" else (self.flavour or "").lower()
        return self.text(f"{name}_version")

    @property
    def release(self) -> tuple[int, ...] | None:
        """The version as numbers."""
        found = re.search(r"(\d+)\.(\d+)", self.version or "")  # Dragonfly: df-v1.2.3
        return tuple(map(int, found.groups())) if found else None

    @property
    def mode(self) -> str | None:
        """standalone, cluster, sentinel."""
        return self.text("redis_mode") or self.text("server_mode")

    @property
    def role(self) -> str | None:
        """master or replica."""
        role = self.text("role")
        return "replica" if role == "slave" else role

    @property
    def run_id(self) -> str | None:
        """Of the server since its last start."""
        return self.text("run_id")

    @property
    def replica_addresses(self) -> list[tuple[str, int]]:
        """Of the replicas that are connected and in step."""
        return [(host, int(port)) for host, port in online(self.info or {})]


@dataclass
class Fleet:
    """All masters, and the times of this client. Seconds."""

    masters: Sequence[Facts]
    ttl: float = 10.0
    max_ttl: float = 10.0
    request_timeout: float = 0.5
    restart_guard: float | None = None  # as it was set; 0: off

    @property
    def quorum(self) -> int:
        """How many masters make one."""
        return quorum(len(self.masters))

    @property
    def spare(self) -> int:
        """How many masters may fail."""
        return len(self.masters) - self.quorum

    @property
    def guard_off(self) -> bool:
        """The restart guard is turned off."""
        return self.restart_guard == 0

    @property
    def guard_s(self) -> float:
        """For how long a master that restarted has no vote."""
        return 0.0 if self.guard_off else max(guard_time(self.max_ttl), self.restart_guard or 0.0)

    @property
    def examined(self) -> list[Facts]:
        """Masters that answered questions."""
        return [facts for facts in self.masters if facts.examined]

    def clock_offset(self, facts: Facts) -> tuple[float, float] | None:
        """How far a master's clock is ahead of the median of the masters, and the uncertainty."""
        own = facts.timing.clock
        samples = [each.timing.clock for each in self.masters if each.timing.clock is not None]
        if own is None or len(samples) < 2:
            return None
        # A whole master, not the mean of two: of two clocks that differ by an hour none is half an hour off.
        middle = sorted(samples, key=lambda sample: sample.offset)[(len(samples) - 1) // 2]
        return (0.0, 0.0) if own is middle else (own.offset - middle.offset, own.error + middle.error)


#: Names in `--json`, as the other commands have them, and the fields of INFO.
_FROM_INFO = {
    "uptime": "uptime_in_seconds",
    "memory": "used_memory",
    "max_memory": "maxmemory",
    "clients": "connected_clients",
    "max_clients": "maxclients",
}


def as_json(facts: Facts, fleet: Fleet) -> dict[str, Any]:
    """The facts of a master as `--json` prints them, with the words of the other commands."""
    rate, offset = facts.timing.rate() or (None, None), fleet.clock_offset(facts) or (None, None)
    return {
        "master": facts.master,
        "fault": facts.fault,
        "latency": facts.timing.latency,
        "latency_max": max(facts.timing.round_trips, default=None),
        "flavour": facts.flavour,
        "version": facts.version,
        "role": facts.role,
        "mode": facts.mode,
        "durable": facts.memory.durable,
        "guarded": facts.memory.guarded,
        **{name: facts.number(field) for name, field in _FROM_INFO.items()},
        "eviction_policy": facts.text("maxmemory_policy"),
        "address": facts.target.address,
        "user": facts.target.user,
        "missing_permissions": facts.permissions.rules,
        "missing_optional": [f"+{command}" for command in facts.permissions.optional],
        "clock_offset": offset[0],
        "clock_offset_error": offset[1],
        "clock_rate": rate[0],
        "clock_rate_error": rate[1],
    }
