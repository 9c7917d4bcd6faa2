"""What is measured: one table for Prometheus and OpenTelemetry, and for docs/metrics.md."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from ..errors import OptionsError


class Kind(enum.Enum):
    """How values of an instrument are put together."""

    COUNTER = "counter"
    HISTOGRAM = "histogram"
    LATEST = "gauge"  # the newest value stands
    LEVEL = "gauge of this process"  # values of several processes add up


#: Seconds. From a round to masters on this machine, over the lease of 10 s, to a nightly job.
SECONDS = (
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
    60.0,
    300.0,
    1800.0,
)

#: Owners in a queue.
LENGTHS = (1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0)


@dataclass(frozen=True)
class Instrument:
    """One metric: its names, its labels, and what it says."""

    name: str  # of Prometheus
    otel: str  # of OpenTelemetry
    kind: Kind
    labels: tuple[str, ...]
    unit: str  # UCUM, as OpenTelemetry wants it
    help: str
    buckets: tuple[float, ...] = ()
    timed: bool = False  # ``buckets=`` of enable() replaces its buckets


ACQUIRE = Instrument(
    "redlock_acquire_duration_seconds",
    "rlock.acquire.duration",
    Kind.HISTOGRAM,
    ("lock", "outcome"),
    "s",
    "Duration of an outermost acquire, by outcome.",
    SECONDS,
    timed=True,
)
QUORUM = Instrument(
    "redlock_quorum_size",
    "rlock.quorum.size",
    Kind.LATEST,
    ("lock",),
    "{master}",
    "Masters that had granted the last acquire when it was decided: at least a quorum.",
)
FAILURES = Instrument(
    "redlock_node_failures_total",
    "rlock.master.failures",
    Kind.COUNTER,
    ("master", "kind"),
    "{failure}",
    "Connections to a master that ended or could not be made, by kind of fault.",
)
HELD_TIME = Instrument(
    "redlock_held_seconds",
    "rlock.hold.duration",
    Kind.HISTOGRAM,
    ("lock",),
    "s",
    "Time from the grant to the release, or to the loss.",
    SECONDS,
    timed=True,
)
WAIT = Instrument(
    "redlock_wait_seconds",
    "rlock.wait.duration",
    Kind.HISTOGRAM,
    ("lock",),
    "s",
    "Duration of acquires that stood in the queue, with any outcome.",
    SECONDS,
    timed=True,
)
HAND_OFFS = Instrument(
    "redlock_hand_offs_total",
    "rlock.hand_offs",
    Kind.COUNTER,
    ("lock",),
    "{hand_off}",
    "Acquisitions by direct hand-off.",
)
LOSSES = Instrument(
    "redlock_losses_total",
    "rlock.losses",
    Kind.COUNTER,
    ("lock", "cause"),
    "{loss}",
    "Holds that ended without a release, by cause.",
)
RENEWALS = Instrument(
    "redlock_renewals_total",
    "rlock.renewals",
    Kind.COUNTER,
    (),
    "{renewal}",
    "Renewals of locks that were tried, one for each lock of a round.",
)
RENEWAL_FAILURES = Instrument(
    "redlock_renewal_failures_total",
    "rlock.renewal.failures",
    Kind.COUNTER,
    (),
    "{renewal}",
    "Renewals that no quorum confirmed.",
)
RENEWAL_TIME = Instrument(
    "redlock_renewal_duration_seconds",
    "rlock.renewal.duration",
    Kind.HISTOGRAM,
    (),
    "s",
    "Time of a round of the watchdog, which renews many locks.",
    SECONDS,
    timed=True,
)
QUEUE = Instrument(
    "redlock_queue_length",
    "rlock.queue.length",
    Kind.HISTOGRAM,
    ("lock",),
    "{waiter}",
    "Length of the queue that a refused acquire joined, with itself.",
    LENGTHS,
)
HELD = Instrument(
    "redlock_held", "rlock.held", Kind.LEVEL, ("lock",), "{hold}", "Locks that this process holds now."
)
WAITING = Instrument(
    "redlock_waiting",
    "rlock.waiting",
    Kind.LEVEL,
    ("lock",),
    "{waiter}",
    "Acquires of this process that stand in a queue now.",
)
UNSURE = Instrument(
    "redlock_releases_unsure_total",
    "rlock.releases.unsure",
    Kind.COUNTER,
    ("lock",),
    "{release}",
    "Releases that fewer than a quorum confirmed; what is left of the hold ends with its lease.",
)
UP = Instrument(
    "redlock_master_up",
    "rlock.master.up",
    Kind.LATEST,
    ("master",),
    "1",
    "1: this process is connected to the master; 0: its last try failed, and the master has no vote.",
)
HEARD = Instrument(
    "redlock_master_heard",
    "rlock.master.heard",
    Kind.LATEST,
    ("master",),
    "1",
    "1: the messages of the master reach the waiters of this process; 0: they do not, and it polls.",
)
SLOW = Instrument(
    "redlock_master_slow_total",
    "rlock.master.slow",
    Kind.COUNTER,
    ("master",),
    "{answer}",
    "How often a master began to take more than half of the request time-out.",
)
GUARDED = Instrument(
    "redlock_guarded_votes_total",
    "rlock.master.guarded_votes",
    Kind.COUNTER,
    ("master",),
    "{vote}",
    "Grants that the restart guard did not count.",
)
HEALED = Instrument(
    "redlock_healed_locks_total",
    "rlock.master.healed_locks",
    Kind.COUNTER,
    ("master",),
    "{lock}",
    "Keys of holds that were put back on a master that had lost them.",
)
UNKNOWN_MESSAGES = Instrument(
    "redlock_unknown_messages_total",
    "rlock.master.unknown_messages",
    Kind.COUNTER,
    ("master",),
    "{message}",
    "Messages on channels of locks that no client of rlock sends.",
)
REPLICAS = Instrument(
    "redlock_group_replicas",
    "rlock.group.replicas",
    Kind.LATEST,
    ("master",),
    "{replica}",
    "Replicas that are configured for a group: its vote needs all of them.",
)
ACKNOWLEDGED = Instrument(
    "redlock_group_replicas_acknowledged",
    "rlock.group.replicas.acknowledged",
    Kind.LATEST,
    ("master",),
    "{replica}",
    "Replicas that acknowledged the last votes of a group.",
)
PROMOTIONS = Instrument(
    "redlock_group_promotions_total",
    "rlock.group.promotions",
    Kind.COUNTER,
    ("master",),
    "{promotion}",
    "How often a group got another replication id: a replica was promoted, or the primary restarted.",
)

ALL = (
    ACQUIRE,
    WAIT,
    HELD_TIME,
    HELD,
    WAITING,
    QUEUE,
    HAND_OFFS,
    LOSSES,
    UNSURE,
    QUORUM,
    RENEWALS,
    RENEWAL_FAILURES,
    RENEWAL_TIME,
    UP,
    HEARD,
    FAILURES,
    SLOW,
    GUARDED,
    HEALED,
    UNKNOWN_MESSAGES,
    REPLICAS,
    ACKNOWLEDGED,
    PROMOTIONS,
)


def buckets_of(instrument: Instrument, buckets: Sequence[float] | None) -> tuple[float, ...]:
    """The upper bounds of a histogram: its own, or those that the user gave for times."""
    return instrument.buckets if buckets is None or not instrument.timed else tuple(buckets)


def check_buckets(buckets: Sequence[float] | None) -> None:
    """Raise `OptionsError` unless these can be the upper bounds of histograms of seconds."""
    if buckets is None:
        return
    try:
        bounds = [float(bound) for bound in buckets]
    except (TypeError, ValueError):
        raise OptionsError(f"buckets must be numbers of seconds, not {buckets!r}") from None
    if not bounds or bounds[0] <= 0 or any(a >= b for a, b in pairwise(bounds)):
        raise OptionsError(
            f"buckets must be seconds over 0, each greater than the one before, not {buckets!r}"
        )
