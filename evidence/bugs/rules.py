"""Rules of safety that are broken: the masters' scripts too, so that real masters break them as well."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

from rlock._client import calls, handshake
from rlock._client.pipeline import Pipeline
from rlock.procedures import acquire, attempt, hand_off, inspect, port, release
from rlock.rules import commands, lease, options, quorum, restart_guard, scripts
from rlock.rules.restart_guard import same_memory
from rlock.rules.timing import valid_until
from rlock.testing.memory.masters import Master, Reply

from .registry import bug, rewrite


def model(stack: ExitStack, name: str, changed: Callable[..., Any]) -> None:
    """Change a method of the masters in memory; ``changed`` gets the genuine one first."""
    genuine = getattr(Master, name)
    stack.enter_context(patch.object(Master, name, lambda self, *a, **how: changed(genuine, self, *a, **how)))


@bug("guard off", "3.6")
def guard_off(stack: ExitStack) -> None:
    """A master votes as soon as it is back, whatever it has forgotten."""
    stack.enter_context(patch.object(restart_guard.Guard, "filter_vote", lambda _g, _m, vote, _n, **_: vote))


@bug("guard too short", "3.6")
def guard_too_short(stack: ExitStack) -> None:
    """A memory counts when it is half as old as the longest lease."""
    stack.enter_context(patch.object(restart_guard, "guard_time", lambda max_ttl: max_ttl / 2))


@bug("note not read", "3.6")
def note_not_read(stack: ExitStack) -> None:
    """A client goes by the handshake of its connection, whatever note comes with a grant."""
    counts = restart_guard.Guard.counts

    def as_before(self: Any, master: int, _note: Any, now: float) -> bool:
        return counts(self, master, None, now)

    stack.enter_context(patch.object(restart_guard.Guard, "counts", as_before))
    read = restart_guard.Guard.check_note

    def longest_only(self: Any, master: int, text: str, now: float) -> bool:
        return not same_memory(text, self._epochs[master].note) or read(self, master, text, now)

    stack.enter_context(patch.object(restart_guard.Guard, "check_note", longest_only))


@bug("life not compared", "3.6")
def life_not_compared(stack: ExitStack) -> None:
    """A handshake leaves the note of another life alone."""
    rewrite(stack, scripts.HANDSHAKE, "elseif run_id == '' or life == run_id then", "elseif true then")

    def untouched(
        genuine: Any, self: Master, keys: Sequence[str], run_id: str, memory: str, *known: str
    ) -> Reply:
        note = self.text(keys[0])
        if note and not note.startswith(run_id) and memory in ("volatile", "durable"):
            return [1, note.encode(), 0, 0, self._us]
        return genuine(self, keys, run_id, memory, *known)  # type: ignore[no-any-return]

    model(stack, "_handshake", untouched)


@bug("no note is old", "3.6")
def no_note_is_old(stack: ExitStack) -> None:
    """A master without a note is taken for one that was never used, and never flushed."""
    rewrite(stack, scripts.HANDSHAKE, "string.format('%.0f', now_us), '0'", "'1', '0'")

    def old(genuine: Any, self: Master, keys: Sequence[str], run_id: str, *words: str) -> Reply:
        before = self.text(keys[0])
        reply: Reply = genuine(self, keys, run_id, *words)
        if not before:
            self.write(keys[0], f"{run_id} 1 0")
            reply[1] = self.text(keys[0]).encode()
        return reply

    model(stack, "_handshake", old)


@bug("votes judged once", "3.6")
def votes_judged_once(stack: ExitStack) -> None:
    """A longer lease that a round hears of changes nothing for the votes that it has."""
    stack.enter_context(patch.object(calls.Calls, "_judge_again", lambda *_: None))


@bug("young says free", "3.6")
def young_says_free(stack: ExitStack) -> None:
    """Nobody holds what most masters call free, also those that have forgotten who does."""
    stack.enter_context(
        patch.object(inspect, "may_be_held", lambda _, *ballots: ballots[0].most_named()[1] > 0)
    )


@bug("answers of two instants", "3.6")
def answers_of_two_instants(stack: ExitStack) -> None:
    """A lock was called free by one round, in which its holder's votes moved from one master to another."""

    def once(masters: Any, name: str, timeout: float) -> Generator[Any, Any, Any]:
        ballot = yield from inspect._ask(masters, name, timeout)
        return ballot, inspect.may_be_held(masters.context, ballot)

    stack.enter_context(patch.object(inspect, "_ask_twice", once))


@bug("naive healing", "3.7")
def naive_healing(stack: ExitStack) -> None:
    """A key that was put back counts at once, however close the end of the lease is."""
    stack.enter_context(patch.object(lease, "heals_until", lambda *_: math.inf))


@bug("validity from the end", "3.1")
def validity_from_end(stack: ExitStack) -> None:
    """Validity is counted from the last vote instead of from before the first byte was sent."""
    genuine = attempt.attempt

    def late(port: Any, contender: Any, timeout: float, **how: Any) -> Generator[Any, Any, Any]:
        grant = yield from genuine(port, contender, timeout, **how)
        return None if grant is None else grant._replace(sent_at=port.context.clock())

    for module in (acquire, attempt):
        stack.enter_context(patch.object(module, "attempt", late))
    for module in (attempt, acquire):
        stack.enter_context(patch.object(module, "won_until", lambda *_: math.inf))


@bug("no limit to an acquisition", "3.7")
def no_limit(stack: ExitStack) -> None:
    """An acquisition may take as long as its lease."""
    for module in (attempt, acquire):
        unbounded = patch.object(module, "won_until", lambda sent_at, ttl, _: valid_until(sent_at, ttl))
        stack.enter_context(unbounded)
    # Or no client could be made that waits so long for a master.
    stack.enter_context(patch.object(options, "longest_acquisition", lambda _: math.inf))


@bug("quorum N/2", "3.1")
def half_a_quorum(stack: ExitStack) -> None:
    """Half of the masters, rounded down, are taken for a majority."""
    init = quorum.Ballot.__init__

    def half(self: quorum.Ballot, masters: int, *args: Any, **how: Any) -> None:
        init(self, masters, *args, **how)
        self.quorum = max(1, masters // 2)

    stack.enter_context(patch.object(quorum.Ballot, "__init__", half))
    stack.enter_context(patch.object(port, "quorum", lambda masters: max(1, masters // 2)))


@bug("increment", "3.3")
def increment(stack: ExitStack) -> None:
    """The masters count holds up and down, so that a second delivery counts twice."""
    rewrite(
        stack,
        scripts.ACQUIRE,
        "redis.call('pexpire', lock, lease_ms)",
        "redis.call('hincrby', lock, owner, 1)\n    redis.call('pexpire', lock, lease_ms)",
    )
    rewrite(
        stack,
        scripts.RELEASE,
        "local code = redis.pcall('hdel', lock, owner)",
        "local code = redis.call('hget', lock, owner) and 1 or 0\n"
        "if code == 1 and redis.call('hincrby', lock, owner, -1) > 0 then\n"
        "    return {1, owner, 0, 0, 0}\nend\n"
        "redis.call('hdel', lock, owner)",
    )

    def up(genuine: Any, self: Master, keys: Sequence[str], *words: str) -> Reply:
        again = self._fields(keys[0]) > 0 and words[-2] in self.keys[keys[0]].fields
        reply: Reply = genuine(self, keys, *words)
        if again:
            add(self, keys[0], words[-2], 1)
        return reply

    def down(genuine: Any, self: Master, keys: Sequence[str], *words: str) -> Reply:
        owner, waiter, ban_ms = words[-1], "".join(words[4:5]) if len(words) > 6 else "", "".join(words[5:6])
        holds = self._fields(keys[0]) > 0 and owner in self.keys[keys[0]].fields
        if not holds or add(self, keys[0], owner, -1) < 1:
            return genuine(self, keys, *words)  # type: ignore[no-any-return]
        if len(keys) > 4:
            self.write(keys[4], owner, ban_ms)
        self._zrem(keys[1], waiter)
        return [1, owner.encode(), 0, 0, 0]

    def add(self: Master, lock: str, owner: str, number: int) -> int:
        fields = self.keys[lock].fields
        fields[owner] = str(int(fields[owner]) + number)
        return int(fields[owner])

    model(stack, "_acquire", up)
    model(stack, "_release", down)


@bug("INCR + max tokens", "3.8")
def increment_tokens(stack: ExitStack) -> None:
    """Fencing tokens are counted up by each master, and the largest of a majority is taken."""
    rewrite(
        stack,
        scripts.ACQUIRE,
        "local number = given > token and proposal",
        "given = token + 1\n    local number = string.format('%.0f', given)",
    )
    # Or the first number would be a time, which rises by itself.
    rewrite(
        stack, scripts.ACQUIRE, "if given < now_us - fence_ms * 1000 or given > 9e15 then", "if false then"
    )

    def largest(_t: Any, _o: Any, _owner: str, given: Any, _until: float) -> Generator[Any, Any, int]:
        yield from ()
        return int(max(given))

    for module in (attempt, acquire):
        stack.enter_context(patch.object(module, "agree", largest))

    def count_up(
        _: Any, self: Master, fence: str, owner: str, proposal: str, fence_ms: str, *, anew: bool = False
    ) -> int:
        token, given_to = self._last(fence)
        if anew or given_to != owner:
            token += 1
            self.write(fence, f"{token} {owner}", fence_ms)
        return token

    model(stack, "_stamp", count_up)


@bug("release without owner check", "3.4")
def release_anybody(stack: ExitStack) -> None:
    """A release frees the lock, whoever has it by now."""
    rewrite(
        stack,
        scripts.RELEASE,
        "local code = redis.pcall('hdel', lock, owner)",
        "local code = owner ~= '' and redis.call('del', lock) or 0",
    )

    def anybody(genuine: Any, self: Master, keys: Sequence[str], *words: str) -> Reply:
        if words[-1] != "" and self._fields(keys[0]) > 0:
            self.keys[keys[0]].fields = {words[-1]: "1"}
        return genuine(self, keys, *words)  # type: ignore[no-any-return]

    model(stack, "_release", anybody)


@bug("kept by a minority", "3.4")
def kept_by_a_minority(stack: ExitStack) -> None:
    """A lock counts as kept after its release when any master keeps it."""
    genuine = release._keep

    def any_master(*args: Any) -> Generator[Any, Any, Any]:
        yield from genuine(*args)
        return release.Released.DONE

    stack.enter_context(patch.object(release, "_keep", any_master))


@bug("kept for the lease only", "3.4")
def kept_for_the_lease(stack: ExitStack) -> None:
    """A lock that stays taken after its release is kept as a renewal would do it."""
    genuine = commands.keep

    def as_renewed(lease_ms: int, *args: Any, **how: Any) -> Any:
        return genuine(min(lease_ms, 300), *args, **how)

    stack.enter_context(patch.object(commands, "keep", as_renewed))


@bug("wake-up by messages only", "4.1")
def only_messages(stack: ExitStack) -> None:
    """A waiter sleeps until it is told: it looks neither now and then, nor when the lease must be over."""
    # A day, and not infinity: poll() takes no such time-out.
    stack.enter_context(patch.object(acquire, "poll_wait", lambda *_, **__: 86_400.0))
    stack.enter_context(patch.object(acquire, "expiry_wait", lambda *_: 86_400.0))


@bug("hand-off counted from its receipt", "3.1")
def stamp_of_receipt(stack: ExitStack) -> None:
    """The lease of a message counts from the instant at which the message was read."""
    genuine = hand_off._counted

    def as_read(context: Any, handed: Any) -> Any:
        return {master: handed[master].read_at for master in genuine(context, handed)}

    stack.enter_context(patch.object(hand_off, "_counted", as_read))


@bug("hand-off for a whole lease", "3.1")
def claim_of_a_lease(stack: ExitStack) -> None:
    """Messages grant the whole lease, although the masters keep it for the claim time only."""
    for module in (hand_off, lease):
        stack.enter_context(patch.object(module, "CLAIM_S", math.inf))


@bug("any answer confirms", "3.5")
def any_confirmation(stack: ExitStack) -> None:
    """A master that answers the confirmation is taken for one on which the grant still stood."""
    answered: Any = lambda self, master: master in self.ballot.votes  # noqa: E731
    stack.enter_context(patch.object(lease.Confirmation, "_unbroken", answered))


@bug("replicas ignored", "2.4")
def replicas_ignored(stack: ExitStack) -> None:
    """A vote of a group counts at once, whichever replica has it."""
    stack.enter_context(patch.object(Pipeline, "_needs_replicas", lambda *_: False))


@bug("one replica is enough", "2.4")
def one_replica_is_enough(stack: ExitStack) -> None:
    """One replica has to acknowledge a vote, however many the group has."""

    genuine = commands.acknowledge
    stack.enter_context(patch.object(commands, "acknowledge", lambda _, timeout: genuine(1, timeout)))

    def enough(connection: Any, vote: Any, replicas: int) -> Any:
        if connection.unacknowledged.replicas:
            connection.unacknowledged.replicas = replicas
        return vote._replace(hold_count=max(replicas, vote.hold_count))

    _believe(stack, enough)


@bug("more replicas than configured", "2.4")
def more_replicas(stack: ExitStack) -> None:
    """A group may have more replicas than the client was told."""
    genuine = handshake._check_group
    stack.enter_context(patch.object(handshake, "_check_group", lambda info, _: genuine(info, 99)))
    _believe(stack, lambda _, vote, replicas: vote._replace(hold_count=min(replicas, vote.hold_count)))


@bug("replication not compared", "2.4")
def another_replication(stack: ExitStack) -> None:
    """A server may have been a replica since the handshake of the connection."""
    _believe(stack, lambda link, vote, _: vote._replace(holder=link.memory_report.replication_id))


@bug("note without replication", "2.4")
def run_id_only(stack: ExitStack) -> None:
    """A note names the server, and not the replication of which it was the primary."""
    genuine = commands.handshake
    named: Any = lambda run_id, *words: genuine(run_id.partition("+")[0], *words)  # noqa: E731
    stack.enter_context(patch.object(commands, "handshake", named))


@bug("WAIT for nothing", "2.4")
def nothing_to_wait_for(stack: ExitStack) -> None:
    """A WAIT behind a command that only reads waits for nothing."""
    stack.enter_context(patch.object(commands, "mark", lambda _: commands.ping()))


def _believe(stack: ExitStack, change: Callable[[Any, Any, int], Any]) -> None:
    """Change what INFO tells behind a WAIT, before the client judges it."""
    genuine = Pipeline._short

    def short(self: Any, server: Any, connection: Any, vote: Any) -> Any:
        return genuine(self, server, connection, change(connection, vote, self._groups[server.index]))

    stack.enter_context(patch.object(Pipeline, "_short", short))
