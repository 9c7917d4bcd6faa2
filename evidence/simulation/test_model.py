"""The model of a master against real servers: the same commands, the same replies, keys and messages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing
from random import Random
from typing import Any

import pytest

from rlock.rules import commands, keys, scripts
from rlock.rules.command_templates import Command
from rlock.rules.handles import Handle
from rlock.rules.keys import OWN, REDISSON
from rlock.rules.tickets import Place
from rlock.testing.memory.keyspace import MOST, Entry
from rlock.testing.memory.masters import Master
from tests.servers import AnyMaster, raw

LOCKS = ("job", "{tagged}job")
OWNERS = tuple(f"{label}:{i}{0:031}" for label in "abc" for i in range(3))
#: Some of them are readers.
MIXED = (*OWNERS[:4], *(f"{label}+shared:{i}{0:031}" for label in "bc" for i in range(3)))
STATIONS = ("s1", "s2", "s3")
LIVES = ("life1", "life2")
#: No note, notes of a clock that was set back, and numbers that no client reads.
NOTES = ("1", *(f"life1{mark} {10**16 - 1} 7" for mark in ("", ":durable", "@5")), f"life1 5 {10**16}")
#: All that the scripts write.
KEYS = [
    *(key(name) for name in LOCKS for key in (str, keys.queue, keys.fence)),
    *dict.fromkeys(keys.evicted(name, owner) for name in LOCKS for owner in sorted({*OWNERS, *MIXED})),
    *(keys.readers(name) for name in LOCKS),
    keys.NOTE,
]
LEASE_MS, LONGER_MS = 60_000, 70_000
TICKET = 1_790_000_000_123_457
COMMANDS = 1_000
#: How far the expiries of the two may be apart; leases are too long for anything to expire in a sequence.
TOLERANCE_MS = 5_000


class Twins:
    """The same done to a real server and to the model; every difference is a failure."""

    def __init__(self, url: str) -> None:
        self.real: Any = raw(url)
        self.real.flushall()
        self.real.client_kill_filter(_type="pubsub")  # the server may not have noticed the last one's end
        self.pubsub = self.real.pubsub()
        self.now_us = self.time_us()
        self.model = Master(lambda: self.now_us)
        self.model.whole = False  # the real one was flushed
        self.listening: set[str] = set()
        self.toggle("mark")

    def close(self) -> None:
        self.pubsub.close()
        self.real.close()

    def time_us(self) -> int:
        seconds, micros = self.real.time()
        return int(seconds) * 1_000_000 + int(micros)

    def toggle(self, channel: str) -> None:
        verb = "unsubscribe" if channel in self.listening else "subscribe"
        self.listening ^= {channel}
        getattr(self.pubsub, verb)(channel)
        self.heard(verb, channel)
        # A command of the model tells what it publishes, so nobody has to hear it.
        getattr(self.model, verb)(channel, self)

    def heard(self, kind: str, channel: str) -> list[tuple[str, str]]:
        """The messages of the real server until an event comes."""
        messages: list[tuple[str, str]] = []
        while True:
            event = self.pubsub.get_message(timeout=5)
            assert event is not None, f"no {kind} of {channel}"
            if (event["type"], event["channel"]) == (kind, channel):
                return messages
            messages.append((event["channel"], event["data"]))

    def run(self, command: Command) -> Any:
        before = self.time_us()
        reply = self.real.execute_command(*command.by_source())
        self.real.publish("mark", "")  # it spares the wait for silence
        heard = self.heard("message", "mark")
        # A hand-off to a waiter that is dead tells its time by the fencing token only.
        tokens = [int((self.real.get(keys.fence(name)) or "0").split()[0]) for name in LOCKS]
        times = tokens + [int(grant.split(" ")[2]) for _, grant in heard if grant.count(" ") >= 3]
        self.now_us = told_time(command, reply, times, before)
        ours, published = self.model.run(command)
        shown = (command.script.name, command.by_sha()[3:])
        if len(reply) == 8:
            ours[7], reply[7] = sorted(ours[7][::2]), sorted(reply[7][::2])  # without their instants
        assert alike(text(ours), reply), f"{shown}: the model says {ours}, the server {reply}"
        messages = [(message.channel, message.payload) for message in published if message.receivers]
        assert messages == heard, shown
        for key in KEYS:
            assert alike(self.of_the_model(key), self.of_the_server(key)), (shown, key)
        return reply

    def of_the_model(self, key: str) -> Any:
        entry = self.model.look(key)
        if entry is None:
            return None
        values = {"hash": entry.fields, "zset": in_line(key, self.model.line(key)), "string": entry.text}
        return entry.kind, values[entry.kind], self.model.pttl(key)

    def of_the_server(self, key: str) -> Any:
        kind = self.real.type(key)
        if kind == "none":
            return None
        if kind == "zset":
            return kind, in_line(key, self.real.zrange(key, 0, -1, withscores=True)), self.real.pttl(key)
        return kind, self.real.hgetall(key) if kind == "hash" else self.real.get(key), self.real.pttl(key)

    def delete(self, key: str) -> None:
        self.real.delete(key)
        self.model.keys.pop(key, None)

    def put_stranger(self, key: str, kind: str) -> None:
        """Something that no lock wrote."""
        self.delete(key)
        fields = {"two fields": {"x": "1", OWNERS[0]: "1"}, "no number": {OWNERS[0]: "many"}}.get(kind)
        if fields is None:
            self.real.set(key, kind)
            self.model.keys[key] = Entry("string", text=kind)
        else:
            self.real.hset(key, mapping=fields)
            self.model.keys[key] = Entry("hash", fields)


def in_line(key: str, line: Sequence[tuple[str, float]]) -> list[tuple[str, int]]:
    """A queue in its order. The instants of readers differ by milliseconds."""
    entries = [(member, int(score)) for member, score in line]
    return sorted(entries) if key.endswith(":readers") else entries


def told_time(command: Command, reply: Any, told: list[int], before: int) -> int:
    """The server's time when it ran a script, if it gives it away; else that of a moment before."""
    if command.script is scripts.ACQUIRE:
        told += reply[5:7]
    elif command.script in (scripts.HANDSHAKE, scripts.WAIT, scripts.RELEASE):
        told.append(reply[4])
    return next((time_us for time_us in reversed(told) if before < time_us < before + 5_000_000), before)


def text(reply: Any) -> Any:
    if isinstance(reply, list):
        return [text(word) for word in reply]
    return reply.decode() if isinstance(reply, bytes) else reply


def alike(ours: Any, theirs: Any) -> bool:
    """Equal, but for what is left of a lease or a token: some milliseconds pass between the two."""
    if isinstance(ours, (list, tuple)) and isinstance(theirs, (list, tuple)):
        return len(ours) == len(theirs) and all(map(alike, ours, theirs))
    # Those are milliseconds; tickets, tokens and times of day, which have to be the same, are microseconds.
    if type(ours) is int and type(theirs) is int and 1_000 < ours < TICKET // 100:
        return abs(ours - theirs) <= TOLERANCE_MS
    return bool(ours == theirs)


def standing(name: str, token: str, client_id: str) -> Place:
    made = Place(name, "", client_id)
    made.owner, made.waiter = token, f"{token}|{client_id}"
    return made


def place(random: Random, name: str, owners: Sequence[str]) -> Place:
    made = standing(name, random.choice(owners), random.choice(STATIONS))
    # Equal tickets, tickets in the wrong order, and none.
    made.drawn = random.random() < 0.5
    made.ticket = random.choice((0, 0, TICKET, TICKET, TICKET + random.randrange(10), 2**53 - 2))
    return made


#: By script: all its codes.
CODES = {
    "acquire": {"1", "-1", "-2", "-3"}, "release": {"1", "0", "-1", "-2"}, "renew": {"1", "0", "-1"},
    "heal": {"2", "1", "-1"}, "fence": {"1", "0", "-1"}, "confirm": {"1", "0", "-1"},
    "transfer": {"1", "0", "-1", "-2"},
}  # fmt: skip
CODES_OF_READERS = ("acquire", "release", "renew", "heal", "fence")
KINDS = [
    *4 * ["acquire", "release"],
    *2 * ["heal", "fence"],
    *("wait", "renew", "keep", "handshake", "status", "confirm", "transfer"),
]


def any_command(random: Random, twins: Twins, owners: Sequence[str]) -> Command:
    model, name = twins.model, random.choice((LOCKS[0], LOCKS[0], LOCKS[1]))
    holder = next(iter(model.keys.get(name, Entry("")).fields), "")
    if holder == keys.READERS:
        holder = random.choice([reader for reader, _ in model.line(keys.readers(name))] or [""])
    owner = random.choice((*owners, holder, holder, holder)) or owners[0]
    where = place(random, name, owners)
    kind = random.choice(KINDS)
    if kind == "transfer" and (owners is MIXED or model.keys.get(name, Entry("hash")).kind != "hash"):
        kind = "status"
    # By the server's time; long ago; equal ones; ahead of all.
    token = random.choice((0, 0, 7, TICKET, TICKET, TICKET + random.randrange(3), MOST - 100))
    guarded, lease_ms = random.random() < 0.7, random.choice((LEASE_MS, LONGER_MS))
    given = model._last(keys.fence(name))[0]
    if kind == "acquire":
        # Often enough the place to which the lock was handed.
        if holder and random.random() < 0.3:
            where = standing(name, holder, random.choice(STATIONS))
        asked, fair = random.choice((None, where, where)), random.random() < 0.5
        return commands.acquire(name, owner, lease_ms, place=asked, fair=fair, token=token, guarded=guarded)
    if kind == "release":
        return any_release(random, name, owner, where, token, owners)
    if kind == "wait":
        places = [where, *(place(random, name, owners) for _ in range(random.randrange(3)))]
        for each in places:
            each.ticket = each.ticket or TICKET
        return commands.wait(*places)
    if kind in ("renew", "heal"):
        same = [each for each in (owner, *owners) if keys.is_shared(each) == keys.is_shared(owner)]
        leases = [(lock, random.choice(same), random.randrange(1, 4), token) for lock in LOCKS]
        make = commands.renew if kind == "renew" else commands.heal
        return make(lease_ms, leases[: random.randrange(1, 3)], guarded=guarded)
    if kind == "keep":
        return commands.keep(lease_ms, name, owner, random.choice(("", where.waiter)), guarded=guarded)
    if kind == "fence":
        return commands.fence(name, owner, random.choice((token or TICKET, min(given + 1, MOST - 100))))
    if kind == "confirm":
        return commands.confirm(name, owner, lease_ms, random.choice((given, given, token)), guarded=guarded)
    if kind == "transfer":
        handle = Handle(name, owner, token, token, random.randrange(1, 4), lease_ms, ())
        return commands.transfer(
            handle, owner, random.choice(owners), checked=random.random() < 0.5, guarded=True
        )
    if kind == "handshake":
        memory = random.choice(("volatile", "durable", "unused", "vouched", "unknown"))
        return commands.handshake(random.choice(("", *LIVES)), memory, model.text(keys.NOTE))
    listed = owners is MIXED and random.random() < 0.5
    return commands.status(name, random.choice((1, 2, 100)), guarded=guarded, list_readers=listed)


def any_release(
    random: Random, name: str, owner: str, where: Place, token: int, owners: Sequence[str]
) -> Command:
    wire = REDISSON if owners is OWNERS and random.random() < 0.1 else OWN
    waiter, hand_on = random.choice(("", where.waiter)), random.random() < 0.8
    if owners is MIXED and not keys.is_shared(owner) and random.random() < 0.2:
        return commands.downgrade(OWN, name, owner, waiter, owners[-1], LEASE_MS, token=token)
    return random.choice(
        (
            commands.free(wire, name, owner, waiter),
            commands.undo(wire, name, owner, waiter, hand_on=hand_on),
            commands.leave_queue(wire, name, where.waiter, hand_on=hand_on),
            commands.nudge(wire, name),
            commands.evict(wire, name, owner, 5_000.0),
        )
    )


@pytest.fixture
def twins(any_server: AnyMaster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Twins]:
    monkeypatch.setattr(commands, "_CLAIM_MS", str(LEASE_MS // 2))
    monkeypatch.setattr(commands, "_QUEUE_MS", str(LEASE_MS))
    monkeypatch.setattr(commands, "_FENCE_MS", str(LEASE_MS))
    templates = (commands._acquire, commands._release_template)
    for each in templates:
        each.cache_clear()  # with these durations
    with closing(Twins(any_server.url)) as twins:
        yield twins
    for each in templates:
        each.cache_clear()


@pytest.mark.parametrize(("seed", "owners"), [(0, OWNERS), (1, OWNERS), (2, MIXED), (5, MIXED), (6, MIXED)])
def test_the_same_commands_have_the_same_replies_keys_and_messages(
    twins: Twins, seed: int, owners: Sequence[str]
) -> None:
    random = Random(seed)
    channels = [wire.channel(name) for name in LOCKS for wire in (OWN, REDISSON)]
    channels += [OWN.client_channel(name, client_id) for name in LOCKS for client_id in STATIONS]
    codes: defaultdict[str, set[str]] = defaultdict(set)
    for _ in range(COMMANDS):
        chance = random.random()
        if chance < 0.08:
            twins.toggle(random.choice(channels))
        elif chance < 0.11:
            twins.put_stranger(random.choice(LOCKS), random.choice(("string", "two fields", "no number")))
        elif chance < 0.12:
            twins.put_stranger(keys.NOTE, random.choice(NOTES))
        elif chance < 0.20:
            twins.delete(random.choice((*LOCKS, *KEYS)))
        else:
            command = any_command(random, twins, owners)
            name, reply = command.script.name, twins.run(command)
            if name == "readers":
                name = command.by_sha()[3 + int(command.by_sha()[2]) + 2]
            told = reply[1] if name in ("renew", "heal", "confirm") else reply[:1]
            codes[name] |= {str(code) for code in told}
    codes["heal"].discard("0")
    expected = CODES if owners is OWNERS else {name: CODES[name] for name in CODES_OF_READERS}
    assert {name: codes[name] for name in expected} == expected
