"""Spans: an acquire and a hold, as traces show them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from opentelemetry.context import Context
from opentelemetry.trace import Span, Status, StatusCode, Tracer

from .. import events
from ..events import Event
from .labels import LockLabels
from .recorder import Forgetful, mutex

#: Holds that are remembered, for their spans to be ended. Ten times what one process is built to hold: a
#: hold of which nobody tells the end must not cost memory for ever.
MOST = 100_000


class Spans(Forgetful):
    """An observer that makes spans. Events come in the caller's context, which is their parent."""

    def __init__(self, tracer: Tracer, labels: LockLabels) -> None:
        super().__init__()
        self._tracer = tracer
        self._label = labels
        self._holds: dict[str, Span] = {}  # by owner token
        self._record: dict[type[Event], Callable[[Any], None]] = {
            events.Acquired: self._acquired,
            events.NotAcquired: self._not_acquired,
            events.Released: self._released,
            events.Lost: self._lost,
            events.RenewalFailed: self._noted,
            events.RenewalRecovered: self._noted,
            events.RenewalStopped: self._noted,
        }

    def __call__(self, event: Event) -> None:
        """Take note of an event."""
        record = self._record.get(type(event))
        if record is not None:
            record(event)

    def close(self) -> None:
        """End the spans of what is still held."""
        with mutex:
            holds, self._holds = self._holds, {}
        for span in holds.values():
            span.end()

    def begin_again(self) -> None:
        """See `Forgetful`. The spans are the parent's, who ends them."""
        self._holds = {}

    def _name(self, what: str, lock: str) -> str:
        with mutex:
            label = self._label(lock)
        return f"rlock.{what} {label}" if label else f"rlock.{what}"

    def _acquired(self, event: events.Acquired) -> None:
        now = time.time_ns()
        common: dict[str, str | bool] = {
            "rlock.lock": event.lock,
            "rlock.owner": event.owner,
            "rlock.fair": event.fair,
        }
        span = self._tracer.start_span(
            self._name("acquire", event.lock),
            start_time=now - _ns(event.waited),
            attributes={
                **common,
                "rlock.outcome": "acquired",
                "rlock.votes": event.votes,
                "rlock.masters": event.masters,
                "rlock.handed": event.handed,
                "rlock.queued": event.queued,
            },
        )
        span.end(now)
        hold = self._tracer.start_span(self._name("hold", event.lock), start_time=now, attributes=common)
        with mutex:
            self._holds[event.owner] = hold
            oldest = self._holds.pop(next(iter(self._holds))) if len(self._holds) > MOST else None
        if oldest is not None:
            oldest.end()

    def _not_acquired(self, event: events.NotAcquired) -> None:
        now = time.time_ns()
        span = self._tracer.start_span(
            self._name("acquire", event.lock),
            start_time=now - _ns(event.waited),
            attributes={
                "rlock.lock": event.lock,
                "rlock.fair": event.fair,
                "rlock.outcome": event.outcome,
                "rlock.queued": event.queued,
            },
        )
        # "busy" is an answer, and "interrupted" the caller's own wish.
        if event.outcome in ("unreachable", "error"):
            span.set_attribute("error.type", event.outcome)
            span.set_status(Status(StatusCode.ERROR, f"not acquired: {event.outcome}"))
        span.end(now)

    def _hold(self, owner: str, lock: str, held: float, now: int, context: Context | None) -> Span:
        with mutex:
            span = self._holds.pop(owner, None)
        if span is None:  # acquired before spans were made
            attributes = {"rlock.lock": lock, "rlock.owner": owner}
            span = self._tracer.start_span(
                self._name("hold", lock), context, start_time=now - _ns(held), attributes=attributes
            )
        return span

    def _released(self, event: events.Released) -> None:
        now = time.time_ns() - _ns(event.took)
        span = self._hold(event.owner, event.lock, event.held, now, None)
        span.set_attribute("rlock.confirmed", event.confirmed)
        span.end(now)

    def _lost(self, event: events.Lost) -> None:
        now = time.time_ns()
        # Told by whoever notices: the context of the thread that renews is nobody's parent.
        span = self._hold(event.owner, event.lock, event.held, now, Context())
        span.add_event("rlock.lost", {"rlock.cause": event.cause, "rlock.reason": event.reason}, now)
        if event.cause != events.CLOSED:  # then it was released, only not by its owner
            span.set_attribute("error.type", event.cause)
            span.set_status(Status(StatusCode.ERROR, event.reason))
        span.end(now)

    def _noted(self, event: Any) -> None:
        with mutex:
            span = self._holds.get(event.owner)
        if span is not None:
            told = {
                f"rlock.{key}": getattr(event, key)
                for key in ("remaining", "cause", "reason")
                if hasattr(event, key)
            }
            span.add_event(f"rlock.{event.event}", told)


def _ns(seconds: float) -> int:
    return int(seconds * 1e9)
