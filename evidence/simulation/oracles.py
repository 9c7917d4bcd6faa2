"""Promises beside those of the referee: some in all schedules, more where less goes wrong."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from rlock.rules.holds import Hold
from rlock.rules.keys import NOTE, fence, is_shared, owner_of_waiter, queue
from rlock.rules.timing import CLAIM_S, guard_time, longest_acquisition

from .client import Client
from .connections import Connection
from .hosts import Host
from .referee import valid_for
from .schedules import BUSY, DISTURBING

if TYPE_CHECKING:
    from .play import Play

PROMPT_S = 0.6  # a waiter gets a lock that was released by then
#: A waiter gets the lock of a dead process by then, behind the end of its lease: docs/guarantees.md.
LOOK_S = 1.5
EARLY_S = 0.3  # the time between two looks of a waiter that heard of another owner than the one that it knew
SAMPLE_S = 0.05
FREED_S = 0.5  # a client frees the handle of a failed detach within this time, unless something is held up
QUIET_S = 1.5  # so long after the last one that nothing holds up, all have noticed what went wrong before
#: Events that change nothing of what `Oracles.state` tells.
UNCHANGED = {"queued", "renew", "absent", "suspect", "kept", "decided", "found", "unheard", "closed"}
#: Modes in which no hold is lost, and no connection is slow to tell what a master has noted.
SAFE = ("slow", "deaths", "cuts", "stops", "clocks")


class Oracles:
    """What one schedule promises; ``states``: the abstract states that came up."""

    def __init__(self, play: Play) -> None:
        self.play = play
        self.world, self.events, self.referee = play.world, play.world.events, play.world.referee
        self.accuse = self.referee.accuse
        self.mode = play.setup.mode
        self.longest = max(options.max_ttl for options in play.fleet)
        self.states: set[int] = set()
        #: Masters that granted each lease that is longer than any of the fleet, and whether a quorum did.
        self._long: defaultdict[str, set[int]] = defaultdict(set)
        self.long_lease = False
        self._evicted: defaultdict[str, dict[int, float]] = defaultdict(dict)
        #: Owners that got the lock by messages: no master ever grants it to them, it hands it to them.
        self._claims: set[str] = set()
        #: Since when a lock is free and somebody waits for it, by the time of the world.
        self._idle = dict.fromkeys(play.locks, -1.0)
        self._was_given_to_the_dead: set[str] = set()
        self._handles: dict[str, float] = {}  # when each one was first seen on a master
        #: By lock: when a reader's lease was last seen that nobody renews, and when one beside another one's.
        self._read_for_the_rest = defaultdict[str, float](lambda: -9.0)
        self._read_beside = defaultdict[str, float](lambda: -9.0)
        #: When each master granted the lock to an owner that may still need its vote.
        self._votes: defaultdict[str, dict[Host, float]] = defaultdict(dict)
        #: When a client found a hand-off of which it had heard nothing, by its connections that were silent.
        self._found_at: dict[Connection, float] = {}
        #: When bytes or processes were held up the last time, in modes that have such faults.
        self._held_up_at = -9.0
        kinds = {step.what for step in play.schedule.steps}
        # Masters that drop each token that owners agree on (`ahead`) may let nobody agree on one.
        races = bool(kinds & DISTURBING) or play.setup.ahead > 0.0 or play.setup.kills > 0.0
        self._may_hold_up = self.mode in BUSY and (self.mode != "races" or races)
        self.quorum = len(self.world.hosts) // 2 + 1
        # After a split a waiter takes its time by the round trips that it has seen.
        self.prompt_s = PROMPT_S + 0.1 if play.setup.jitter <= 0.01 else 0.85
        if play.setup.habit == "overdue":
            # A waiter may not know the lease that began behind its last look. When dead contenders have
            # votes, it may know none, and looks at a quorum.
            self.prompt_s = max(self.prompt_s, LOOK_S - play.setup.overdue_ttl)
            if "die asking" in kinds:
                self.prompt_s = max(LOOK_S, self.prompt_s + EARLY_S * (self.quorum - 1))
        if {"late scripts", "lost scripts"} & kinds:
            self.prompt_s = 9.0  # their answers are late, and each command may take two trips
        # In the mode "leases" masters lose their memory, and have no vote for a while.
        if self.mode in ("deaths", "cuts", *BUSY) and self.mode != "leases" and not play.setup.far:
            self.events.at(SAMPLE_S, self._sample)

    def see(self, what: str, client: Client | None, host: Host | None, owner: str) -> None:
        if what in ("grant", "given") and client is not None and host is not None:
            self._votes[owner][host] = self.events.now
            if client.careless:
                self._long[owner].add(host.index)
                self.long_lease |= len(self._long[owner]) >= self.quorum
            elif self.mode in ("slow", "deaths", "cuts", "races", "leases"):
                self._watch_vote(client, host, owner)
            if host.index in self._evicted.get(owner, ()):
                self._judge_evicted(owner)
            for name in self.play.locks if is_shared(owner) else ():
                if len(host.left(name)) > 1:  # it may come and leave between two samples
                    self._read_for_the_rest[name] = self._read_beside[name] = self.events.now
        elif what == "evict" and host is not None:
            self._watch_evicted(host, owner)
        elif what == "closed" and client is not None and self.mode == "deaths":
            self.events.after(PROMPT_S / 2, partial(self._look_at_closed, client))
        elif what == "claim" and client is not None:
            self._claims.add(owner)
            self._judge_claim(client, owner)
        elif what in ("found", "unheard") and client is not None:
            self._watch_silence(what, client, host)
        elif what == "enter":
            # A hold may be too short for the samples.
            self._idle = dict.fromkeys(self._idle, -1.0)
        elif what == "hand-off" and host is not None:
            for name in self.play.locks:
                for token in host.left(name):
                    if host.index in self._evicted.get(token, ()):
                        self._judge_evicted(token)
                    to = self.world.clients[int(token[1:4])]
                    handed = host not in self._votes[token] and token not in host.restored
                    handed &= token not in self.referee.reads.values()  # and no reader that was there before
                    if handed and to.dead and to.died_at < self.events.now - 0.3:
                        self._was_given_to_the_dead.add(token)
                    elif handed and to is client and not (to.older or self.play.setup.keeps):
                        self._look_at_hand_off(client, host, name, token, self.events.now + 0.7 * CLAIM_S)
        if what not in UNCHANGED:
            self.states.add(self.state(what, self.play.locks[0]))

    def _watch_silence(self, what: str, client: Client, host: Host | None) -> None:
        """A client that finds a hand-off by a look replaces connections on which it did not hear of it."""
        now = self.events.now
        for silent in [link for link in client.messages.links if link.back.is_mute]:
            if what == "found":
                self._found_at.setdefault(silent, now)
            elif host and silent.host.index == host.index and now > self._found_at.get(silent, 99.0) + 2.0:
                self.accuse("", client.label, host.name, "a silent connection is kept")

    def _look_at_hand_off(self, client: Client, host: Host, name: str, token: str, until: float) -> None:
        """A client passes on what is handed to a place that it has left, unless something is held up."""
        if client.dead or token in self.wanted(client) or token not in host.left(name) or self._is_held_up():
            return
        if all(link.host is not host for link in client.commands.links):
            return  # a former primary takes its commands
        if self.events.now > until:
            self.accuse(name, token, host.name, "was handed to a place that its client had left")
        self.events.after(SAMPLE_S, partial(self._look_at_hand_off, client, host, name, token, until))

    def wanted(self, client: Client) -> set[str]:
        """The owners, and their places, that masters may have."""
        under_way = client.under_way
        wanted = {token for _, owners in under_way.acquiring.values() for token in owners}
        wanted |= {token for hold in client.holds for token in (hold.owner, owner_of_waiter(hold.waiter))}
        return wanted | self.referee.kept.keys() | set(under_way.releasing)

    # -- votes, evictions, losses ------------------------------------------------------------------

    def _watch_vote(self, client: Client, host: Host, owner: str) -> None:
        """Where only clients die or masters are slow, an undo comes long before the end of the lease."""
        for name in self.play.locks:
            entry = host.master.look(name)
            if entry is not None and owner in entry.fields and entry.expires_ms is not None:
                lease = (entry.expires_ms - host.time_us() // 1000) / 1000
                look = partial(self._look_at_vote, client, host, name, owner, self.events.now)
                self.events.after(0.3 * lease, partial(look, 0.5 * lease))

    def _look_at_vote(
        self, client: Client, host: Host, name: str, owner: str, since: float, again: float
    ) -> None:
        wanted = self.wanted(client)
        if client.dead or owner in wanted or owner not in host.left(name) or host.restarted_at > since:
            return  # to a master that was down meanwhile its undo comes late
        if self.mode == "leases" and owner not in host.told_to_release:
            return  # a hold that is lost is given back nowhere
        connection = client.commands.servers[host.index].connection
        look = partial(self._look_at_vote, client, host, name, owner, since)
        if client.stopped:
            self.events.after(0.1, partial(look, again or 0.1))
        elif client.kept_until > self.events.now - 0.05:  # it goes on with it then
            self.events.at(client.kept_until + 0.1, partial(look, again))
        elif again:  # its undo may be on its way
            self.events.after(again, partial(look, 0.0))
        elif connection is not None and not connection.ended and not connection.pending:
            # Otherwise a client that waits for no reply may not know yet that its undo was lost.
            self.accuse(name, owner, host.name, "a vote of one who has given up")

    def gives_away(self, hold: Hold) -> None:
        """A hold was detached: no master keeps the lock for its place in the queue."""
        owner = owner_of_waiter(hold.waiter)

        def look() -> None:
            for host in self.world.hosts:
                if owner in host.left(hold.name):
                    self.accuse(hold.name, owner, host.name, "has the lock for a place that was left")

        if self.mode == "deaths" and owner:
            self.events.after(PROMPT_S / 2, look)

    def _look_at_closed(self, client: Client) -> None:
        # A close does not wait for a master that timed out.
        for host in [each for each in self.world.hosts if each.index not in client.context.timed_out]:
            for name in self.play.locks:
                places = [owner_of_waiter(place) for place, _ in host.master.line(queue(name))]
                for owner in (*host.left(name), *places):
                    if self.world.clients[int(owner[1:4])] is client and owner not in self.referee.kept:
                        self.accuse(name, owner, host.name, "left behind by a client that was closed")

    def _watch_evicted(self, host: Host, owner: str) -> None:
        """No master leaves the lock to the owner that it evicts."""
        if any(owner in host.left(name) for name in self.play.locks):
            self.accuse("", owner, host.name, "has the lock by its own eviction")
        if any(self.referee.reads.get(owner) in host.left(name) for name in self.play.locks):
            return  # its owner had become a reader here
        self._evicted[owner][host.index] = self.events.now

    def _judge_evicted(self, owner: str) -> None:
        """What is on its way when a hold is evicted gives it a minority at the most, and a claim nothing."""
        entered = [moment.at for moment in self.referee.entered if moment.owner == owner]
        if min(entered, default=math.inf) > min(self._evicted[owner].values()):
            return  # it was asking for the lock, and had none
        banned_s = 2 * self.longest  # a command that was on its way for longer than that is no holder's
        recent = {i: at for i, at in self._evicted[owner].items() if self.events.now < at + banned_s}
        again = [self.world.hosts[i] for i in recent]
        again = [host for host in again if host.lost_at < self._evicted[owner][host.index]]
        for name in self.play.locks:
            having = sum(owner in host.left(name) for host in again)
            if having >= (1 if owner in self._claims else self.quorum) and not self.world.groups:
                self.accuse(name, owner, "", f"on {having} masters again after its eviction")

    def _judge_claim(self, client: Client, owner: str, given: Mapping[int, Any] | None = None) -> None:
        """A grant by messages stands on all masters whose messages count: nobody undoes it.

        ``given``: those messages, a moment later, when a command that was on its way has arrived.
        """
        for hold in client.holds:
            if given is None and hold.owner == owner and hold.lease.confirmation is not None:
                self._judge_given(client, hold, hold.lease.confirmation.given)
                if self.play.setup.switches:
                    again = partial(self._judge_claim, client, owner, dict(hold.lease.confirmation.given))
                    self.events.after(0.01, again)
            elif given is not None and hold.owner == owner and not client.stopped:
                self._judge_given(client, hold, given)

    def _judge_given(self, client: Client, hold: Hold, given: Mapping[int, Any]) -> None:
        ends = hold.owner in self._evicted or hold.owner in client.under_way.releasing
        for i, message in given.items() if valid_for(client, hold) > 0.0 and not ends else ():
            host = self.world.hosts[i]
            lasts = host.time_us() - message.time_us < 0.98e6 * CLAIM_S  # or it has ended by itself
            kept = host.lost_at < 0.0 and self.world.may_kill and lasts
            if kept and hold.owner not in host.left(hold.name):
                self.accuse(hold.name, hold.owner, host.name, "counts a message whose grant was undone")

    def lost(self, client: Client, hold: Hold) -> None:
        ended = hold.owner in self.referee.evicted or client.holds.closed
        if self.mode in SAFE and hold.options.renew and not ended:
            what = f"lost although every master answered in time: {hold.reason}"
            self.accuse(hold.name, hold.owner, "", what)

    # -- the restart guard -------------------------------------------------------------------------

    def guarded(self, client: Client, genuine: Callable[..., object], master: int, news: bool) -> None:
        """A grant does not count, because of the age of the memory of its master."""
        genuine(master, news)
        guard, host = client.context.guard, self.world.hosts[master]
        if self.world.groups or self.long_lease or not guard._epochs[master].note:
            return
        if guard.max_ttl > self.longest:
            self.accuse("", client.label, host.name, "refused for a lease that nobody got")
        # The answer to a handshake may be read late.
        late = 0.5 if self.mode in SAFE else 9.0
        if self.events.now > host.noted[1] + 1.01 * guard_time(self.longest) + late:
            self.accuse("", client.label, host.name, "refused for the age of an old memory")

    def look_for_remains(self) -> None:
        """When all have had all locks, and the queues have ended."""
        for host in self.world.hosts:
            # A client that is not used any more reads nothing: it may not know that its undo was lost.
            servers = [each.commands.servers[host.index] for each in self.world.clients if each.careless]
            unread = any(each.connection is not None and each.connection.pending for each in servers)
            for key in [key for key in list(host.master.keys) if host.master.look(key) is not None]:
                ban = ":evicted:" in key and self.long_lease  # twice as long as the longest lease
                if key != NOTE and not key.endswith(":fence") and not ban and not unread:
                    self.accuse(key, f"m{host.index}", "", "left behind")
            for channel, listening in host.master.subscribers.items():
                if any(not session.connection.closed for session in listening):  # type: ignore[attr-defined]
                    self.accuse(channel, f"m{host.index}", "", "still subscribed")

    # -- waiters -----------------------------------------------------------------------------------

    def _sample(self) -> None:
        now = self.events.now
        if self._may_hold_up and self._is_held_up():
            self._held_up_at = now
        for name in self.play.locks:
            if not self._is_idle(name):
                self._idle[name] = -1.0
            elif self._idle[name] < 0:
                self._idle[name] = now
            elif now > max(self._idle[name], self._held_up_at + QUIET_S) + self.prompt_s:
                self._idle[name] = now
                self.accuse(name, "", "", f"free for more than {self.prompt_s:g} s while somebody waits")
            given = {owner for host in self.world.hosts for owner in host.left(name) if "/handle:" in owner}
            for owner in sorted(given - self.referee.kept.keys()):  # a detach that failed frees its handle
                since = max(self._handles.setdefault(owner, now), self._held_up_at)
                if now > since + FREED_S and not self.world.clients[int(owner[1:4])].dead:
                    self.accuse(name, owner, "", f"a handle that nobody has, for more than {FREED_S:g} s")
        if not self.play.over:
            self.events.after(SAMPLE_S, self._sample)

    def _is_idle(self, name: str) -> bool:
        """Whether a quorum of masters would grant the lock, nobody has it, and somebody waits."""
        clients = [client for client in self.world.clients if not client.dead]
        holds = [(client, hold) for client in clients for hold in client.holds if hold.name == name]
        now, valid = self.events.now, [(each, hold) for each, hold in holds if valid_for(each, hold) > 0]
        if any(hold.options.shared and hold.renewal_stop(each.clock()) is not None for each, hold in valid):
            self._read_for_the_rest[name] = now
            self._read_beside[name] = now if len(valid) > 1 else self._read_beside[name]
        if not any(client.subscriptions.waiting(name) for client in clients):
            return False
        writes = any(not hold.options.shared for _, hold in valid)
        if writes or any(kept == name and now < until + LOOK_S for kept, until in self.referee.kept.values()):
            return False
        blocked, guard = 0, 1.01 * guard_time(self.longest)
        looked_at, look_s = -9.0, LOOK_S - self.prompt_s
        for host in self.world.hosts:
            young = now < host.lost_at + guard and any(
                client.context.guard.remaining(host.index, client.clock()) > 0.0 for client in clients
            )
            left = host.left(name)
            dead = [token for token in left if self.world.clients[int(token[1:4])].dead]
            if any(map(is_shared, dead)):
                self._read_for_the_rest[name] = now
                self._read_beside[name] = now if len(dead) < len(left) else self._read_beside[name]
            if all(map(is_shared, dead)):
                looked_at = max(looked_at, host.looked_at.get(name, -9.0))
            else:
                look_s += EARLY_S  # a look at this one tells nothing of the readers
            # The release of a lock that is kept may come late, and so may its end.
            waits = {*dead} - self._was_given_to_the_dead | self.referee.kept.keys()
            blocked += young + sum(token in waits for token in left)
        # A longer reader that leaves tells no waiter that such a lease is the last now: a look does.
        if looked_at <= self._read_beside[name] + SAMPLE_S:
            blocked += len(self.world.hosts) * (now < self._read_for_the_rest[name] + look_s)
        return not valid and len(self.world.hosts) - blocked >= self.quorum

    def _is_held_up(self) -> bool:
        """Whether somebody cannot run now, or cannot send or hear all."""
        if any(host.stopped or host.drops or not host.up for host in self.world.hosts):
            return True
        for client in self.world.clients:
            ways = [way for pair in (*client.ways, *client.message_ways) for way in pair]
            links = client.commands.links
            confirmed = [len(found.confirmed) for found in client.subscriptions._by_name.values()]
            if not client.dead and (
                client.stopped
                or client.kept[0] > 0.0
                or any(way.is_shut or way.extra > 0.1 for way in ways)
                or any(link.ended or link.back.is_mute for link in (*links, *client.messages.links))
                or min((len(links), *confirmed)) < len(self.world.hosts)
            ):
                return True
        return False

    # -- coverage ----------------------------------------------------------------------------------

    def state(self, what: str, name: str) -> int:
        """What masters and clients have of a lock, without their names."""
        world, now = self.world, self.events.now
        holds: dict[str, int] = {}
        tokens = [host.master._last(fence(name)) for host in world.hosts]
        highest = max(token for token, _ in tokens)
        # The messages for a waiter that count, or did a moment ago.
        told: defaultdict[Client | None, list[int]] = defaultdict(list)
        for host in world.hosts:
            handed_at, token, to = host.handed
            if now - handed_at < 3.0:
                told[to].append((now - handed_at < 1.0) + 2 * (token == highest))
        of_clients = []
        for client in world.clients:
            mine = 0
            for hold in client.holds:
                if hold.name == name:
                    valid = valid_for(client, hold) > 0
                    mine = holds[hold.owner] = 1 + valid + 2 * (hold.lease.confirmation is not None)
            waits = self._forgotten(client) if client.under_way.acquiring else 0
            if mine or waits or client.stopped:
                messages = sorted(told.get(client, ()))
                of_clients.append((mine, waits, client.stopped, client.dead, *messages))
        of_masters = []
        for host, (token, given_to) in zip(world.hosts, tokens, strict=True):
            owner = next(iter(host.left(name)), "")
            role = 0 if not owner else holds.get(owner, 8 if world.clients[int(owner[1:4])].dead else 9)
            young = now - host.lost_at < 1.0
            rank = (token == highest) + 2 * (given_to == owner) if owner else token == highest
            of_masters.append((role, rank, young, host.stopped))
        return hash((len(what), what == "leave", *sorted(of_masters), *sorted(of_clients)))

    def _forgotten(self, client: Client) -> int:
        """1: it waits. 2: a master has lost a vote that it may count. 3: that vote is old."""
        now, most = self.events.now, 1
        for owner in [owner for _, owners in client.under_way.acquiring.values() for owner in owners]:
            for host, at in self._votes[owner].items():
                if host.lost_at >= at:
                    most = max(most, 2 + (now > at + longest_acquisition(self.longest)))
        return most
