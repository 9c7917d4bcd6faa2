"""Faults that come again and again: behind each event of a kind, or behind most of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from rlock.rules import commands
from rlock.rules.keys import owner_of_waiter, queue
from rlock.rules.tickets import Place

from .referee import valid_for

if TYPE_CHECKING:
    from .client import Client
    from .faults import Nemesis
    from .hosts import Host

REBIRTH_S = 0.5  # when a process that was killed has begun anew, at the latest


def behind_each(
    nemesis: Nemesis, what: str, chance: float, action: Callable[[Client | None, Host | None], object]
) -> None:
    def again(client: Client | None, there: Host | None) -> None:
        if not nemesis.play.over:
            nemesis.play.behind(what, 1, again)
            if nemesis.dice.random() < chance:
                action(client, there)

    nemesis.play.behind(what, 1, again)


def shut_out(nemesis: Nemesis, client: Client, host: Host) -> None:
    """What a client sends to a master arrives late; its connection may end as well."""
    client.ways[host.index][0].shut()
    connection = client.commands.servers[host.index].connection
    resets = nemesis.play.setup.resets
    if connection is not None and resets and nemesis.dice.random() < resets:
        connection.cut()


def delay(nemesis: Nemesis, share: float, spans: Sequence[float], client: Client | None, _: object) -> None:
    for way in [there for there, _ in client.ways] if client else []:
        if not way.is_shut and nemesis.dice.random() < share:
            way.shut()
            nemesis.later(nemesis.dice.uniform(*spans), way.open)


def late_commands(nemesis: Nemesis) -> None:
    """Behind each event of a kind the commands of its client reach some masters late."""
    dice = nemesis.dice
    what = dice.choice(("release", "release", "hand-off", "hand-off", "claim", "queued"))
    share = dice.choice((0.35, 0.6, 1.0))
    spans = dice.choice(((0.05, 0.4), (0.3, 0.95), (0.9, 1.6), (1.2, 2.2)))
    behind_each(nemesis, what, dice.choice((0.3, 0.7, 1.0)), partial(delay, nemesis, share, spans))


def late_transfers(nemesis: Nemesis) -> None:
    """Behind each detach the connections end, and what was sent reaches the masters a good while later."""

    def break_off(client: Client | None, _: Host | None) -> None:
        delay(nemesis, 1.0, (0.5, 2.0), client, None)
        for connection in client.commands.links if client else ():
            nemesis.later(nemesis.dice.uniform(0.01, 0.2), connection._end)

    behind_each(nemesis, "detach", nemesis.dice.choice((0.3, 0.7)), break_off)


def stop_reading(nemesis: Nemesis) -> None:
    """Behind a claim the confirmation is late, and the process is stopped right behind its reading."""

    def claimed(client: Client | None, _: Host | None) -> None:
        if client is None:
            return
        genuine, seconds = client.calls.read_arrived, nemesis.dice.uniform(1.5, 3.0)

        def read_arrived() -> None:
            genuine()
            vars(client.calls).update(read_arrived=genuine)
            if not nemesis.play.over:
                client.stop()
                nemesis.later(seconds + 0.0001, client.go_on)
                client.pause(seconds, first=True)

        vars(client.calls).update(read_arrived=read_arrived)
        delay(nemesis, 1.0, (0.5, 3.0), client, None)

    behind_each(nemesis, "claim", 0.3, claimed)


def overtaken(nemesis: Nemesis) -> None:
    """Behind each event of a kind some commands of a client are late until another one has had the lock.

    One that is handed the lock meanwhile is stopped until then: at once, or when it has claimed the lock.
    """
    play, dice = nemesis.play, nemesis.dice
    late: set[Client] = set()
    what = dice.choice(("release", "release", "hand-off", "leave"))
    share, chance = dice.choice((0.35, 0.6)), dice.choice((0.4, 0.8))

    def until_overtaken(client: Client, actions: list[Callable[[], object]]) -> None:
        def end() -> None:
            if client in late:
                late.discard(client)
                delay = 0.0
                for action in actions:
                    delay += dice.choice((0.001, 0.002, 0.01, 0.05))
                    nemesis.later(delay, action)

        def at_leave(other: Client | None, _: Host | None) -> None:
            if other is not client:
                end()
            elif client in late:
                play.behind("leave", 1, at_leave)

        play.behind("leave", 1, at_leave)
        nemesis.later(dice.uniform(1.5, 2.8), end)

    def leave_behind(client: Client | None, _: Host | None) -> None:
        if what == "leave":  # one that will ask
            idle = [each for each in nemesis.world.clients if not each.under_way.acquiring]
            client = dice.choice(idle) if idle else None
        if client is None or client.dead or client in late:
            return
        late.add(client)
        ways = [there for there, _ in client.ways if dice.random() < share]
        dice.shuffle(ways)
        for way in ways:
            way.shut()
        stopped: list[Client] = []

        def stop(waiter: Client | None, _: Host | None) -> None:
            if waiter is not None and client in late and not stopped and not play.over:
                stopped.append(waiter)
                waiter.stop()

        def go_on() -> None:
            for waiter in stopped:
                waiter.go_on()

        until_overtaken(client, [*(way.open for way in ways), go_on])
        if what == "hand-off" and dice.random() < 0.3:
            stop(client, None)
        elif what != "leave":
            play.behind("hand-off" if what == "release" else "claim", 1, stop)

    behind_each(nemesis, what, chance, leave_behind)


def late_looks(nemesis: Nemesis) -> None:
    """A look that was held up puts a place back that its client has left, often as it stops listening."""
    dice, key = nemesis.dice, queue(nemesis.lock)

    def look(client: Client, host: Host, place: Place) -> None:
        wanted = place.owner in nemesis.play.oracles.wanted(client)
        if not (wanted or client.dead or client.holds.closed):
            host.master.run(commands.wait(place))

    def later(client: Client | None, host: Host | None) -> None:
        for waiter, ticket in host.master.line(key) if host else ():
            if client and host and waiter.startswith(client.label):
                place = Place(nemesis.lock, owner_of_waiter(waiter), client.context.client_id, int(ticket))
                nemesis.later(dice.uniform(0.5, 0.9), partial(look, client, host, place))

    behind_each(nemesis, "queued", 0.9, later)


def stray_tokens(nemesis: Nemesis) -> None:
    """Behind each release an acquire that was undone leaves a high fencing token on a master, or on some.

    No token that owners agree on reaches one of the masters.
    """
    dice, share = nemesis.dice, nemesis.dice.choice((0.2, 0.5))
    # Soon the clocks are above it again; behind one that is far ahead each master counts up its own.
    ahead_s = dice.choice((0.03, 0.1, 0.3, 30.0))
    if dice.random() < 0.9:
        dice.choice(nemesis.world.hosts).drops = "fence"

    def leave_one(*_: object) -> None:
        for host in nemesis.world.hosts:
            if not host.left(nemesis.lock) and dice.random() < share:
                host.had_token(nemesis.lock, ahead_s)

    behind_each(nemesis, dice.choice(("leave", "enter")), dice.choice((0.3, 0.7)), leave_one)


def uneven(nemesis: Nemesis) -> None:
    """Behind each release or grant the ways of all clients to all masters change."""
    dice = nemesis.dice
    brief = (0.0, 0.0, 0.03, 0.1)  # one may enter and leave while a vote for another one is on its way
    extras = dice.choice((brief, brief, (0.0, 0.0, 0.02, 0.1, 0.3, 1.1)))

    def change(*_: object) -> None:
        for there in [there for client in nemesis.world.clients for there, _ in client.ways]:
            there.extra = dice.choice(extras)

    behind_each(nemesis, dice.choice(("leave", "enter", "enter")), dice.choice((0.5, 1.0)), change)


def one_fewer(nemesis: Nemesis) -> None:
    """Each client does not reach one master; when it has left a lock, another one.

    It reaches it again when the master has lost its memory, or after a while.
    """
    play, dice = nemesis.play, nemesis.dice
    chance = dice.choice((0.4, 0.8))

    def shut(client: Client | None, _: Host | None = None) -> None:
        if client is None:
            return
        host = dice.choice(nemesis.world.hosts)
        way, opened = client.ways[host.index][0], list[bool]()
        shut_out(nemesis, client, host)

        def open_it() -> None:
            if not opened:
                opened.append(True)
                way.open()

        def at_loss(_: Client | None, there: Host | None) -> None:
            if there is host:
                nemesis.later(dice.choice((0.001, 0.01, 0.05)), open_it)
            elif not opened:
                play.behind("loss", 1, at_loss)

        play.behind("loss", 1, at_loss)
        nemesis.later(dice.uniform(1.0, 2.5), open_it)

    for client in nemesis.world.clients:
        if dice.random() < chance:
            shut(client)
    behind_each(nemesis, "leave", chance, shut)


def out_of_reach(nemesis: Nemesis) -> None:
    """Until its lease ends, one master of each grant is out of reach for some clients, and for new ones."""
    dice, options, setup = nemesis.dice, nemesis.options, nemesis.play.setup

    def until_its_end(client: Client, host: Host) -> None:
        way = client.ways[host.index][0]
        shut_out(nemesis, client, host)
        nemesis.behind_lease(host, dice.choice((0.001, 0.003, 0.01)), way.open)

    def ask(host: Host) -> None:
        one = nemesis.world.client(options)
        reached = [each for each in nemesis.world.hosts if each is not host]
        # Behind fewer answers than of a quorum a round is sent again.
        if setup.resent and dice.random() < setup.resent:
            reached = [each for each in reached if not each.left(nemesis.lock)]
        elif dice.random() < 0.5:
            reached.remove(dice.choice(reached))
        for each in nemesis.world.hosts:
            if each not in reached:
                until_its_end(one, each)
        one.begin(one.trying_once(nemesis.lock))

    def shut(client: Client | None, there: Host | None) -> None:
        taken = [host for host in nemesis.world.hosts if host.left(nemesis.lock)]
        if client is None or not taken:
            return
        host = dice.choice(taken)
        for each in nemesis.world.clients:
            if each is client or dice.random() < 0.6:
                until_its_end(each, host)
        for _ in range(dice.choice((1, 1, 2) if setup.resets else (0, 1, 1, 2))):
            nemesis.later(options.ttl * dice.uniform(0.3, 0.7 if setup.resent else 0.97), partial(ask, host))

    behind_each(nemesis, "enter", 0.9, shut)


def onlookers(nemesis: Nemesis) -> None:
    """Shortly before a lease ends on a master a client asks who has the lock. It answers behind the end."""
    dice, timeout = nemesis.dice, nemesis.options.lease(None).request_timeout

    def ask(host: Host) -> None:
        one = nemesis.world.client(nemesis.options)
        way = one.ways[host.index][0]
        way.shut()
        nemesis.behind_lease(host, dice.choice((0.001, 0.003, 0.01)), way.open)
        one.begin(one.curious(nemesis.lock))

    def watch(*_: object) -> None:
        for host in nemesis.world.hosts:
            nemesis.behind_lease(host, -timeout * dice.uniform(0.1, 0.97), partial(ask, host))

    behind_each(nemesis, "enter", 0.9, watch)


def broken_off(nemesis: Nemesis) -> None:
    """Behind each grant beside a valid lease connections of its client end, and it asks again."""
    timeout = nemesis.options.lease(None).request_timeout

    def cut(client: Client | None) -> None:
        for connection in client.commands.links if client else ():
            if connection.pending:
                connection.cut()

    def later(client: Client | None, _: Host | None) -> None:
        nemesis.later(timeout * nemesis.dice.uniform(0.15, 0.97), lambda: cut(client))

    behind_each(nemesis, "rival", 0.7, later)


def evictions(nemesis: Nemesis) -> None:
    """An operator evicts those that were handed the lock, whose commands may be late."""
    operator, dice = nemesis.world.client(nemesis.options), nemesis.dice
    what, share = dice.choice(("claim", "hand-off")), dice.choice((0.0, 0.7, 1.0))

    def evict(client: Client | None, host: Host | None) -> None:
        delay(nemesis, share, (0.1, 0.9), client, host)
        nemesis.later(dice.uniform(0.0, 0.3), lambda: operator.begin(operator.evict(nemesis.lock)))

    behind_each(nemesis, what, dice.choice((0.3, 0.7)), evict)


def close_client(nemesis: Nemesis) -> None:
    """Often no other thread of the client runs until it is closed, as if a signal handler closed it."""
    play = nemesis.play
    client = nemesis.actor or nemesis.client()
    closing = {closer.client for closer in play.closers}
    if client in {thread.client for thread in play.threads} - closing and not client.holds.closed:
        if nemesis.dice.random() < 0.5:
            client.kept, client.kept_only = (0.9, 0.1), "/t"
        nemesis.world.happens("closing", client, None, "")
        play.closers.append(client.begin(client.closing(), "closer"))
        nemesis.later(nemesis.dice.uniform(0.0, REBIRTH_S), lambda: play.newcomer(nemesis.dice))


def close_slowly(nemesis: Nemesis) -> None:
    """A client with a place is closed in a round that it may lose, or behind a loss; masters are late."""
    dice, world, lock = nemesis.dice, nemesis.world, nemesis.lock
    chance = dice.choice((0.1, 0.3, 0.7))

    def close(client: Client | None, there: Host | None) -> None:
        lost = [each for each in world.clients if any(valid_for(each, hold) <= 0.0 for hold in each.holds)]
        client = dice.choice(lost) if lost and dice.random() < 0.5 else client
        others = [host for host in world.hosts if host is not there and host.left(lock)]
        places = [place for host in others for place, _ in host.master.line(queue(lock))]
        if client is None or not any(place.startswith(client.label) for place in places):
            return
        if dice.random() < chance:
            for _, back in client.ways:
                back.extra = dice.choice((0.0, 0.0, 0.01, dice.uniform(0.0, 0.4)))
            close_client(replace(nemesis, actor=client))

    behind_each(nemesis, "grant", 1.0, close)


def die_asking(nemesis: Nemesis) -> None:
    """A process asks a minority of the masters for the lock, and is killed before it hears of their votes."""
    client = nemesis.world.client(nemesis.options)
    for there, _ in nemesis.dice.sample(client.ways, len(client.ways) // 2 + 1):
        there.shut()
    client.begin(client.trying_once(nemesis.lock))
    nemesis.later(0.01, client.kill)


def leave_early(nemesis: Nemesis) -> None:
    """A process has the lock, and gives it back long before the end of its lease."""
    dice, client = nemesis.dice, nemesis.world.client(nemesis.options)
    waits_s, held_s = dice.choice((0.0, 1.0)), dice.uniform(0.05, 0.6)
    shared = nemesis.play.setup.readers > dice.random()
    client.begin(client.trying_once(nemesis.lock, waits_s, held_s, shared=shared))


def late_healers(nemesis: Nemesis) -> None:
    """Behind each release a process dies with the votes of a minority, which the next owners lack.

    Behind the answer that an owner's key is absent its commands to that master are late.
    """
    dice = nemesis.dice
    spans = dice.choice(((0.01, 0.1), (0.05, 0.4), (0.3, 0.95)))

    def hold_up(client: Client | None, there: Host | None) -> None:
        way = client.ways[there.index][0] if client is not None and there is not None else None
        if way is not None and not way.is_shut:
            way.shut()
            nemesis.later(dice.uniform(*spans), way.open)

    behind_each(nemesis, "leave", dice.choice((0.5, 1.0)), lambda *_: die_asking(nemesis))
    behind_each(nemesis, "absent", dice.choice((0.5, 1.0)), hold_up)


REPEATED = (
    late_commands, late_looks, late_transfers, overtaken, stray_tokens, uneven, evictions, late_healers,
    one_fewer, out_of_reach, onlookers, broken_off, close_slowly, leave_early, stop_reading,
)  # fmt: skip
