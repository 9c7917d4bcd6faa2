"""Replicated groups: a primary and its replicas, each with its memory, and the server that Sentinel names.

A replica copies the memory of the server that it follows, a little later. Nobody tells the others of a
promotion: the old primary goes on, with the clients and replicas that it still has, until somebody does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from rlock._client.connection import PendingCall
from rlock._client.handshake import ConnectOptions, handshake
from rlock._sync.runtime import run
from rlock.procedures.port import WaitGenerator
from rlock.rules import scripts
from rlock.rules.command_templates import Command
from rlock.rules.restart_guard import MemoryReport

from .events import Action, Way, Wire
from .hosts import Host, Session

if TYPE_CHECKING:
    from .world import World

REDIAL_S = 0.05  # a replica without its primary tries to connect to it again after this time
READONLY = RuntimeError("READONLY You can't write against a read only replica.")


class Link:
    """A replica's connection to the server that it follows. The whole memory goes over it with each write."""

    def __init__(self, primary: Server, replica: Server) -> None:
        self.primary, self.replica = primary, replica
        world, dice = primary.world, primary.world.dice(replica.name, primary.written)
        latency = world.replication
        self._there, self._back = (Wire(world.events, dice, latency, replica.stream) for _ in range(2))
        #: The last write that the primary knows to be there; -1: the first copy is on its way.
        self.acknowledged = -1
        primary.links.append(self)
        self.send()

    def send(self) -> None:
        arrive = partial(self._arrive, self.primary.written, self.primary.snapshot())
        self._there.send(lambda: self.replica.do(arrive))

    def _arrive(self, number: int, memory: dict[str, Any]) -> None:
        if self.replica.link is self:
            self.replica.master.keys = memory
            self.replica.ship()
            self._back.send(lambda: self.primary.do(lambda: self._acknowledge(number)))

    def _acknowledge(self, number: int) -> None:
        self.acknowledged = number
        self.primary.look_at_waits()

    def close(self, *, silent: bool) -> None:
        """The replica has gone. ``silent``: the primary does not hear of it, and goes on counting it."""
        self._there.is_cut = True
        if not silent:
            self._back.send(lambda: self.primary.do(lambda: self.primary.forget(self)))

    def cut(self) -> None:
        """The primary has ended."""
        for wire in (self._there, self._back):
            wire.is_cut = True
        if self.replica.link is self:
            self.replica.link = None
            self.replica.after(REDIAL_S, self.replica.dial)


class Wait(NamedTuple):
    """A WAIT without its reply, and what has come behind it on the same connection."""

    needed: int
    number: int
    behind: deque[Action]


class Server(Host):
    """One server of a group."""

    def __init__(self, world: World, index: int, letter: str, *clock: float) -> None:
        #: The replicas that follow this server, as far as it knows; and its link, if it follows another one.
        self.links: list[Link] = []
        self.link: Link | None = None
        self.follows: Server | None = None
        self.stream = Way()  # between it, as a replica, and the server that it follows
        self.written = 0
        self._last_writes: dict[Session, int] = {}
        self._waits: dict[Session, Wait] = {}
        self._terms = 0
        super().__init__(world, index, *clock, letter=letter)

    @property
    def replication_id(self) -> str:
        return f"{self.name}-term{self._terms}"

    @property
    def term(self) -> str:
        return f"{self.life}+{self.replication_id}"

    def _begin(self) -> None:
        super()._begin()
        self._terms += 1
        self.master.whole = self.follows is None
        self.dial()

    def ship(self) -> None:
        self.written += 1
        for link in self.links:
            link.send()

    def forget(self, link: Link) -> None:
        if link in self.links:
            self.links.remove(link)

    def dial(self) -> None:
        """Connect to the server that it follows, now or when that one runs again."""
        to = self.follows
        if to is not None and self.link is None and self.up:
            if to.up and not to.stopped:
                self.link = Link(to, self)
            else:
                self.after(REDIAL_S, self.dial)

    def _leave(self, *, silent: bool = False) -> None:
        if self.link is not None:
            self.link.close(silent=silent)
            self.link = None

    def lead(self, *, silent: bool) -> None:
        """As by REPLICAOF NO ONE."""
        self._leave(silent=silent)
        self.follows = None
        self._terms += 1
        # It may lack the releases of these.
        self.restored |= {
            owner for entry in self.master.keys.values() for owner in (*entry.fields, *entry.scores)
        }

    def follow(self, to: Server, *, kill: bool = True) -> None:
        """As by REPLICAOF. ``kill``: connections end, too, as Sentinel has it."""
        self._leave()
        self.follows, self.master.whole = to, False
        for session in list(self.sessions.values() if kill else self._waits):
            session.close()
            session.connection.end()
        self._waits.clear()
        self.dial()

    def restart(self, down_s: float = 0.0, *, silent: bool = False, **memory: Any) -> None:
        for link in self.links:
            link.cut()
        self.links.clear()
        self._leave(silent=silent)
        self._waits.clear()
        self._backlog.clear()
        super().restart(down_s, silent=silent, **memory)

    def flush(self) -> None:
        super().flush()
        self.ship()

    def go_on(self) -> None:
        super().go_on()
        self.resume()

    def receive(self, session: Session, action: Action) -> None:
        if session in self._waits and session.open:
            self._waits[session].behind.append(action)
        else:
            super().receive(session, action)

    def execute(self, session: Session, command: Command, call: PendingCall | None = None) -> None:
        script = command.script
        if script is scripts.ACKNOWLEDGE:
            _, needed, timeout_ms = command.words
            wait = self._waits[session] = Wait(int(needed), self._last_writes.get(session, 0), deque())
            self.after(int(timeout_ms) / 1000, lambda: self.look_at_waits(wait))
            self.look_at_waits()
        elif script is scripts.REPLICATION:
            session.connection.answer(self._info())
        elif script is scripts.MARK:
            self._ship_of(session)
            session.connection.answer(0)
        elif self.follows is not None and script is not scripts.STATUS:
            session.connection.answer(READONLY)
        else:
            super().execute(session, command, call)
            if script is scripts.FENCE:
                self.ship()  # the second delivery writes nothing
            elif script is not scripts.STATUS:
                self._ship_of(session)

    def _ship_of(self, session: Session) -> None:
        self.ship()
        self._last_writes[session] = self.written

    def look_at_waits(self, late: Wait | None = None) -> None:
        for session, wait in list(self._waits.items()):
            found = sum(link.acknowledged >= wait.number for link in self.links)
            if self._waits.get(session) is wait and (found >= wait.needed or wait is late):
                del self._waits[session]
                client = session.connection.client.label
                self.world.tell(f"{client} {self.name} WAIT {wait.needed} -> {found}")
                session.connection.answer(found)
                while wait.behind:
                    self.receive(session, wait.behind.popleft())

    def _info(self) -> bytes:
        role = "master" if self.follows is None else "slave"
        lines = [f"role:{role}", f"master_replid:{self.replication_id}"]
        for number, link in enumerate(self.links):
            state = "online" if link.acknowledged >= 0 else "wait_bgsave"
            lines.append(f"slave{number}:ip={link.replica.name},port=6379,state={state}")
        return "\r\n".join(lines).encode()

    def shake_hands(self, options: ConnectOptions) -> MemoryReport:
        """What the client's own handshake finds, all at one instant. Raises `ConnectError`."""
        options = options._replace(replicas=self.world.groups[self.index].configured)
        return run(handshake(self.name, options, self._exchange)).memory_report

    def _exchange(self, asked: Sequence[tuple[str, ...]]) -> WaitGenerator[list[Any]]:
        yield from ()
        return [self._told(*words) for words in asked]

    def _told(self, verb: str, *words: str) -> Any:
        if (verb, words[0]) == ("CLIENT", "KILL"):
            self.kill_connection(int(words[2]))
        elif verb == "EVAL":
            reply, _ = self.master.call("handshake", words[2:3], words[3:])
            self.ship()
            return reply
        return {"server": f"run_id:{self.life}".encode(), "replication": self._info()}.get(words[0], b"")


class Group:
    """``configured``: how many replicas the clients are told that it has.

    ``spare``: it has another one, which follows a replica until somebody makes it follow the primary. That is
    one more than the clients were told of. Nothing is promised if it then follows an old primary alone.
    """

    def __init__(self, world: World, index: int, replicas: int, *, spare: bool = False) -> None:
        self.world = world
        self.index = index
        self.configured = replicas
        letters = "abcde"[: replicas + 1 + spare]
        self.servers = [Server(world, index, letter, *world.clock()) for letter in letters]
        self.primary = self.servers[0]
        self._old, self._old_until = self.primary, 0.0
        self._follow()

    def _follow(self) -> None:
        for replica in self.replicas[: self.configured]:
            self.rejoin(replica)
        for spare in self.replicas[self.configured :]:
            spare.follow(self.replicas[0])

    @property
    def replicas(self) -> list[Server]:
        return [server for server in self.servers if server is not self.primary]

    def named(self) -> Server:
        """To a client that asks now; for a while after a promotion some hear of the old primary."""
        stale = (
            self.world.events.now < self._old_until
            and self.world.dice(self.index, self.world.events.now).random() < 0.5
        )
        return self._old if stale else self.primary

    def promote(self, server: Server, *, silent: bool = False, stale_s: float = 0.0) -> None:
        """``silent``: the old primary does not hear that this replica has gone."""
        # Also new ones, and those that wait for a primary that is down.
        others = [each for each in self.replicas if each is not server and each.follows is self.primary]
        links = [link for link in self.primary.links if silent or link.replica is not server]
        counted = sum(link.acknowledged >= 0 for link in links)  # as INFO does
        if server is not self.primary and not (len(others) >= self.configured >= counted):
            self.world.tell(f"{server.name} is promoted")
            server.lead(silent=silent)
            self._old, self._old_until = self.primary, self.world.events.now + stale_s
            self.primary = self.world.hosts[self.index] = server
            self.world.happens("promote", None, server, "")

    def rejoin(self, server: Server, *, kill: bool = True) -> None:
        if server is not self.primary and server.follows is not self.primary:
            self.world.tell(f"{server.name} follows {self.primary.name}")
            server.follow(self.primary, kill=kill)

    def mend(self) -> None:
        """All follow the primary, and it knows whom it has lost."""
        self._old_until = 0.0
        for server in self.servers:
            server.stream.held_until = 0.0
        self._follow()
        for server in self.servers:
            server.links = [link for link in server.links if link.replica.link is link]
