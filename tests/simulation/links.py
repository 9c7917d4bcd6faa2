"""Connections of a simulated client, and the roster that dials them.

The roster is the real one (`rlock/_sync/roster.py`), with these links in it instead of sockets, and with
events of the world instead of threads.
"""

from __future__ import annotations

import itertools
import select
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from rlock._sync import links, roster
from rlock._sync.roster import DIAL_TIMEOUT_S, Slot
from rlock.model import Fault, FaultKind
from rlock.rules import scripts
from rlock.rules.guard import Handshake

from .events import Latency, Way, Wire
from .hosts import Host, Session

if TYPE_CHECKING:
    from .client import Client


class _Inbox:
    """In the place of the parser: the replies that have arrived."""

    def __init__(self, inbox: deque[Any]) -> None:
        self._inbox = inbox

    def gets(self) -> Any:
        """The next reply; False: none has arrived."""
        return self._inbox.popleft() if self._inbox else False


#: See `_KEEPALIVE` in rlock/_sync/masters.py.
KEEPALIVE_S = 11.0


class Link(links.Link):
    """Both directions of one connection, and what has arrived and was not read."""

    def __init__(self, client: Client, host: Host, latency: Latency, serve: Callable[[], object]) -> None:
        world = client.world
        there, back = client.ways[host.index]
        self.client = client
        self.host = host
        self.there = Wire(client.events, world.random, latency, there)
        self.back = Wire(client.events, world.random, latency, back)
        self.session: Session
        self.owed = deque()
        self.inbox: deque[Any] = deque()
        self.reader = _Inbox(self.inbox)  # type: ignore[assignment]
        self.answered = False
        self.outbox = bytearray()
        self.fileno = next(client.numbers)
        self.handshake = Handshake()
        self.run_id = ""
        self.client_id = 0
        #: The peer has closed, and the client's kernel knows.
        self.ended = False
        self.closed = False
        #: The connection ends before so many answers more arrive; 0: it does not.
        self.fuse = 0
        self._reset = False
        #: Called when something has arrived that the process could read.
        self.serve = serve
        #: The same when the peer has closed.
        self.hang_up = serve

    # -- the client's end --------------------------------------------------------------------------------

    def put(self, action: Callable[[], object]) -> None:
        """Something for the server. Raises OSError, as the second send to a closed peer does."""
        if self._reset:
            raise BrokenPipeError("Broken pipe")
        self._reset = self.ended
        session = self.session
        self.there.send(lambda: session.host.receive(session, action))

    def close(self) -> None:
        """What is on its way still arrives, and is executed; the server learns of the end behind it."""
        if not self.closed:
            self.closed = True
            self.inbox.clear()
            if hasattr(self, "session"):
                session = self.session
                self.there.send(lambda: session.host.receive(session, session.close))

    # -- the server's end --------------------------------------------------------------------------------

    def answer(self, reply: Any) -> None:
        if self.fuse:
            self.fuse -= 1
            if not self.fuse:
                self.cut()
        self.back.send(partial(self._arrive, reply))

    def end(self) -> None:
        """The server has closed."""
        self.back.send(self._end)

    def _arrive(self, reply: Any) -> None:
        # Into the kernel's buffer, whether or not the process is running.
        if not self.closed and not self.ended:
            self.inbox.append(reply)
            self.client.do(self.serve)

    def _end(self) -> None:
        if not self.closed and not self.ended:
            self.ended = True
            self.client.do(self.hang_up)

    # -- faults ------------------------------------------------------------------------------------------

    def cut(self) -> None:
        """A machine in between forgets the connection: what is on its way is lost, and both ends are told."""
        self.there.cut()
        self.back.cut()
        client, session = self.client, getattr(self, "session", None)
        client.events.at(client.events.now + 0.001, self._end)
        if session is not None:
            # Behind what a server that stands still has in its buffer: that is still executed.
            behind = partial(session.host.receive, session, session.close)
            client.events.at(client.events.now + 0.001, behind)

    def mute(self, *wires: Wire) -> None:
        """What is sent on one direction, or on both, is lost from now on."""
        for wire in wires:
            wire.mute()
        self.fall_silent()

    def fall_silent(self) -> None:
        """Nobody says that it has ended; in the end TCP's own probes find out."""
        self.client.events.at(self.client.events.now + KEEPALIVE_S, self._end)


class _Poll:
    """In the place of select.poll."""

    def register(self, fd: int, events: int) -> None: ...
    def modify(self, fd: int, events: int) -> None: ...
    def unregister(self, fd: int) -> None: ...


class _Bell:
    """In the place of a pipe to oneself."""

    def ring(self) -> None: ...
    def close(self) -> None: ...


class _Changed:
    """In the place of a parking lot: tell those who wait for a link."""

    def __init__(self, tell: Callable[[], object]) -> None:
        self.notify_all = tell


class Roster(roster.Roster):
    """``serve`` is called when something has arrived, ``changed`` when an attempt to connect has ended."""

    def __init__(
        self,
        client: Client,
        mutex: Any,
        on_link: Callable[[Any, Any], None],
        *,
        timeout: float,
        serve: Callable[[], object],
        changed: Callable[[], object],
        subscriber: bool = False,
        guarded: bool = False,
    ) -> None:
        world = client.world
        endpoints = [Endpoint(f"m{host.index}") for host in world.hosts]
        self.slots = [Slot(i, endpoint) for i, endpoint in enumerate(endpoints)]  # type: ignore[arg-type]
        self.changed = _Changed(changed)  # type: ignore[assignment]
        self.up = 0
        self.closed = False
        self._mutex = mutex
        self._clock = client.clock
        self._random = world.random
        self._on_link = on_link
        self._timeout = max(timeout, DIAL_TIMEOUT_S)
        self._subscriber = subscriber
        self._guarded = guarded
        self._by_fd = {}
        self._poll = _Poll()  # type: ignore[assignment]
        self._bell = _Bell()  # type: ignore[assignment]
        self._client = client
        self._serve = serve
        self._latency = world.network.messages if subscriber else world.network.commands

    # -- reading and writing -----------------------------------------------------------------------------

    def poll(self, timeout: float) -> list[tuple[int, int]]:
        """What can be read at once."""
        found = []
        for slot in self.slots:
            link: Any = slot.link
            if link is not None and (link.inbox or link.ended):
                found.append((link.fileno, select.POLLIN))
        return found

    def serve(self, fd: int, event: int) -> tuple[Slot, links.Link, bool] | None:
        slot = self._by_fd.get(fd)
        link: Any = slot.link if slot is not None else None
        if slot is None or link is None:
            return None
        link.answered = link.answered or bool(link.inbox)
        return slot, link, not link.ended

    def send(self, link: Any, packed: Any) -> None:
        client = self._client
        if self._subscriber:
            session = link.session
            link.put(lambda: session.host.subscribe(session, packed))
            return
        command: scripts.Command = link.owed[-1].command
        client.world.sent[command.script.name] += 1
        session = link.session
        link.put(lambda: session.host.execute(session, command))

    # -- connecting --------------------------------------------------------------------------------------

    def dial_due(self) -> None:
        now = self._clock()
        for slot in self.slots:
            if slot.link is None and not slot.dialing and now >= slot.probe_at:
                slot.dialing = True
                self._start(slot)

    def join(self) -> None:
        """Have a connection to every master at once, as after an earlier use."""
        for slot in self.slots:
            link = self._link(slot)
            link.session = link.host.open(link)
            self._greet(link, [])
            self._take(slot, link)

    def _link(self, slot: Slot) -> Link:
        host = self._client.world.hosts[slot.index]
        return Link(self._client, host, self._latency, self._serve)

    def _greet(self, link: Link, kill: list[tuple[str, int]]) -> None:
        if not self._subscriber:
            link.handshake = link.host.greet(kill, self._guarded)
            link.run_id = link.handshake.run_id
            link.client_id = link.session.number

    def _start(self, slot: Slot) -> None:
        """As `_dial` of the real one and `links.dial`: connect, then the handshake, a round trip each."""
        client, link, kill = self._client, self._link(slot), list(slot.kill)
        over = itertools.count()

        def finish(fault: Fault | None) -> None:
            if next(over):
                link.close()  # given up before
                return
            with self._mutex:
                slot.dialing = False
                if fault is not None:
                    link.close()
                    self._failed(slot, fault)
                elif self.closed:
                    link.close()
                else:
                    slot.kill = [old for old in slot.kill if old not in kill]
                    link.hang_up = self._serve
                    self._take(slot, link)
            self.changed.notify_all()

        def refuse(text: str) -> None:
            link.back.send(lambda: client.do(lambda: finish(Fault(FaultKind.DOWN, text))))

        def accept() -> None:
            if not link.host.up:
                refuse("connection refused")
                return
            link.session = link.host.open(link)
            link.back.send(lambda: client.do(lambda: link.put(welcome)))

        def welcome() -> None:
            # Whether or not the client still waits for it.
            self._greet(link, kill)
            link.back.send(lambda: client.do(lambda: finish(None)))

        def time_out() -> None:
            if slot.dialing and not link.closed and slot.link is not link:
                finish(Fault(FaultKind.DOWN, "Timeout connecting to server"))

        link.hang_up = lambda: finish(Fault(FaultKind.DOWN, "Connection closed by server"))
        link.there.send(accept)
        client.after(client.lasts(self._timeout), time_out)


class Endpoint:
    """What a master is called."""

    def __init__(self, label: str) -> None:
        self.label = label


__all__ = ["Link", "Roster", "Way"]
