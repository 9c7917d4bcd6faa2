"""Fan-out: one command to all masters, decided by the q-th answer.

One connection for each master carries the rounds of all owners, so a release can never overtake its own
acquire on a master, and the number of sockets does not grow with the number of threads or tasks. A command
is written to every master before anything is read; stragglers are read when they come.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TypeVar

from ..errors import RLockError
from ..model import Code, Fault, FaultKind, Vote
from ..procedures.steps import Ask, AskMany, Rest, Tell, Terms
from ..rules import scripts
from ..rules.quorum import Ballot, Settle
from .links import Link, pack
from .masters import same_server
from .roster import Slot
from .rounds import Owed, Round
from .traffic import Traffic
from .waits import Waits

#: How often a round goes out again because connections broke: each may find another one broken.
RESENDS = 2
#: Faults that a second delivery may mend at once.
RESENT = frozenset({FaultKind.BROKEN, FaultKind.UNJUDGED})

L = TypeVar("L", bound=Link)


class Fanout(Traffic[L]):
    """The command connections of one client in one process."""

    def __init__(self, terms: Terms, request_timeout: float) -> None:
        super().__init__(terms, request_timeout)
        self._quorum = terms.quorum
        self._time = terms.time
        self._masters = len(terms.masters)
        #: Who closes the client: the only one that may still ask. None: all may.
        self._refusing: object | None = None

    # -- what a driver adds ------------------------------------------------------------------------

    @abstractmethod
    def _finishing(self, turn: Round) -> Waits[None]:
        """Wait until the round is settled or its time is over. RLockError: the client was closed."""

    def _sent(self, turn: Round) -> None:
        """A round is on its way. With the mutex."""

    @abstractmethod
    def _caller(self) -> object:
        """The thread or task that calls."""

    # -- rounds ------------------------------------------------------------------------------------

    def asking(self, ask: Ask) -> Waits[Ballot]:
        """Perform a round; its ballot. Takes at most the round's time-out, thrice if connections broke."""
        # What asks all is not for the quorum that connects first: a healthy master that needs a moment
        # longer would be reported as one that gives no answer, or be left out by `init`.
        roster = self._roster
        if roster.up < self._masters:
            everybody = roster.fresh and ask.settle is Settle.ALL
            yield from self._connecting(ask.timeout, all_of_them=everybody)
        turn = Round(ask, self._masters, self._guard.time)
        ask.rounds, ballot = (turn,), turn.ballot
        try:
            self._send(turn)
            yield from self._finishing(turn)
        except BaseException:
            turn.over = True  # Ctrl-C between the two: others would wait for it to read for them
            raise
        self._judge_again(turn)
        if ballot.granted < ballot.quorum:
            yield from self._resending(turn)
        return ballot

    def _judge_again(self, turn: Round) -> None:
        """If the client learned of a longer lease: the memories have to be older for their votes."""
        if self._guard.time == turn.guard_time:
            return
        with self._mutex:
            now, turn.guard_time = self._clock(), self._guard.time
            grants = turn.ask.command.script in scripts.GRANTING
            for i, vote in list(turn.ballot.votes.items()):
                turn.ballot.amend(i, self._guard.screen(i, vote, now, grants=grants))

    def _resending(self, turn: Round) -> Waits[None]:
        """Again, before anybody is told that no quorum answers.

        After the restart of a master, or where a server has closed an idle connection: on new connections.
        Behind the handshake that finds out how old a memory is: on the same one.
        """
        for _ in range(RESENDS):
            if turn.ballot.answered >= turn.ballot.quorum or not turn.failed_by(RESENT):
                return
            yield from self._connecting(turn.ask.timeout, all_of_them=True)
            self._resend(turn)
            yield from self._finishing(turn)
            self._judge_again(turn)

    @property
    def met(self) -> bool:
        """Whether masters were met once: before that nobody knows their time."""
        return not self._roster.fresh

    def meeting(self) -> Waits[None]:
        """Meet them."""
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
        many.rounds = turns = [Round(ask, self._masters, self._guard.time) for ask in many.asks]
        try:
            for turn in turns:
                self._send(turn)
            for turn in turns:
                yield from self._finishing(turn)
        except BaseException:
            for turn in turns:
                turn.over = True
            raise
        for turn in turns:
            self._judge_again(turn)
        return [turn.ballot for turn in turns]

    def resting(self, rest: Rest) -> Waits[None]:
        """Wait for what rounds were settled without."""
        for turn in rest.asked.rounds:
            with self._mutex:
                turn.ballot.await_all()
                turn.over = False
                turn.deadline = min(turn.deadline, rest.until)
            yield from self._finishing(turn)
            self._judge_again(turn)

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

    def _send(self, turn: Round) -> None:
        ask, ballot = turn.ask, turn.ballot
        packed = ask.command.packed or pack(ask.command.by_sha())
        with self._mutex:
            roster = self._roster
            if roster.closed or self._refusing is not None:
                self._check()
            # Stamped before the first byte is sent: validity counted from any later instant would outlive
            # the lease on the masters.
            ballot.sent_at = ballot.decided_at = now = self._clock()
            turn.deadline = now + ask.timeout
            owed = Owed(turn, ask.command, now, now + ask.owed_for if ask.owed_for else 0.0)
            slots = roster.slots
            for slot in slots if ask.targets is None else [slots[i] for i in ask.targets]:
                link = slot.link
                if link is not None:
                    self._post(slot, link, owed, packed)
                    continue
                ballot.cast(slot.index, Vote(Code.FAULT, fault=slot.fault))
                if owed.until:
                    self._note(slot, owed)  # so it may be delivered, even before a resend
                else:
                    ballot.unsent |= {slot.index}
            self._sent(turn)

    def _resend(self, turn: Round) -> None:
        """A second delivery, to those that gave no vote; it keeps the stamp of the first."""
        ask = turn.ask
        packed = pack(ask.command.by_sha())
        with self._mutex:
            self._check()
            now = self._clock()
            turn.deadline = now + ask.timeout
            turn.over = False
            owed = Owed(turn, ask.command, now, now + ask.owed_for if ask.owed_for else 0.0)
            for i in turn.unanswered():
                slot = self._roster.slots[i]
                # Not to one to which it is still on its way.
                if slot.link is not None and all(other.round is not turn for other in slot.link.owed):
                    turn.ballot.recall(i)
                    self._post(slot, slot.link, owed, packed)

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
        self._meet(slot, link, now)
        for owed in self._debts.settle(slot.index, now):
            if slot.link is link:
                # Before anything else on this connection: a release that this master did not get.
                self._post(slot, link, owed, pack(owed.command.by_sha()))
            else:
                self._note(slot, owed)  # it broke again

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
            last = Ask(scripts.ping(), self._timeout, Settle.ALL, targets=owing)
            turn = Round(last, self._masters, self._guard.time)
            self._send(turn)
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
