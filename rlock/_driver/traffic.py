"""Traffic: what goes over one connection, and the votes that come out of what its master answers."""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from ..events import MasterAnswers, MasterFailed, MasterSlow, OutOfStep
from ..model import Code, Fault, FaultKind, Vote
from ..procedures.steps import Terms
from ..rules import scripts
from .links import Link, pack
from .roster import Roster, Slot
from .rounds import Debts, Owed, Round

#: What goes on with a master is told of again after this.
AGAIN_S = 60.0

#: What a member of an enum costs to look up shows where each answer comes by.
_YES = Code.YES

L = TypeVar("L", bound=Link)


class Traffic(ABC, Generic[L]):
    """Commands on their way, and what is owed for them. All with the mutex held."""

    _roster: Roster[L]

    def __init__(self, terms: Terms, request_timeout: float) -> None:
        self._clock = terms.clock
        self._timeout = request_timeout
        self._guard = terms.guard
        self._news = terms.news
        self._mutex = threading.Lock()
        self._debts = Debts(len(terms.masters))
        #: When to look next for links that owe a reply for too long.
        self._look_at = -math.inf

    @abstractmethod
    def _wake(self, turn: Round) -> None:
        """Let the one who waits for a round look."""

    def _post(self, slot: Slot[L], link: L, owed: Owed, packed: bytes) -> None:
        try:
            link.owed.append(owed)
            if link.send(packed):
                self._roster.hold_back(link)
        except OSError as error:
            self._drop(slot, Fault(FaultKind.BROKEN, str(error) or type(error).__name__))
        except BaseException:
            # Ctrl-C in the middle of a command: its bytes and the list of owed replies may no longer
            # agree, and one reply read for another is a vote that nobody gave.
            self._drop(slot, Fault(FaultKind.BROKEN, "interrupted"))
            raise

    def _take(self, slot: Slot[L], link: L, data: bytes) -> None:
        """What has arrived: counted at once where it is what was foreseen, else for the reader."""
        if data and slot.refusal is None and not link.reader.has_data():
            owed_replies = link.owed
            while data and owed_replies:
                turn, command, _, _ = owed_replies[0]
                expected = command.foreseen + link.tail if command.marked else command.foreseen
                if not data.startswith(expected):
                    break
                if turn is None or (turn.over and not turn.ask.stay):
                    owed_replies.popleft()
                elif link.known_at == self._guard.changes or self._known(slot, link):
                    owed_replies.popleft()
                    self._vote(turn, slot.index, command.yes)
                else:
                    break
                data = data[len(expected) :]
            if not data:
                return
        if data:
            link.reader.feed(data)
        self._deliver(slot, link)

    def _known(self, slot: Slot[L], link: L) -> bool:
        """Whether an answer with the link's marker brings no news to the guard."""
        known = self._guard.known(slot.index, link.marker)
        if known:
            # Until something of the guard changes: each answer of each round comes by here.
            link.known_at = self._guard.changes
        return known

    def _deliver(self, slot: Slot[L], link: L) -> None:
        gets, owed_replies = link.reader.gets, link.owed
        while (reply := gets()) is not False:
            if not owed_replies:
                # Nobody asked: an error before the server hangs up, or the two are out of step.
                self._drop(slot, Fault(FaultKind.BROKEN, f"an answer that nobody asked for: {reply!r:.80}"))
                return
            owed = owed_replies.popleft()
            turn, command, _, _ = owed
            if type(reply) is not list and scripts.is_noscript(reply):
                # Not for an acquire that is decided: its release may have passed already, and the
                # late vote would stand until its lease ends.
                late = turn is not None and (turn.over or turn.ballot.settled)
                if not (late and command.script is scripts.ACQUIRE):
                    self._post(slot, link, owed, pack(command.by_source()))
                    if slot.link is not link:
                        return
                    continue
                # It will be asked for again, by a lock that is not decided yet.
                load = pack(("SCRIPT", "LOAD", command.script.source))
                self._post(slot, link, Owed(None, command, owed.sent_at, 0.0), load)
                continue
            vote = command.decode(reply)
            if vote.code == _YES and command.echo != vote.holder and command.echo is not None:
                # The last line of defence: a vote that was read for another round would be two leases.
                self._drop(slot, Fault(FaultKind.BROKEN, "an answer that belongs to another command"))
                self._news.note(OutOfStep(slot.endpoint.label))
                return
            if vote.fault is not None:
                self._refused(slot, vote.fault)
            elif slot.refusal is not None and vote.code == _YES and command.script is scripts.ACQUIRE:
                # Only that: without memory, or a disk, a master releases and renews all the same.
                slot.refusal = None
                self._news.note(MasterAnswers(slot.endpoint.label, news=False))
            if self._guard.known(slot.index, vote.marker):
                if vote.marker is not None and vote.marker != link.marker:
                    link.remember(vote.marker)
            else:
                vote = self._screen(slot, link, vote, grants=command.script in scripts.GRANTING)
            if turn is not None and (not turn.over or turn.ask.stay):
                self._vote(turn, slot.index, vote)

    def _refused(self, slot: Slot[L], fault: Fault) -> None:
        """A master that answers, and has no vote all the same: no memory, no permission, a full disk."""
        now = self._clock()
        # One that refuses some locks only would be told of all the time.
        news = slot.refusal != fault and (fault != slot.refused or now >= slot.refused_until)
        slot.refusal = fault
        if news:
            slot.refused, slot.refused_until = fault, now + AGAIN_S
        self._news.note(MasterFailed(slot.endpoint.label, fault.kind.value, fault.text, news))

    def _screen(self, slot: Slot[L], link: L, vote: Vote, *, grants: bool) -> Vote:
        """A vote as it counts, by what is known of its master's memory."""
        now = self._clock()
        age_s = None if vote.marker is None else self._guard.told(slot.index, vote.marker, now)
        if age_s is not None:
            # Have the master note how old its memory is.
            mark = scripts.mark(link.run_id, age_s, self._guard.max_ttl_ms())
            self._post(slot, link, Owed(None, mark, now, 0.0), pack(mark.by_sha()))
        return self._guard.screen(slot.index, vote, now, grants=grants)

    def _vote(self, turn: Round, master: int, vote: Vote) -> None:
        ballot = turn.ballot
        settled = ballot.settled
        # One that came with the last that mattered is counted as well, or it would have to be undone.
        if (settled or turn.over) and not turn.ask.stay and (turn.over or ballot.granted >= ballot.quorum):
            return
        if ballot.cast(master, vote) and not settled:
            ballot.decided_at = self._clock()
            self._wake(turn)

    def _expire(self, now: float) -> None:
        """Drop the links that have owed a reply for too long: a stalled master costs nothing from then on.

        Called when all that has arrived was read; one for which half of the time is over is told of.
        """
        self._look_at = now + self._timeout / 16
        for slot, took in self._overdue(now):
            if took > self._timeout:
                self._drop(slot, Fault(FaultKind.TIMEOUT, f"no answer within {self._timeout:g} s"))
            elif now >= slot.slow_from:
                slot.slow_from = now + AGAIN_S
                self._news.note(MasterSlow(slot.endpoint.label, took, self._timeout))

    def _overdue(self, now: float) -> list[tuple[Slot[L], float]]:
        """The links that have owed a reply for half of the time-out or more, and for how long."""
        half = self._timeout / 2
        return [
            (slot, took)
            for slot in self._roster.slots
            if slot.link and slot.link.owed and (took := now - slot.link.owed[0].sent_at) > half
        ]

    def _drop(self, slot: Slot[L], fault: Fault) -> None:
        link = self._roster.drop(slot, fault)
        if link is None:
            return
        for owed in link.owed:
            self._note(slot, owed)
            if owed.round is not None:
                self._vote(owed.round, slot.index, Vote(Code.FAULT, fault=fault))

    def _note(self, slot: Slot[L], owed: Owed) -> None:
        """A master may not have got this: it gets it when it is back, and we see to that."""
        if owed.until:
            self._debts.note(slot.index, owed)
            # Nobody else may dial it: the lock would stay locked there although it was released.
            slot.wanted_until = max(slot.wanted_until, owed.until)
            self._roster.dial_due()
