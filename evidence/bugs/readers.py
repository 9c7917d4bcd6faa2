"""Rules of readers and writers that are broken, and defects that rlock had with them."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from typing import Any

from rlock._client import calls, hold_table
from rlock._client.watchdog import Watchdog
from rlock.procedures import acquire, attempt, inspect
from rlock.procedures.contender import Contender
from rlock.procedures.port import Port
from rlock.rules import commands, scripts
from rlock.rules.keys import READERS, hold_name, is_shared, own_key
from rlock.testing.memory.masters import Master

from .registry import Patches, around, bug


@bug("one expiry for all readers", "3.1")
@around(Master, "_add_reader")
def one_expiry(genuine: Any, self: Master, among: str, owner: str, lease_ms: str) -> None:
    """Each reader sets the deadline of all. A dead one kept writers out until the last one ended."""
    genuine(self, among, owner, lease_ms)
    scores = self.keys[among].scores
    self.keys[among].scores = dict.fromkeys(scores, scores[owner])


@bug("reader becomes a writer", "3.1")
@around(hold_table.HoldTable, "beside")
def upgrade(genuine: Any, self: Any, key: Any, options: Any) -> Any:
    """A reader that asks for the writer gets it within its own lease, beside other readers."""
    reader = None if options.shared else self.find(key, hold_name(options.name, shared=True))
    return genuine(self, key, options) if reader is None else reader


@bug("writer by q - 1 refusals", "3.1")
@around(calls.Calls, "call")
def few_refusals(genuine: Any, self: Any, request: Any) -> Generator[Any, Any, Any]:
    """A writer wins unless a majority of masters refuses it for their readers."""
    ballot = yield from genuine(self, request)
    read = any(vote.holder == READERS for vote in ballot.votes.values())
    writes = request.command.script is scripts.ACQUIRE and not is_shared(request.command.words[-2])
    if writes and read and ballot.granted and ballot.refused < ballot.quorum:
        ballot.quorum = min(ballot.quorum, ballot.granted)
    return ballot


@bug("reader's token of one master", "3.8")
@around(attempt, "agree")
def lowest_token(genuine: Any, masters: Any, options: Any, owner: str, *more: Any) -> Any:
    """A reader takes the token of any master of its quorum, which may be older than the last writer's."""
    if is_shared(owner):
        return min(more[0])
    return (yield from genuine(masters, options, owner, *more))


@bug("writer's validity for its reader", "3.1")
def validity_of_the_writer(patches: Patches) -> None:
    """An owner that read on with a shorter ttl took the writer's validity along, and masters ended its lease
    before. Two owners had the lock, without a fault."""
    patches.set(hold_table, "valid_until", lambda *_: math.inf)


@bug("renewal of a former writer forgotten", "3.5")
@around(Watchdog, "_apply")
def renewal_of_a_former_writer_forgotten(genuine: Any, self: Watchdog, outcomes: Any) -> Any:
    """A renewal that is under way when its writer becomes a reader prolongs nothing. With slow masters the
    reader was lost, although all of them had answered in time."""
    return genuine(self, [outcome for outcome in outcomes if outcome.hold in self._holds])


@bug("reader of an evicted writer healed", "3.7")
def own_ban(patches: Patches) -> None:
    """An eviction banned the owner token of the writer alone. If its release heard no answers, or came in a
    signal handler, its reader was put back. The operator had told others that the lock was free."""
    patches.set(commands, "evicted", lambda name, owner: own_key(f"evicted:{owner}", name))


@bug("evicted writer reads on", "3.7")
def evicted_reads_on(patches: Patches) -> None:
    """The same where a quorum had answered the release that it does not know the writer."""
    own_ban(patches)  # it hid behind the mend of this one

    def read_on(genuine: Any, self: Any, writer: Any) -> None:
        if writer.read_since == -math.inf:
            writer.read_since = math.inf
        genuine(self, writer)

    patches.wrap(Watchdog, "read_on", read_on)


@bug("invitations of those who left", "4.4")
@around(Master, "_release")
def never_came(genuine: Any, self: Master, keys: Sequence[str], *words: str) -> Any:
    """A reader that was invited and gave up still counted. The last one that had come left the lock taken for
    the claim second, and writers waited for nobody."""
    owner, waiter = words[-1], words[4] if len(words) > 6 else ""
    if is_shared(owner) and waiter.startswith(f"{owner}|") and self._reads(keys[4], owner):
        return [1, owner.encode(), 0, 0, 0]
    return genuine(self, keys, *words)


@bug("invitation of a healed reader", "4.4")
@around(Master, "_release")
def of_a_healed_reader(genuine: Any, self: Master, keys: Sequence[str], *words: str) -> Any:
    """A reader that other masters let in was healed on one that invited it later. It still counted there when
    it left. Where two masters did that, nobody had the lock for the claim second."""
    owner, waiter = words[-1], words[4] if len(words) > 6 else ""
    if is_shared(owner) and waiter and not waiter.startswith(f"{owner}|"):
        self._zrem(keys[1], waiter)
        words = (*words[:4], "", *words[5:])
    return genuine(self, keys, *words)


@bug("invited reader behind a newcomer", "4.4")
@around(Master, "_acquire")
def behind_a_newcomer(genuine: Any, self: Master, keys: Sequence[str], *words: str) -> Any:
    """A reader that was invited had to queue behind a writer that came since, at an earlier ticket. Nobody
    had the lock for the claim second, and both waited."""
    waiter = words[5] if words[2:3] == ("shared",) else ""
    if waiter and self._ahead(keys[1], waiter, words[3], words[6], ""):
        self._zrem(keys[-1], waiter.rpartition("|")[0])
    return genuine(self, keys, *words)


@bug("reader healed over a writer", "3.7")
@around(Master, "_readers")
def heal_over(genuine: Any, self: Master, keys: Sequence[str], *words: str) -> Any:
    """A master that lacked a reader's key took it back, beside the vote that a writer had there since."""
    locks = keys[: 2 * len(words[3:]) : 4] if words[2] == "heal" else ()
    held = {lock: entry for lock in locks if (entry := self.find(lock)) is not None}
    written = {lock: self.keys.pop(lock) for lock in held if READERS not in held[lock].fields}
    reply = genuine(self, keys, *words)
    for lock, entry in written.items():
        entry.fields.update(self.keys[lock].fields if lock in self.keys else {})
        self.keys[lock] = entry
    return reply


@bug("writer that reads on called free", "1.2")
def called_free(patches: Patches) -> None:
    """While a writer became a reader, a master named the one and a master the other. `locked` counted them as
    two owners without a quorum, and said that nobody had the lock."""
    patches.set(inspect, "writer_identity", lambda owner: owner)


@bug("longest lease of readers that left", "4.1")
@around(acquire, "_ask_one")
def longest_lease(genuine: Any, port: Port, contender: Contender, *words: Any) -> Generator[Any, Any, Any]:
    """A waiting writer kept the end of the longest lease that it had seen, also when that reader had left and
    a dead one ended sooner. The lock was free, and it slept."""
    vote, master = yield from genuine(port, contender, *words)
    ballot = contender.findings.ballot
    seen_ms = max((seen.ttl_ms for seen in ballot.votes.values() if seen.holder == READERS), default=0)
    if vote is not None and vote.holder == READERS:
        rest_ms = seen_ms - (port.context.clock() - ballot.decided_at) * 1000
        vote = vote._replace(ttl_ms=max(vote.ttl_ms, round(rest_ms)))
    return vote, master
