"""The command connections of a simulated client, as `rlock/_sync/fanout.py` has them.

Replies are read only while some thread of the client waits for a round: a vote that comes after its round
was decided lies unread until the next one. Not here yet: connections that break, with what is owed then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rlock._sync.rounds import Owed, Round
from rlock.model import Vote
from rlock.procedures.steps import Ask, Tell
from rlock.rules.quorum import Ballot

from .events import Wire

if TYPE_CHECKING:
    from .client import Client


class Waiting:
    """Rounds of one thread side by side, and whom to tell when all of them are over."""

    def __init__(self, turns: list[Round], tell: Callable[[list[Ballot]], object]) -> None:
        self.turns = turns
        self._tell = tell

    @property
    def settled(self) -> bool:
        return all(turn.ballot.settled for turn in self.turns)

    def end(self) -> None:
        for turn in self.turns:
            turn.over = True
        self._tell([turn.ballot for turn in self.turns])


class Fanout:
    """One connection to each master."""

    def __init__(self, client: Client) -> None:
        self._client = client
        network = client.world.network
        self._there = [Wire(client.events, client.world.random, network.commands) for _ in client.world.hosts]
        self._back = [Wire(client.events, client.world.random, network.commands) for _ in client.world.hosts]
        self._inbox: deque[tuple[int, Any, Owed]] = deque()
        self._waiting: list[Waiting] = []
        self._reading = False

    def tell(self, tell: Tell) -> None:
        now = self._client.clock()
        owed = Owed(None, tell.command, now, now + tell.owed_for)
        for master in range(len(self._there)) if tell.targets is None else tell.targets:
            self._post(master, owed)

    def ask(self, asks: Sequence[Ask], tell: Callable[[list[Ballot]], object]) -> None:
        """Perform rounds side by side; ``tell`` is called with their ballots."""
        now = self._client.clock()
        turns = [Round(ask, len(self._there)) for ask in asks]
        for turn in turns:
            turn.ballot.sent_at = turn.ballot.decided_at = now
            for master in turn.targets:
                self._post(master, Owed(turn, turn.ask.command, now, 0.0))
        waiting = Waiting(turns, tell)
        self._waiting.append(waiting)
        # Not at once, because the thread is in the middle of its step; what has lain there unread since
        # the last round is read now, behind the writing of this one.
        self._client.after(0.0, self._read)
        timeout = max((ask.timeout for ask in asks), default=0.0)
        self._client.after(self._client.lasts(timeout), lambda: self._end(waiting))

    def _end(self, waiting: Waiting) -> None:
        if waiting in self._waiting:
            self._waiting.remove(waiting)
            waiting.end()

    # -- one connection ----------------------------------------------------------------------------------

    def _post(self, master: int, owed: Owed) -> None:
        client = self._client
        client.world.sent[owed.command.script.name] += 1
        host = client.world.hosts[master]

        def execute() -> None:
            reply = host.run(owed.command)
            client.world.note(f"{client.label} m{master} {owed.command.script.name}", owed.command, reply)
            self._back[master].send(lambda: client.do(lambda: self._arrive(master, reply, owed)))

        self._there[master].send(lambda: host.do(execute))

    def _arrive(self, master: int, reply: Any, owed: Owed) -> None:
        self._inbox.append((master, reply, owed))
        self._read()

    def _read(self) -> None:
        if self._reading:
            return  # a thread that was resumed below asks again: whoever reads goes on for it
        self._reading = True
        while self._waiting:
            over = [waiting for waiting in self._waiting if waiting.settled]
            for waiting in over:
                self._end(waiting)
            if not self._inbox:
                break
            if self._waiting:
                self._deliver(*self._inbox.popleft())
        self._reading = False

    def _deliver(self, master: int, reply: Any, owed: Owed) -> None:
        vote = owed.command.decode(reply)
        if owed.command.misread(vote):
            raise AssertionError(f"an answer to another command: {reply}")
        turn = owed.round
        if turn is None:
            return
        self._vote(turn, master, vote)

    def _vote(self, turn: Round, master: int, vote: Vote) -> None:
        if not turn.over and not turn.ballot.settled and turn.ballot.cast(master, vote):
            turn.ballot.decided_at = self._client.clock()
