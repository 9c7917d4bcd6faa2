"""Operators, other programs and clients of other fleets, in a schedule: what each kind of step does."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from rlock.errors import OptionsError
from rlock.rules import commands, scripts
from rlock.rules.keys import NOTE, OWN
from rlock.rules.options import ClientOptions

from .repeated import behind_each
from .schedules import CARELESS

if TYPE_CHECKING:
    from .client import Client
    from .faults import Nemesis
    from .hosts import Host

#: Messages of a stranger on the channels of a lock.
RUBBISH = (b"\xff\xfe", b"", b"0", b"x" * 100_000, b"a:b c d", b"\xff 9 9 9", b"a:b 1 99999999999999999999 x")
#: Replies that no script gives.
NONSENSE: tuple[Any, ...] = (None, 7, b"OK", [], [b"x"], [1], [1, None, 0, 0, 0], [99] * 9)


def nonsense(nemesis: Nemesis) -> None:
    """Another program answers at the address of a master."""
    host = nemesis.host()
    host.nonsense.extend(nemesis.dice.sample(NONSENSE, len(NONSENSE)))
    nemesis.until(host.nonsense.clear)


def evict(nemesis: Nemesis) -> None:
    client = nemesis.client()
    if nemesis.mode == "leases":  # an operator, whom nothing holds up
        client = nemesis.world.client(nemesis.options)
    if client is not None and not client.careless:  # its ban would be as long as its lease
        client.begin(client.evict(nemesis.lock))


def look(nemesis: Nemesis) -> None:
    """Ask who has the lock; a client that only looks learns of a flush by that."""
    if client := nemesis.client():
        client.begin(client.curious(nemesis.lock))


def init(nemesis: Nemesis) -> None:
    """An operator runs `rlock init` when it does no harm: nobody has a lock, or asks for one."""
    clients = nemesis.world.clients
    busy = any(client.under_way.acquiring or len(client.holds) for client in clients if not client.dead)
    if not busy and not any(host.left(name) for host in nemesis.world.servers for name in nemesis.play.locks):
        for host in nemesis.world.hosts:
            if host.up and not host.stopped:
                host.init()


def flush_scripts(nemesis: Nemesis) -> None:
    for host in nemesis.world.hosts:
        host.flushed_scripts = {script.sha for script in scripts.ALL}


def late_answers(nemesis: Nemesis, client: Client, host: Host, span: float) -> None:
    back, late = client.ways[host.index][1], nemesis.dice.uniform(0.0, span)
    nemesis.later(0.0, lambda: setattr(back, "extra", late))
    nemesis.later(span, lambda: setattr(back, "extra", 0.0))


def late_scripts(nemesis: Nemesis) -> None:
    """A master that refuses loses the script of places, and answers late. A close costs all scripts."""
    span = nemesis.dice.choice((0.05, 0.2, 0.4))

    def lose(client: Client | None, host: Host | None) -> None:
        if client is not None and host is not None:
            host.flushed_scripts = {scripts.WAIT.sha}
            late_answers(nemesis, client, host, span)

    behind_each(nemesis, "queued", nemesis.dice.choice((0.3, 1.0)), lose)
    behind_each(nemesis, "closing", 1.0, lambda *_: flush_scripts(nemesis))


def lost_scripts(nemesis: Nemesis) -> None:
    """A master has lost the script with which a key is to be put back, and answers late."""
    dice, span = nemesis.dice, nemesis.dice.choice((0.1, 0.3))

    def lose(client: Client | None, host: Host | None) -> None:
        if client is not None and host is not None:
            host.flushed_scripts = {dice.choice((scripts.HEAL, scripts.READERS)).sha}
            late_answers(nemesis, client, host, span)

    behind_each(nemesis, "absent", dice.choice((0.5, 1.0)), lose)


def stranger(nemesis: Nemesis) -> None:
    """Somebody else publishes on the channels of a lock."""
    for host in nemesis.world.hosts:
        for channel, listening in list(host.master.subscribers.items()):
            if channel.startswith(OWN.channel(nemesis.lock)) and nemesis.dice.random() < 0.8:
                for session in list(listening):
                    session.shout(channel, nemesis.dice.choice(RUBBISH))  # type: ignore[attr-defined]


def mirror(nemesis: Nemesis) -> None:
    """A relay repeats the tokens of those who have the lock on the channels of the waiters."""
    for host in nemesis.world.hosts:
        for channel, listening in list(host.master.subscribers.items()):
            if channel.startswith(f"{OWN.channel(nemesis.lock)}|"):
                for session, owner in itertools.product(list(listening), host.left(nemesis.lock)):
                    session.shout(channel, owner.encode())  # type: ignore[attr-defined]


def set_a_clock_back(nemesis: Nemesis) -> None:
    """Never while its keys are locks: they would last longer."""
    host, seconds = nemesis.host(), nemesis.dice.choice((0.3, 2.0, 20.0, 1e5))
    if not any(key != NOTE and not key.endswith(":fence") for key in host.master.keys):
        host.skew -= seconds
        host.world.skew += seconds
        host.clock_was_set = host.clock_ever_set = True


def careless(nemesis: Nemesis) -> None:
    """A client that wants a longer lease than all others tries once, and is gone.

    In the mode "guard" it may not reach the master that was the last to forget.
    """
    dice, guard = nemesis.dice, nemesis.mode == "guard"
    ttl, without = dice.choice(CARELESS), None
    if guard:  # all restart guards have to end in the time of the schedule
        ttl, forgetful = CARELESS[0], max(nemesis.world.hosts, key=lambda host: host.lost_at)
        without = dice.choice((None, forgetful))
    try:
        options = ClientOptions(ttl=ttl, max_ttl=ttl, request_timeout=0.3)
    except OptionsError:
        options = ClientOptions(ttl=CARELESS[0], max_ttl=CARELESS[0], request_timeout=0.3)
    client = nemesis.world.client(options, joined=dice.random() < 0.5)
    client.careless = True
    if without is not None:
        client.ways[without.index][0].shut()
    client.begin(client.trying_once(nemesis.lock, dice.choice((0.3, 1.0) if guard else (0.0, 0.3))))


def regroup(nemesis: Nemesis) -> None:  # a client names replicas of masters that others use without
    for host in nemesis.world.hosts:
        in_use = "+" not in host.term and not host.master.text(NOTE).endswith(" 0")
        if host.up and not host.stopped and in_use:
            host.master.run(commands.handshake(f"{host.life}+{40 * '0'}", "volatile"))


STRANGERS = (
    nonsense, evict, init, look, flush_scripts, late_scripts, lost_scripts, stranger, mirror,
    set_a_clock_back, careless, regroup,
)  # fmt: skip
