"""The trace of one lock in one schedule: events in the words of evidence/spec/Trace.tla.

An owner token is a client there from its first grant to the end of its lease; another one is a dead attempt.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rlock._client.connection import PendingCall
from rlock.model import Code
from rlock.rules import scripts
from rlock.rules.command_templates import Command
from rlock.rules.holds import Hold
from rlock.rules.timing import longest_acquisition

if TYPE_CHECKING:
    from .client import Client

#: The instant in milliseconds, what happened, the master, the client, and a number that depends on the event.
#: Masters and clients are counted from 1.
Event = tuple[int, str, int, int, int]
UNREAD, NO_NOTE = -2, -1  # in the place of an age: the script reads no note; there is none


def taken_apart(command: Command) -> tuple[list[str], list[str]]:
    _, _, numkeys, *words = command.by_sha()
    return words[: int(numkeys)], words[int(numkeys) :]


def leases(command: Command) -> list[tuple[str, str]]:
    """The locks of a renewal or a healing, with their owner tokens."""
    keys, words = taken_apart(command)
    if command.script is scripts.RENEW:
        return list(zip(keys[:-1], words[1::2], strict=True))
    if command.script is scripts.READERS:
        return list(zip(keys[:-1:4], words[3::2], strict=True))
    return list(zip(keys[:-1:3], words[2::3], strict=True))


@dataclass(eq=False)
class Owner:
    """One owner token, with the number of its client in the trace."""

    client: Client
    token: str
    number: int
    #: The calls whose answers the present round counts. Empty: it is decided.
    round: set[PendingCall] = field(default_factory=set)
    ran: set[int] = field(default_factory=set)  # the masters on which a command of this round ran
    #: The masters with a vote of an earlier round: in the specification it remains of a dead attempt.
    kept: set[int] = field(default_factory=set)
    won: bool = False
    decided_by: float = math.inf  # the attempt counts no answer from this instant on, by the client's clock
    hold: Hold | None = None
    until: float = math.inf  # the end of the validity while there is no hold yet, by the client's clock

    def has_ended(self) -> bool:
        """Whether its client relies on it no more."""
        if not self.won:
            return self.client.dead
        if self.hold is None:
            self.hold = next((hold for hold in self.client.holds if hold.owner == self.token), None)
        if self.hold is not None:
            return self.client.holds.remaining(self.hold) <= 0.0
        return self.client.dead or self.client.clock() >= self.until

    def has_key(self, master: int) -> bool:
        """Whether its key on a master is that of the client in the specification, and no remains."""
        return master not in self.kept and (self.won or master in self.ran)

    def next_round(self, call: PendingCall, longest: float = math.inf) -> None:
        self.round, self.ran, self.decided_by = {call}, set(), call.sent_at + longest

    def granting(self) -> list[int]:
        votes = [vote for call in self.round for vote in call.votes.items()]
        return [i for i, vote in votes if vote.code == Code.YES and not vote.guarded and vote.ttl_ms > 0]

    def renewing(self) -> list[int]:
        """The masters whose answers prolong the lease: with old memories, or all if these are too few."""
        old: set[int] = set()
        young: set[int] = set()
        for call in self.round:
            position = [token for _, token in leases(call.request.command)].index(self.token)
            for master, vote in call.votes.items():
                code = Code.FAULT if vote.code == Code.FAULT else vote.codes[position]
                if code in (Code.YES, Code.HEALED):
                    (old if code == Code.YES and not vote.guarded else young).add(master)
        return sorted(old if len(old) > len(self.client.ways) // 2 else old | young)


class Trace:
    """The events of one lock. ``now``: the instant in milliseconds; ``longer``: the longer lease, too."""

    def __init__(self, name: str, longer: int, now: Callable[[], int]) -> None:
        self.name = name
        self.events: list[Event] = []
        self.short: list[bool] = []  # for each client whether it has the shorter lease
        self._longer = longer
        self._limit_s = longest_acquisition(longer / 1000)
        self._now = now
        self._free: list[int] = []
        self._owners: dict[str, Owner] = {}
        self._calls: dict[str, PendingCall] = {}  # the last round of each owner token
        self._given_up: set[str] = set()  # owner tokens whose clients want them no more
        #: The masters on which the specification may still have a key of a dead attempt.
        self._remains: set[int] = set()

    def freed(self, master: int) -> None:
        for owner in list(self._owners.values()):
            self._alive(owner.token)
        if master in self._remains:
            self.add("freed", master)
            self._remains.discard(master)

    def add(self, what: str, master: int = 0, client: int = 0, number: int = 0) -> None:
        """An event, behind the ends of all leases and attempts that have ended by now."""
        for token in list(self._owners):
            self._alive(token)
        self.events.append((self._now(), what, master, client, number))

    def _end(self, owner: Owner) -> None:
        del self._owners[owner.token]
        self._given_up.add(owner.token)
        self._free.append(owner.number)
        self._remains.update(range(1, len(owner.client.ways) + 1))
        self.events.append((self._now(), "end", 0, owner.number, 0))

    def _alive(self, token: str) -> Owner | None:
        owner = self._owners.get(token)
        if owner is not None and owner.has_ended():
            self._end(owner)
            return None
        if owner is not None and not owner.won and owner.client.clock() >= owner.decided_by:
            # No master tells that: a thread that does not run still has its votes, and cannot win.
            self._lose(owner)
        return owner

    def _lose(self, owner: Owner) -> None:
        """An attempt is over. Its keys stand on until its client deletes them, or asks again."""
        owner.kept |= owner.ran
        owner.round, owner.ran, owner.decided_by = set(), set(), math.inf
        self._remains.update(range(1, len(owner.client.ways) + 1))
        self.events.append((self._now(), "end", 0, owner.number, 0))

    def _begin(self, client: Client, token: str, lease: int, call: PendingCall) -> Owner:
        short = lease < self._longer
        number = next((number for number in self._free if self.short[number - 1] == short), 0)
        if number:
            self._free.remove(number)
        else:
            self.short.append(short)
            number = len(self.short)
        owner = self._owners[token] = Owner(client, token, number)
        owner.next_round(call, self._limit_s)
        lost_in_a_million = max(0, round((1 - client.rate) * 1e6))
        self.add("client", 0, number, lost_in_a_million)
        return owner

    def granted(
        self, client: Client, token: str, call: PendingCall | None, master: int, lease: int, age: int
    ) -> None:
        owner = self._alive(token)
        if owner is None and call is not None and token not in self._given_up and not client.dead:
            owner = self._begin(client, token, lease, call)
        if owner is None or not (owner.won or call in owner.round):
            self.remains(master, age)
        elif owner.won:
            self._replace_kept(owner, master)
            # Otherwise the key of a dead attempt that an older memory brought back would still stand there.
            self.freed(master)
            self.add("late", master, owner.number, age)
        elif master in owner.ran:
            self.add("again", master, owner.number, age)
        else:
            owner.kept.discard(master)
            self.freed(master)
            self.add("grant", master, owner.number, age)
            owner.ran.add(master)

    def prolonged(self, token: str, call: PendingCall | None, master: int, age: int, *, healed: bool) -> None:
        owner = self._alive(token)
        if owner is None:
            self.remains(master, age)
            return
        if healed:
            self.freed(master)
        elif master in owner.kept:
            self._replace_kept(owner, master)
            call = None
        if call in owner.round and master not in owner.ran:
            self.add("heal" if healed else "extend", master, owner.number, age)
            owner.ran.add(master)
        else:
            # Before it has won, a renewal notes a lease that is longer than all before.
            self.add("late" if owner.won else "noted", master, owner.number, age)

    def _replace_kept(self, owner: Owner, master: int) -> None:
        if master in owner.kept:
            owner.kept.discard(master)
            self.add("freed", master)

    def remains(self, master: int, age: int = UNREAD) -> None:
        """A key of a dead attempt, or of a waiter that may claim the lock."""
        self.freed(master)
        self.add("remains", master, 0, age)
        self._remains.add(master)

    def refused(self, master: int, holder: str) -> None:
        owner = self._alive(holder)
        self.add("refused", master, owner.number if owner is not None and owner.has_key(master) else 0)

    def restored(self, master: int, holder: str, left: int) -> None:
        owner = self._alive(holder)
        self._remains.discard(master)
        if owner is not None and owner.has_key(master):
            self.add("older", master, owner.number, left)
            return
        self.add("older", master)
        if holder:
            self.remains(master)

    def gives_up(self, token: str) -> None:
        """A client sends a release, or an operator evicts the owner."""
        owner = self._alive(token)
        if owner is not None:
            self._end(owner)
        self._given_up.add(token)

    def asks(self, token: str, call: PendingCall) -> None:
        """A client sends an acquire to one more master."""
        owner, before = self._alive(token), self._calls.get(token)
        self._calls[token] = call
        if owner is not None and before is not call:
            # An attempt that keeps its votes asks again: only the answers to the last round count.
            self._lose(owner)
            owner.next_round(call, self._limit_s)

    def renews(self, token: str, call: PendingCall, *, heals: bool) -> None:
        """A client sends a renewal or a healing to one more master."""
        owner = self._alive(token)
        if owner is None or not owner.won or call in owner.round:
            return
        if not heals:
            self.add("round", 0, owner.number)
            owner.next_round(call)
        elif owner.round:
            owner.round.add(call)

    def wins(self, token: str, until: float) -> None:
        """A quorum granted the lease, or prolonged it; it ends at ``until`` by the client's clock."""
        owner = self._alive(token)
        if owner is not None:
            counted = owner.renewing() if owner.won else owner.granting()
            for master in counted:
                self.add("counts", master + 1, owner.number)
            self.add("win", len(counted), owner.number, math.floor((until - owner.client.clock()) * 1000))
            owner.won, owner.until, owner.round = True, until, set()

    def fails(self, token: str) -> None:
        """A round of renewal is over; its late commands count no more."""
        owner = self._alive(token)
        if owner is not None:
            owner.round = set()
