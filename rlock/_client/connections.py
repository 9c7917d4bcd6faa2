"""The roster: which masters are connected, and the connecting of those that are not.

The fan-out has one for commands, the listener one for subscriptions. Dead masters are dialled again in
the background, and only while somebody uses the roster.
"""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Generic, TypeVar

from ..clock import Clock
from ..events import MasterAnswers, MasterFailed, News
from ..model import Fault, FaultKind
from ..procedures.port import WaitGenerator
from ..rules.timing import probe_wait
from .connection import ConnectError, Connection, ConnectOptions

#: Opening a connection takes several round trips, so it gets at least this long, in the background.
CONNECT_TIMEOUT_S = 1.0

#: The first connections of a client get this long, however short the time-out of a request.
FIRST_CONTACT_S = 0.25

#: How long to leave a server alone that is in the list under another name already.
DUPLICATE_PAUSE_S = 2.0

L = TypeVar("L", bound=Connection)


class MasterConnection(Generic[L]):
    """One master: its link, or why there is none."""

    __slots__ = (
        "connection",
        "endpoint",
        "failures",
        "fault",
        "index",
        "is_connecting",
        "kill",
        "probe_at",
        "refusal",
        "refused",
        "refused_until",
        "slow_from",
        "wanted_until",
    )

    def __init__(self, index: int, endpoint: Any) -> None:
        self.index = index
        self.endpoint = endpoint
        self.connection: L | None = None
        self.fault = Fault(FaultKind.DOWN, "not connected yet")
        self.failures = 0
        self.probe_at = -math.inf
        self.is_connecting = False
        #: Why its last answer was no vote; None: it was one.
        self.refusal: Fault | None = None
        #: The same as it was told the last time; again after this, or when it changes.
        self.refused: Fault | None = None
        self.refused_until = -math.inf
        #: From then on it is told of if it is slow.
        self.slow_from = -math.inf
        #: Until then it is dialled again and again, whether or not somebody uses the roster: it is owed
        #: something.
        self.wanted_until = -math.inf
        #: Connections that ended with requests unanswered, as (run_id, client id).
        self.kill: list[tuple[str, int]] = []


class Connections(ABC, Generic[L]):
    """The links of one kind to all masters. Called with ``mutex``, but for `connect_gen`."""

    def __init__(
        self,
        endpoints: Sequence[Any],
        mutex: threading.Lock,
        clock: Clock,
        random: Random,
        on_link: Callable[[MasterConnection[L], L], None],
        *,
        timeout: float,
        subscriber: bool = False,
        guarded: bool = False,
        news: News | None = None,
    ) -> None:
        self.servers: list[MasterConnection[L]] = [
            MasterConnection(i, endpoint) for i, endpoint in enumerate(endpoints)
        ]
        self.up = 0
        self.closed = False
        self.fresh = True  # nothing was dialled yet
        self._mutex = mutex
        self._clock = clock
        self._random = random
        self._on_link = on_link
        self._request_timeout = timeout
        self._timeout = max(timeout, CONNECT_TIMEOUT_S)
        self._subscriber = subscriber
        self._guarded = guarded
        #: Where failures of masters go; None: nobody is told of them.
        self._news = news

    # -- what a driver adds ------------------------------------------------------------------------

    def send(self, connection: L, packed: bytes) -> None:
        """Write to a link; what the kernel does not take goes out when it does. Raises OSError."""
        if connection.send(packed):
            self.hold_back(connection)

    def hold_back(self, connection: L) -> None:
        """A link keeps something: write it when the kernel takes it."""

    @abstractmethod
    def _start(self, server: MasterConnection[L]) -> None:
        """Dial in the background, until there is a link or nobody wants one. RuntimeError: it cannot be."""

    @abstractmethod
    def _register(self, server: MasterConnection[L], connection: L) -> None:
        """Read from it from now on."""

    @abstractmethod
    def _unregister(self, connection: L) -> None:
        """Read from it no more."""

    @abstractmethod
    def _until(self, done: Callable[[], bool], timeout: float) -> WaitGenerator[None]:
        """Wait until ``done``, at most ``timeout`` seconds; looked at when `_tell` was called."""

    @abstractmethod
    def _tell(self) -> None:
        """A link came, or a dial ended: who waits has to look."""

    # -- links -------------------------------------------------------------------------------------

    def drop(self, server: MasterConnection[L], fault: Fault) -> L | None:
        """End a link; the caller sees to the replies that it owed."""
        connection = server.connection
        if connection is None:
            return None
        server.connection = None
        self.up -= 1
        self._unregister(connection)
        news, server.fault = fault != server.fault, fault
        # A link that broke is dialled at once: servers close idle connections. One that hung is not; nor
        # one on which nothing was ever answered, or we would dial without a pause a proxy that knows no
        # SUBSCRIBE.
        if fault.kind is FaultKind.BROKEN:
            server.failures = 0 if connection.answered else server.failures + 1
        else:
            server.failures = 1
        server.probe_at = self._clock() + probe_wait(self._random, server.failures)
        if fault.kind is FaultKind.DUPLICATE:
            server.probe_at += DUPLICATE_PAUSE_S  # only somebody with an editor can mend it
        if self._news is not None:
            event = MasterFailed(server.endpoint.label, fault.kind.value, fault.text, news, connected=True)
            self._news.note(event)
        if connection.pending and connection.connection_id and connection.run_id:
            server.kill.append((connection.run_id, connection.connection_id))
        connection.close()
        return connection

    # -- connecting --------------------------------------------------------------------------------

    def connect_gen(
        self, patience: float, enough: int, quorum: int, check: Callable[[], None]
    ) -> WaitGenerator[None]:
        """Dial what is due, in the background; wait for it only while fewer than ``enough`` are up.

        At most ``patience`` seconds, a little longer the first time of all. ``check`` may raise. Without
        the mutex.
        """
        if self.up == len(self.servers):
            return
        with self._mutex:
            check()
            self.connect_due()
            if self.up >= enough and not self.fresh:
                return
        began = self._clock()
        yield from self._until(
            lambda: self.up >= enough or not self.is_connecting or self.closed,
            max(patience, FIRST_CONTACT_S) if self.fresh else patience,
        )
        if self.fresh and self.up >= quorum:
            # The first time of all: masters that need a little longer than the quorum get it, so that
            # the first lock stands on all of them; one that hangs does not hold us up.
            spent = self._clock() - began
            yield from self._until(lambda: not self.is_connecting or self.closed, 2 * spent + 0.02)
        self.fresh = False

    @property
    def whole(self) -> bool:
        """Whether all masters are connected: none is to be dialled."""
        return self.up == len(self.servers)

    @property
    def is_connecting(self) -> bool:
        """Whether an attempt is under way."""
        return any(server.is_connecting for server in self.servers)

    def next_probe(self) -> float:
        """When the next attempt is due."""
        return min(
            (
                server.probe_at
                for server in self.servers
                if server.connection is None and not server.is_connecting
            ),
            default=math.inf,
        )

    def connect_due(self) -> None:
        """Start an attempt for each master that is down and whose time has come."""
        now = self._clock()
        for server in self.servers:
            if server.connection is None and not server.is_connecting and now >= server.probe_at:
                server.is_connecting = True
                try:
                    self._start(server)
                except RuntimeError as error:  # no thread to be had: that master has no vote
                    server.is_connecting = False
                    self._failed(server, Fault(FaultKind.DOWN, str(error)))
                except BaseException:
                    server.is_connecting = False  # else this master would never be dialled again
                    raise

    def _tell_news(self) -> None:
        """Behind a dial, without the mutex: nobody else may come by for a while."""
        if self._news is not None:
            self._news.tell()

    def _connect_options(self, server: MasterConnection[L]) -> ConnectOptions:
        """How to dial it now."""
        return ConnectOptions(
            self._timeout, self._request_timeout, list(server.kill), self._subscriber, self._guarded
        )

    def _connected(
        self, server: MasterConnection[L], call: ConnectOptions, outcome: L | BaseException
    ) -> float | None:
        """What an attempt came to; after how many seconds to try again at once, None: not unasked."""
        server.is_connecting = False
        if self.closed:
            if not isinstance(outcome, BaseException):
                outcome.close()
            return None
        if isinstance(outcome, BaseException):
            fault = Fault(FaultKind.DOWN, str(outcome) or type(outcome).__name__)
            self._failed(server, outcome.fault if isinstance(outcome, ConnectError) else fault)
        elif server.connection is not None:
            outcome.close()  # a second attempt, that an interrupt let through
        else:
            server.kill = [old for old in server.kill if old not in call.kill]
            server.connection = outcome
            self.up += 1
            failures = server.failures
            self._register(server, outcome)
            self._on_link(server, outcome)
            # Not one that was refused at once, as the same server under another name.
            if self._news is not None and server.connection is outcome:
                self._news.note(MasterAnswers(server.endpoint.label, news=failures > 0))
        self._tell()
        now = self._clock()
        pause = max(0.0, server.probe_at - now)
        if server.connection is not None or now + pause >= server.wanted_until:
            return None
        return min(pause, CONNECT_TIMEOUT_S)

    def _may_reconnect(self, server: MasterConnection[L]) -> bool:
        """Whether to try again for what it is owed; somebody else's attempt is as good."""
        if server.connection is not None or server.is_connecting or self.closed:
            return False
        server.is_connecting = True
        return True

    def _failed(self, server: MasterConnection[L], fault: Fault) -> None:
        if self._news is not None:
            news = fault != server.fault
            self._news.note(MasterFailed(server.endpoint.label, fault.kind.value, fault.text, news))
        server.fault = fault
        server.failures += 1
        server.probe_at = self._clock() + probe_wait(self._random, server.failures + 1)

    # -- the end -----------------------------------------------------------------------------------

    def disconnect(self) -> None:
        """Close all links; they can be dialled again."""
        for server in self.servers:
            if server.connection is not None:
                connection, server.connection = server.connection, None
                self._unregister(connection)
                connection.close()
                server.fault = Fault(FaultKind.DOWN, "not connected")
                server.probe_at = -math.inf
        self.up = 0

    def close(self) -> None:
        """Close all links for good."""
        self.closed = True
        self.disconnect()
        self._tell()

    def abandon(self) -> None:
        """In a forked child: drop our copies of the descriptors, without a word to the servers."""
        self.closed = True
        for server in self.servers:
            if server.connection is not None:
                server.connection.abandon()
                server.connection = None
