"""The schedule of the watchdog: when each hold is due.

Not thread-safe: the engine's mutex serialises the calls. ``now`` is a parameter.
"""

from __future__ import annotations

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

    #: When the hold is due, or was due if the watchdog has taken it.
    due_at = math.inf
    stopped: Stop | None = None
    #: The last renewal whose votes were incomplete.
    last_votes: LockVotes | None = None
    #: Masters that refuse this lock alone, and until when nobody asks them again.
    refused_until: Mapping[int, float] = _NO_REFUSALS


class RenewalSchedule:
    """The holds by the instants at which they are due. Holds that are due at one instant share a round."""

    def __init__(self) -> None:
        self._due: dict[float, dict[Hold, None]] = {}

    def fill_up(self, hold: Hold) -> None:
        """Schedule the first renewal: it also puts the key on masters that the acquire did not win."""
        self.renew(hold, hold.acquired_at, FILL_UP_S)

    def renew(self, hold: Hold, sent_at: float, within: float = math.inf) -> None:
        """Schedule the next renewal after a successful one, or an acquire, that was sent at ``sent_at``."""
        period = renew_period(hold.lease.ttl)
        # A little early, at one of few instants: otherwise each of many locks would need its own round.
        step = min(RENEW_SLACK_S, period / 4)
        self._put(hold, (sent_at + min(within, period)) // step * step)

    def retry(self, hold: Hold, sent_at: float) -> None:
        """Schedule the next renewal after a failed one, or the end of the validity if that comes first."""
        retry_at = sent_at + retry_period(hold.lease.ttl)
        self._put(hold, min(retry_at, hold.lease.valid_until))

    def end(self, hold: Hold) -> None:
        """Schedule the end of the validity."""
        self._put(hold, hold.lease.valid_until)

    def remove(self, hold: Hold) -> None:
        """Do not look at a hold any more."""
        due_at = hold.renewal.due_at
        holds = self._due.get(due_at)
        if holds is not None:
            holds.pop(hold, None)
            if not holds:
                del self._due[due_at]

    def next_due(self) -> float:
        """When the first hold is due; infinity if there is none."""
        return min(self._due, default=math.inf)

    def take_due(self, now: float) -> list[Hold]:
        """Remove and return the holds that are due."""
        instants = sorted([due_at for due_at in self._due if due_at <= now])
        return [hold for due_at in instants for hold in self._due.pop(due_at)]

    def _put(self, hold: Hold, due_at: float) -> None:
        if hold.renewal.due_at in self._due:
            self.remove(hold)
        hold.renewal.due_at = due_at
        if due_at in self._due:
            self._due[due_at][hold] = None
        else:
            self._due[due_at] = {hold: None}
