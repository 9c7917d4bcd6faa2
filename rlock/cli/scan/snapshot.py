"""One look at a fleet: what `rlock list`, `watch` and `exporter` show, and print as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...model import LockStatus

#: A master whose clock is further than this from the others' is worth a look. Seconds.
CLOCK_ALERT_S = 0.1


@dataclass(frozen=True)
class GroupHealth:
    """A master that is a group: the server that leads it, and the replicas."""

    leader: str  # host and port
    since: float | None  # Unix time since when its memory counts: its promotion, or a later loss
    replicas: int  # as configured; all have to acknowledge a vote
    online: int
    acknowledged: int  # replicas whose last acknowledgement is fresh

    @property
    def votes(self) -> bool:
        """Whether a vote can count."""
        return self.replicas == 0 or self.acknowledged == self.online == self.replicas


@dataclass(frozen=True)
class MasterHealth:
    """One master as it answered now. ``None``: it does not tell, or it gave no answer."""

    master: str
    fault: str | None  # set: it gave no answer
    latency: float | None = None  # seconds for one round trip
    flavour: str | None = None  # "Redis" or "Valkey"
    version: str | None = None
    role: str | None = None
    uptime: float | None = None  # seconds
    durable: bool | None = None  # nothing that was answered is lost by a restart
    guarded: float = 0.0  # seconds for which the restart guard gives it no vote
    memory: int | None = None  # bytes in use
    max_memory: int | None = None  # bytes; 0: no limit
    clients: int | None = None
    commands_per_second: float | None = None
    clock_offset: float | None = None  # seconds ahead of the median of the masters
    locks: int | None = None  # keys of locks that were seen on it
    group: GroupHealth | None = None  # None: it is one server
    unlisted: str | None = None  # set: why it does not tell which locks there are
    hidden: int = 0  # hashes that this user may not read, in this look


@dataclass(frozen=True)
class Snapshot:
    """A fleet at one moment.

    ``locks`` are those that are held or waited for, at most as many as were asked for; ``more`` says
    whether there may be others.
    """

    at: float  # Unix time in seconds
    quorum: int
    masters: Sequence[MasterHealth]
    locks: Sequence[LockStatus]
    more: bool = False

    @property
    def answering(self) -> int:
        """How many masters gave an answer."""
        return sum(health.fault is None for health in self.masters)
