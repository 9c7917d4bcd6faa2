"""Every duration formula of the lock, in one place. Seconds in and out unless a name says otherwise.

Source of the first three: "Distributed Locks with Redis" (redis.io), section "The Redlock algorithm".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random

#: A clock may run wrong by this much of a lease. Real quartz stays under 0.0002.
DRIFT_FACTOR = 0.01
#: Expiry on the masters has a resolution of 1 ms; both ends round.
DRIFT_FLOOR_S = 0.002

#: A waiter looks again at the latest after this, message or no message: pub/sub is at most once.
POLL_CAP_S = 1.2
#: The same where fewer than a quorum of masters let it subscribe: then looking is all there is.
POLL_CAP_DEAF_S = 0.25
#: A waiter that heard some masters publish, but not a quorum of them, goes on after this.
GRACE_S = 0.03
#: One that was handed the lock by some of them, at the earliest after this.
GRACE_FLOOR_S = 0.004
#: Answers that a lost round was decided without get this long.
STRAGGLERS_S = 0.002
#: One who has handed the lock on and comes back at once asks for it at the latest after this.
COME_BACK_S = 0.001
#: A contender that does not wait settles a split vote within so many pauses. Behind each comes a round, or
#: a look and a round.
SETTLE_TRIES = 6
#: The least and the longest pause between them: a process may be kept from running for some milliseconds.
SETTLE_FLOOR_S = 0.004
SETTLE_CAP_S = 0.1
#: Those who are woken by one message try again within this, one after another.
SPREAD_CAP_S = 0.1
#: How long a waiter has to claim the lock that it was handed. One that is stopped or cut off costs the
#: others this much, and a look; a waiter that is slower than this loses its turn, not its place.
CLAIM_S = 1.0
#: How long a queue outlives its last visitor. Each waiter visits one master in each `POLL_CAP_S`.
QUEUE_TTL_S = 30.0
#: How often in a row a thread may hand the lock to another one of its process, before those who came
#: earlier.
LOCAL_HAND_OFFS = 8
#: A key is gone a little after its PTTL said so; asking before that is a wasted round.
EXPIRY_MARGIN_S = 0.005
#: For how long a waiter goes by what masters told of their time. What one round told wrong makes its tickets
#: wrong until then, and each of those costs a message more.
TIME_AGE_S = 0.2
#: A retry that starts just before the caller's time ends may still run this long.
LAST_ROUND_S = 0.05

#: How long a master remembers the last fencing token of a lock; it forgets none before its clock is so far
#: past the token. The next one is above it also without that memory, because no master gives an older one;
#: unless its clock was set back behind the moment at which it forgot.
FENCE_TTL_S = 3600.0
#: What a master's age in whole seconds may be wrong by: both ends are cut off.
UPTIME_ERROR_S = 1.0
#: When a lease that stands on fewer masters than there are is put on the others as well.
FILL_UP_S = 0.25

#: How long threads without work stay, so that a busy lock does not start one each time.
LINGER_S = 0.25
#: How long a channel without waiters stays subscribed.
CHANNEL_LINGER_S = 0.5


def lease_ms(ttl: float) -> int:
    """The lease as it goes on the wire. The only conversion from seconds to milliseconds."""
    return math.ceil(ttl * 1000)


def drift(ttl: float) -> float:
    """Allowance for clocks that run at different rates, over one lease."""
    return DRIFT_FACTOR * ttl + DRIFT_FLOOR_S


def valid_until(sent_at: float, ttl: float) -> float:
    """The instant at which a lease ends for its holder.

    ``sent_at`` is taken before the first byte of the round is sent: a master can have started the
    lease no earlier, so the holder's view ends before the master's.
    """
    return sent_at + ttl - drift(ttl)


def longest_acquisition(max_ttl: float) -> float:
    """How long after its sending a round may still be won, in the whole fleet.

    What a healed key may count rests on it: votes that a restart has wiped out must be too old to be
    counted by then (DESIGN: rule 7).
    """
    return min(1.0, max_ttl / 3)


def won_until(sent_at: float, ttl: float, longest: float) -> float:
    """The instant until which a round that was sent at ``sent_at`` can be won."""
    return min(valid_until(sent_at, ttl), sent_at + longest)


def heals_until(valid_until: float, max_ttl: float) -> float:
    """Until when a vote of a master that has no memory of old ones counts for the holder.

    Whoever was granted the lock there before the memory went has to win within `longest_acquisition`, and
    gets the votes that it lacks at ``valid_until`` at the earliest.
    """
    longest = longest_acquisition(max_ttl)
    return valid_until - longest - drift(max_ttl)


def guard_time(max_ttl: float) -> float:
    """How old a master has to be, in seconds, so that no vote of an earlier life can still be valid."""
    return max_ttl + drift(max_ttl) + UPTIME_ERROR_S


def default_request_timeout(ttl: float) -> float:
    """How long to wait for one master's answer: two retransmissions of TCP, or a sixth of the lease."""
    return min(0.5, ttl / 6)


def renew_period(ttl: float) -> float:
    """A lease is renewed each third of its length: two more tries fit before it ends."""
    return ttl / 3


def retry_period(ttl: float) -> float:
    """How soon a failed renewal is tried again."""
    return min(ttl / 10, 0.25)


def expiry_wait(ttls_ms: Sequence[int], missing: int) -> float:
    """How long until ``missing`` votes more may be had, because that many keys have expired.

    ``ttls_ms`` are the PTTLs that the refusing masters told, -1 where there is no expiry. Masters that
    did not answer count for nothing: taken for free, they would make a waiter ask again and again.
    """
    finite = sorted([ttl for ttl in ttls_ms if ttl >= 0])
    if not finite or missing <= 0:
        return math.inf
    return finite[min(missing, len(finite)) - 1] / 1000 + EXPIRY_MARGIN_S


def poll_wait(random: Random, *, deaf: bool) -> float:
    """How long a waiter sleeps at the most before it looks again; jittered, so that waiters spread."""
    return (POLL_CAP_DEAF_S if deaf else POLL_CAP_S) * random.uniform(0.8, 1.2)


def split_wait(random: Random, splits: int, round_s: float, *, certain: bool) -> float:
    """How long to stay away after a vote in which nobody got a quorum.

    Random, so that contenders drift apart, and doubling, so that any number of them does in the end.
    ``round_s`` is how long the round took: less than that cannot separate two contenders. Not
    ``certain``: a master that does not answer may have the missing vote of a holder, for as long as it
    holds; then the doubling goes on to the pace of an ordinary waiter.
    """
    cap = 0.1 if certain else POLL_CAP_S
    ceiling: float = min(max(round_s, 0.0005) * 2 ** min(splits, 16), cap)
    # Contenders must be able to fall far apart; one who waits for a holder only has to wait.
    return random.uniform(0.0 if certain else ceiling / 2, ceiling)


def settle_wait(random: Random, rounds: int, round_s: float) -> float:
    """How long a contender waits after ``rounds`` rounds of settling a split vote.

    Longer than the others need to give their votes back. Doubling: one of them may be kept from running.
    """
    ceiling: float = min(max(round_s, SETTLE_FLOOR_S) * 2**rounds, SETTLE_CAP_S)
    return random.uniform(ceiling / 2, ceiling)


def spread_wait(random: Random, length: int, round_s: float) -> float:
    """How long one of ``length`` waiters stays away that one message has woken.

    Two rounds for each of the others, at random: the first to come is most likely alone.
    """
    return random.uniform(0.0, min(2 * max(length - 1, 0) * max(round_s, 0.0), SPREAD_CAP_S))


def straggler_wait(round_s: float) -> float:
    """How long one who was refused waits for the answers that are missing, after a round of ``round_s``.

    Short: who waits here does not hear yet that it was handed the lock.
    """
    return min(2 * max(round_s, 0.0), STRAGGLERS_S)


def come_back_wait(round_s: float) -> float:
    """How long one who has handed the lock on stays away, after a release that took ``round_s``.

    About what the next owner needs to claim it. Until then a round could only be refused, and would take the
    masters' time, and a processor's, from that claim.
    """
    return min(max(round_s, 0.0), COME_BACK_S)


def unreachable_wait(random: Random, failures: int) -> float:
    """How long to wait before asking again when no quorum answers."""
    ceiling: float = min(0.02 * 2 ** min(failures, 5), 0.5)
    return random.uniform(ceiling / 2, ceiling)


def grace(round_s: float, splits: int) -> float:
    """How long a waiter that was handed the lock by fewer masters than a quorum waits for the others.

    ``round_s`` is how long its last round took: the messages of one release lie no further apart than a
    few of these. Doubling: what it was handed may be all that there is to be had for a while.
    """
    ceiling: float = max(4 * round_s, GRACE_FLOOR_S) * 2 ** min(splits, 8)
    # What it was handed must not run out meanwhile, or nobody would know that it is free.
    return min(ceiling, CLAIM_S / 2)


def probe_wait(random: Random, failures: int) -> float:
    """How long to leave a master alone that could not be reached; the first retry comes at once."""
    if failures <= 1:
        return 0.0
    ceiling: float = min(0.1 * 2 ** min(failures - 2, 5), 2.0)
    return random.uniform(ceiling / 2, ceiling)
