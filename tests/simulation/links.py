"""Connections of a simulated client, and the roster that dials them.

The roster is the real one (`rlock/_sync/roster.py`), with these links in it instead of sockets, and with
events of the world instead of threads.
"""

from __future__ import annotations

import select
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from rlock._sync import links, roster
from rlock._sync.links import LEAST_CONNECT_S
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
        #: The connection ends before the answer when this script ("any": any of them) has done something.
        self.fuse = ""
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
        self.fresh = True
        self._mutex = mutex
        self._clock = client.clock
        self._random = world.random
        self._on_link = on_link
        self._request_timeout = timeout
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
        _Dial(self, slot, self._link(slot)).connect()

    def _go_on(self, slot: Slot) -> None:
        """As `_dial_on` of the real one: a master that is owed something is dialled again and again."""
        pause = max(0.0, slot.probe_at - self._clock())
        if slot.link is not None or self.closed or self._clock() + pause >= slot.wanted_until:
            return

        def again() -> None:
            if slot.link is None and not slot.dialing and not self.closed:
                slot.dialing = True
                self._start(slot)

        self._client.after(self._client.lasts(min(pause, DIAL_TIMEOUT_S)), again)


class _Dial:
    """One attempt, as in `links.dial`: connect, then the handshake, a round trip each."""

    def __init__(self, roster: Roster, slot: Slot, link: Link) -> None:
        self._roster = roster
        self._client = link.client
        self._slot = slot
        self._link = link
        self._kill = list(slot.kill)
        self._steps = 0
        self._over = False
        link.hang_up = lambda: self._end(Fault(FaultKind.DOWN, "Connection closed by server"))

    def connect(self) -> None:
        roster = self._roster
        self._within(min(roster._timeout, max(roster._request_timeout, LEAST_CONNECT_S)))
        self._link.there.send(self._accept)

    def _within(self, seconds: float) -> None:
        """The next step has begun by then, or the attempt has failed."""
        self._steps += 1
        step = self._steps

        def look() -> None:
            if step == self._steps:
                self._end(Fault(FaultKind.DOWN, "Timeout"))

        self._client.after(self._client.lasts(seconds), look)

    def _accept(self) -> None:
        link, client = self._link, self._client
        if link.host.up:
            link.session = link.host.open(link)
            link.back.send(lambda: client.do(self._greet))
        else:
            refused = Fault(FaultKind.DOWN, "connection refused")
            link.back.send(lambda: client.do(lambda: self._end(refused)))

    def _greet(self) -> None:
        if self._over:
            self._link.close()  # given up before
        else:
            self._within(self._roster._timeout)
            self._link.put(self._welcome)

    def _welcome(self) -> None:
        # Whether or not the client still waits for it.
        self._roster._greet(self._link, self._kill)
        self._link.back.send(lambda: self._client.do(lambda: self._end(None)))

    def _end(self, fault: Fault | None) -> None:
        if self._over:
            return
        self._over = True
        self._steps += 1
        roster, slot, link = self._roster, self._slot, self._link
        with roster._mutex:
            slot.dialing = False
            if fault is not None:
                link.close()
                roster._failed(slot, fault)
            elif roster.closed:
                link.close()
            else:
                slot.kill = [old for old in slot.kill if old not in self._kill]
                link.hang_up = roster._serve
                roster._take(slot, link)
        roster.changed.notify_all()
        roster._go_on(slot)


class Endpoint:
    """What a master is called."""

    def __init__(self, label: str) -> None:
        self.label = label


__all__ = ["Link", "Roster", "Way"]
