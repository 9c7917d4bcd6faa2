"""Fan-out: one command to all masters, decided by the q-th answer.

One connection for each master carries the rounds of all owners, so a release can never overtake its own
acquire on a master, and the number of sockets does not grow with the number of threads or tasks. A command
is written to every master before anything is read; stragglers are read when they come.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

import hiredis

from ..errors import RLockError
from ..events import MasterAnswers, MasterFailed, MasterSlow, OutOfStep
from ..model import Code, Fault, FaultKind, Vote
from ..procedures.steps import Ask, AskMany, Rest, Tell, Terms
from ..rules import scripts
from ..rules.quorum import Ballot, Settle
from .links import Link, pack
from .masters import same_server
from .roster import Roster, Slot
from .rounds import Debts, Owed, Round
from .waits import Waits

#: How often a round goes out again because connections broke: each may find another one broken.
RESENDS = 2

#: What goes on with a master is told of again after this.
AGAIN_S = 60.0

L = TypeVar("L", bound=Link)


class Fanout(ABC, Generic[L]):
    """The command connections of one client in one process."""

    _roster: Roster[L]

    def __init__(self, terms: Terms, request_timeout: float) -> None:
        self._clock = terms.clock
        self._timeout = request_timeout
        self._quorum = terms.quorum
        self._guard = terms.guard
        self._time = terms.time
        self._news = terms.news
        self._mutex = threading.Lock()
        self._masters = len(terms.masters)
        #: Who closes the client: the only one that may still ask. None: all may.
        self._refusing: object | None = None
        self._debts = Debts(len(terms.masters))

    # -- what a driver adds ------------------------------------------------------------------------

    @abstractmethod
    def _finishing(self, turn: Round) -> Waits[None]:
        """Wait until the round is settled or its time is over. RLockError: the client was closed."""

    @abstractmethod
    def _wake(self, turn: Round) -> None:
        """Let the one who waits for a round look. With the mutex."""

    @abstractmethod
    def _caller(self) -> object:
        """The thread or task that calls."""

    # -- rounds ------------------------------------------------------------------------------------

    def asking(self, ask: Ask) -> Waits[Ballot]:
        """Perform a round; its ballot. Takes at most the round's time-out, thrice if connections broke."""
        # What asks all is not for the quorum that connects first: a healthy master that needs a moment
        # longer would be reported as one that gives no answer, or be left out by `init`.
        everybody = self._roster.fresh and ask.settle is Settle.ALL
        yield from self._connecting(ask.timeout, all_of_them=everybody)
        turn = Round(ask, self._masters)
        ask.rounds = (turn,)
        self._send(turn, turn.targets)
        yield from self._finishing(turn)
        for _ in range(RESENDS):
            if turn.ballot.answered >= turn.ballot.quorum or not turn.broken():
                break
            # A restarted master or an idle connection that the server closed: again, on new
            # connections, before anybody is told that no quorum answers.
            yield from self._connecting(ask.timeout, all_of_them=True)
            self._send(turn, turn.unanswered(), again=True)
            yield from self._finishing(turn)
        return turn.ballot

    def meeting(self) -> Waits[None]:
        """See to it that masters were met once: before that nobody knows their time."""
        if self._roster.fresh:
            yield from self._connecting(0.0)

    def _connecting(self, patience: float, *, all_of_them: bool = False) -> Waits[None]:
        if self._roster.up < self._masters:
            enough = self._masters if all_of_them else self._quorum
            yield from self._roster.connecting(patience, enough, self._quorum, self._check)

    def asking_many(self, many: AskMany) -> Waits[list[Ballot]]:
        """Perform rounds side by side."""
        everybody = self._roster.fresh and all(ask.settle is Settle.ALL for ask in many.asks)
        patience = max((ask.timeout for ask in many.asks), default=0.0)
        yield from self._connecting(patience, all_of_them=everybody)
        many.rounds = turns = [Round(ask, self._masters) for ask in many.asks]
        for turn in turns:
            self._send(turn, turn.targets)
        for turn in turns:
            yield from self._finishing(turn)
        return [turn.ballot for turn in turns]

    def resting(self, rest: Rest) -> Waits[None]:
        """Wait for what rounds were settled without."""
        for turn in rest.asked.rounds:
            with self._mutex:
                turn.ballot.settle, turn.over = Settle.ALL, False
                turn.deadline = min(turn.deadline, rest.until)
            yield from self._finishing(turn)

    def tell(self, tell: Tell) -> None:
        """Send and wait for nothing; the replies are read later and dropped."""
        packed = pack(tell.command.by_sha())
        with self._mutex:
            if self._roster.closed:
                return
            now = self._clock()
            owed = Owed(None, tell.command, now, now + tell.owed_for)
            for i in range(self._masters) if tell.targets is None else tell.targets:
                slot = self._roster.slots[i]
                if slot.link is not None:
                    self._post(slot, slot.link, owed, packed)
                elif tell.owed_for:
                    self._note(slot, owed)

    def _send(self, turn: Round, targets: Sequence[int], *, again: bool = False) -> None:
        ask, ballot = turn.ask, turn.ballot
        packed = pack(ask.command.by_sha())
        with self._mutex:
            self._check()
            now = self._clock()
            if not again:
                # Stamped before the first byte is sent: validity counted from any later instant would
                # outlive the lease on the masters. A second delivery keeps the stamp of the first.
                ballot.sent_at = ballot.decided_at = now
            turn.deadline = now + ask.timeout
            turn.over = False
            owed = Owed(turn, ask.command, now, now + ask.owed_for if ask.owed_for else 0.0)
            slots = self._roster.slots
            for i in targets:
                slot = slots[i]
                if slot.link is not None:
                    if again:
                        if any(other.round is turn for other in slot.link.owed):
                            continue  # still on its way
                        ballot.recall(i)
                    self._post(slot, slot.link, owed, packed)
                elif not again:
                    ballot.cast(i, Vote(Code.FAULT, fault=slot.fault))
                    if owed.until:
                        self._note(slot, owed)  # so it may be delivered, even before a resend
                    else:
                        ballot.unsent.add(i)

    # -- one connection; all with the mutex held ---------------------------------------------------

    def _post(self, slot: Slot[L], link: L, owed: Owed, packed: bytes) -> None:
        try:
            link.owed.append(owed)
            self._roster.send(link, packed)
        except OSError as error:
            self._drop(slot, Fault(FaultKind.BROKEN, str(error) or type(error).__name__))
        except BaseException:
            # Ctrl-C in the middle of a command: its bytes and the list of owed replies may no longer
            # agree, and one reply read for another is a vote that nobody gave.
            self._drop(slot, Fault(FaultKind.BROKEN, "interrupted"))
            raise

    def _deliver(self, slot: Slot[L], link: L) -> None:
        gets, owed_replies = link.reader.gets, link.owed
        while (reply := gets()) is not False:
            if not owed_replies:
                # Nobody asked: an error before the server hangs up, or the two are out of step.
                self._drop(slot, Fault(FaultKind.BROKEN, f"an answer that nobody asked for: {reply!r:.80}"))
                return
            owed = owed_replies.popleft()
            turn, command = owed.round, owed.command
            if isinstance(reply, hiredis.ReplyError) and scripts.is_noscript(reply):
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
            if command.misread(vote):
                # The last line of defence: a vote that was read for another round would be two leases.
                self._drop(slot, Fault(FaultKind.BROKEN, "an answer that belongs to another command"))
                self._news.note(OutOfStep(slot.endpoint.label))
                return
            if vote.fault is not None:
                self._refused(slot, vote.fault)
            elif slot.refusal is not None and vote.code == Code.YES and command.script is scripts.ACQUIRE:
                # Only that: without memory, or a disk, a master releases and renews all the same.
                slot.refusal = None
                self._news.note(MasterAnswers(slot.endpoint.label, news=False))
            if not self._guard.known(slot.index, vote.marker):
                vote = self._screen(slot, link, vote, grants=command.script in scripts.GRANTING)
            if turn is not None:
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
        # One that came with the last that mattered is counted as well, or it would have to be undone.
        settled = ballot.settled
        if (turn.over or (settled and ballot.granted >= ballot.quorum)) and not turn.ask.stay:
            return
        if ballot.cast(master, vote) and not settled:
            ballot.decided_at = self._clock()
            self._wake(turn)

    def _expire(self, now: float) -> None:
        """Drop the links that have owed a reply for too long: a stalled master costs nothing from then on.

        Called when all that has arrived was read; one for which half of the time is over is told of.
        """
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

    def _check(self) -> None:
        if self._roster.closed or (self._refusing is not None and self._refusing != self._caller()):
            raise RLockError("the client is closed")

    # -- connecting --------------------------------------------------------------------------------

    def _welcome(self, slot: Slot[L], link: L) -> None:
        """A new link: refuse a server that we have already, and deliver what it has missed."""
        for other in self._roster.slots:
            if other is not slot and other.link and link.run_id and other.link.run_id == link.run_id:
                told = same_server(slot.endpoint, other.endpoint, link.run_id)
                self._drop(slot, Fault(FaultKind.DUPLICATE, told))
                return
        now = self._clock()
        if link.handshake.time_us:
            self._time.note(slot.index, link.handshake.time_us, now)
        self._guard.met(slot.index, link.handshake, now)
        for owed in self._debts.settle(slot.index, now):
            if slot.link is link:
                # Before anything else on this connection: a release that this master did not get.
                self._post(slot, link, owed, pack(owed.command.by_sha()))
            else:
                self._note(slot, owed)  # it broke again

    @property
    def reachable(self) -> bool:
        """Whether a quorum of masters is connected."""
        return self._roster.up >= self._quorum

    @property
    def faults(self) -> list[Fault | None]:
        """Why each master has no connection; None: it has one."""
        return [None if slot.link is not None else slot.fault for slot in self._roster.slots]

    # -- the end -----------------------------------------------------------------------------------

    def refuse(self) -> None:
        """From now on only the caller may start rounds; what is under way goes on."""
        with self._mutex:
            self._refusing = self._caller()

    def draining(self, *, to_the_end: bool = False) -> Waits[None]:
        """Wait until the masters have done what they were sent, at most a request time-out.

        ``to_the_end``: whatever interrupts it.

        To close a socket with unread answers resets the connection, and a server that cannot write an
        answer any more forgets what it has not read: an undo, a release.
        """
        with self._mutex:
            owing = [i for i, slot in enumerate(self._roster.slots) if slot.link and slot.link.owed]
        if owing:
            # Answers come in order: that to the last question is behind all others.
            last = Ask(scripts.status("rlock", waiters=1), self._timeout, Settle.ALL, targets=owing)
            turn = Round(last, self._masters)
            self._send(turn, owing)
            while not turn.over:
                try:
                    yield from self._finishing(turn)
                except (GeneratorExit, RLockError):
                    raise
                except BaseException:
                    if not to_the_end:
                        raise
                    # Cancelled once more, as by asyncio.run: asked once, waited for until the deadline.
                    turn.over = False

    def close(self) -> None:
        """End the connections; what waits ends with an error. Twice is once."""
        with self._mutex:
            if not self._roster.closed:
                self._roster.close()
                self._close()

    def _close(self) -> None:
        """Wake who waits for a round. With the mutex."""

    def abandon(self) -> None:
        """In a forked child: drop our copies of the sockets, without a word to the servers, and no mutex."""
        self._roster.abandon()
