"""Rules of safety that are broken."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from typing import Any

from rlock._client import calls, closing, engine, handshake, transfers
from rlock._client.pipeline import Pipeline
from rlock.procedures import acquire, attempt, hand_off, inspect, port, release, transfer
from rlock.procedures.contender import Grant
from rlock.rules import commands, lease, options, quorum, restart_guard, scripts, timing
from rlock.rules.restart_guard import Guard, same_memory
from rlock.testing.memory.masters import Master, Reply

from .registry import Patches, around, bug


@bug("guard off", "3.6")
def guard_off(patches: Patches) -> None:
    """A master votes as soon as it is back, whatever it has forgotten."""
    patches.set(Guard, "filter_vote", lambda _g, _m, vote, _n, **_: vote)


@bug("guard too short", "3.6")
def guard_too_short(patches: Patches) -> None:
    """A memory counts when it is half as old as the longest lease."""
    patches.set(restart_guard, "guard_time", lambda max_ttl: max_ttl / 2)


@bug("note not read", "3.6")
def note_not_read(patches: Patches) -> None:
    """A client goes by the handshake of its connection, whatever note comes with a grant."""

    def longest_only(genuine: Any, self: Any, master: int, text: str, now: float) -> Any:
        return not same_memory(text, self._epochs[master].note) or genuine(self, master, text, now)

    patches.wrap(Guard, "counts", lambda genuine, self, master, _, now: genuine(self, master, None, now))
    patches.wrap(Guard, "check_note", longest_only)


@bug("life not compared", "3.6")
@around(Master, "_handshake")
def life_not_compared(genuine: Any, self: Master, keys: Any, run_id: str, memory: str, *known: str) -> Any:
    """A handshake leaves the note of another life alone."""
    note = self.text(keys[0])
    if note and not note.startswith(run_id) and memory in ("volatile", "durable"):
        return [1, note.encode(), 0, 0, self._us]
    return genuine(self, keys, run_id, memory, *known)


@bug("no note is old", "3.6")
@around(Master, "_handshake")
def no_note_is_old(genuine: Any, self: Master, keys: Sequence[str], run_id: str, *words: str) -> Reply:
    """A master without a note is taken for one that was never used, and never flushed."""
    before = self.text(keys[0])
    reply: Reply = genuine(self, keys, run_id, *words)
    if not before:
        self.write(keys[0], f"{run_id} 1 0")
        reply[1] = self.text(keys[0]).encode()
    return reply


@bug("votes judged once", "3.6")
def votes_judged_once(patches: Patches) -> None:
    """A longer lease that a round hears of changes nothing for the votes that it has."""
    patches.set(calls.Calls, "_judge_again", lambda *_: None)


@bug("young says free", "3.6")
def young_says_free(patches: Patches) -> None:
    """Nobody holds what most masters call free, also those that have forgotten who does."""
    patches.set(inspect, "may_be_held", lambda _, *ballots: ballots[0].most_named()[1] > 0)


@bug("answers of two instants", "3.6")
@around(inspect, "_ask_twice")
def answers_of_two_instants(_: Any, masters: Any, name: str, timeout: float) -> Generator[Any, Any, Any]:
    """A lock was called free by one round, in which its holder's votes moved from one master to another."""
    ballot = yield from inspect._ask(masters, name, timeout)
    return ballot, inspect.may_be_held(masters.context, ballot)


@bug("group by one mistaken client", "3.6")
@around(Master, "_handshake")
def group_of_one(genuine: Any, self: Master, keys: Sequence[str], run_id: str, *words: str) -> Any:
    """A client that named replicas of a plain fleet made it a group: holders lost it, others were refused."""
    if "+" in run_id and "+" not in self.text(keys[0]):
        self.write(keys[0], f"{run_id} {self._us} 0")
    return genuine(self, keys, run_id, *words)


@bug("busy lock that nobody can name", "3.6")
@around(inspect, "_ask_twice")
def first_answers(genuine: Any, masters: Any, *words: Any) -> Generator[Any, Any, Any]:
    """If an owner came between its rounds, `locked` raised that too few masters answered, and named none."""
    first = yield from inspect._ask(masters, *words)
    return first, (yield from genuine(masters, *words))[1]


@bug("naive healing", "3.7")
def naive_healing(patches: Patches) -> None:
    """A key that was put back counts at once, however close the end of the lease is."""
    patches.set(lease, "heals_until", lambda *_: math.inf)


@bug("validity from the end", "3.1")
def validity_from_end(patches: Patches) -> None:
    """Validity is counted from the last vote instead of from before the first byte was sent."""

    def late(genuine: Any, port: Any, *args: Any, **how: Any) -> Generator[Any, Any, Any]:
        grant = yield from genuine(port, *args, **how)
        return None if grant is None else grant._replace(sent_at=port.context.clock())

    for module in (acquire, attempt):
        patches.wrap(module, "attempt", late)
    patches.set(timing, "won_until", lambda *_: math.inf)


@bug("no limit to an acquisition", "3.7")
def no_limit(patches: Patches) -> None:
    """An acquisition may take as long as its lease."""
    patches.set(timing, "won_until", lambda sent_at, ttl, _: timing.valid_until(sent_at, ttl))
    # Or no client could be made that waits so long for a master.
    patches.set(options, "longest_acquisition", lambda _: math.inf)


@bug("quorum N/2", "3.1")
def half_a_quorum(patches: Patches) -> None:
    """Half of the masters, rounded down, are taken for a majority."""

    def half(init: Any, self: quorum.Ballot, masters: int, *args: Any, **how: Any) -> None:
        init(self, masters, *args, **how)
        self.quorum = max(1, masters // 2)

    patches.wrap(quorum.Ballot, "__init__", half)
    patches.set(port, "quorum", lambda masters: max(1, masters // 2))


@bug("increment", "3.3")
def increment(patches: Patches) -> None:
    """The masters count holds up and down, so that a second delivery counts twice."""

    def up(genuine: Any, self: Master, keys: Sequence[str], *words: str) -> Reply:
        again = self._fields(keys[0]) > 0 and words[-2] in self.keys[keys[0]].fields
        reply: Reply = genuine(self, keys, *words)
        if again:
            add(self, keys[0], words[-2], 1)
        return reply

    def down(genuine: Any, self: Master, keys: Sequence[str], *words: str) -> Any:
        owner, waiter, ban_ms = words[-1], "".join(words[4:5]) if len(words) > 6 else "", "".join(words[5:6])
        holds = self._fields(keys[0]) > 0 and owner in self.keys[keys[0]].fields
        if not holds or add(self, keys[0], owner, -1) < 1:
            return genuine(self, keys, *words)
        if len(keys) > 5:
            self.write(keys[5], owner, ban_ms)
        self._zrem(keys[1], waiter)
        return [1, owner.encode(), 0, 0, 0]

    def add(self: Master, lock: str, owner: str, number: int) -> int:
        fields = self.keys[lock].fields
        fields[owner] = str(int(fields[owner]) + number)
        return int(fields[owner])

    patches.wrap(Master, "_acquire", up)
    patches.wrap(Master, "_release", down)


@bug("INCR + max tokens", "3.8")
def increment_tokens(patches: Patches) -> None:
    """Fencing tokens are counted up by each master, and the largest of a majority is taken."""

    def largest(_t: Any, _o: Any, _owner: str, given: Any, _until: float) -> Generator[Any, Any, int]:
        yield from ()
        return int(max(given))

    patches.set(attempt, "agree", largest)

    def count_up(
        _: Any, self: Master, fence: str, owner: str, proposal: str, fence_ms: str, *, anew: bool = False
    ) -> int:
        token, given_to = self._last(fence)
        if anew or given_to != owner:
            token += 1
            self.write(fence, f"{token} {owner}", fence_ms)
        return token

    patches.wrap(Master, "_stamp", count_up)


@bug("release without owner check", "3.4")
def release_anybody(patches: Patches) -> None:
    """A release frees the lock, whoever has it by now."""
    code = "local code = redis.pcall('hdel', lock, owner)"
    patches.script(scripts.RELEASE, code, "local code = owner ~= '' and redis.call('del', lock) or 0")

    def anybody(genuine: Any, self: Master, keys: Sequence[str], *words: str) -> Any:
        if words[-1] != "" and self._fields(keys[0]) > 0:
            self.keys[keys[0]].fields = {words[-1]: "1"}
        return genuine(self, keys, *words)

    patches.wrap(Master, "_release", anybody)


@bug("kept by a minority", "3.4")
@around(release, "_keep")
def kept_by_a_minority(genuine: Any, *args: Any) -> Generator[Any, Any, Any]:
    """A lock counts as kept after its release when any master keeps it."""
    yield from genuine(*args)
    return release.Released.DONE


@bug("kept for the lease only", "3.4")
@around(commands, "keep")
def kept_for_the_lease(genuine: Any, lease_ms: int, *args: Any, **how: Any) -> Any:
    """A lock that stays taken after its release is kept as a renewal would do it."""
    return genuine(min(lease_ms, 300), *args, **how)


@bug("wake-up by messages only", "4.1")
def only_messages(patches: Patches) -> None:
    """A waiter sleeps until it is told: it looks neither now and then, nor when the lease must be over."""
    # A day, and not infinity: poll() takes no such time-out.
    patches.set(timing, "poll_wait", lambda *_, **__: 86_400.0)
    patches.set(timing, "expiry_wait", lambda *_: 86_400.0)


@bug("hand-off counted from its receipt", "3.1")
@around(hand_off, "_counted")
def stamp_of_receipt(genuine: Any, context: Any, handed: Any) -> Any:
    """The lease of a message counts from the instant at which the message was read."""
    return {master: handed[master].read_at for master in genuine(context, handed)}


@bug("hand-off for a whole lease", "3.1")
def claim_of_a_lease(patches: Patches) -> None:
    """Messages grant the whole lease, although the masters keep it for the claim time only."""
    for module in (hand_off, lease):
        patches.set(module, "CLAIM_S", math.inf)


@bug("any answer confirms", "3.5")
def any_confirmation(patches: Patches) -> None:
    """A master that answers the confirmation is taken for one on which the grant still stood."""
    answered: Any = lambda self, master: master in self.ballot.votes  # noqa: E731
    patches.set(lease.Confirmation, "_unbroken", answered)


@bug("replicas ignored", "2.4")
def replicas_ignored(patches: Patches) -> None:
    """A vote of a group counts at once, whichever replica has it."""
    patches.set(Pipeline, "_needs_replicas", lambda *_: False)


@bug("one replica is enough", "2.4")
def one_replica_is_enough(patches: Patches) -> None:
    """One replica has to acknowledge a vote, however many the group has."""
    patches.wrap(commands, "acknowledge", lambda genuine, _, timeout: genuine(1, timeout))

    def enough(connection: Any, vote: Any, replicas: int) -> Any:
        if connection.unacknowledged.replicas:
            connection.unacknowledged.replicas = replicas
        return vote._replace(hold_count=max(replicas, vote.hold_count))

    _believe(patches, enough)


@bug("more replicas than configured", "2.4")
def more_replicas(patches: Patches) -> None:
    """A group may have more replicas than the client was told."""
    patches.wrap(handshake, "_check_group", lambda genuine, info, _: genuine(info, 99))
    _believe(patches, lambda _, vote, replicas: vote._replace(hold_count=min(replicas, vote.hold_count)))


@bug("replication not compared", "2.4")
def another_replication(patches: Patches) -> None:
    """A server may have been a replica since the handshake of the connection."""
    _believe(patches, lambda link, vote, _: vote._replace(holder=link.memory_report.replication_id))


@bug("note without replication", "2.4")
@around(commands, "handshake")
def run_id_only(genuine: Any, run_id: str, *words: Any) -> Any:
    """A note names the server, and not the replication of which it was the primary."""
    return genuine(run_id.partition("+")[0], *words)


@bug("WAIT for nothing", "2.4")
def nothing_to_wait_for(patches: Patches) -> None:
    """A WAIT behind a command that only reads waits for nothing."""
    patches.set(commands, "mark", lambda _: commands.ping())


def _believe(patches: Patches, change: Callable[[Any, Any, int], Any]) -> None:
    """Change what INFO tells behind a WAIT, before the client judges it."""

    def short(genuine: Any, self: Any, server: Any, connection: Any, vote: Any) -> Any:
        return genuine(self, server, connection, change(connection, vote, self._groups[server.index]))

    patches.wrap(Pipeline, "_short", short)


# -- a hold that changes hands ---------------------------------------------------------------------------


@bug("adopted from anybody", "3.12")
@around(Master, "_transfer")
def adopted_from_anybody(genuine: Any, self: Master, keys: Any, count: str, mark: str, *who: str) -> Any:
    """An adopter replaces the owner token of whoever has the lock by then."""
    held = self._holder(keys[0]) if mark and self._fields(keys[0]) == 1 else None
    present = who[0] if held is None else held[0]
    return genuine(self, keys, count, mark and str(10**15 * 8), present, who[1])


@bug("adopted by a minority", "3.12")
@around(transfer, "take")
def adopted_by_a_minority(taken: Any, masters: Any, options: Any, handle: Any, owner: str) -> Any:
    """An adopter takes the word of one master."""
    grant, verdict, ballot = yield from taken(masters, options, handle, owner)
    if grant is None and ballot.granted:
        grant = Grant(owner, ballot.sent_at, token=handle.token)
    return grant, verdict, ballot


@bug("free lock adopted", "3.12")
@around(Master, "_transfer")
def free_lock_adopted(genuine: Any, self: Master, keys: Any, count: str, mark: str, *who: str) -> Any:
    """An adopter takes a lock that nobody holds any more, as an acquire does."""
    if mark and not self._fields(keys[0]):
        self._set(keys[0], who[0], count)
        self._pexpire(keys[0], "1000")
    return genuine(self, keys, count, mark, *who)


@bug("place kept by a detach", "3.12")
@around(engine, "detach")
def place_kept_by_a_detach(genuine: Any, port: Any, hold: Any, handle: Any) -> Any:
    """A detach did not pass on the lock where a master had handed it to the holder's place in the queue. It
    stayed taken there for the claim time."""
    waiter, hold.waiter = hold.waiter, ""
    try:
        return (yield from genuine(port, hold, handle))
    finally:
        hold.waiter = waiter


@bug("undo of a detach given up early", "3.12")
def given_up_early(patches: Patches) -> None:
    """A detach that failed did not free its handle on masters that came back behind the time of the handle.
    But they had given it the rest of the hold's lease, and the lock stayed taken for nobody."""
    leases: dict[str, float] = {}

    def made(genuine: Any, context: Any, hold: Any, ttl: float) -> Any:
        handle = genuine(context, hold, ttl)
        leases[handle.owner] = ttl
        return handle

    def send(genuine: Any, self: Any, command: Any, *targets: Any, resend_for: float = 0.0) -> None:
        genuine(self, command, *targets, resend_for=min(resend_for, leases.get(command.echo, math.inf)))

    patches.wrap(transfers, "handle_of", made)
    patches.wrap(calls.Calls, "send", send)


@bug("closed while it detaches", "3.12")
def closed_while_it_detaches(patches: Patches) -> None:
    """A client that was closed during a detach did not undo the handle. Nobody had the lock for its lease."""
    detaching: set[str] = set()

    def handle_of(genuine: Any, *args: Any) -> Any:
        handle = genuine(*args)
        detaching.add(handle.owner)
        return handle

    def undo(genuine: Any, masters: Any, options: Any, owner: str) -> None:
        if owner not in detaching:
            genuine(masters, options, owner)

    patches.wrap(transfers, "handle_of", handle_of)
    patches.wrap(closing, "undo", undo)
