"""Traffic: what goes over one connection, and the votes that come out of what its master answers."""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from ..events import MasterAnswers, MasterFailed, MasterSlow, OutOfStep
from ..model import Code, Fault, FaultKind, Vote
from ..procedures.steps import Terms
from ..rules import replies, scripts
from ..rules.restart_guard import Note
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
        #: When each master gave its last answer on a connection that has ended, or an earlier instant.
        self._heard_at = [-math.inf for _ in terms.masters]
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
                tail = link.tail
                if tail is None:
                    break  # a grant of this master may not count: each answer is read
                turn, command, sent_at, _ = owed_replies[0]
                expected = command.foreseen + tail if command.noted else command.foreseen
                if not data.startswith(expected):
                    break
                owed_replies.popleft()
                link.heard_at = sent_at
                if turn is not None and (not turn.over or turn.ask.stay):
                    self._vote(turn, slot.index, command.yes)
                data = data[len(expected) :]
            if not data:
                return
        if data:
            link.reader.feed(data)
        self._deliver(slot, link)

    def _deliver(self, slot: Slot[L], link: L) -> None:
        gets, owed_replies = link.reader.gets, link.owed
        while (reply := gets()) is not False:
            if not owed_replies:
                # Nobody asked: an error before the server hangs up, or the two are out of step.
                self._drop(slot, Fault(FaultKind.BROKEN, f"an answer that nobody asked for: {reply!r:.80}"))
                return
            owed = owed_replies.popleft()
            turn, command, sent_at, _ = owed
            if type(reply) is not list and replies.is_noscript(reply):
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
                if command.script is scripts.HANDSHAKE:
                    # Otherwise no handshake would follow on this connection, and no grant on it would count.
                    link.judging = False
                self._refused(slot, vote.fault)
            elif slot.refusal is not None and vote.code == _YES and command.script is scripts.ACQUIRE:
                # Only that: without memory, or a disk, a master releases and renews all the same.
                slot.refusal = None
                self._news.note(MasterAnswers(slot.endpoint.label, news=False))
            if vote.note is not None and vote.note != link.note:
                self._judge(slot, link, command, vote)
            if slot.link is link:
                grants = command.script in scripts.GRANTING
                vote = self._guard.screen(slot.index, vote, self._clock(), grants=grants)
            else:
                vote = Vote(Code.FAULT, fault=slot.fault)
            if not link.judging:  # else it may be the first answer of a new life
                link.heard_at = sent_at
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

    def _meet(self, slot: Slot[L], link: L, now: float) -> None:
        """Take the handshake of a new connection."""
        guard, told = self._guard, link.handshake
        max_ttl = guard.max_ttl
        guard.judge(slot.index, told, now, heard_at=self._heard_at[slot.index])
        link.heard_at = now
        self._expect(slot, link, told.note, max_ttl, now)
        for master, note in guard.first_use(now):
            other = self._roster.slots[master]
            if other.link is not None:
                self._shake_hands(other, other.link, now, "unused", note)

    def _shake_hands(self, slot: Slot[L], link: L, now: float, memory: str, known: str = "") -> None:
        command = scripts.handshake(link.run_id, memory, known)
        self._post(slot, link, Owed(None, command, now, 0.0), pack(command.by_sha()))

    def _judge(self, slot: Slot[L], link: L, command: scripts.Command, vote: Vote) -> None:
        """Look at the note that came with an answer: it may say that the master lost its memory."""
        guard, now = self._guard, self._clock()
        max_ttl = guard.max_ttl
        text = vote.note or ""
        if command.script is scripts.HANDSHAKE:
            link.judging = False
            told = link.handshake._replace(note=text, time_us=vote.time_us)
            guard.judge(slot.index, told, now, heard_at=link.heard_at, new_connection=False)
        elif not guard.recognise(slot.index, text, now):
            noted = Note.parse(text)
            if noted is not None and link.run_id and noted.run_id not in ("", link.run_id):
                # A proxy keeps this connection over a restart: the handshake of a new one tells the life.
                self._drop(slot, Fault(FaultKind.BROKEN, "another server answers on this connection now"))
                return
            if not link.judging:
                link.judging = True
                self._shake_hands(slot, link, now, link.handshake.memory)
        self._expect(slot, link, text, max_ttl, now)

    def _expect(self, slot: Slot[L], link: L, note: str, max_ttl: float, now: float) -> None:
        """Compare answers with this note from now on, if grants count. ``max_ttl``: before it was judged."""
        guard = self._guard
        if guard.max_ttl != max_ttl:
            # Votes of memories that were old enough may count no more: each answer is read again.
            for other in self._roster.slots:
                if other.link is not None:
                    other.link.expect(None)
        link.expect(note if not guard.on or guard.counts(slot.index, note, now) else None)

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
        self._heard_at[slot.index] = link.heard_at
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
