"""All durations of the lock, and their formulas. In seconds unless a name says otherwise.

Source of the first three: "Distributed Locks with Redis" (redis.io), section "The Redlock algorithm".
"""

import math
from collections.abc import Sequence
from random import Random

DRIFT_FACTOR = 0.01  # the part of a lease by which a clock may run wrong; real quartz stays under 0.0002
DRIFT_FLOOR_S = 0.002  # expiry on the masters has a resolution of 1 ms; both ends round

POLL_CAP_S = 1.2  # the longest sleep of a waiter, with or without a message: pub/sub delivers at most once
#: The longest sleep of a waiter that is subscribed on fewer masters than a quorum: it depends on polling.
POLL_CAP_UNSUBSCRIBED_S = 0.25
POLL_LATE_S = 2 * POLL_CAP_S  # a waiter polls for all of its process if the first one has not for this long
#: A waiter retries this long after fewer masters than a quorum published a release.
PARTIAL_QUORUM_S = 0.03
#: A waiter to which fewer masters than a quorum handed the lock retries after this time, or later.
PARTIAL_QUORUM_FLOOR_S = 0.004
#: A refused contender waits this long, or two round trips, for missing answers: more would delay a hand-off.
STRAGGLERS_S = 0.002
SETTLE_TRIES = 6  # how many times a non-blocking contender pauses and asks again, to settle a split vote
#: The shortest and the longest of these pauses. In a shorter one others may not run on a busy machine.
SETTLE_FLOOR_S = 0.004
SETTLE_CAP_S = 0.1
SPREAD_CAP_S = 0.1  # waiters that one message wakes spread their retries over this time
#: How long a waiter may take to claim the lock that it was handed. A slower one loses its turn.
CLAIM_S = 1.0
FIRST_CONTACT_S = 0.25  # the shortest time-out with which the first call of a client waits for connections
DUPLICATE_PAUSE_S = 2.0  # the additional pause if two names turned out to be one server
#: How long a thread or task waits for messages before it checks itself: a wake-up may be lost.
MESSAGE_PATIENCE_S = 1.0
#: How long a master keeps a queue that no waiter renews. In each `POLL_CAP_S` a process asks one master.
QUEUE_TTL_S = 30.0
EXPIRY_MARGIN_S = 0.005  # a key outlives its PTTL a little; an earlier try would be a wasted round
#: How old the exchange may be by which a waiter dates a hand-off: a clock may have been set since.
EXCHANGE_AGE_S = 10.0
LAST_ROUND_S = 0.05  # how long the last round may run that begins just before the caller's time ends

#: The longest lease that the scripts grant: after a restart of its masters a fleet waits for that long.
MAX_TTL_S = 86_400.0
#: How long a master remembers a fencing token. Then its clock, if not set back, gives a greater one.
FENCE_TTL_S = 3600.0
#: The first renewal comes this long after the acquire. It puts the lease on masters that did not grant it.
FILL_UP_S = 0.25
RENEW_SLACK_S = 0.05  # renewals that are due within this time share a round trip
#: How long a renewal waits for the slowest masters, before it heals those that lack a lock.
RENEW_STRAGGLERS_S = 0.05

#: How long the watchdog's thread stays without work. Otherwise a busy lock would start a thread each time.
LINGER_S = 0.25
CHANNEL_LINGER_S = 0.5  # how long a channel without waiters stays subscribed


def lease_ms(ttl: float) -> int:
    """The lease on the wire, in milliseconds. A thousandth of it gives the same lease again."""
    return max(1, math.ceil(ttl * 1000 - 1e-6))


def drift(ttl: float) -> float:
    """Allowance for clocks that run at different rates, over one lease."""
    return DRIFT_FACTOR * ttl + DRIFT_FLOOR_S


def valid_until(sent_at: float, ttl: float) -> float:
    """The instant at which a lease ends for its holder.

    ``sent_at`` is taken before the first byte of the round is sent. No master can have started the lease
    earlier, so the lease ends for its holder before it ends on a master.
    """
    return sent_at + ttl - drift(ttl)


def longest_acquisition(max_ttl: float) -> float:
    """How long after it was sent a round may still be won, in the whole fleet.

    Healing relies on it (rule 7): a vote that a restart wiped out must be too old to be counted by then.
    """
    return min(1.0, max_ttl / 3)


def won_until(sent_at: float, ttl: float, longest: float) -> float:
    return min(valid_until(sent_at, ttl), sent_at + longest)


def heals_until(valid_until: float, max_ttl: float) -> float:
    """Until when the holder may count the vote of a master that lost its memory.

    Another owner may have got that vote before the loss. It must win within `longest_acquisition`, and cannot
    get the votes that it lacks before ``valid_until``.
    """
    return valid_until - longest_acquisition(max_ttl) - drift(max_ttl)


def guard_time(max_ttl: float) -> float:
    """How old a master's memory has to be, so that no vote from before it can still be valid."""
    return max_ttl + drift(max_ttl)


def default_request_timeout(ttl: float) -> float:
    """How long to wait for one master's answer: time for two TCP retransmissions, or a sixth of the lease."""
    return min(0.5, ttl / 6)


def renew_period(ttl: float) -> float:
    """How often a lease is renewed: two more tries fit in before it ends."""
    return ttl / 3


def least_ttl(request_timeout: float) -> float:
    """A lease must be longer than this: otherwise a renewal cannot fail once and be tried again in time."""
    # ttl / 3 + 2 * request_timeout = ttl - drift(ttl), solved for ttl
    return (2 * request_timeout + DRIFT_FLOOR_S) / (1 - 1 / 3 - DRIFT_FACTOR)


def retry_period(ttl: float) -> float:
    return min(ttl / 10, 0.25)


def step_down_margin(ttl: float) -> float:
    """How long before the end of its validity a leader steps down, after two renewals or more have failed."""
    return ttl / 4


def expiry_wait(ttls_ms: Sequence[int], missing: int) -> float:
    """How long until so many keys have expired that the ``missing`` votes may be won.

    ``ttls_ms``: the PTTL that each refusing master returned; -1: no expiry. A master that did not answer is
    left out. Otherwise a waiter would take it for free and ask again and again.
    """
    finite = sorted([ttl for ttl in ttls_ms if ttl >= 0])
    if not finite or missing <= 0:
        return math.inf
    return finite[min(missing, len(finite)) - 1] / 1000 + EXPIRY_MARGIN_S


def poll_wait(random: Random, *, subscribed: bool) -> float:
    """How long a waiter sleeps at the most, with jitter. ``subscribed``: on a quorum of masters."""
    return (POLL_CAP_S if subscribed else POLL_CAP_UNSUBSCRIBED_S) * random.uniform(0.8, 1.2)


def split_wait(random: Random, splits: int, round_s: float, *, certain: bool) -> float:
    """How long to stay away after ``splits`` split votes in a row.

    The wait is random, so that two contenders separate, and doubles, so that any number of them does.
    ``round_s``: how long the round took; a shorter wait cannot separate two contenders. ``certain``: nobody
    has a quorum. Else a silent master may have a holder's missing vote, and the wait grows to `POLL_CAP_S`.
    """
    cap = 0.1 if certain else POLL_CAP_S
    ceiling = _doubled(max(round_s, 0.0005), splits, cap)
    # From 0, or two contenders would separate more slowly. A wait for a holder need not be that short.
    return random.uniform(0.0 if certain else ceiling / 2, ceiling)


def settle_wait(random: Random, rounds: int, round_s: float) -> float:
    """How long a contender waits after ``rounds`` rounds of settling a split vote.

    The others need less to give their votes back. It doubles because one of them may not be running.
    """
    return _jittered(random, _doubled(max(round_s, SETTLE_FLOOR_S), rounds, SETTLE_CAP_S))


def spread_wait(random: Random, length: int, round_s: float) -> float:
    """How long a waiter stays away when one message woke all ``length`` waiters.

    Random, up to two rounds for each of the others: so the first to try is most likely alone.
    """
    return random.uniform(0.0, min(2 * max(length - 1, 0) * max(round_s, 0.0), SPREAD_CAP_S))


def unreachable_wait(random: Random, failures: int) -> float:
    return _jittered(random, _doubled(0.02, failures, 0.5))


def partial_quorum_wait(round_s: float, splits: int) -> float:
    """How long a waiter to which fewer masters than a quorum handed the lock waits for the others.

    ``round_s``: how long its last round took. The messages of one release arrive within a few such times. It
    doubles with each split vote, because the other masters may have nothing to give.
    """
    # Less than `CLAIM_S`: the hand-offs that the waiter has must not expire meanwhile.
    return _doubled(max(4 * round_s, PARTIAL_QUORUM_FLOOR_S), splits, CLAIM_S / 2)


def probe_wait(random: Random, failures: int) -> float:
    """How long to wait before the next connection to a master that failed; the first retry is immediate."""
    if failures <= 1:
        return 0.0
    return _jittered(random, _doubled(0.1, failures - 2, 2.0))


def _doubled(first: float, times: int, cap: float) -> float:
    return min(first * 2.0 ** min(times, 16), cap)


def _jittered(random: Random, ceiling: float) -> float:
    return random.uniform(ceiling / 2, ceiling)
