"""A master's machine: its clock, its lives, and the server's ends of the connections to it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from rlock._client.connection import PendingCall
from rlock._client.handshake import ConnectOptions
from rlock.model import Code
from rlock.rules import commands, scripts
from rlock.rules.command_templates import Command
from rlock.rules.keys import NOTE, READERS, evicted, fence, readers
from rlock.rules.restart_guard import MemoryReport
from rlock.testing.memory.keyspace import Entry, Message
from rlock.testing.memory.masters import Master

from .events import Action, Process
from .traces import leases, taken_apart

if TYPE_CHECKING:
    from .client import Client
    from .connections import Connection
    from .world import World

#: The wall clock at the beginning, so that tickets are as large as they are in life.
EPOCH_US = 1_790_000_000_000_000
AGE_US = 86_400_000_000  # how long the masters have been up when the world begins


@dataclass(eq=False)
class Session:
    """The server's end of one connection, in one life of the server."""

    host: Host
    connection: Connection
    number: int
    life: str
    open: bool = True

    def receive(self, action: Action) -> None:
        self.host.receive(self, action)

    def hear(self, channel: str, payload: str) -> None:
        """What was published goes out to one who has subscribed."""
        if not (self.connection.client.older and " " in payload):
            self.shout(channel, payload.encode())

    def shout(self, channel: str, payload: bytes) -> None:
        """The same from a stranger, who may publish anything."""
        if self.connection.back.is_mute and b" " in payload:
            self.host.world.happens("unheard", self.connection.client, self.host, "")
        self.connection.answer([b"message", channel.encode(), payload])

    def close(self) -> None:
        self.open = False
        self.host.sessions.pop(self.number, None)
        for name in list(self.host.master.subscribers):
            self.host.master.unsubscribe(name, self)


class Host(Process):
    """One machine; its wall clock says EPOCH + skew + rate x the time of the world."""

    def __init__(self, world: World, index: int, skew: float, rate: float, *, letter: str = "") -> None:
        super().__init__(world.events)
        self.world = world
        self.index = index
        self.name = f"m{index}{letter}"
        self.skew, self.rate = skew, rate
        self.up = True
        self.tripwire = False  # it restarts when it has granted a lock the next time
        #: The next scripts get these replies and do not run: the server is no Redis for a while.
        self.nonsense: deque[Any] = deque()
        self.drops = ""  # connections end when this script comes, before it runs; and how often
        self.drops_share = 1.0
        self.durable = False  # it has `appendfsync always`: what it has answered outlives a restart
        self.restored: set[str] = set()  # owners whose locks came back from a snapshot
        #: Scripts that it has forgotten, by SCRIPT FLUSH; each new connection loads all.
        self.flushed_scripts: set[str] = set()
        #: Owners that it was told to release in this life, and since when it has had its present note, by the
        #: time of the world. A clock that is set makes a note worthless.
        self.told_to_release: set[str] = set()
        self.noted = ("", 0.0)
        self.clock_was_set = self.clock_ever_set = False  # since its note was written last; at any time
        #: The last hand-off to a waiter: when, the fencing token, and to whom.
        self.handed: tuple[float, int, Client | None] = (-9.0, 0, None)
        #: When it lost something of its memory the last time; when an operator said that it had not mattered.
        self.lost_at = self.restarted_at = self.vouched_at = -9.0
        self.looked_at: dict[str, float] = {}  # when a waiter last looked here, by lock
        self.sessions: dict[int, Session] = {}
        #: What has come while the server stood still, in the order of each connection.
        self._unread: dict[Session, deque[Action]] = {}
        self._serial = 0
        self._lives = 0
        self.master = Master(self.time_us)
        self._begin()
        self.master.started_us -= AGE_US
        # An operator's `rlock init`, long ago.
        self.master.write(NOTE, f"{self.term} 0 {self.world.max_ttl_ms}")

    def time_us(self) -> int:
        return EPOCH_US + round((self.events.now * self.rate + self.skew) * 1e6)

    def ticks(self) -> int:
        """The time of the world in whole milliseconds of this machine's clock."""
        return (self.time_us() - EPOCH_US - round(self.skew * 1e6)) // 1000

    def had_tokens(self, names: Sequence[str], ahead: float, dice: Random, *, share: float) -> None:
        """Its last fencing tokens are ahead of the clocks; or no token that others agree on reaches it."""
        if dice.random() < ahead:
            ahead_s = dice.choice((0.3, 30.0))
            for name in names:
                self.had_token(name, ahead_s)
        elif dice.random() < 0.5:
            self.drops, self.drops_share = "fence", share

    def had_token(self, name: str, ahead_s: float) -> None:
        token = max(self.time_us() + round(ahead_s * 1e6), self.master._last(fence(name))[0] + 1)
        self.master.write(fence(name), f"{token} somebody:else", "3600000")

    def init(self) -> None:
        self.vouched_at = self.events.now
        (_, note, *_), _ = self.master.run(commands.handshake(self.term, "vouched"))
        self.has_noted(note.decode())

    @property
    def term(self) -> str:
        """As its notes name it."""
        return self.life

    def _begin(self) -> None:
        self._lives += 1
        self.life = f"{self.name}-life{self._lives}"
        self.told_to_release.clear()
        self.master.started_us, self.master.whole = self.time_us(), True
        self.up = True

    def restart(
        self,
        down_s: float = 0.0,
        *,
        silent: bool = False,
        snapshot: dict[str, Entry] | None = None,
        disk_lost: bool = False,
    ) -> None:
        """The server ends and begins anew: without memory, or with that of a ``snapshot``.

        ``disk_lost``: a durable one, too. ``silent``: the machine ends; nobody says FIN.
        """
        self.up = False
        self.restarted_at = self.events.now
        self.life = ""
        self.stopped = False
        self._unread.clear()
        sessions, self.sessions = self.sessions, {}
        whole = self.durable and not disk_lost
        kept = self.snapshot() if whole else snapshot or {}
        if self.world.recorder is not None:
            self.world.recorder.restarts(self, kept, whole=whole)
        self.master.forget()
        self.master.keys.update(kept)
        if not whole:
            self.lost_at = self.events.now
        if not self.durable:
            self.restored |= {owner for entry in kept.values() for owner in (*entry.fields, *entry.scores)}
        for session in sessions.values():
            session.open = False
            if silent:
                session.connection.fall_silent()
            else:
                session.connection.end()
        self._lives += 1
        due = self._lives

        def begin() -> None:
            if self._lives == due:
                self._begin()
                self.world.happens("loss", None, self, "")

        self.events.after(down_s, begin)

    def snapshot(self) -> dict[str, Entry]:
        """What a restart may find on its disk later."""
        return {
            key: Entry(entry.kind, {**entry.fields}, {**entry.scores}, entry.expires_ms, entry.text)
            for key, entry in self.master.keys.items()
        }

    def flush(self) -> None:
        self.master.keys.clear()
        self.master.whole = False
        self.lost_at = self.events.now
        if self.world.recorder is not None:
            self.world.recorder.tell_all("flush", self)
        self.world.happens("loss", None, self, "")

    def load(self, session: Session, sha: str) -> None:
        self.flushed_scripts.discard(sha)
        session.connection.answer(sha.encode())

    def go_on(self) -> None:
        """As by SIGCONT. The server reads its connections in any order, each of them in its own."""
        self.stopped = False
        sessions = list(self._unread)
        self.world.dice(self.life, self.events.now).shuffle(sessions)
        for session in sessions:
            unread = self._unread.pop(session, deque())
            while unread:
                self.receive(session, unread.popleft())

    def open(self, connection: Connection) -> Session:
        """The kernel accepts, whether or not the server stands still."""
        self._serial += 1
        session = self.sessions[self._serial] = Session(self, connection, self._serial, self.life)
        return session

    def receive(self, session: Session, action: Action) -> None:
        """Bytes of a connection have come, also of one that its client has given up in the meantime."""
        if not session.open or session.life != self.life:
            session.connection.end()
        elif self.stopped:
            self._unread.setdefault(session, deque()).append(action)
        else:
            action()

    def kill_connection(self, number: int) -> None:
        old = self.sessions.get(number)
        if self.world.may_kill and old is not None:
            old.close()
            old.connection.end()

    def shake_hands(self, options: ConnectOptions) -> MemoryReport:
        """What a handshake finds; it ends earlier connections first, and loads all scripts."""
        self.flushed_scripts.clear()
        if options.subscriber:
            return MemoryReport()
        for life, number in options.kill:
            if life == self.life:
                self.kill_connection(number)
        if not options.guarded:
            return MemoryReport(self.life)
        memory = "durable" if self.durable else "volatile"
        (_, note, _, _, time_us), _ = self.master.run(commands.handshake(self.life, memory))
        self.has_noted(note.decode())
        if self.world.recorder is not None:
            self.world.recorder.shook_hands(self)
        return MemoryReport(self.life, memory, note.decode(), time_us)

    def execute(self, session: Session, command: Command, call: PendingCall | None = None) -> None:
        """Run a script now; its reply, and what it publishes, are on their way."""
        world, client = self.world, session.connection.client
        if self.nonsense:
            self.nonsense.rotate()
            session.connection.answer(self.nonsense[0])
            return
        rarely = self.drops_share < 1.0 and client.random.random() >= self.drops_share
        if command.script.name == self.drops and not rarely:
            session.connection.cut()
            return
        runs = self.master.run if world.recorder is None else partial(world.recorder.runs, self, client, call)
        keys, words = taken_apart(command)
        asking = words[-2:-1] + words[5:6] if command.script is scripts.ACQUIRE else []
        has = asking and self.left(keys[0]).keys() & {each.partition("|")[0] for each in asking}
        reply, messages = runs(command)
        if has and reply[0] != Code.YES:
            world.referee.accuse(keys[0], words[-2], self.name, "refuses one who has the lock")
        self.flushed_scripts.discard(command.script.sha)
        # With the key for a ban of this owner.
        if command.script is scripts.RELEASE and keys[5:6] == [evicted(keys[0], words[-1])]:
            # The field of all readers: the client that evicts it may not have seen the last reader.
            gone = self.master.line(readers(keys[0])) if words[-1] == READERS else [(words[-1], 0.0)]
            for owner, _ in gone:
                world.referee.evict(owner)
            world.happens("evict", client, self, words[-1])
        if world.history is not None:
            world.note(f"{client.label} {self.name} {command.script.name}", command, reply)
        for message in messages:
            # The scripts of an older version hand on the lock with the token of the place alone.
            payload = message.payload.partition(" ")[0] if client.older else message.payload
            for receiver in message.receivers:
                receiver.hear(message.channel, payload)
        self._tell(client, command, reply, messages)
        if command.script is scripts.WAIT and call:
            self.looked_at[command.words[1]] = world.events.now
        fuse = session.connection.fuse
        done = fuse in (command.script.name, "any") and reply[0] not in (0, -1, -3)
        if done or (fuse == "queued" and _queued(command, reply)):
            # The client does not hear of a grant; of a refusal it does not hear its place in the queue.
            session.connection.cut()
        session.connection.answer(reply)
        if self.tripwire and command.script is scripts.ACQUIRE and reply[0] == 1:
            self.tripwire = False
            self.restart()

    def has_noted(self, note: str) -> None:
        if self.clock_was_set or note.split(" ")[:2] != self.noted[0].split(" ")[:2]:
            self.noted = note, self.events.now
        self.clock_was_set = False

    def _tell(self, client: Client, command: Command, reply: Any, messages: Sequence[Message]) -> None:
        """Tell the world what has happened, for steps that wait for it, and those who watch."""
        world, words, script = self.world, command.changing, command.script
        if script is scripts.ACQUIRE and reply[0] == 1:
            owner = reply[1].decode()
            if owner in self.told_to_release and world.may_kill:
                world.referee.accuse(command.words[1], owner, self.name, "an acquire behind its release")
            world.happens("grant", client, self, owner)
        elif _queued(command, reply):
            world.happens("queued", client, self, "")
        elif script is scripts.RELEASE and words:
            self.told_to_release.add(words[-1])
            if reply[0] >= 0 and reply[3] > 0:  # its owner reads on
                world.happens("given", client, self, next(iter(self.left(command.words[1])), ""))
            handed = [message for message in messages if "|" in message.channel]
            if any(message.payload for message in handed):
                waiters: list[Any] = [each for message in handed for each in message.receivers]
                to = waiters[0].connection.client if waiters else None
                self.handed = (self.events.now, self.master._last(command.words[3])[0], to)
                world.happens("hand-off", to, self, "")
        elif script is scripts.RENEW or (script is scripts.READERS and "renew" in command.words):
            world.happens("renew", client, self, "")
            if Code.ABSENT in reply[1]:
                world.happens("absent", client, self, "")
        elif script in (scripts.HEAL, scripts.READERS):
            for (_, owner), code in zip(leases(command), reply[1], strict=True):
                if code == Code.HEALED:
                    world.happens("given", client, self, owner)
        elif script is scripts.HANDSHAKE:
            self.has_noted(reply[1].decode())

    def subscribe(self, session: Session, words: tuple[str, ...]) -> None:
        verb, *names = words
        for name in names:
            change = self.master.subscribe if verb == "SUBSCRIBE" else self.master.unsubscribe
            change(name, session)
            session.connection.answer([verb.lower().encode(), name.encode(), 1])

    def left(self, name: str) -> dict[str, str]:
        """The fields of a lock, with its readers in the place of the one field that stands for all."""
        entry = self.master.look(name)
        if entry is None or READERS not in entry.fields:
            return {} if entry is None else dict(entry.fields)
        now_ms = self.master.time_us() // 1000
        return {owner: "1" for owner, at in self.master.line(readers(name)) if at >= now_ms}


def _queued(command: Command, reply: Any) -> bool:
    """Whether an acquire was refused with a place in the queue."""
    return command.script is scripts.ACQUIRE and reply[0] in (-1, -3) and reply[4] != 0
