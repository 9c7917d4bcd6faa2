"""Notifications: the messages for one waiter, and the subscription that all waiters for one lock share."""

import math
import weakref
from collections.abc import Iterator
from itertools import islice

from ..procedures.contender import Contender, Findings
from ..procedures.port import ClientContext, Wake
from ..rules.keys import HandOff, Wire
from ..rules.tickets import Place
from ..rules.timing import PARTIAL_QUORUM_S, POLL_LATE_S, partial_quorum_wait
from .runtime import Parker

POLL_PLACES = 100  # how many places a waiter keeps with one poll; 100 of them take a server about 0.1 ms


class Inbox:
    def __init__(self, place: Place, findings: Findings, context: ClientContext, parker: Parker) -> None:
        self.name = place.name
        self._findings = findings
        self._context = context
        self.owner = place.owner.encode()  # the owner of its place, as it comes over the wire
        #: The messages of the masters that handed it the lock since its last round.
        self.handed_by: dict[int, HandOff] = {}
        #: The last message to all waiters, and the masters that published it.
        self._message: bytes | None = None
        self._published_by: set[int] = set()
        #: The instant at which messages from fewer masters than a quorum wake it, too.
        self.deadline = math.inf
        self.reason = Wake.TIME  # the reason to wake up that it has not taken yet
        self.asleep = False  # its thread or task sleeps, or reads for the others that sleep
        self.parker = parker

    def has_reason(self) -> bool:
        return self.reason is not Wake.TIME

    def take_reason(self) -> Wake:
        """The reason to wake up, then TIME until the next `wake`."""
        reason, self.reason = self.reason, Wake.TIME
        if reason is Wake.HANDED:
            # The next round takes these votes, unless the messages are a grant.
            self._findings.handed, self.handed_by = self.handed_by, {}
        self.parker.clear()
        return reason

    def on_hand_off(self, master: int, message: HandOff) -> None:
        handed_by, quorum = self.handed_by, self._context.quorum
        handed_by[master] = message
        if len(handed_by) == quorum:
            self.wake(Wake.HANDED)
        elif len(handed_by) < quorum and (len(handed_by) == 1 or self.deadline == math.inf):
            # Masters on which the holder had no key, or that are out of reach, publish nothing.
            self._wait_for_more(partial_quorum_wait(self._findings.took_s, self._findings.partial))

    def on_release(self, master: int, message: bytes) -> None:
        if message != self._message:
            self._message, self._published_by = message, set()
        if master in self._published_by:
            self._published_by.clear()  # published again: another release with the same text
        self._published_by.add(master)
        # Not before the q-th master: a try at fewer free masters would fail and disturb the other waiters.
        if len(self._published_by) == self._context.quorum:
            self.wake(Wake.FREE)
            if self._context.wire.shared:
                self._published_by.clear()  # all messages are the same: the next one is of another release
        elif (
            # Redisson's channels also carry undone votes, so there messages of a minority mean nothing. Nor
            # does one of a far master about an owner before the one that the last round found.
            len(self._published_by) == 1
            and not self._context.wire.shared
            and self._findings.holder in (None, message.decode("utf-8", "replace"))
        ):
            self._wait_for_more(PARTIAL_QUORUM_S)

    def _wait_for_more(self, seconds: float) -> None:
        self.deadline = min(self.deadline, self._context.clock() + seconds)
        self.parker.wake()  # its thread or task sleeps until a later instant

    def wake_if_due(self, now: float) -> None:
        """Wake up if it has waited long enough for messages from more masters."""
        if self.deadline <= now:
            self.wake(Wake.HANDED if self.handed_by else Wake.FREE)

    def wake(self, reason: Wake) -> None:
        self.deadline = math.inf
        self.reason = max(self.reason, reason)
        self.parker.wake()


class Subscription:
    def __init__(self, name: str, client_id: str, wire: Wire) -> None:
        self.name = name
        #: The lock's channel, then this client's: a master that confirms the second has confirmed both.
        self.names = (wire.channel(name), wire.client_channel(name, client_id))
        #: The same as they come over the wire.
        self.public, self.client = (channel.encode() for channel in self.names)
        self.confirmed: set[int] = set()
        self.doubted: set[int] = set()  # masters that had confirmed it, and are asked again
        self.lost: set[int] = set()  # masters that had confirmed it until their connection ended
        self.idle_at = math.inf
        self.sent = False  # all masters that are connected were told to begin it
        #: The masters were told to end it, and it is kept for the messages that are on their way.
        self.ending = False
        self.polled_at = -math.inf  # when a waiter last polled a master for all waiters
        #: By the owner of their places. Weak: else a contender that Ctrl-C kept from leaving would keep it.
        self._contenders: dict[bytes, weakref.ref[Contender]] = {}

    @property
    def inboxes(self) -> list[Inbox]:
        return [found.inbox for ref in list(self._contenders.values()) if (found := ref()) is not None]

    def drawn(self) -> Iterator[tuple[Contender, Place]]:
        for ref in self._contenders.values():
            if (contender := ref()) is not None and contender.place is not None and contender.place.drawn:
                yield contender, contender.place

    def inbox(self, owner: bytes) -> Inbox | None:
        ref = self._contenders.get(owner)
        contender = None if ref is None else ref()
        return None if contender is None else contender.inbox

    def add(self, contender: Contender) -> bool:
        """Subscribe a contender; False: it was subscribed already."""
        inbox: Inbox = contender.inbox
        if self.inbox(inbox.owner) is inbox:
            return False
        self._contenders[inbox.owner] = weakref.ref(contender)
        return True

    def remove(self, inbox: Inbox) -> bool:
        """End the subscription of one contender; False: it had none."""
        # Otherwise, after Ctrl-C, the other waiters would wait for its thread to read.
        inbox.asleep = False
        return self._contenders.pop(inbox.owner, None) is not None

    def polls_for(self, own: Place, now: float) -> list[Place]:
        """The places for which this waiter polls a master now; none: another one polls."""
        # Another waiter than the first polls if that one is late: its thread may be stopped.
        if next(self.drawn(), (None, own))[1] is not own and now < self.polled_at + POLL_LATE_S:
            return []
        self.polled_at = now
        return [place for _, place in islice(self.drawn(), POLL_PLACES)]

    def confirm(self, master: int) -> None:
        self.doubted.discard(master)
        if master in self.confirmed or self.ending:
            return
        self.confirmed.add(master)
        for inbox in self.inboxes:
            inbox.parker.wake()
            if master in self.lost:
                # Messages of the time without a connection are lost: try again at once.
                inbox.wake(Wake.FREE)
        self.lost.discard(master)

    def doubt(self) -> None:
        self.doubted |= self.confirmed
        self.confirmed.clear()

    def end(self) -> None:
        self.ending, self.sent = True, False
        self.confirmed.clear()
        self.doubted.clear()

    def lose(self, master: int) -> None:
        if master in self.confirmed or master in self.doubted:
            self.confirmed.discard(master)
            self.doubted.discard(master)
            self.lost.add(master)

    def deserted(self) -> bool:
        """Whether no contender is left. Forgets contenders that were collected."""
        for owner in [owner for owner, ref in self._contenders.items() if ref() is None]:
            del self._contenders[owner]
        return not self._contenders
