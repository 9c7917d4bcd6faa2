"""Places in the queue, and their tickets.

A ticket is the same number on every master. The order of arrival differs from master to master: each could
have another waiter first, and no waiter would get a quorum.
"""

import statistics
from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field

from ..model import Vote
from .keys import waiter_name
from .timing import EXCHANGE_AGE_S, drift


@dataclass(slots=True, eq=False)
class Place:
    name: str
    #: The owner token of a hand-off to it, and of a grant by messages. An attempt has its own.
    owner: str
    client_id: InitVar[str]
    ticket: int = 0  # the ticket that it asks for, or has; 0: the masters choose
    drawn: bool = False  # the masters agree on the ticket
    attempts: int = 0  # rounds that were sent with this place
    aside: bool = False  # it was taken out of the queue until the masters' messages arrive again
    waiter: str = field(init=False)  # its name in the queue

    def __post_init__(self, client_id: str) -> None:
        self.waiter = waiter_name(self.owner, client_id)

    def draw(self, votes: Mapping[int, Vote]) -> bool:
        """Take the ticket that the masters gave. True: masters with another ticket must be sent this one.

        A master gives the requested ticket, or a larger one if other waiters have it already. So the largest
        ticket that a quorum gave is behind every waiter that had a quorum's place before.
        """
        given = {vote.ticket for vote in votes.values() if vote.ticket}
        if self.drawn or not given:
            return False
        agreed = given == {self.ticket}
        self.ticket, self.drawn = max(given), True
        return not agreed


class FleetTime:
    """An estimate of the masters' time: a ticket or a fencing token asks for it.

    A client's own wall clock may be wrong: a fast one would put the client behind all other waiters, and
    masters would replace each ticket of a slow one. A wrong estimate costs one more message, never the order.
    """

    def __init__(self) -> None:
        self._offsets_us: dict[int, float] = {}
        self._offset_us: float | None = None
        #: The last exchange with each master: an instant before it began, and the master's time in it.
        self._exchanges: dict[int, tuple[float, int]] = {}

    def saw(self, master: int, time_us: int, sent_at: float) -> None:
        """Remember a master's time, asked for at ``sent_at``. 0: not known, another server may answer now."""
        self._exchanges[master] = sent_at, time_us

    def note(self, master: int, time_us: int, at: float) -> None:
        self._offsets_us[master] = time_us - at * 1e6
        self._offset_us = statistics.median(list(self._offsets_us.values()))

    def correct(self, votes: Mapping[int, Vote], sent_at: float, now: float) -> None:
        """Use the times in the votes of a round. To a grant, masters far from the proposal send theirs."""
        for master, vote in votes.items():
            if vote.time_us:
                self.note(master, vote.time_us, (sent_at + now) / 2)

    def not_before(self, master: int, time_us: int) -> float | None:
        """A local instant at which a master's time was not ``time_us`` yet; None: it was not asked lately.

        The clocks may run at different rates since the last exchange with this master.
        """
        sent_at, then_us = self._exchanges.get(master, (0.0, 0))
        passed = (time_us - then_us) / 1e6
        if not then_us or passed > EXCHANGE_AGE_S:
            return None
        return sent_at + passed - drift(abs(passed))

    def us(self, now: float) -> int:
        """The masters' time in microseconds; 0: not known yet."""
        return 0 if self._offset_us is None else round(now * 1e6 + self._offset_us)
