"""Facts: what was asked of each master, and what it answered. No judgement here."""

from __future__ import annotations

import enum
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ...rules.memory_epoch import MemoryReport, Note
from ...rules.quorum import quorum
from ...rules.timing import guard_time
from ..numbers import whole
from .acl import Permissions


class Trouble(enum.Enum):
    """Why a master could not be examined."""

    DNS = "dns"
    REFUSED = "refused"
    TIMEOUT = "timeout"
    UNREACHABLE = "unreachable"
    TLS = "tls"
    PROTOCOL = "protocol"
    CLOSED = "closed"
    CROWDED = "crowded"  # maxclients
    PROTECTED = "protected"  # protected mode
    DENIED = "denied"  # user, password
    REFUSING = "refusing"  # another error while connecting


#: It was reached: an operator's permission is missing, not a network.
ANSWERED = frozenset({Trouble.DENIED, Trouble.PROTECTED, Trouble.CROWDED, Trouble.REFUSING})


@dataclass(frozen=True)
class ClockSample:
    """A master's time, at the middle of a round trip. Seconds."""

    local_at: float  # on our clock, which counts on whatever is done to the wall clock
    time: float  # on the master's
    error: float  # half of the round trip: the master may have looked at either end of it

    @property
    def offset(self) -> float:
        """Of the master's clock from ours, whose zero is somewhere."""
        return self.time - self.local_at


@dataclass
class Facts:
    """One master. ``None``: it does not tell, or was not asked. Seconds, bytes."""

    master: str
    database: int = 0
    tls: bool = False
    local: bool = False  # on this machine
    user: str = "default"
    with_user: bool = False  # the URL names a user
    with_password: bool = False
    addresses: tuple[str, ...] = ()  # what its host name stands for
    address: str | None = None  # where the connection went, without the port
    port: int | None = None
    trouble: Trouble | None = None
    fault: str | None = None
    round_trips: list[float] = field(default_factory=list)
    script_round_trips: list[float] = field(default_factory=list)
    clock: ClockSample | None = None
    clock_later: ClockSample | None = None
    info: dict[str, str] | None = None
    config: dict[str, str] = field(default_factory=dict)
    permissions: Permissions = field(default_factory=Permissions)
    other_run_id: str | None = None  # told by a second connection
    unheard: bool = False  # a message that was published reached nobody, with a subscriber there
    durable: bool | None = None  # nothing that was answered is lost by a restart; None: it does not tell
    memory_report: MemoryReport | None = None
    guarded: float = 0.0  # seconds for which the restart guard gives it no vote
    guard_reason: str = ""
    busy: str | None = None
    loading: str | None = None
    write_fault: str | None = None
    not_tried: bool = False  # the user may not lock a name of ours
    cut_short: str | None = None  # it answered at first, and then not any more

    # -- what is told in INFO ----------------------------------------------------------------------

    def text(self, name: str) -> str | None:
        """A field of INFO."""
        return None if self.info is None else self.info.get(name)

    def number(self, name: str) -> int | None:
        """A field of INFO that is a number."""
        return whole(self.text(name))

    @property
    def reached(self) -> bool:
        """It answered, whatever it said."""
        return self.trouble is None or self.trouble in ANSWERED

    @property
    def examined(self) -> bool:
        """It answered questions."""
        return self.trouble is None

    @property
    def flavour(self) -> str | None:
        """Redis, Valkey, or how else it calls itself."""
        for name in ("valkey", "dragonfly", "garnet", "kvrocks", "redis"):
            if self.text(f"{name}_version"):
                return name.capitalize()
        return None

    @property
    def version(self) -> str | None:
        """As it tells."""
        return self.text(f"{self.flavour.lower()}_version") if self.flavour else None

    @property
    def release(self) -> tuple[int, ...] | None:
        """The version as numbers."""
        found = re.match(r"(\d+)\.(\d+)", self.version or "")
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
        """Of the server's present life."""
        return self.text("run_id")

    @property
    def note(self) -> Note | None:
        """The note of the restart guard."""
        return Note.parse(self.memory_report.note) if self.memory_report else None

    @property
    def latency(self) -> float | None:
        """The median round trip."""
        return statistics.median(self.round_trips) if self.round_trips else None

    def rate(self) -> tuple[float, float] | None:
        """How much faster than ours its clock runs (0.01: 1 %), and how far off that may be."""
        first, second = self.clock, self.clock_later
        if first is None or second is None or second.local_at - first.local_at <= 0:
            return None
        passed = second.local_at - first.local_at
        return (second.offset - first.offset) / passed, (first.error + second.error) / passed


@dataclass
class Probe:
    """A lock of our own, for real: on all masters together."""

    name: str
    acquire: float | None = None  # seconds
    release: float | None = None
    fault: str | None = None
    skipped: str | None = None  # why it was not tried


@dataclass
class Fleet:
    """All masters, and the times of this client. Seconds."""

    masters: Sequence[Facts]
    ttl: float = 10.0
    max_ttl: float = 10.0
    request_timeout: float = 0.5
    restart_guard: float | None = None  # as it was set; 0: off
    probe: Probe | None = None

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
        """Those that answered questions."""
        return [facts for facts in self.masters if facts.examined]


def plain(facts: Facts, fleet: Fleet) -> dict[str, Any]:
    """The facts of a master as `--json` prints them, with the words of the other commands."""
    rate, offset = facts.rate(), clock_offset(facts, fleet)
    missing = facts.permissions
    return {
        "master": facts.master,
        "fault": facts.fault,
        "latency": facts.latency,
        "latency_max": max(facts.round_trips, default=None),
        "script_latency": statistics.median(facts.script_round_trips) if facts.script_round_trips else None,
        "flavour": facts.flavour,
        "version": facts.version,
        "role": facts.role,
        "mode": facts.mode,
        "uptime": facts.number("uptime_in_seconds"),
        "durable": facts.durable,
        "guarded": facts.guarded,
        "memory": facts.number("used_memory"),
        "max_memory": facts.number("maxmemory"),
        "eviction_policy": facts.text("maxmemory_policy"),
        "clients": facts.number("connected_clients"),
        "max_clients": facts.number("maxclients"),
        "address": facts.address,
        "user": facts.user,
        "missing_permissions": [
            *(f"+{command}" for command in missing.commands),
            *missing.keys,
            *missing.channels,
        ],
        "missing_optional": [f"+{command}" for command in missing.optional],
        "clock_offset": offset and offset[0],
        "clock_offset_error": offset and offset[1],
        "clock_rate": rate and rate[0],
        "clock_rate_error": rate and rate[1],
    }


def clock_offset(facts: Facts, fleet: Fleet) -> tuple[float, float] | None:
    """How far ahead of the median of the masters its clock is, and how far off that may be."""
    samples = [each.clock for each in fleet.masters if each.clock is not None]
    if facts.clock is None or len(samples) < 2:
        return None
    # A whole master, not the mean of two: of two clocks that differ by an hour none is half an hour off.
    middle = sorted(samples, key=lambda sample: sample.offset)[(len(samples) - 1) // 2]
    if facts.clock is middle:
        return 0.0, 0.0
    return facts.clock.offset - middle.offset, facts.clock.error + middle.error
