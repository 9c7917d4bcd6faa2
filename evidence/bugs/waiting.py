"""Defects of waiting that rlock had, each as it was, in today's code: free locks while others slept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

from rlock._client import calls, closing, engine, hold_table, notifications, pipeline, subscriptions, watchdog
from rlock.model import Code
from rlock.procedures import acquire
from rlock.procedures.contender import Contender
from rlock.procedures.port import Port
from rlock.rules import commands, scripts, timing
from rlock.rules.command_templates import encode
from rlock.rules.holds import Hold
from rlock.rules.keys import Wire, holder_identity, owner_of_waiter
from rlock.testing.memory.masters import Master

from .registry import Patches, around, bug


@bug("no look behind a new subscription", "4.1")
@around(notifications.Subscription, "confirm")
def resubscribed_blindly(genuine: Any, self: Any, master: int) -> None:
    """A waiter whose subscription was made again did not ask at once, and slept over the releases before."""
    self.lost.discard(master)
    genuine(self, master)


@bug("silent subscription", "4.1")
def never_doubted(patches: Patches) -> None:
    """A connection for messages that fell silent was kept while commands worked. Each hand-off to its client
    was lost, and all waited for the claim second."""
    patches.set(subscriptions.Subscriptions, "doubt", lambda *_: None)


@bug("wake-up lost by a dead waiter", "4.4")
@around(Master, "_publish")
def handed_to_the_dead(genuine: Any, self: Master, channel: str, text: str) -> Any:
    """A release handed the lock to a waiter that nobody listened for. The others slept through its claim."""
    return max("|" in channel, genuine(self, channel, text))


@bug("hand-off of one who left", "4.4")
def kept_by_one_who_left(patches: Patches) -> None:
    """A hand-off to a waiter that was leaving was not passed on: the others waited for its claim."""

    def only_leave(genuine: Any, self: Master, keys: Sequence[str], *words: str) -> Any:
        if words[-1] != "left":
            return genuine(self, keys, *words)
        self._zrem(keys[1], words[4])
        return [0, b"", 0, -2, 0]

    def leave(wire: Wire, name: str, waiter: str, **how: Any) -> Any:
        return commands.free(wire, name, "left", waiter, **how)

    patches.wrap(Master, "_release", only_leave)
    patches.set(commands, "leave_queue", leave)
    patches.set(engine.Engine, "pass_on", lambda *_: None)


_ends: WeakKeyDictionary[Contender, float] = WeakKeyDictionary()  # of the longest lease that each one saw


@bug("look delayed by the dead", "4.1")
@around(acquire, "_ask_one")
def delayed_by_the_dead(genuine: Any, port: Port, contender: Contender, *words: Any) -> Any:
    """The vote of a dead contender, whose lease had longer to go, put off the look at the lapsed lease of the
    holder. The lock was free, and its waiters slept."""
    vote, master = yield from genuine(port, contender, *words)
    holder, place = contender.findings.holder, contender.place
    if vote is not None and holder and (place is None or vote.holder != place.owner):
        now_ms = port.context.clock() * 1000
        _ends[contender] = max(_ends.get(contender, 0.0), now_ms + vote.ttl_ms)
        vote = vote._replace(holder=holder, ttl_ms=round(_ends[contender] - now_ms))
    return vote, master


@bug("place put back while it closes", "4.4")
@around(calls.Calls, "send")
def put_back_while_it_closes(genuine: Any, self: Any, command: Any, *targets: Any, **more: Any) -> None:
    """A round that a client lost while it was being closed put its place back behind the undo. A master
    handed the lock to that place, and nobody passed it on."""
    closer, self._closer = self._closer, None if command.script is scripts.WAIT else self._closer
    genuine(self, command, *targets, **more)
    self._closer = closer


@bug("place of a lost hold while it closes", "4.4")
@around(closing, "_release")
def place_of_a_lost_hold(genuine: Any, masters: Any, hold: Hold) -> Any:
    """A client that was closed released what it held, and nothing for a hold that was lost before. A master
    handed the lock to the place of that hold: nobody passed it on, and others waited for its claim."""
    request, at_close = genuine(masters, hold), hold.lease.reason == watchdog.AT_CLOSE
    return request if hold.count < 1 or at_close else request._replace(command=commands.ping())


@bug("lost hold released while it closes", "4.4")
@around(closing, "_release")
def lost_and_released(genuine: Any, masters: Any, hold: Hold) -> Any:
    """The same for a lost hold that its owner was giving back at that instant: neither one released it."""
    request, over = genuine(masters, hold), masters.context.clock() >= hold.lease.valid_until
    return request._replace(command=commands.ping()) if hold.count < 1 and over else request


@bug("acquire sent again while it closes", "4.4")
@around(pipeline.Pipeline, "_send_script")
def sent_again_while_it_closes(genuine: Any, self: Any, *pending: Any) -> None:
    """After SCRIPT FLUSH an acquire of a client that was being closed was refused, and sent again behind its
    undo. Nobody had the lock for its lease."""
    closer, self._closer = self._closer, None
    genuine(self, *pending)
    self._closer = closer


@bug("lease without an end", "4.1")
@around(acquire, "_ask_one")
def endless(genuine: Any, port: Port, contender: Contender, *words: Any) -> Any:
    """A waiter that was refused because of an earlier waiter knew no lease. It looked at that of the next
    holder, and did not learn its end. The holder died, and the lock was free while it slept."""
    vote, master = yield from genuine(port, contender, *words)
    findings = contender.findings
    refusals = [each for each in findings.ballot.votes.values() if each.code == Code.FOREIGN]
    if vote is not None and not refusals and findings.holder in (None, holder_identity(vote.holder)):
        vote = vote._replace(ttl_ms=10**9)
    return vote, master


def one_look(patches: Patches, *, known: bool) -> None:
    """Looks of waiters that know a holder, or of the others, come one by one."""
    looks = list[bool]()

    def ask_one(genuine: Any, port: Port, contender: Contender, *words: Any) -> Any:
        answer = yield from genuine(port, contender, *words)
        looks.append((contender.findings.holder is not None) == known)
        return answer

    def poll_wait(genuine: Any, random: Any, *, subscribed: bool) -> Any:
        return genuine(random, subscribed=subscribed or bool(looks and looks.pop()))

    patches.wrap(acquire, "_ask_one", ask_one)
    patches.wrap(timing, "poll_wait", poll_wait)


@bug("one look at a dead contender", "4.1")
def one_look_of_the_unknowing(patches: Patches) -> None:
    """A waiter that knew no lease took the first owner that it saw for the holder. The owner was a dead
    contender: the lock was free for two looks, and docs promised one."""
    one_look(patches, known=False)


@bug("one look at another owner", "4.1")
def one_look_at_another(patches: Patches) -> None:
    """A look named another owner than the one that the waiter knew. That was a dead contender. The lease of
    the next holder had ended, and the lock was free until the next look, a second later."""
    one_look(patches, known=True)


def no_early_looks(patches: Patches, *, refused: bool) -> None:
    """Of waiters that a lease refused, or of those that none did, when they know no holder."""

    def sleep(genuine: Any, port: Port, contender: Contender, **how: Any) -> Any:
        if refused == any(vote.code == Code.FOREIGN for vote in contender.findings.ballot.votes.values()):
            contender.findings.holder = contender.findings.holder or "unknown"
        return genuine(port, contender, **how)

    one_look(patches, known=True)  # the mend of that one hides these
    patches.wrap(acquire, "_sleep", sleep)


@bug("dead contender taken for the holder", "4.1")
def slept_by_a_minority(patches: Patches) -> None:
    """A waiter that one dead contender had refused, and no quorum, took that one's lease for the holder's. It
    looked at its master alone, and the lock was free until that lease ended."""
    no_early_looks(patches, refused=True)


@bug("next lease learned late", "4.1")
def learned_late(patches: Patches) -> None:
    """A waiter that was refused for its place did not look soon who came next: that lease lapsed unseen."""
    no_early_looks(patches, refused=False)


@bug("hand-off behind its subscription", "4.4")
@around(subscriptions.Subscriptions, "_tidy")
def ended_at_once(genuine: Any, self: Any) -> bool:
    """A client ended its connections when it had told the masters that it needed no messages. A hand-off to
    one of its old places was on its way, and nobody passed it on: others waited for its claim."""
    genuine(self)
    return bool(genuine(self))


def by_its_hash(genuine: Any, *words: Any, **options: Any) -> Any:
    command = genuine(*words, **options)
    command.packed = encode(command.by_sha())
    return command


@bug("place by its hash", "4.4")
def place_by_its_hash(patches: Patches) -> None:
    """After SCRIPT FLUSH a place was refused, and sent again behind the release of its owner. The next
    release handed the lock to it: it was free for a second, and others waited."""
    patches.wrap(commands, "wait", by_its_hash)


@bug("healing by its hash", "3.7")
def healing_by_its_hash(patches: Patches) -> None:
    """After SCRIPT FLUSH a healing was refused, and sent again behind the release: a vote of nobody."""
    patches.wrap(commands, "_with_tokens", by_its_hash)


@bug("hand-off to a released place", "4.4")
def kept_by_one_who_released(patches: Patches) -> None:
    """A master that was stopped gave a place late, after the release of its owner, who took each hand-off to
    it for an old one. The others waited for its claim."""

    def remove(genuine: Any, self: Any, hold: Any) -> None:
        self.__dict__.setdefault("released", set()).add(owner_of_waiter(hold.waiter))
        genuine(self, hold)

    def pass_on(genuine: Any, self: Any, name: str, token: str, master: int) -> None:
        if token not in self.holds.__dict__.get("released", ()):
            genuine(self, name, token, master)

    patches.wrap(hold_table.HoldTable, "remove", remove)
    patches.wrap(engine.Engine, "pass_on", pass_on)
