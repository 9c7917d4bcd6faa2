"""Driver: performs what procedures ask for, on the connections of one client."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from ..clock import Clock
from ..procedures.steps import (
    Ask,
    AskMany,
    Listen,
    OtherStep,
    Park,
    Procedure,
    Rest,
    Standing,
    Tell,
    Unlisten,
    Wake,
)
from .calls import Calls
from .notifications import Ear
from .subscriptions import Subscriptions
from .waits import Waits

T = TypeVar("T")


class Driver(ABC):
    """Runs procedures, each in the thread or task that asks for it.

    ``pass_on`` is called with the lock, the token and the seconds of a lease that an owner of ours left to a
    waiter that has ended in another way.
    """

    def __init__(
        self, calls: Calls[Any], subscriptions: Subscriptions[Any], clock: Clock, pass_on: Callable[..., None]
    ) -> None:
        self._calls = calls
        self._subscriptions = subscriptions
        self._clock = clock
        self._pass_on = pass_on
        #: Tokens of places that were left on every master not long ago: what those say of a hand-off to
        #: them is old.
        self.finished: deque[str] = deque(maxlen=64)

    @abstractmethod
    def pausing(self, timeout: float) -> Waits[None]:
        """Let so many seconds pass; inf: until an interrupt."""

    def performing(self, procedure: Procedure[T]) -> Waits[T]:
        """Do what the procedure yields, send it the answers, throw it the exceptions; its result."""
        ears: list[Ear] = []
        answer: Any = None
        error: BaseException | None = None
        try:
            while True:
                try:
                    if error is not None:
                        failure, error = error, None
                        step = procedure.throw(failure)
                    else:
                        step = procedure.send(answer)
                    if isinstance(step, Ask):  # nearly always: without a layer in between
                        answer = yield from self._calls.asking(step)
                    else:
                        answer = yield from self._doing(step, ears)
                except StopIteration as stop:
                    result: T = stop.value
                    return result
                except GeneratorExit:
                    # Nobody will go on with this program: no step can be done any more.
                    procedure.close()
                    raise
                except BaseException as failure:
                    # Thrown into the procedure wherever it came up, so that it can undo; what comes
                    # out of a procedure that has ended is for the caller.
                    if getattr(procedure, "gi_frame", None) is None:
                        raise
                    error = failure
        finally:
            for ear in ears:
                self._leave(ear)

    def _doing(self, step: OtherStep, ears: list[Ear]) -> Waits[Any]:
        if isinstance(step, Park) and ears:
            return self._subscriptions.parking(ears[0], step.until - self._clock())
        return self._doing_aside(step, ears)

    def _doing_aside(self, step: OtherStep, ears: list[Ear]) -> Waits[Any]:
        if isinstance(step, Listen):
            if ears and ears[0].place is not step.place:
                # The grant that the one before had got came too late.
                self._leave(ears[0])
                ears.pop()
            if not ears:
                # Noted before it is subscribed: Ctrl-C in between must not leave the subscription behind.
                ears.append(self._subscriptions.ear(step.place))
            return (yield from self._subscriptions.listening(ears[0], step.timeout))
        if isinstance(step, Standing):
            return self._subscriptions.standing(step.name)
        if isinstance(step, Rest):
            return (yield from self._calls.resting(step))
        if isinstance(step, Tell):
            return self._calls.tell(step)
        if isinstance(step, AskMany):
            return (yield from self._calls.asking_many(step))
        if isinstance(step, Unlisten):
            for ear in ears:
                self.finished.append(ear.place.token)
                self._leave(ear)
            return None
        # Nothing to hear yet (the masters are out of reach): only the time and close() end this.
        yield from self.pausing(step.until - self._clock())
        return Wake.TIME

    def _leave(self, ear: Ear) -> None:
        self._subscriptions.leave(ear)
        local_grant, ear.place.local_grant = ear.place.local_grant, None
        if local_grant is not None:
            self._pass_on(ear.name, local_grant.owner, ear.place.lease_ms / 1000)
