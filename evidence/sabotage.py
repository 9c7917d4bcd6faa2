"""Rules of safety, each of them broken on purpose: what a check is worth that stays green with these.

``with sabotage("guard off"):`` breaks the procedures of this process until the end of the block, and
`commit` for good, in a process that was started for it. The simulation and
the soak go red with each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from rlock._client import calls, handshake
from rlock._client.pipeline import Pipeline
from rlock.procedures import acquire, attempt, hand_off, inspect, port, settle
from rlock.rules import commands, lease, options, quorum, renewal_votes, restart_guard, scripts
from rlock.rules.timing import valid_until


def guard_off(stack: ExitStack) -> None:
    """A master votes as soon as it is back, whatever it has forgotten."""
    stack.enter_context(patch.object(restart_guard.Guard, "filter_vote", lambda _g, _m, vote, _n, **_: vote))


def guard_too_short(stack: ExitStack) -> None:
    """A memory counts when it is half as old as the longest lease."""
    stack.enter_context(patch.object(restart_guard, "guard_time", lambda max_ttl: max_ttl / 2))


def note_not_read(stack: ExitStack) -> None:
    """A client goes by the handshake of its connection, whatever note comes with a grant."""
    counts = restart_guard.Guard.counts

    def as_before(self: Any, master: int, _note: Any, now: float) -> bool:
        return counts(self, master, None, now)

    stack.enter_context(patch.object(restart_guard.Guard, "counts", as_before))
    stack.enter_context(patch.object(restart_guard.Guard, "check_note", lambda *_: True))


def life_not_compared(stack: ExitStack) -> None:
    """A handshake leaves the note of another life alone."""
    _rewrite(stack, scripts.HANDSHAKE, "elseif run_id == '' or life == run_id then", "elseif true then")


def no_note_is_old(stack: ExitStack) -> None:
    """A master without a note is taken for one that was never used, and never flushed."""
    _rewrite(stack, scripts.HANDSHAKE, "string.format('%.0f', now_us), '0'", "'1', '0'")


def votes_judged_once(stack: ExitStack) -> None:
    """A longer lease that a round hears of changes nothing for the votes that it has."""
    stack.enter_context(patch.object(calls.Calls, "_judge_again", lambda *_: None))


def young_says_free(stack: ExitStack) -> None:
    """Nobody holds what most masters call free, also those that have forgotten who does."""
    stack.enter_context(patch.object(inspect, "may_be_held", lambda _, ballot: bool(ballot.claims())))


def naive_healing(stack: ExitStack) -> None:
    """A key that was put back counts at once, however close the end of the lease is."""
    stack.enter_context(patch.object(renewal_votes, "heals_until", lambda *_: math.inf))


def validity_from_end(stack: ExitStack) -> None:
    """Validity is counted from the last vote instead of from before the first byte was sent."""
    genuine = attempt.attempt

    def late(port: Any, contender: Any, timeout: float, **how: Any) -> Generator[Any, Any, Any]:
        grant = yield from genuine(port, contender, timeout, **how)
        return None if grant is None else grant._replace(sent_at=port.context.clock())

    for module in (acquire, settle):
        stack.enter_context(patch.object(module, "attempt", late))
    for module in (attempt, acquire):
        stack.enter_context(patch.object(module, "won_until", lambda *_: math.inf))


def no_limit(stack: ExitStack) -> None:
    """An acquisition may take as long as its lease."""
    for module in (attempt, acquire):
        unbounded = patch.object(module, "won_until", lambda sent_at, ttl, _: valid_until(sent_at, ttl))
        stack.enter_context(unbounded)
    # Or no client could be made that waits so long for a master.
    stack.enter_context(patch.object(options, "longest_acquisition", lambda _: math.inf))


def half_a_quorum(stack: ExitStack) -> None:
    """Half of the masters, rounded down, are taken for a majority."""
    init = quorum.Ballot.__init__

    def half(self: quorum.Ballot, masters: int, *args: Any, **how: Any) -> None:
        init(self, masters, *args, **how)
        self.quorum = max(1, masters // 2)

    stack.enter_context(patch.object(quorum.Ballot, "__init__", half))
    stack.enter_context(patch.object(port, "quorum", lambda masters: max(1, masters // 2)))


def increment(stack: ExitStack) -> None:
    """The masters count holds up and down, so that a second delivery counts twice."""
    _rewrite(
        stack,
        scripts.ACQUIRE,
        "redis.call('pexpire', lock, lease_ms)",
        "redis.call('hincrby', lock, owner, 1)\n    redis.call('pexpire', lock, lease_ms)",
    )
    _rewrite(
        stack,
        scripts.RELEASE,
        "local code = redis.pcall('hdel', lock, owner)",
        "local code = redis.call('hget', lock, owner) and 1 or 0\n"
        "if code == 1 and redis.call('hincrby', lock, owner, -1) > 0 then\n"
        "    return {1, owner, 0, 0, 0}\nend\n"
        "redis.call('hdel', lock, owner)",
    )


def increment_tokens(stack: ExitStack) -> None:
    """Fencing tokens are counted up by each master, and the largest of a majority is taken."""
    _rewrite(
        stack,
        scripts.ACQUIRE,
        "local number = given > token and proposal",
        "given = token + 1\n    local number = string.format('%.0f', given)",
    )
    # Or the first number would be a time, which rises by itself.
    _rewrite(stack, scripts.ACQUIRE, "if given < now_us - fence_ms * 1000 then", "if false then")

    def largest(_t: Any, _o: Any, _owner: str, given: Any, _until: float) -> Generator[Any, Any, int]:
        yield from ()
        return int(max(given))

    for module in (attempt, acquire):
        stack.enter_context(patch.object(module, "agree", largest))


def release_anybody(stack: ExitStack) -> None:
    """A release frees the lock, whoever has it by now."""
    _rewrite(
        stack,
        scripts.RELEASE,
        "local code = redis.pcall('hdel', lock, owner)",
        "local code = owner ~= '' and redis.call('del', lock) or 0",
    )


def only_messages(stack: ExitStack) -> None:
    """A waiter sleeps until it is told: it looks neither now and then, nor when the lease must be over."""
    # A day, and not infinity: poll() takes no such time-out.
    stack.enter_context(patch.object(acquire, "poll_wait", lambda *_, **__: 86_400.0))
    stack.enter_context(patch.object(acquire, "expiry_wait", lambda *_: 86_400.0))


def stamp_of_receipt(stack: ExitStack) -> None:
    """The lease of a message counts from the instant at which the message was read."""
    genuine = hand_off._counted

    def as_read(context: Any, handed: Any) -> Any:
        return {master: handed[master].read_at for master in genuine(context, handed)}

    stack.enter_context(patch.object(hand_off, "_counted", as_read))


def claim_of_a_lease(stack: ExitStack) -> None:
    """Messages grant the whole lease, although the masters keep it for the claim time only."""
    for module in (hand_off, lease):
        stack.enter_context(patch.object(module, "CLAIM_S", math.inf))


def any_confirmation(stack: ExitStack) -> None:
    """A master that answers the confirmation is taken for one on which the grant still stood."""
    answered: Any = lambda self, master: master in self.ballot.votes  # noqa: E731
    stack.enter_context(patch.object(hand_off.Confirmation, "_unbroken", answered))


def replicas_ignored(stack: ExitStack) -> None:
    """A vote of a group counts at once, whichever replica has it."""
    stack.enter_context(patch.object(Pipeline, "_needs_replicas", lambda *_: False))


def one_replica_is_enough(stack: ExitStack) -> None:
    """One replica has to acknowledge a vote, however many the group has."""

    def enough(connection: Any, vote: Any, replicas: int) -> Any:
        if connection.unacknowledged.replicas:
            connection.unacknowledged.replicas = replicas
        return vote._replace(hold_count=max(replicas, vote.hold_count))

    _believe(stack, enough)


def more_replicas(stack: ExitStack) -> None:
    """A group may have more replicas than the client was told."""
    genuine = handshake._check_group
    stack.enter_context(patch.object(handshake, "_check_group", lambda info, _: genuine(info, 99)))
    _believe(stack, lambda _, vote, replicas: vote._replace(hold_count=min(replicas, vote.hold_count)))


def another_replication(stack: ExitStack) -> None:
    """A server may have been a replica since the handshake of the connection."""
    _believe(stack, lambda link, vote, _: vote._replace(holder=link.memory_report.replication_id))


def run_id_only(stack: ExitStack) -> None:
    """A note names the server, and not the replication of which it was the primary."""
    genuine = commands.handshake
    named: Any = lambda run_id, *words: genuine(run_id.partition("+")[0], *words)  # noqa: E731
    stack.enter_context(patch.object(commands, "handshake", named))


def nothing_to_wait_for(stack: ExitStack) -> None:
    """A WAIT behind a command that only reads waits for nothing."""
    stack.enter_context(patch.object(commands, "mark", lambda _: commands.ping()))


def _believe(stack: ExitStack, change: Callable[[Any, Any, int], Any]) -> None:
    """Change what INFO tells behind a WAIT, before the client judges it."""
    genuine = Pipeline._short

    def short(self: Any, server: Any, connection: Any, vote: Any) -> Any:
        return genuine(self, server, connection, change(connection, vote, self._groups[server.index]))

    stack.enter_context(patch.object(Pipeline, "_short", short))


SABOTAGES: dict[str, Callable[[ExitStack], None]] = {
    "guard off": guard_off,
    "guard too short": guard_too_short,
    "note not read": note_not_read,
    "life not compared": life_not_compared,
    "no note is old": no_note_is_old,
    "votes judged once": votes_judged_once,
    "young says free": young_says_free,
    "naive healing": naive_healing,
    "validity from the end": validity_from_end,
    "no limit to an acquisition": no_limit,
    "quorum N/2": half_a_quorum,
    "increment": increment,
    "INCR + max tokens": increment_tokens,
    "release without owner check": release_anybody,
    "wake-up by messages only": only_messages,
    "hand-off counted from its receipt": stamp_of_receipt,
    "hand-off for a whole lease": claim_of_a_lease,
    "any answer confirms": any_confirmation,
    "replicas ignored": replicas_ignored,
    "one replica is enough": one_replica_is_enough,
    "more replicas than configured": more_replicas,
    "replication not compared": another_replication,
    "note without replication": run_id_only,
    "WAIT for nothing": nothing_to_wait_for,
}
#: The rule of docs/contributing/safety.md that each of them breaks.
RULES: dict[str, str] = {
    "guard off": "3.6",
    "guard too short": "3.6",
    "note not read": "3.6",
    "life not compared": "3.6",
    "no note is old": "3.6",
    "votes judged once": "3.6",
    "young says free": "3.6",
    "naive healing": "3.7",
    "validity from the end": "3.1",
    "no limit to an acquisition": "3.7",
    "quorum N/2": "3.1",
    "increment": "3.3",
    "INCR + max tokens": "3.8",
    "release without owner check": "3.4",
    "wake-up by messages only": "4.1",
    "hand-off counted from its receipt": "3.1",
    "hand-off for a whole lease": "3.1",
    "any answer confirms": "3.5",
    "replicas ignored": "2.4",
    "one replica is enough": "2.4",
    "more replicas than configured": "2.4",
    "replication not compared": "2.4",
    "note without replication": "2.4",
    "WAIT for nothing": "2.4",
}


@contextmanager
def sabotage(name: str) -> Iterator[None]:
    """Break one rule until the end of the block."""
    with ExitStack() as stack:
        SABOTAGES[name](stack)
        yield


def commit(name: str) -> None:
    """Break one rule for as long as the process lives."""
    SABOTAGES[name](ExitStack())


def _rewrite(stack: ExitStack, script: scripts.Script, old: str, new: str) -> None:
    # The simulation's masters do not read Lua: they have switches of their own for these.
    if old not in script.source:
        raise AssertionError(f"{script.name}.lua has changed: {old!r} is not in it any more")
    broken = scripts.Script(script.name, script.source.replace(old, new, 1))
    for field in ("source", "sha"):
        stack.enter_context(patch.dict(script.__dict__, {field: getattr(broken, field)}))


__all__ = ["RULES", "SABOTAGES", "commit", "sabotage"]
