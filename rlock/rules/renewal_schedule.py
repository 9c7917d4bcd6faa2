"""The schedule of the watchdog: when each hold is due.

Not thread-safe: the engine's mutex serialises the calls. ``now`` is a parameter.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from .renewal_votes import LockVotes
from .timing import FILL_UP_S, RENEW_SLACK_S, renew_period, retry_period

if TYPE_CHECKING:
    from .holds import Hold

#: The cause of a loss that the owner asked for.
FIXED = "fixed lease"
_NO_REFUSALS: Mapping[int, float] = {}


class Stop(NamedTuple):
    """Why a hold is not renewed any more."""

    cause: str  # for programs
    reason: str  # for people


class RenewalState:
    """The watchdog's notes about one hold. A new one has these values."""

    #: The entry of the schedule that counts; 0: none.
    entry = 0
    due_at = math.inf
    #: It is due for a renewal, which may come a little earlier, together with others.
    may_be_early = False
    stopped: Stop | None = None
    #: The last renewal whose votes were incomplete.
    last_votes: LockVotes | None = None
    #: Masters that refuse this lock alone, and until when nobody asks them again.
    refused_until: Mapping[int, float] = _NO_REFUSALS


class RenewalSchedule:
    """A heap of holds, by the instants at which they are due."""

    def __init__(self) -> None:
        # An entry stays when its hold is removed or scheduled again: a search in the heap is too slow. It is
        # outdated then, because the hold has another `entry`.
        self._heap: list[tuple[float, int, Hold]] = []
        self._entries = itertools.count(1)
        self._scheduled = 0

    def fill_up(self, hold: Hold) -> None:
        """Schedule the first renewal: it also puts the key on masters that the acquire did not win."""
        self._put(hold, hold.acquired_at + min(FILL_UP_S, renew_period(hold.lease.ttl)), may_be_early=True)

    def renew(self, hold: Hold, sent_at: float) -> None:
        """Schedule the next renewal after a successful one that was sent at ``sent_at``."""
        self._put(hold, sent_at + renew_period(hold.lease.ttl), may_be_early=True)

    def retry(self, hold: Hold, sent_at: float) -> None:
        """Schedule the next renewal after a failed one, or the end of the validity if that comes first."""
        retry_at = sent_at + retry_period(hold.lease.ttl)
        self._put(hold, min(retry_at, hold.lease.valid_until))

    def end(self, hold: Hold) -> None:
        """Schedule the end of the validity."""
        self._put(hold, hold.lease.valid_until)

    def remove(self, hold: Hold) -> None:
        """Do not look at a hold any more."""
        if hold.renewal.entry:
            hold.renewal.entry = 0
            self._scheduled -= 1

    def next_due(self) -> float:
        """When the first hold is due; infinity if there is none."""
        heap = self._heap
        while heap and heap[0][1] != heap[0][2].renewal.entry:
            heapq.heappop(heap)
        return heap[0][0] if heap else math.inf

    def take_due(self, now: float) -> list[Hold]:
        """Remove and return the holds that are due, with some that are due soon, to share their round."""
        due: list[Hold] = []
        heap = self._heap
        while heap:
            due_at, entry, hold = heap[0]
            state = hold.renewal
            if entry == state.entry:
                slack = min(RENEW_SLACK_S, renew_period(hold.lease.ttl) / 4) if state.may_be_early else 0.0
                if due_at > now + slack:
                    break
                state.entry = 0
                due.append(hold)
            heapq.heappop(heap)
        self._scheduled -= len(due)
        return due

    def _put(self, hold: Hold, due_at: float, *, may_be_early: bool = False) -> None:
        state = hold.renewal
        if not state.entry:
            self._scheduled += 1
        state.entry = entry = next(self._entries)
        state.due_at, state.may_be_early = due_at, may_be_early
        heapq.heappush(self._heap, (due_at, entry, hold))
        if len(self._heap) > 2 * self._scheduled + 64:
            # Otherwise outdated entries of long leases pile up: each stays until it would have been due.
            self._heap = [entry for entry in self._heap if entry[1] == entry[2].renewal.entry]
            heapq.heapify(self._heap)
