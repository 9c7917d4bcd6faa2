"""Connections: the connections of one kind to all masters, and the attempts to make those that are missing.

A client has one of these for its calls and one for its subscriptions. Attempts run in the background, and
only while the client is used or a master still has to get a command.
"""

import math
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Generic, NamedTuple

import hiredis

from ..events import MasterAnswers, MasterFailed
from ..model import Fault, FaultKind
from ..procedures.port import ClientContext, WaitGenerator
from ..rules.timing import DUPLICATE_PAUSE_S, FIRST_CONTACT_S, MESSAGE_PATIENCE_S, probe_wait
from .connection import FLAPS, FLAPS_S, NO_TLS_YET, NOT_CONNECTED, L, MasterConnection, Traffic
from .handshake import ConnectError, ConnectOptions, connect_error
from .runtime import Parker, Runtime, Waiter

CONNECT_TIMEOUT_S = 1.0  # the shortest time-out of each step of an attempt, which may take several trips
#: The packages whose code raises an error when a connection breaks, besides that of its class.
RAISE_FAULTS = ("rlock", "socket", "ssl", "asyncio", "gevent")


class Wiring(NamedTuple):
    """The means by which the calls and the subscriptions of a client make their connections."""

    connections: Callable[..., Any]  # the driver's class of `Connections`
    endpoints: Sequence[Any]
    context: ClientContext
    timeout: float  # seconds, of a request
    runtime: Runtime


class Connections(ABC, Generic[L]):
    """The connections of one kind. Callers hold ``mutex``, but not for generators and reads."""

    gathering = False  #: Commands stay in the backlogs: a thread that is about to run writes them.

    def __init__(self, wiring: Wiring, mutex: Any, traffic: Traffic[L], *, subscriber: bool = False) -> None:
        self.servers: list[MasterConnection[L]] = [
            MasterConnection(i, one, fault=NO_TLS_YET if one.tls else NOT_CONNECTED)
            for i, one in enumerate(wiring.endpoints)
        ]
        self.up = 0  # masters with a connection
        self.closed = False
        self.is_new = True  # no call has waited for connections yet
        context = self._context = wiring.context
        timeout = wiring.timeout
        self._clock = context.clock
        self._runtime = wiring.runtime
        self._mutex = mutex
        self._traffic = traffic
        #: How long a thread or task waits at a time, before it checks itself what has arrived.
        self._patience = MESSAGE_PATIENCE_S if subscriber else timeout / 4
        #: A change of the connections wakes these. No set: its order would be another one in each run.
        self._sleepers: dict[Parker, None] = {}
        step_timeout = max(timeout, CONNECT_TIMEOUT_S)
        self._options = ConnectOptions(step_timeout, timeout, (), subscriber, context.guard.on)

    @abstractmethod
    def _start(self, server: MasterConnection[L]) -> None:
        """Run `_connect_gen` in the background. RuntimeError: it cannot be started."""

    @abstractmethod
    def _register(self, server: MasterConnection[L], connection: L) -> None: ...

    @abstractmethod
    def _unregister(self, connection: L) -> None: ...

    @abstractmethod
    def read_until(self, waiter: Waiter, done: Callable[[], bool], until: float) -> WaitGenerator[None]:
        """Wait until ``done``, at most until ``until`` and the waiter's deadline. Ends when this is closed.

        Behind the time it reads once more: a thread or task that did not run must not leave its reply unread.
        """

    def read_arrived(self) -> None:
        """Read what has arrived, also if another thread waits for it. An event loop cannot."""

    def wake_reader(self, waiter: Waiter) -> None:
        """Wake a waiter if it waits for sockets, and not on its parker. With the mutex."""

    def parker(self) -> Parker:
        return self._runtime.parker()

    def wake(self, waiter: Waiter) -> None:
        """Wake a waiter whose call is settled. With the mutex."""
        waiter.parker.wake()

    def write_gathered(self, now: float = math.inf) -> None:
        """Write the commands that were gathered, if their time is over."""

    def hold_back(self, connection: L) -> None:
        """Write the backlog of a connection when the kernel takes it."""

    def take(self, server: MasterConnection[L], connection: L, data: bytes) -> None:
        try:
            self._traffic.on_data(server, connection, data)
            if data:
                connection.answered = True
            if connection.ended and server.connection is connection:
                self.drop(server, broken("the server closed the connection"))
        except BaseException as error:
            self.fail(server, error)

    def fail(self, server: MasterConnection[L], error: BaseException) -> None:
        """Drop a connection after an exception in the middle of a command or of a reply.

        After Ctrl-C too: otherwise the next reply would count for another command, as a vote nobody gave.
        Raises again what a signal handler raised, and nothing else: the caller may work for another lock.
        """
        *_, (frame, _) = traceback.walk_tb(error.__traceback__)
        # A signal handler may raise any class, such as that of Celery's soft time limit.
        package = str(frame.f_globals.get("__name__")).partition(".")[0]
        ours = package in (*RAISE_FAULTS, type(server.connection).__module__.partition(".")[0])
        interrupted = not ours or not isinstance(error, Exception)
        text = str(error) if isinstance(error, OSError | hiredis.HiredisError) else repr(error)
        self.drop(server, broken("interrupted" if interrupted else text or type(error).__name__))
        if interrupted:
            raise error

    def drop(self, server: MasterConnection[L], fault: Fault) -> None:
        if (connection := server.connection) is None:
            return
        try:
            self._drop(server, connection, fault)
        except BaseException:
            # Ctrl-C. Otherwise releases without a reply would be lost, and their locks stay locked there.
            self._drop(server, connection, fault)
            raise

    def _drop(self, server: MasterConnection[L], connection: L, fault: Fault) -> None:
        server.connection = None
        self.up = sum(each.connection is not None for each in self.servers)
        self._unregister(connection)
        server.last_reply_at = connection.last_reply_at
        # A broken connection is replaced at once, because servers close idle connections. But not if the
        # server gave no answer that could be read: otherwise it would get attempts without a pause.
        if fault.kind is not FaultKind.BROKEN:
            server.failures = 1
        else:
            server.failures = 0 if connection.answered else server.failures + 1
        server.probe_at = self._clock() + probe_wait(self._context.random, server.failures)
        if fault.kind is FaultKind.DUPLICATE:
            server.probe_at += DUPLICATE_PAUSE_S
        self._set_fault(server, fault, connected=True)
        run_id = connection.memory_report.server
        if connection.pending and connection.connection_id and run_id:
            server.kill.append((run_id, connection.connection_id))
        connection.close()
        self._traffic.on_drop(server, connection, fault)

    def _set_fault(self, server: MasterConnection[L], fault: Fault, *, connected: bool = False) -> None:
        news, server.fault = connected or fault != server.fault, fault
        if news:
            server.faults_at.append(self._clock())
        label = server.endpoint.label
        self.report(server, MasterFailed(label, fault.kind.value, fault.text, news, connected))

    def report(self, server: MasterConnection[L], event: MasterFailed | MasterAnswers) -> None:
        if self._options.subscriber:  # the command connection to the same master reports the rest
            if isinstance(event, MasterFailed):
                self._context.pending_events.add(replace(event, news=False, messages=True))
            return
        if self._clock() < server.faults_at[0] + FLAPS_S:
            if server.untold is None:
                text = f"flapping: {FLAPS} faults within a minute; the log goes on when it is steady"
                flapping = MasterFailed(event.master, "flapping", text, connected=True)
                self._context.pending_events.add(flapping)
            server.untold, event = event, replace(event, news=False)
        else:
            server.untold = None
        self._context.pending_events.add(event)

    def tell_steady(self, now: float) -> None:
        """Tell how the masters are that have stopped flapping."""
        for server in self.servers:
            if (untold := server.untold) and now >= server.faults_at[-1] + FLAPS_S:
                server.untold = None
                self._context.pending_events.add(replace(untold, news=True))

    def connect_gen(self, patience: float, enough: int, check: Callable[[], None]) -> WaitGenerator[None]:
        """Begin the attempts that are due, and wait until ``enough`` masters are connected.

        At most ``patience`` seconds, a little longer on the first call. ``check`` may raise.
        """
        if self.up == len(self.servers):
            return
        with self._mutex:
            check()
            self.connect_due()
            if self.up >= enough and not self.is_new:
                return
        began = self._clock()
        patience = max(patience, FIRST_CONTACT_S) if self.is_new else patience
        yield from self._wait_for_attempts(enough, patience)
        if self.is_new and self.up >= self._context.quorum:
            # Some more time for masters that are slower, so that the first lock stands on all masters.
            spent = self._clock() - began
            yield from self._wait_for_attempts(len(self.servers), 2 * spent + 0.02)
        self.is_new = False

    def _wait_for_attempts(self, enough: int, timeout: float) -> WaitGenerator[None]:
        until, parker = self._clock() + timeout, self._runtime.parker()
        with self._mutex:
            self._sleepers[parker] = None
        try:
            while self.up < enough and self.is_connecting and not self.closed:
                remaining_s = until - self._clock()
                if remaining_s <= 0:
                    return
                yield from parker.park(remaining_s)
        finally:
            with self._mutex:
                self._sleepers.pop(parker, None)

    @property
    def is_connecting(self) -> bool:
        return any(server.is_connecting for server in self.servers)

    def connect_due(self) -> None:
        now = self._clock()
        self.tell_steady(now)
        for server in self.servers:
            # A missed command does not wait for the next use of the client: the attempt waits for its time.
            due = now >= server.probe_at or (server.missed and now < server.reconnect_until)
            if server.connection is None and not server.is_connecting and due:
                server.is_connecting = True
                try:
                    self._start(server)
                except BaseException as error:
                    server.is_connecting = False  # otherwise there would never be another attempt
                    if not isinstance(error, RuntimeError):
                        raise
                    self._failed(server, Fault(FaultKind.DOWN, str(error)))  # there are no more threads
            hangs = server.is_connecting and now > server.attempted_at + 2 * self._options.timeout
            if hangs and server.fault in (NOT_CONNECTED, NO_TLS_YET):
                self._set_fault(server, Fault(FaultKind.DOWN, "it hangs: does its name resolve?"))

    def _connect_gen(self, server: MasterConnection[L], *, once: bool = False) -> WaitGenerator[None]:
        """Try to connect; try again while the master has to get a missed command."""
        if (early := server.probe_at - self._clock()) > 0.0:
            yield from self._runtime.sleep(early)
        while True:
            options = self._connect_options(server)
            outcome: L | ConnectError
            try:
                outcome = yield from server.endpoint.connect(options)
            except Exception as error:  # also if there is no descriptor or no memory
                # The text before the mutex: `__str__` may be a user's. A traceback would keep what was read.
                outcome = error if isinstance(error, ConnectError) else connect_error(error)
                outcome = outcome.with_traceback(None)
            with self._mutex:
                pause = self._connected(server, options, outcome)
            self._context.pending_events.emit()
            if pause is None or once:
                return
            yield from self._runtime.sleep(pause)
            with self._mutex:
                if not self._may_reconnect(server):
                    return

    def _connect_options(self, server: MasterConnection[L]) -> ConnectOptions:
        server.attempted_at = self._clock()
        return self._options._replace(kill=list(server.kill), began_at=server.attempted_at)

    def _connected(
        self, server: MasterConnection[L], options: ConnectOptions, outcome: L | ConnectError
    ) -> float | None:
        """Take the outcome of an attempt. Returns the pause before the next one; None: it is not needed."""
        server.is_connecting = False
        if self.closed:
            if not isinstance(outcome, ConnectError):
                outcome.close()
            return None
        if isinstance(outcome, ConnectError):
            self._failed(server, outcome.fault)
        elif server.connection is not None:
            outcome.close()  # an interrupted attempt had connected already
        else:
            server.kill = [old for old in server.kill if old not in options.kill]
            server.connection = outcome
            outcome.began_at = options.began_at
            self.up += 1
            failures = server.failures
            self._register(server, outcome)
            self._traffic.on_connect(server, outcome)
            if server.connection is outcome:  # not refused as a duplicate
                self.report(server, MasterAnswers(server.endpoint.label, news=failures > 0))
        self._wake_waiters()
        now = self._clock()
        pause = max(0.0, server.probe_at - now)
        if server.connection is not None or now + pause >= server.reconnect_until:
            return None
        return min(pause, CONNECT_TIMEOUT_S)

    def _may_reconnect(self, server: MasterConnection[L]) -> bool:
        """Whether to make another attempt, which then counts as begun. False: not needed, or one runs."""
        if server.connection is not None or server.is_connecting or self.closed:
            return False
        server.is_connecting = True
        return True

    def _interrupted(self, server: MasterConnection[L]) -> None:
        """Forget an attempt that ended without an outcome. Otherwise no other attempt would ever start."""
        server.is_connecting = False
        self._wake_waiters()

    def _wake_waiters(self) -> None:
        for parker in self._sleepers:
            parker.wake()

    def _failed(self, server: MasterConnection[L], fault: Fault) -> None:
        self._set_fault(server, fault)
        server.failures += 1
        server.probe_at = self._clock() + probe_wait(self._context.random, server.failures + 1)

    def disconnect(self) -> None:
        for server in self.servers:
            if server.connection is not None:
                connection, server.connection = server.connection, None
                self._unregister(connection)
                connection.close()
                server.fault = Fault(FaultKind.DOWN, "not connected")
                server.probe_at = -math.inf
        self.up = 0

    def close(self) -> None:
        self.closed = True
        self.disconnect()
        self._wake_waiters()

    def abandon(self) -> None:
        """In a forked child: close its copies of the sockets, and send nothing to the servers."""
        self.closed = True
        for server in self.servers:
            if server.connection is not None:
                server.connection.abandon()
                server.connection = None


def broken(text: str) -> Fault:
    return Fault(FaultKind.BROKEN, text)
