"""Threads of a simulated client: they do what the procedures yield, as `rlock/_sync/driver.py` does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rlock._sync.ears import Ear
from rlock.procedures.steps import (
    Ask,
    AskMany,
    Listen,
    Park,
    Procedure,
    Standing,
    Step,
    Tell,
    Unlisten,
    Wake,
)

if TYPE_CHECKING:
    from .client import Client


@dataclass(frozen=True)
class Perform:
    """Run a procedure. Answer: its result."""

    procedure: Procedure[Any]


@dataclass(frozen=True)
class Sleep:
    """Let time pass. Answer: None."""

    seconds: float


@dataclass(frozen=True)
class Enter:
    """Wait for one's turn among the threads of this client that want one lock. Answer: None."""

    name: str


#: What a thread runs: it says what it wants done, and gets the answer.
Program = Generator[Perform | Sleep | Enter, Any, Any]
Answer = Callable[[], Any]

#: The answer to a step is not known yet; `Thread.resume` brings it.
_LATER = object()


class Thread:
    """One thread of a client, and the one thing that it waits for at a time."""

    def __init__(self, client: Client, label: str) -> None:
        self.client = client
        self.label = label
        self.over = False
        #: Rounds that it waited for, by script, since the start of the program or `asked.clear()`.
        self.asked: Counter[str] = Counter()
        self._program: Program
        self._procedure: Procedure[Any]
        self._ears: list[Ear] = []
        self._waits = 0

    def start(self, program: Program) -> Thread:
        self._program = program
        self._go_on(None)
        return self

    def _go_on(self, answer: Any) -> None:
        """Run the program until it has to wait."""
        while True:
            try:
                wish = self._program.send(answer)
            except StopIteration:
                self.over = True
                return
            if isinstance(wish, Perform):
                self._procedure, self._ears = wish.procedure, []
                ended, answer = self._advance(None)
                if not ended:
                    return
            elif isinstance(wish, Sleep):
                self.client.after(wish.seconds, lambda: self._go_on(None))
                return
            elif not self.client.gate.enter(wish.name, lambda: self._go_on(None)):
                return

    def _advance(self, answer: Any) -> tuple[bool, Any]:
        """Run the procedure until it has to wait; whether it has ended, and its result."""
        while True:
            try:
                step = self._procedure.send(answer)
            except StopIteration as stop:
                for ear in self._ears:
                    self._leave(ear)
                return True, stop.value
            answer = self._do(step)
            if answer is _LATER:
                return False, None

    def expect(self) -> Callable[[Answer], bool]:
        """What to call with the answer that the thread waits for; only the first call has an effect."""
        self._waits += 1
        serial = self._waits

        def resume(answer: Answer) -> bool:
            if serial != self._waits:
                return False
            self._waits += 1
            ended, result = self._advance(answer())
            if ended:
                self._go_on(result)
            return True

        return resume

    # -- the steps ---------------------------------------------------------------------------------------

    def _do(self, step: Step) -> Any:
        client = self.client
        if isinstance(step, Tell):
            return client.fanout.tell(step)
        if isinstance(step, Ask):
            self.asked[step.command.script.name] += 1
            resume = self.expect()
            client.fanout.ask([step], lambda ballots: resume(lambda: ballots[0]))
            return _LATER
        if isinstance(step, AskMany):
            resume = self.expect()
            client.fanout.ask(step.asks, lambda ballots: resume(lambda: ballots))
            return _LATER
        if isinstance(step, Standing):
            return client.listener.standing(step.name)
        if isinstance(step, Listen):
            return self._listen(step)
        if isinstance(step, Unlisten):
            for ear in self._ears:
                client.finished.append(ear.place.token)
                self._leave(ear)
            return None
        return self._park(step)

    def _leave(self, ear: Ear) -> None:
        self.client.listener.leave(ear)
        bequest, ear.place.bequest = ear.place.bequest, None
        if bequest is not None:
            self.client.pass_on(ear.name, bequest.owner)

    def _listen(self, step: Listen) -> Any:
        listener = self.client.listener
        if not self._ears:
            self._ears.append(Ear(step.place))
        ear = self._ears[0]
        found = listener.listen(ear)
        if step.timeout <= 0 or listener.settled(found):
            return len(found.confirmed)
        listener.read_until(
            ear, lambda: listener.settled(found), step.timeout, lambda: len(found.confirmed), self.expect()
        )
        return _LATER

    def _park(self, step: Park) -> Any:
        client = self.client
        timeout = max(0.0, client.lasts(step.until - client.clock()))
        if not self._ears:
            resume = self.expect()
            client.after(timeout, lambda: resume(lambda: Wake.TIME))
            return _LATER
        ear = self._ears[0]
        client.listener.read_until(
            ear, lambda: ear.wake_for is not Wake.TIME, timeout, ear.take_wake, self.expect()
        )
        return _LATER
