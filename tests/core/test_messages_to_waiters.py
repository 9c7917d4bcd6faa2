"""What a waiter hears, as it comes over the wire: whole, in pieces, several at once."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest

import rlock
from rlock._client.connection import Connection, MasterConnection
from rlock._client.handshake import HandshakeResult
from rlock._client.subscriptions import Subscriptions
from rlock._sync.runtime import run
from rlock.events import MasterAnswers, MasterFailed, observe
from rlock.procedures.acquire import FOR_EVER
from rlock.procedures.attempt import take_place
from rlock.procedures.contender import Contender
from rlock.rules.holds import OwnerKey
from rlock.rules.options import ClientOptions, LockOptions
from rlock.rules.tickets import Place
from rlock.rules.timing import LOOK_LATE_S
from rlock.testing import memory_client

from ..interrupts import every_line
from ..lock.conftest import eventually


class Wire(Connection):
    """A connection on which a test is the master."""

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
        self.servers: list[MasterConnection[Wire]] = [MasterConnection(i, None) for i in range(3)]
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


def test_a_command_that_times_out_ends_the_subscription_to_its_master(hearing: Hearing) -> None:
    """A firewall that dropped the one connection may have dropped the other, which has nothing to send."""
    hearing.client.lock("y").acquire()
    hearing.subscribe(hearing.contender, 5.0)
    servers, calls = hearing.subscriptions._connections.servers, hearing.client._engine().masters
    before = [server.connection for server in servers]
    assert None not in before
    hearing.client._endpoints[0].pause()
    hearing.client.lock("z").acquire()
    calls.read_arrived()
    calls.look(hearing.context.clock() + 60.0)
    hearing.subscriptions._look()
    assert [server.connection is old for server, old in zip(servers, before, strict=True)] == [
        False, True, True
    ]  # fmt: skip


@pytest.mark.parametrize("early", [True, False], ids=["before it is connected", "while it is connected"])
def test_a_master_that_goes_down_is_not_heard_until_it_confirms_again(hearing: Hearing, early: bool) -> None:
    told: list[bool] = []

    def observer(event: Any) -> None:
        if event.master == hearing.context.masters[0] and event.messages:
            told.append(isinstance(event, MasterAnswers))

    master = hearing.client._endpoints[0]
    end = observe(lambda event: observer(event) if isinstance(event, MasterAnswers | MasterFailed) else None)
    if not early:
        hearing.subscribe(hearing.contender, 5.0)
        assert eventually(lambda: told == [True])
    master.down()
    hearing.subscribe(hearing.contender, 5.0)
    hearing.subscriptions._look()
    assert eventually(lambda: told[-1:] == [False])
    master.up()
    assert eventually(lambda: told[-1:] == [True])
    end()


@pytest.mark.rule("4.4")
def test_what_is_handed_to_one_who_has_gone_is_given_on(hearing: Hearing) -> None:
    hearing.subscriptions.unsubscribe(hearing.contender, left=True)
    hearing.hear(0, hearing.message(hearing.place.owner))
    assert hearing.inbox.handed_by == {}
    assert hearing.subscriptions._unclaimed == [("x", hearing.place.owner)]


@pytest.mark.rule("4.4")
def test_a_hand_off_that_came_before_its_waiter_left_is_passed_on(hearing: Hearing) -> None:
    hearing.hear(0, hearing.message(hearing.place.owner))
    hearing.subscriptions.unsubscribe(hearing.contender, left=False)
    assert hearing.subscriptions._unclaimed == [("x", hearing.place.owner)]


@pytest.mark.rule("4.1")
def test_a_new_connection_wakes_a_waiter_that_doubted_the_one_before(hearing: Hearing) -> None:
    """Otherwise it would sleep over the messages of the time in between, until its next look."""
    found = hearing.subscriptions._by_name["x"]
    found.confirm(0)
    hearing.subscriptions.doubt(hearing.contender)
    assert not hearing.subscriptions.is_subscribed("x")
    found.confirm(0)
    assert not hearing.inbox.has_reason(), "the connection was well"
    hearing.subscriptions.doubt(hearing.contender)
    found.lose(0)
    found.confirm(0)
    assert hearing.inbox.has_reason()


def test_one_far_master_wakes_a_waiter_with_the_last_owner_only(hearing: Hearing) -> None:
    """The release of an earlier owner arrives late. A try would cost the waiter a hand-off in one trip."""
    hearing.contender.findings.holder = "other:1"
    hearing.inbox.on_release(0, b"earlier:1")
    assert hearing.inbox.deadline == math.inf
    hearing.inbox.on_release(1, b"other:1")
    assert hearing.inbox.deadline < math.inf


def test_the_first_waiter_looks_for_all_and_another_one_if_the_first_is_late(hearing: Hearing) -> None:
    second, place = hearing.contend("x")
    hearing.subscribe(second)
    places = [hearing.place, place]
    for each in places:
        each.drawn = True
    assert hearing.subscriptions.looks_for(hearing.contender) == places
    assert hearing.subscriptions.looks_for(second) == []
    hearing.subscriptions._by_name["x"].looked_at -= LOOK_LATE_S
    assert hearing.subscriptions.looks_for(second) == places
    hearing.subscriptions.unsubscribe(hearing.contender, left=True)
    assert hearing.subscriptions.looks_for(second) == [place], "it is the first now"


def test_ctrl_c_before_any_line_of_an_unsubscribe_harms_no_other_waiter(hearing: Hearing) -> None:
    """The others share the subscription: a contender in it without an inbox ends whoever reads for all."""
    for tracer in every_line("_client/subscriptions.py", "notifications.py"):
        contender, _ = hearing.contend("x")
        hearing.subscribe(contender)
        with tracer:
            hearing.subscriptions.unsubscribe(contender, left=True)
        assert None not in hearing.subscriptions._by_name["x"].inboxes, tracer.where
        hearing.subscriptions.unsubscribe(contender, left=True)
        assert contender not in hearing.subscriptions._by_name["x"].contenders, tracer.where


def test_ctrl_c_before_any_line_of_a_subscribe_leaves_no_subscription_without_its_channels(
    hearing: Hearing,
) -> None:
    """The next waiter would find it, subscribe to nothing, and never hear of a hand-off."""
    assert hearing.subscribe(hearing.contender, 5.0) >= 2
    subscriptions = hearing.subscriptions
    for at, tracer in enumerate(every_line("_client/subscriptions.py", "notifications.py")):
        (first, _), (second, _) = hearing.contend(f"n{at}"), hearing.contend(f"n{at}")
        with tracer:
            hearing.subscribe(first)
        subscriptions.unsubscribe(first, left=True)
        assert hearing.subscribe(second, 0.5) >= 2, tracer.where
        subscriptions.unsubscribe(second, left=True)
        with subscriptions._mutex:
            subscriptions._by_name[second.name].idle_at = 0.0
            assert subscriptions._tidy()


def test_ctrl_c_before_any_line_of_a_wait_leaves_no_reader_that_does_not_read(hearing: Hearing) -> None:
    """The other waiters would sleep and rely on it."""
    assert hearing.subscribe(hearing.contender, 5.0) >= 2
    # The third confirmation may still come: no message may come during the waits below.
    assert eventually(lambda: hearing.subscribe(hearing.contender, 0.0) == 3)
    subscriptions = hearing.subscriptions
    for tracer in every_line("subscriptions.py", "notifications.py", "_sync/connections.py"):
        contender, _ = hearing.contend("x")
        hearing.subscribe(contender)
        with tracer:
            run(subscriptions.wait(contender, hearing.context.clock() + 0.001))
        subscriptions.unsubscribe(contender, left=True)
        leader = subscriptions._connections._leader
        assert leader is None or not leader.asleep, tracer.where
