"""Subscriptions: the messages of the masters for the contenders of this process.

One subscriber connection to each master carries two channels for each lock: the lock's own, and one of this
client for hand-offs to its waiters. A subscription ends a little after its last waiter. Twice a second a
daemon thread or a timer ends unused subscriptions, connects to masters, and reads if nobody waits. It also
replaces a connection without a reply in time, which a firewall may have dropped.
"""

import math
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import hiredis

from ..events import MasterAnswers, MasterFailed, SubscribeRefused, UnknownMessage
from ..model import Fault
from ..procedures.contender import Contender
from ..procedures.port import Notifications, WaitGenerator, Wake
from ..rules.command_templates import encode
from ..rules.keys import HandOff
from ..rules.tickets import Place
from ..rules.timing import CHANNEL_LINGER_S
from .connection import L, MasterConnection, Traffic
from .connections import Connections, Wiring, broken
from .notifications import Inbox, Subscription

CHECK_S = 0.5  # how often a client checks its subscriptions
#: After so many checks all masters have to confirm: a firewall may have forgotten a quiet connection.
PROBE_CHECKS = 10


class Subscriptions(Notifications, Traffic[L]):
    def __init__(self, wiring: Wiring, pass_on: Callable[[str, str, int], object]) -> None:
        self._context = wiring.context
        self._runtime = wiring.runtime
        self._pass_on = pass_on
        #: Hand-offs to places without a waiter: the lock, the owner of the place, and the master.
        self._unclaimed: list[tuple[str, str, int]] = []
        #: Places whose locks are kept after their release, and until when.
        self.kept: deque[tuple[str, float]] = deque(maxlen=64)
        #: The owners of the last places. A message with another one is a stranger's, or another holder's.
        self._places: deque[bytes] = deque(maxlen=1024)
        self._mutex: Any = threading.RLock()
        self._by_name: dict[str, Subscription] = {}
        self._by_channel: dict[bytes, Subscription] = {}
        self._timeout = wiring.timeout
        #: Masters that refuse SUBSCRIBE: no waiter waits for their confirmation.
        self._refusing: set[int] = set()
        self._checks = 0
        #: Reported once: masters that refused or were silent, and kinds of unknown messages.
        self._logged: set[object] = set()
        #: Ends the calls of `_check_all`; None: there are none.
        self._stop_checking: Callable[[], None] | None = None
        self._connections: Connections[L] = wiring.connections(wiring, self._mutex, self, subscriber=True)

    def is_subscribed(self, name: str) -> bool:
        found = self._by_name.get(name)
        return found is not None and len(found.confirmed) >= self._context.quorum

    def subscribe(self, contender: Contender, timeout: float) -> WaitGenerator[int]:
        name = contender.name
        if contender.inbox is None:
            # Otherwise unread messages of earlier releases would wake it for nothing.
            self._connections.read_arrived()
            assert contender.place is not None
            parker = self._connections.parker()
            contender.inbox = Inbox(contender.place, contender.findings, self._context, parker)
        with self._mutex:
            found = self._by_name.get(name)
            if found is None:
                found = Subscription(name, self._context.client_id, self._context.wire)
                self._by_channel[found.public] = self._by_channel[found.client] = found
                self._by_name[name] = found
            if not found.sent:
                self._send_all(encode(("SUBSCRIBE", *found.names)))
                found.sent = True  # after Ctrl-C before this line the next contender sends it again
            found.idle_at, found.ending = math.inf, False
            if found.add(contender) and not self._connections.closed:
                self._places.append(contender.inbox.owner)
                if self._stop_checking is None:
                    with suppress(RuntimeError):  # no more threads: the next waiter tries again
                        self._stop_checking = self._runtime.repeat(CHECK_S, self._check_all)
                self._connections.connect_due()
        if timeout > 0:
            until = self._context.clock() + timeout
            yield from self._read_until(contender.inbox, partial(self._settled, found), until)
        return len(found.confirmed)

    def wait(self, contender: Contender, until: float) -> WaitGenerator[Wake]:
        inbox: Inbox | None = contender.inbox
        if inbox is None:  # not subscribed: only the time ends this
            yield from self._runtime.sleep(until - self._context.clock())
            return Wake.TIME
        yield from self._read_until(inbox, inbox.has_reason, until)
        with self._mutex:
            return inbox.take_reason()

    def _read_until(self, inbox: Inbox, done: Callable[[], bool], until: float) -> WaitGenerator[None]:
        clock = self._context.clock
        inbox.asleep = True
        try:
            while True:
                yield from self._connections.read_until(inbox, done, until)
                with self._mutex:
                    now = clock()
                    inbox.wake_if_due(now)
                    if done() or now >= until or self._connections.closed:
                        return
        finally:
            inbox.asleep = False

    def unsubscribe(self, contender: Contender, *, withdrawn: bool) -> None:
        inbox: Inbox | None = contender.inbox
        if inbox is None:
            return
        with self._mutex:
            if (found := self._by_name.get(inbox.name)) is not None and found.remove(inbox):
                self._places.append(inbox.owner)  # again: others may have come meanwhile
                if found.deserted():
                    found.idle_at = self._context.clock() + CHANNEL_LINGER_S
                if inbox.handed_by and not withdrawn:
                    # Otherwise votes that the last round did not take would wait for their expiry.
                    owner = inbox.owner.decode()
                    self._unclaimed += [(inbox.name, owner, master) for master in inbox.handed_by]
            # Last: Ctrl-C before this line must not leave a contender without an inbox in the subscription.
            contender.inbox = None

    def polls_for(self, contender: Contender) -> Sequence[Place]:
        own = contender.place
        assert own is not None
        with self._mutex:
            found = self._by_name.get(contender.name)
            return found.polls_for(own, self._context.clock()) if found is not None and own.drawn else [own]

    def doubt(self, contender: Contender) -> None:
        with self._mutex:
            if (found := self._by_name.get(contender.name)) is not None:
                found.doubt()  # until the replies come; no PING, which an ACL may forbid
                self._send_all(encode(("SUBSCRIBE", *found.names)))

    def interrupt(self, contender: Contender) -> None:
        """Wake a waiter whose `until` was changed."""
        with self._mutex:
            if (inbox := contender.inbox) is not None:
                inbox.wake(Wake.FREE)
                self._connections.wake_reader(inbox)

    def _settled(self, found: Subscription) -> bool:
        servers, answered = self._connections.servers, found.confirmed | self._refusing
        if self._connections.closed or len(found.confirmed) >= self._context.quorum:
            return True
        here = [server for server in servers if server.connection is not None]
        return not self._connections.is_connecting and all(server.index in answered for server in here)

    def after_data(self) -> None:
        self._context.pending_events.emit()
        if not self._unclaimed:
            return
        with self._mutex:
            unclaimed, self._unclaimed = self._unclaimed, []
        for hand_off in unclaimed:
            self._pass_on(*hand_off)

    def _check_all(self) -> bool:
        now = self._context.clock()  # before the reading: a process that was stopped reads its replies first
        self._connections.read_arrived()
        self.after_data()
        with self._mutex:
            if not self._tidy():
                # With the mutex: otherwise a waiter that comes now would not begin again.
                self._stop_checking = None
                return False
            self._drop_silent(now)
        self._context.pending_events.emit()
        return True

    def _tidy(self) -> bool:
        """End the unused subscriptions; whether one is left. With the mutex."""
        now = self._context.clock()
        if self._connections.closed:
            return False
        for found in list(self._by_name.values()):
            if found.idle_at <= now:
                others = self._sharing(found)
                if not found.ending:
                    # Until the next check: a hand-off that is on its way must be passed on.
                    found.end()
                    if not others:
                        self._send_all(encode(("UNSUBSCRIBE", *found.names)))
                    continue
                del self._by_name[found.name]
                del self._by_channel[found.public], self._by_channel[found.client]
                if others:  # otherwise they would hear of no release any more
                    self._by_channel[found.public] = self._by_channel[found.client] = others[0]
            elif found.idle_at == math.inf and found.deserted():
                found.idle_at = now + CHANNEL_LINGER_S
        if not self._by_name:
            self._connections.disconnect()
            return False
        for server in self._connections.servers:
            connection, primary = server.connection, self._context.primaries.get(server.index, "")
            if connection is not None and primary not in ("", connection.memory_report.run_id):
                # Otherwise its waiters would hear nothing of the releases on the new primary.
                self._connections.drop(server, broken("its group has another primary"))
            elif connection and connection.began_at < self._context.timed_out.get(server.index, -math.inf):
                self._connections.drop(server, broken("a command to this master timed out"))
        self._connections.connect_due()
        return True

    def _drop_silent(self, now: float) -> None:
        """Drop the connections without a reply in time. Now and then all masters have to confirm again."""
        for server in self._connections.servers:
            connection = server.connection
            if connection is None or now - connection.asked_at <= self._timeout:
                continue
            if connection.overdue_at != connection.asked_at:
                connection.overdue_at = connection.asked_at  # late at one check: an event loop reads late
                continue
            text = f"no reply to SUBSCRIBE for {now - connection.asked_at:.3g} s: connecting again"
            news = self._is_news(("silent", server.index))
            failed = MasterFailed(server.endpoint.label, "silent", text, news, connected=True)
            self._context.pending_events.add(failed)
            self._connections.drop(server, broken(text))
        self._checks += 1
        found = next((each for each in self._by_name.values() if not each.ending), None)
        if self._checks % PROBE_CHECKS == 0 and found is not None:
            self._send_all(encode(("SUBSCRIBE", *found.names)))

    def on_data(self, server: MasterConnection[L], connection: L, data: bytes) -> None:
        if data:
            connection.reader.feed(data)
        while server.connection is connection and (message := connection.reader.gets()) is not False:
            if type(message) is not list or message[:1] != [b"message"]:
                connection.asked_at = math.inf  # it is a reply
            self._receive(server, message)

    def _receive(self, server: MasterConnection[L], message: Any) -> None:
        if isinstance(message, hiredis.ReplyError):
            self._refusing.add(server.index)
            if self._is_news(("refuses", server.index)):
                self._context.pending_events.add(SubscribeRefused(server.endpoint.label, f"{message!s:.200}"))
            return
        if type(message) is not list or len(message) != 3 or type(message[1]) is not bytes:
            text = f"an answer that nobody asked for: {type(message).__name__}"
            self._connections.drop(server, broken(text))
            return
        kind, channel, payload = message
        if (found := self._by_channel.get(channel)) is None:
            return
        if channel == found.client and kind == b"subscribe":
            news = ("silent", server.index) in self._logged
            self._logged.discard(("silent", server.index))
            self._context.pending_events.add(MasterAnswers(server.endpoint.label, news, messages=True))
            for each in [found, *self._sharing(found)]:
                each.confirm(server.index)
        elif channel == found.client and kind == b"message":
            self._hand_off(found, server, payload)
        elif kind == b"message" and self._context.wire.announces(payload):
            for each in [found, *self._sharing(found)]:
                for inbox in each.inboxes:
                    inbox.on_release(server.index, payload)
        elif kind == b"message":
            self._ignore(server, found, "release", payload)

    def _sharing(self, found: Subscription) -> list[Subscription]:
        """Other locks with the same channels: with Redisson those of `x` and `{x}` are one."""
        others = list(self._by_name.values()) if self._context.wire.shared else ()
        return [other for other in others if other is not found and other.public == found.public]

    def _hand_off(self, found: Subscription, server: MasterConnection[L], payload: Any) -> None:
        if payload == b"":
            return  # the master only asks whether this client is there
        owner, message = HandOff.parse(payload, self._context.clock())
        if (inbox := found.inbox(owner)) is not None:
            inbox.on_hand_off(server.index, message)
        elif owner in self._places:
            self._unclaimed.append((found.name, owner.decode(), server.index))
        else:
            self._ignore(server, found, "hand-off", payload)

    def _ignore(self, server: MasterConnection[L], found: Subscription, kind: str, message: Any) -> None:
        """Count a message that no client of rlock sends; its sender may be any program."""
        start, news = repr(message[:60] if type(message) is bytes else message), self._is_news(kind)
        unknown = UnknownMessage(server.endpoint.label, found.name, kind, start, news)
        self._context.pending_events.add(unknown)

    def _is_news(self, state: object) -> bool:
        news = state not in self._logged
        self._logged.add(state)
        return news

    def on_connect(self, server: MasterConnection[L], connection: L) -> None:
        self._refusing.discard(server.index)
        for found in self._by_name.values():
            if not found.ending:
                self._send(server, connection, encode(("SUBSCRIBE", *found.names)))
        if not self._by_name:
            self._connections.disconnect()  # not needed any more

    def _send_all(self, packed: bytes) -> None:
        for server in self._connections.servers:
            if server.connection is not None:
                self._send(server, server.connection, packed)

    def _send(self, server: MasterConnection[L], connection: L, packed: bytes) -> None:
        if server.connection is not connection:
            return  # the command before this one broke it
        connection.asked_at = min(connection.asked_at, self._context.clock())
        try:
            if connection.send(packed):
                self._connections.hold_back(connection)
        except OSError as error:
            self._connections.fail(server, error)

    def on_drop(self, server: MasterConnection[L], connection: L, fault: Fault) -> None:
        for found in self._by_name.values():
            found.lose(server.index)
        if self._by_name:
            self._connections.connect_due()

    def close(self) -> None:
        with self._mutex:
            self._connections.close()
            for found in self._by_name.values():
                for inbox in found.inboxes:
                    inbox.wake(Wake.FREE)
            self._by_name.clear()
            self._by_channel.clear()
            stop, self._stop_checking = self._stop_checking, None
        if stop is not None:
            stop()
