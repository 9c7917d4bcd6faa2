"""The command connections of a client on in-memory masters, byte for byte, with a clock that a test moves.

It is the real `Fanout` with the real `Roster`: only the sockets are missing. A reply stands in the link until
`WiredFanout` reads it, so a test can count round trips and decide in which order replies are read.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from random import Random
from types import SimpleNamespace
from typing import Any

import hiredis

from rlock._driver import fanout, links, roster
from rlock._driver.links import Greeted
from rlock._driver.roster import Slot
from rlock._driver.rounds import Round
from rlock._driver.waits import NOTHING, Waits
from rlock.model import Fault, FaultKind
from rlock.procedures.steps import Ask, Tell, Terms
from rlock.rules import scripts
from rlock.rules.keys import NOTE
from rlock.rules.quorum import Ballot, Settle
from rlock.rules.restart_guard import Guard, Handshake
from rlock.testing.memory.masters import Master

TIMEOUT_S = 1.0
EPOCH_US = 1_790_000_000_000_000
#: By the masters' clocks, the test begins this long after they were started.
UPTIME_S = 3_600.0


def resp(reply: Any) -> bytes:
    """A reply as it comes over the wire."""
    if isinstance(reply, list):
        return b"*%d\r\n" % len(reply) + b"".join(map(resp, reply))
    if isinstance(reply, int):
        return b":%d\r\n" % reply
    if isinstance(reply, str):
        return f"-{reply}\r\n".encode()
    return b"$%d\r\n%b\r\n" % (len(reply), reply)


class Server:
    """One master, and everything that it was sent."""

    def __init__(self, index: int, clock: Callable[[], float]) -> None:
        self.index = index
        self.run_id = f"r{index}"
        self.memory = "volatile"
        self.master = Master(lambda: EPOCH_US + round(clock() * 1e6))
        self.master.started_us = EPOCH_US - round(UPTIME_S * 1e6)
        #: The names of the scripts that it ran, in order.
        self.ran: list[str] = []
        #: An error for every command of one script.
        self.refuses: dict[str, str] = {}
        self.shake_hands("volatile")

    def shake_hands(self, memory: str) -> Handshake:
        """As another connection does it."""
        (_, note, _, _, time_us), _ = self.master.run(scripts.handshake(self.run_id, memory))
        return Handshake(self.run_id, self.memory, note.decode(), time_us)

    @property
    def note(self) -> str:
        """The note as it stands there."""
        return self.master.text(NOTE)

    @note.setter
    def note(self, text: str) -> None:
        self.master.write(NOTE, text)

    def flush(self) -> None:
        """FLUSHALL: every key is gone, the connections stay."""
        self.master.keys.clear()
        self.master.whole = False

    def run(self, words: Sequence[str]) -> bytes:
        name = next(s.name for s in scripts.ALL if words[1] in (s.sha, s.source))
        self.ran.append(name)
        if name in self.refuses:
            return resp(self.refuses[name])
        count = int(words[2])
        reply, _ = self.master.call(name, words[3 : 3 + count], words[3 + count :])
        return resp(reply)


class Link(links.Link):
    """A connection; replies stand in ``arrived`` until somebody reads them."""

    def __init__(self, server: Server) -> None:
        super().__init__(Greeted(server.shake_hands(server.memory), 7))
        self.server = server
        self.arrived = b""
        self._parser = hiredis.Reader(encoding="utf-8")

    def send(self, packed: bytes) -> bool:
        self._parser.feed(packed)
        while (words := self._parser.gets()) is not False:
            self.arrived += self.server.run(words)
        return False

    def close(self) -> None:
        self.ended = True


class Roster(roster.Roster[Link]):
    """A dial is over when it was begun."""

    servers: Sequence[Server]
    #: Masters that refuse connections.
    down: set[int]

    def _start(self, slot: Slot[Link]) -> None:
        refused = slot.index in self.down
        found = ConnectionRefusedError("refused") if refused else Link(self.servers[slot.index])
        self._dialled(slot, self._call(slot), found)

    def _register(self, slot: Slot[Link], link: Link) -> None: ...

    def _unregister(self, link: Link) -> None: ...

    def _until(self, done: Callable[[], bool], timeout: float) -> Waits[None]:
        yield from NOTHING

    def _tell(self) -> None: ...


class WiredFanout(fanout.Fanout[Link]):
    """Reads one connection after another, in the order of ``order``; each pass is a round trip."""

    _roster: Roster

    def __init__(self, masters: int = 3, max_ttl: float = 10.0, seconds: float | None = None) -> None:
        self.now = 0.0
        names = [f"redis://m{i}" for i in range(masters)]
        guard = Guard(names, max_ttl, seconds)
        super().__init__(Terms(names, lambda: self.now, Random(1), guard), TIMEOUT_S)
        self.guard = guard
        self.servers = [Server(i, lambda: self.now) for i in range(masters)]
        self.trips = 0
        self._roster = Roster(
            [SimpleNamespace(label=name) for name in names],
            self._mutex,
            lambda: self.now,
            Random(1),
            self._welcome,
            timeout=TIMEOUT_S,
            guarded=guard.on,
            news=guard.news,
        )
        self._roster.servers = self.servers
        self._roster.down = set()

    # -- for tests ---------------------------------------------------------------------------------

    def cut(self, master: int) -> None:
        """The connection ends."""
        with self._mutex:
            self._drop(self._roster.slots[master], Fault(FaultKind.BROKEN, "cut"))

    def away(self, *masters: int) -> None:
        """From now on these refuse connections."""
        self._roster.down.update(masters)

    def connect(self) -> None:
        """Dial whatever is not connected."""
        for slot in self._roster.slots:
            slot.probe_at = 0.0
        for _ in self._connecting(TIMEOUT_S):
            pass

    def link(self, master: int) -> Link:
        link = self._roster.slots[master].link
        assert link is not None
        return link

    def acquire(self, owner: str = "me:1", lease_ms: int = 9_000, settle: Settle = Settle.VERDICT) -> Ballot:
        """A round as `procedures/attempt.py` sends it: the answer to it is foreseen."""
        token = EPOCH_US + round(self.now * 1e6)
        return self.ask(scripts.acquire("job", owner, lease_ms, token=token), settle)

    def send(self, command: scripts.Command) -> None:
        """To all masters; the replies are not read yet."""
        self.tell(Tell(command))

    def ask(self, command: scripts.Command, settle: Settle = Settle.VERDICT) -> Ballot:
        self.trips = 0
        waits = self.asking(Ask(command, TIMEOUT_S, settle))
        while True:
            try:
                next(waits)
            except StopIteration as stop:
                ballot: Ballot = stop.value
                return ballot

    # -- the driver --------------------------------------------------------------------------------

    def _caller(self) -> object:
        return threading.get_ident()

    def _wake(self, turn: Round) -> None: ...

    def _finishing(self, turn: Round) -> Waits[None]:
        try:
            while not turn.ballot.settled and self._read():
                self.trips += 1
        finally:
            turn.over = True
        yield from NOTHING

    def _read(self) -> bool:
        """Take in everything that has arrived until now; False: there was nothing."""
        found = False
        with self._mutex:
            for slot in self._roster.slots:
                if slot.link is not None and slot.link.arrived:
                    found, data, slot.link.arrived = True, slot.link.arrived, b""
                    self._take(slot, slot.link, data)
        return found
