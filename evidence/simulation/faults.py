"""What goes wrong in a schedule: what each kind of step does, with whom, and for how long."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from rlock.rules.timing import longest_acquisition

from .connections import Connection
from .events import Action, Way
from .failovers import FAILOVERS
from .hosts import Host
from .referee import valid_for
from .repeated import REBIRTH_S, REPEATED, close_client, die_asking
from .schedules import BUSY, EVENTS, HELD_UP_S, MORE_EVENTS, events
from .strangers import STRANGERS

if TYPE_CHECKING:
    from .client import Client
    from .play import Play


@dataclass
class Nemesis:
    """One step: its random numbers, and what it may touch.

    ``actor``: the client of the event before it; ``there``: the master of that event.
    """

    play: Play
    dice: Random
    actor: Client | None = None
    there: Host | None = None

    def __post_init__(self) -> None:
        self.world, self.mode, self.lock = self.play.world, self.play.setup.mode, self.play.locks[0]
        self.busy, self.options = self.mode in BUSY, self.play.fleet[0]

    def duration(self) -> float:
        spans = ((0.01, 0.2), (0.1, 0.6), (0.5, 1.5), (1.0, HELD_UP_S))
        if self.busy:  # how long a hand-off lasts, and a little less or more
            spans = ((0.01, 0.2), (0.3, 0.95), (0.9, 1.6), (1.2, 2.4))
        return self.dice.uniform(*self.dice.choice(spans))

    def client(self) -> Client | None:
        """One that lives: any, the one of the event, one that holds a lock, or one that waits."""
        alive = [client for client in self.world.clients if not client.dead]
        if self.actor in alive and self.mode == "leases" and self.dice.random() < 0.6:
            return self.actor
        role = self.dice.choice(("any", "actor", "actor", "holder", "waiter", *["waiter"] * self.busy))
        if role == "actor" and self.actor in alive:
            return self.actor
        if role == "holder":
            alive = [client for client in alive if len(client.holds)] or alive
        elif role == "waiter":
            alive = [client for client in alive if client.under_way.acquiring] or alive
        return self.dice.choice(alive) if alive else None

    def host(self) -> Host:
        """A master: any, or one that has a lock, or has not."""
        if self.there is not None and self.mode == "leases" and self.dice.random() < 0.7:
            return self.there
        hosts, role = self.world.hosts, self.dice.choice(("any", "any", "taken", "free"))
        if role != "any":
            hosts = [host for host in hosts if bool(host.left(self.lock)) == (role == "taken")] or hosts
        return self.dice.choice(hosts)

    def links(self) -> list[Connection]:
        """Those of a client to a master, for commands, for messages, or both."""
        client, host = self.client(), self.host()
        if client is None:
            return []
        rosters = [client.commands, client.messages]
        chosen = self.dice.choice((rosters, rosters[:1], rosters[:1], rosters[1:]))
        return [link for each in chosen for link in each.links if link.host.index == host.index]

    def ways(self) -> list[Way]:
        """Between some clients and some masters: commands, messages or both, one way or both."""
        client, host = self.client(), self.host()
        if client is None:
            return []
        of = self.dice.choice(("commands", "commands", "messages", "both", "both"))
        pairs: list[tuple[Way, Way]] = []
        kind = self.dice.choice(("pair", "pair", "master", "client", "minority"))
        for each in self.world.clients if kind == "master" else [client]:
            count = len(each.ways)
            masters = [host.index]
            if kind in ("client", "minority"):
                masters = self.dice.sample(range(count), count if kind == "client" else count // 2)
            pairs += [each.ways[i] for i in masters] if of != "messages" else []
            pairs += [each.message_ways[i] for i in masters] if of != "commands" else []
        chosen = self.dice.choice(("both", "there", "there", "back"))
        there = [there for there, _ in pairs] if chosen != "back" else []
        return there + ([back for _, back in pairs] if chosen != "there" else [])

    def later(self, delay: float, action: Callable[[], object]) -> None:
        self.world.events.after(delay, lambda: self.play.over or action())

    def lease_rest(self) -> float:
        """How long it is until the first master gives somebody else the lock."""
        return min(host.master.pttl(self.lock) / 1000 for host in self.world.hosts if host.left(self.lock))

    def behind_lease(self, host: Host, delay: float, action: Callable[[], object]) -> None:
        """Do it when the lease on a master has ended, however often it is prolonged.

        ``delay``: seconds behind that; negative: before it.
        """
        left_s = host.master.pttl(self.lock) / 1000 if host.left(self.lock) else 0.0
        again = partial(self.behind_lease, host, delay, action)
        ends = left_s <= max(0.0, 0.001 - delay)
        self.later(max(left_s + delay, 0.0), action if ends else again)

    def until(self, action: Action, host: Host | None = None, client: Client | None = None) -> None:
        """Do it after a while, or a moment after an event that comes before that.

        ``host`` and ``client``: in some modes that may be the end of a lease there, or a loss of memory.
        """
        done: list[bool] = []
        # So that a lease of 3 s which is renewed each second survives it.
        longest = 1.8 if client is not None and self.mode == "stops" else HELD_UP_S
        behind = events(self.mode) if self.busy else EVENTS
        if host is not None and self.mode in ("guard", "leases"):
            chance = 0.7 if self.busy else 0.4
            if host.left(self.lock) and self.dice.random() < chance:
                self.behind_lease(host, self.dice.choice((0.001, 0.005, 0.02, 0.1)), action)
                return
            behind += MORE_EVENTS["guard"] * 2
        if client is not None and self.mode == "leases":
            ends_in = max([valid_for(client, hold) for hold in client.holds], default=0.0)
            if ends_in > 0 and self.dice.random() < 0.6:
                self.later(ends_in + self.dice.choice((0.001, 0.01, 0.05, 0.2)), action)
                return
            taken = [each for each in self.world.hosts if each.left(self.lock)]
            if not client.holds and taken and self.dice.random() < 0.6:
                self.behind_lease(self.dice.choice(taken), self.dice.choice((0.01, 0.05)), action)
                return

        def once() -> None:
            if not done:
                done.append(True)
                action()

        if self.dice.random() < 0.5:
            self.later(min(longest, self.duration()), once)
        else:
            delay = self.dice.choice((0.0, 0.002, 0.05, 0.3))
            what, nth = self.dice.choice(behind), self.dice.choice((1, 1, 2, 3))
            self.play.behind(what, nth, lambda *_: self.later(delay, once))
            self.later(longest, once)


def cut(nemesis: Nemesis) -> None:
    for connection in nemesis.links():
        connection.cut()


def lose_answers(nemesis: Nemesis) -> None:
    """What was asked for is done, and nobody is told: to ask again is a second delivery."""
    if client := nemesis.client():
        hand_offs = ("acquire", "release", "confirm", "queued", "queued", "wait")
        names = hand_offs if nemesis.busy else ("acquire", "acquire", "release", "renew", "any")
        script = nemesis.dice.choice(names)
        servers = client.commands.servers
        for server in nemesis.dice.sample(servers, nemesis.dice.choice((len(servers), len(servers), 1))):
            if server.connection is not None:
                server.connection.fuse = script


def lose_commands(nemesis: Nemesis) -> None:
    """Connections to a master end in front of one kind of command: it is not done there."""
    host = nemesis.host()
    host.drops = nemesis.dice.choice(("acquire", "release", "confirm", "fence", "fence", "wait"))
    nemesis.until(lambda: vars(host).update(drops=""), host=host)


def silence(nemesis: Nemesis) -> None:
    """A firewall forgets idle connections: their client hears no message any more, and commands work."""
    client = nemesis.client()
    for connection in client.messages.links if client else ():
        connection.mute(connection.back)


def cut_messages(nemesis: Nemesis) -> None:
    """Connections for messages end, of one client or of all: idle ones, or with a message on its way."""
    client, share = nemesis.client(), nemesis.dice.choice((0.4, 1.0))
    for each in nemesis.world.clients if nemesis.dice.random() < 0.3 else [client] if client else []:
        for connection in each.messages.links:
            if nemesis.dice.random() < share:
                connection.cut()


def half_open(nemesis: Nemesis) -> None:
    chosen = nemesis.dice.choice(("both", "there", "back"))
    for connection in nemesis.links():
        there, back = connection.there, connection.back
        connection.mute(*{"both": (there, back), "there": (there,), "back": (back,)}[chosen])


def hold_up(nemesis: Nemesis) -> None:
    """What is sent arrives when the way is open again: late, and perhaps after its sender has given up."""
    ways = nemesis.ways()
    for way in ways:
        way.shut()
    nemesis.until(lambda: [*map(Way.open, ways)])


def hold_commands(nemesis: Nemesis) -> None:
    """The commands of a client to some masters arrive late; messages and replies do not."""
    client = nemesis.client()
    if client is None:
        return
    for host, (there, _) in zip(nemesis.world.hosts, client.ways, strict=True):
        if nemesis.dice.random() < 0.6:
            there.shut()
            nemesis.until(there.open, host=host)
    if nemesis.dice.random() < 0.3:
        client.stop()
        nemesis.until(client.go_on)


def slow_down(nemesis: Nemesis) -> None:
    extra = nemesis.dice.uniform(0.0, 0.2)
    ways = nemesis.ways()
    for way in ways:
        way.extra = extra
    nemesis.later(nemesis.duration(), lambda: [vars(way).update(extra=0.0) for way in ways])


def stop_master(nemesis: Nemesis) -> None:
    host = nemesis.host()
    host.stop()
    nemesis.until(host.go_on, host=host)


def restart(nemesis: Nemesis) -> None:
    dice, hosts = nemesis.dice, [nemesis.host()]
    longest = {"races": 2.8, "leases": 1.8}.get(nemesis.mode, 0.4)
    down_s = dice.choice((0.0, dice.uniform(0.0, longest)))
    if nemesis.busy and dice.random() < 0.4:
        hosts = dice.sample(nemesis.world.hosts, len(nemesis.world.hosts) // 2 + 1)
    for host in hosts:
        host.restart(down_s, silent=dice.random() < 0.2)


def restart_after_a_grant(nemesis: Nemesis) -> None:
    """The vote is on its way, and forgotten."""
    if nemesis.mode == "leases":
        what, chance = nemesis.dice.choice(("rival", "threat")), nemesis.dice.choice((0.3, 0.6, 1.0))
        apart = nemesis.play.setup.habit == "apart"

        def die(_: Client | None, there: Host | None) -> None:
            # Before that no vote of this round can become a quorum.
            early = apart and nemesis.lease_rest() > 2 * longest_acquisition(nemesis.options.max_ttl)
            if there is not None and not early and nemesis.dice.random() < chance:
                nemesis.later(0.0, there.restart)  # behind its reply
            if apart or nemesis.dice.random() < 0.7:
                nemesis.play.behind("rival" if early else what, 1, die)

        nemesis.play.behind(what, 1, die)
        return
    host = nemesis.host()
    host.tripwire = True
    # Somebody may have it already, and be cut off from one that it needs.
    nemesis.later(0.0, lambda: hold_up(nemesis))


def restart_from_a_snapshot(nemesis: Nemesis) -> None:
    """It comes back with what it knew a moment ago: empty if its clock was set back, or locks would last."""
    host = nemesis.host()
    old, skew = host.snapshot(), host.skew
    nemesis.later(nemesis.duration() / 2, lambda: host.restart(snapshot=old if host.skew == skew else {}))


def restart_several(nemesis: Nemesis) -> None:
    """All at once, or one after another."""
    hosts = list(nemesis.world.hosts)
    nemesis.dice.shuffle(hosts)
    gap = nemesis.dice.choice((0.0, 0.0, nemesis.dice.uniform(0.0, 0.5)))
    for i, host in enumerate(hosts[: nemesis.dice.randint(1, len(hosts))]):
        nemesis.later(i * gap, host.restart)


def flush(nemesis: Nemesis) -> None:
    nemesis.host().flush()


def flush_several(nemesis: Nemesis) -> None:
    for host in nemesis.dice.sample(nemesis.world.hosts, nemesis.dice.randint(1, len(nemesis.world.hosts))):
        host.flush()


def lose_the_disk(nemesis: Nemesis) -> None:
    """A master comes back empty that says of itself that it loses nothing."""
    host = nemesis.host()
    host.durable = True
    host.restart(nemesis.dice.uniform(0.0, 0.4), snapshot={}, disk_lost=True)


def stop_client(nemesis: Nemesis) -> None:
    client = nemesis.client()
    if client is None or (nemesis.mode == "stops" and client.was_stopped):
        return
    client.was_stopped = True
    client.stop()
    nemesis.until(client.go_on, client=client)


def kill_client(nemesis: Nemesis) -> None:
    if (client := nemesis.client()) and client.options.ttl < 3600.0:  # otherwise its vote rests for a day
        client.kill()
        nemesis.later(nemesis.dice.uniform(0.0, REBIRTH_S), lambda: nemesis.play.newcomer(nemesis.dice))


def keep_from_running(nemesis: Nemesis) -> None:
    client, leases = nemesis.client(), nemesis.mode == "leases"
    if client is not None:
        often, mean = nemesis.dice.uniform(0.05, 0.5), nemesis.dice.choice((0.01, 0.1, 0.4))
        client.kept = (0.8 if leases else often, mean)
        nemesis.later(nemesis.duration(), lambda: vars(client).update(kept=(0.0, 0.0)))
        client.kept_only = nemesis.dice.choice(("", "watchdog", "/t")) if leases else ""


def stop_decided(nemesis: Nemesis) -> None:
    """A process is stopped where it has decided a round, with a slow master that has not answered yet."""
    client, host, dice = nemesis.client(), nemesis.host(), nemesis.dice
    if client is None:
        return
    there, seconds = client.ways[host.index][0], client.options.max_ttl * dice.choice((1.2, 1.4))

    def stop(actor: Client | None, _: Host | None) -> None:
        due = [each.call for link in client.commands.links if link.host is host for each in link.pending]
        told = [vote.time_us for call in due if call and call.settled for vote in call.votes.values()]
        if actor is not client or not any(told):
            nemesis.play.behind("kept", 1, stop)
        elif not nemesis.play.over:
            end()
            for process in (host, client):
                process.stop()
                nemesis.later(seconds + dice.choice((0.0, 0.01)), process.go_on)

    def end() -> None:
        client.kept, there.extra = (0.0, 0.0), far

    far, slow = there.extra, dice.choice((0.01, 0.05))
    client.kept, client.kept_only, there.extra = (1.0, 0.0001), "/t", max(far, slow)
    nemesis.play.behind("kept", 1, stop)
    nemesis.later(nemesis.duration(), end)


def interrupt(nemesis: Nemesis) -> None:
    client = nemesis.client()
    threads = [thread for thread in client.running if "/t" in thread.label] if client else []
    if client and threads and not client.stopped:
        nemesis.dice.choice(threads).interrupt(KeyboardInterrupt())


def let_go(nemesis: Nemesis) -> None:
    nemesis.play.tell_to_let_go()


def newcomer(nemesis: Nemesis) -> None:
    nemesis.play.newcomer(nemesis.dice)


def stopped_newcomer(nemesis: Nemesis) -> None:
    """A process is stopped while it connects."""
    newcomer(nemesis)
    client, delay = nemesis.world.clients[-1], nemesis.dice.choice((0.002, 0.02, 0.08))
    nemesis.later(delay * nemesis.dice.random(), client.stop)
    nemesis.later(delay + nemesis.dice.uniform(0.3, HELD_UP_S), client.go_on)


_ACTS: tuple[Callable[[Nemesis], None], ...] = (
    cut, cut_messages, lose_answers, lose_commands, half_open, silence, hold_up, hold_commands, slow_down,
    stop_master, restart, restart_after_a_grant, restart_from_a_snapshot, restart_several, flush,
    flush_several, lose_the_disk, stop_client, kill_client, close_client, die_asking, keep_from_running,
    stop_decided, interrupt, let_go, newcomer, stopped_newcomer, *FAILOVERS, *STRANGERS, *REPEATED,
)  # fmt: skip
#: A step of evidence/simulation/schedules.py is called as its function here.
ACTS = {act.__name__.replace("_", " "): act for act in _ACTS}
