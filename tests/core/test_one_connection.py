"""One connection: what a waiter hears, and commands of threads that share it; nothing is left behind."""

from __future__ import annotations

import math
import select
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

import rlock
from rlock._client.connection import Connection, MasterConnection, PendingCall
from rlock._client.handshake import HandshakeResult
from rlock._client.subscriptions import Subscriptions
from rlock._sync.runtime import run
from rlock.procedures.acquire import FOR_EVER
from rlock.procedures.attempt import take_place
from rlock.procedures.contender import Contender
from rlock.procedures.port import Request, Wake, new_owner
from rlock.rules import commands
from rlock.rules.holds import OwnerKey
from rlock.rules.keys import OWN, REDISSON, waiter_name
from rlock.rules.options import ClientOptions, LockOptions
from rlock.rules.quorum import Settle
from rlock.rules.tickets import Place
from rlock.rules.timing import POLL_LATE_S
from rlock.testing import MemoryMasters, memory_client

from ..lock.conftest import eventually
from .wired import interrupted


class Wire(Connection):
    """A connection on which a test is the master."""

    fileno = 99_999

    def write(self, packed: bytes) -> int:
        return len(packed)

    def close(self) -> None: ...


class Hearing:
    """One waiter on three masters."""

    def __init__(self, client: rlock.Client) -> None:
        self.client = client
        self.subscriptions: Any = client._engine().notifications
        assert isinstance(self.subscriptions, Subscriptions)
        self.context = client._engine().context
        self.contender, self.place = self.contend("x")
        self.subscribe(self.contender)
        self.inbox = self.contender.inbox
        endpoint = SimpleNamespace(label="m")
        self.servers: list[MasterConnection[Wire]] = [MasterConnection(i, endpoint) for i in range(3)]
        for server in self.servers:
            server.connection = Wire(HandshakeResult())

    def contend(self, name: str) -> tuple[Contender, Place]:
        options = LockOptions(name, ClientOptions().lease(None))
        contender = Contender(OwnerKey("host/1/main", lambda: True), options, FOR_EVER, 0.0)
        return contender, take_place(self.context, contender)

    def subscribe(self, contender: Contender, timeout: float = 0.0) -> int:
        confirmed: int = run(self.subscriptions.subscribe(contender, timeout))
        return confirmed

    def message(self, token: str) -> bytes:
        channel = self.subscriptions._by_name["x"].client
        return b"*3\r\n$7\r\nmessage\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n" % (
            len(channel), channel, len(token), token.encode()
        )  # fmt: skip

    def take(self, server: MasterConnection[Wire], data: bytes) -> None:
        with self.subscriptions._mutex:
            self.subscriptions._connections.take(server, server.connection, data)

    def hear(self, master: int, data: bytes) -> None:
        server = self.servers[master]
        with self.subscriptions._mutex:
            self.subscriptions.on_data(server, server.connection, data)


@pytest.fixture
def hearing() -> Iterator[Hearing]:
    with memory_client(3) as client:
        yield Hearing(client)


def test_a_whole_message_behind_a_piece_of_another_one_is_read_as_what_it_is(hearing: Hearing) -> None:
    """Else the piece would never be finished, and all that follows be lost with it."""
    mine = hearing.message(hearing.place.owner)
    hearing.hear(0, b"*3\r\n$7\r\nmessage\r\n$3\r\nfoo\r\n$%d\r\n" % len(mine))
    hearing.hear(0, mine)
    assert hearing.inbox.handed_by == {}, "it was the text of a message to somebody else"
    hearing.hear(0, b"\r\n" + mine)
    assert set(hearing.inbox.handed_by) == {0}


def test_ctrl_c_between_two_masters_leaves_none_unsubscribed(
    hearing: Hearing, monkeypatch: pytest.MonkeyPatch
) -> None:
    subscriptions, told = hearing.subscriptions, list[bytes]()
    first, _ = hearing.contend("y")
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(subscriptions, "_send_all", interrupted)
        hearing.subscribe(first)
    subscriptions._by_name["y"].confirmed = {0, 1}
    monkeypatch.setattr(subscriptions, "_send_all", told.append)
    hearing.subscribe(first)
    hearing.subscribe(hearing.contend("y")[0])
    assert len(told) == 1


def test_with_redisson_whose_messages_are_all_the_same_each_release_of_a_quorum_wakes(
    hearing: Hearing,
) -> None:
    hearing.inbox._context = SimpleNamespace(quorum=2, wire=REDISSON)
    for masters in ((0, 1), (2, 0), (1, 2)):
        for master in masters:
            hearing.inbox.on_release(master, b"0")
        assert hearing.inbox.take_reason() is Wake.FREE


@pytest.mark.parametrize("cause", ["a command timed out", "another primary"])
def test_what_another_connection_learned_ends_the_subscription(hearing: Hearing, cause: str) -> None:
    """A firewall may have dropped both. And nobody publishes on a primary that was replaced."""
    hearing.client.lock("y").acquire()
    hearing.subscribe(hearing.contender, 5.0)
    servers, calls = hearing.subscriptions._connections.servers, hearing.client._engine().masters
    assert eventually(lambda: all(server.connection for server in servers)), "a quorum is enough to subscribe"
    before = [server.connection for server in servers]
    if cause == "another primary":
        hearing.context.primaries[0] = "the run_id of another server"
    else:
        hearing.client._endpoints[0].pause()
        hearing.client.lock("z").acquire()
        others: list[Any] = [server.connection for server in calls._connections.servers[1:]]
        while any(connection.pending for connection in others):
            calls.read_arrived()
        calls.drop_overdue(hearing.context.clock() + 60.0)
    hearing.subscriptions._check_all()
    assert [server.connection is old for server, old in zip(servers, before, strict=True)] == [
        False, True, True
    ]  # fmt: skip


def test_the_first_waiter_polls_for_all_and_another_one_if_the_first_is_late(hearing: Hearing) -> None:
    second, place = hearing.contend("x")
    hearing.subscribe(second)
    places = [hearing.place, place]
    for each in places:
        each.drawn = True
    assert hearing.subscriptions.polls_for(hearing.contender) == places
    assert hearing.subscriptions.polls_for(second) == []
    hearing.subscriptions._by_name["x"].polled_at -= POLL_LATE_S
    assert hearing.subscriptions.polls_for(second) == places
    hearing.subscriptions.unsubscribe(hearing.contender, withdrawn=True)
    assert hearing.subscriptions.polls_for(second) == [place], "it is the first now"


MASTERS = 3
OWNER = new_owner("h/1/t")


@pytest.fixture
def masters() -> MemoryMasters:
    return MemoryMasters(MASTERS)


@pytest.fixture
def client(masters: MemoryMasters) -> Iterator[rlock.Client]:
    with rlock.Client(list(masters), ttl=2.0) as client:
        with client.lock("first"):
            pass  # it is connected now
        yield client


@pytest.fixture
def calls(client: rlock.Client) -> Any:
    return client._engine().masters


def is_free(masters: MemoryMasters, name: str) -> bool:
    with rlock.Client(list(masters), ttl=2.0) as other:
        return other.lock(name).acquire(blocking=False)


def asking(calls: Any, name: str, owner: str = OWNER) -> PendingCall:
    """A call that its thread has sent."""
    call = PendingCall(Request(commands.acquire(name, owner, 1_900), 1.0, Settle.ALL), MASTERS, 0.0)
    calls._send(call)
    return call


def follower(calls: Any, name: str) -> Any:
    """A call whose thread sleeps."""
    call = asking(calls, name)
    call.parker = calls._connections.parker()
    calls._connections._followers.add(call)
    return call


def gathering(calls: Any) -> Any:
    """The connections, which gather commands from here on for another thread to write."""
    connections = calls._connections
    connections._next = follower(calls, "other")
    connections.gathering, connections._gather_until = True, math.inf
    return connections


@pytest.mark.rule("3.4")
@pytest.mark.parametrize("gathers", [True, False], ids=["gathered", "in the backlog"])
def test_an_undo_never_overtakes_its_acquire(calls: Any, masters: MemoryMasters, gathers: bool) -> None:
    connections = gathering(calls)
    asking(calls, "job")
    assert is_free(masters, "job"), "not written yet"
    connections.gathering = gathers
    calls.send(commands.undo(OWN, "job", OWNER))
    for server in connections.servers:
        assert bool(server.connection.backlog) != gathers, "gathered commands are written at once"
        server.connection.flush()
    assert is_free(masters, "job"), "otherwise the undo has overtaken its acquire"


def test_a_confirmation_is_written_at_once_if_it_is_wanted(calls: Any, masters: MemoryMasters) -> None:
    """Its lease would end after the claim time, because no thread waits for the replies."""
    gathering(calls)
    request = Request(commands.acquire("job", OWNER, 1_900), 1.0, Settle.ALL, count_late=True)
    assert calls.start(request._replace(wanted=lambda: False)).settled
    assert is_free(masters, "job")
    calls.start(request)
    assert not is_free(masters, "job")


def test_replies_that_have_arrived_are_read_although_another_thread_reads(calls: Any) -> None:
    """Otherwise a lease behind a hand-off would be told to be lost."""
    call = asking(calls, "job")
    for fd in calls._connections.by_fd:
        select.select([fd], [], [], 1.0)
    with ThreadPoolExecutor(1) as other:
        with calls._mutex:
            calls.read_arrived()  # in a signal handler its own thread may have the mutex
            reading = other.submit(calls.read_arrived)
            time.sleep(0.01)
        reading.result()
    assert call.answered == MASTERS


@pytest.mark.rule("3.4")
def test_a_late_hand_off_frees_no_lock_that_is_kept(client: rlock.Client, masters: MemoryMasters) -> None:
    engine, lock = client._engine(), client.lock("job", hold_at_least=1.5)
    with lock:
        hold = engine.held("job")
        # As after a grant by messages.
        hold.waiter, engine.timeout = waiter_name(hold.owner, engine.context.client_id), 0.0
    for master in range(MASTERS):
        engine.pass_on("job", hold.owner, master)
    assert not is_free(masters, "job")


@pytest.mark.rule("4.4")
@pytest.mark.parametrize("lost", [True, False])
def test_a_lost_hold_passes_on_what_is_handed_to_the_place_that_it_had(
    client: rlock.Client, monkeypatch: pytest.MonkeyPatch, lost: bool
) -> None:
    """A valid hold does so by its release. The release of a lost hold may come much later."""
    engine, lock, sent = client._engine(), client.lock("job"), []
    with suppress(rlock.LeaseLostError), lock:
        hold, token = engine.held("job"), engine.context.new_owner("me")
        hold.waiter = waiter_name(token, engine.context.client_id)
        if lost:
            hold.lease.valid_until = 0.0
        with monkeypatch.context() as patch:
            patch.setattr(engine.masters, "send", lambda *words, **_: sent.append(words))
            engine.pass_on("job", token, 2)
    assert [(command.echo, targets) for command, targets in sent] == [(token, (2,))] * lost


@pytest.mark.parametrize("died", [True, False], ids=["it has died", "it is kept from running"])
def test_a_woken_thread_that_does_not_run_holds_the_others_up_for_a_moment(
    client: rlock.Client, calls: Any, died: bool
) -> None:
    connections = calls._connections
    leader, woken = asking(calls, "a"), follower(calls, "b")
    connections._leader = leader
    connections.read_arrived()
    connections._leave(leader)
    assert not woken.parker._lock.locked(), "it was not woken"
    woken.over = died
    began = time.monotonic()
    with client.lock("x"):
        pass
    # Otherwise the thread would wait for its reply behind its own command, which nobody writes.
    assert time.monotonic() - began < connections._patience * (1 if died else 4)
