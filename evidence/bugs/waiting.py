"""Defects of waiting that rlock had, each as it was, in today's code: free locks while others slept."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

from rlock._client import calls, engine, notifications, subscriptions
from rlock.procedures import acquire, release
from rlock.procedures.contender import Contender
from rlock.procedures.port import Masters, Port
from rlock.rules import commands, scripts
from rlock.rules.keys import Wire, waiter_name
from rlock.testing.memory.masters import Master, Reply

from .registry import bug, rewrite
from .rules import model


@bug("no look behind a new subscription", "4.1")
def resubscribed_blindly(stack: ExitStack) -> None:
    """A waiter whose subscription had to be made again did not look at once: it slept over the releases of
    the time in between."""
    genuine = notifications.Subscription.confirm

    def blindly(self: Any, master: int) -> None:
        self.lost.discard(master)
        genuine(self, master)

    stack.enter_context(patch.object(notifications.Subscription, "confirm", blindly))


@bug("silent subscription", "4.1")
def never_doubted(stack: ExitStack) -> None:
    """A connection for messages that fell silent was kept while commands worked. Each hand-off to its client
    was lost, and all waited for the claim second."""
    stack.enter_context(patch.object(subscriptions.Subscriptions, "doubt", lambda *_: None))


@bug("wake-up lost by a dead waiter", "4.4")
def handed_to_the_dead(stack: ExitStack) -> None:
    """A release handed the lock to a waiter that nobody listened for any more. The others slept on for the
    time of its claim."""
    genuine = Master._publish
    heard: Any = lambda self, channel, text: max("|" in channel, genuine(self, channel, text))  # noqa: E731
    stack.enter_context(patch.object(Master, "_publish", heard))


@bug("hand-off of one who left", "4.4")
def kept_by_one_who_left(stack: ExitStack) -> None:
    """A hand-off to a waiter that was leaving was not passed on: the others waited for its claim."""
    code = "local code = redis.pcall('hdel', lock, owner)"
    rewrite(stack, scripts.RELEASE, code, f"if owner == 'left' then return {{0, '', 0, -2, 0}} end\n{code}")

    def only_leave(genuine: Any, self: Master, keys: Sequence[str], *words: str) -> Reply:
        if words[-1] != "left":
            return genuine(self, keys, *words)  # type: ignore[no-any-return]
        self._zrem(keys[1], words[4])
        return [0, b"", 0, -2, 0]

    def leave(wire: Wire, name: str, waiter: str, **how: Any) -> Any:
        return commands.free(wire, name, "left", waiter, **how)

    model(stack, "_release", only_leave)
    stack.enter_context(patch.object(commands, "leave_queue", leave))
    stack.enter_context(patch.object(engine.Engine, "pass_on", lambda *_: None))


@bug("late hand-over", "4.4")
def late_hand_over(stack: ExitStack) -> None:
    """A hand-over to a thread of the same process was delivered again, late, to one that had gone. The lock
    stood until the lease of nobody ended."""
    genuine = calls.Calls.call

    def as_it_was(self: Any, request: Any) -> Generator[Any, Any, Any]:
        return (yield from genuine(self, request._replace(late=None)))

    stack.enter_context(patch.object(calls.Calls, "call", as_it_was))


@bug("look delayed by the dead", "4.1")
def delayed_by_the_dead(stack: ExitStack) -> None:
    """The vote of a dead contender, whose lease had longer to go, put off the look at the lapsed lease of the
    holder. The lock was free, and its waiters slept."""
    genuine = acquire._ask_one

    def look(port: Port, contender: Contender, *words: Any) -> Generator[Any, Any, Any]:
        vote, master = yield from genuine(port, contender, *words)
        holder, place = contender.findings.holder, contender.place
        if vote is not None and holder and (place is None or vote.holder != place.owner):
            vote = vote._replace(holder=holder)
        return vote, master

    stack.enter_context(patch.object(acquire, "_ask_one", look))


@bug("place of one who has left", "4.4")
def place_comes_back(stack: ExitStack) -> None:
    """A hand-over within a process failed late, and put back the place of a thread that had left. The next
    release handed the lock to that place: it was free for a second, and others waited."""
    genuine = release.take_back_from

    def as_it_was(masters: Masters, next_waiter: Contender, *words: Any) -> None:
        if next_waiter.inbox is None and next_waiter.place is not None:
            place = commands.wait(next_waiter.place)
            masters.send(place, words[1], resend_for=next_waiter.options.lease.ttl)
        genuine(masters, next_waiter, *words)

    stack.enter_context(patch.object(release, "take_back_from", as_it_was))


@bug("place of a lost hold", "4.4")
def kept_by_a_lost_hold(stack: ExitStack) -> None:
    """The place of a waiter that had won by another way stood in the queue until its release. It lost its
    lease, was handed the lock again, and did not pass it on: the others waited for its claim."""
    genuine = engine.Engine.pass_on

    def as_it_was(self: Any, name: str, token: str) -> None:
        waiter = waiter_name(token, self.context.client_id)
        if not any(hold.waiter == waiter for hold in self.holds):
            genuine(self, name, token)

    stack.enter_context(patch.object(engine.Engine, "pass_on", as_it_was))
