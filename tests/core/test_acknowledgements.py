"""Groups: a vote counts when all replicas have it, and only from the primary of the handshake.

`evidence/spec/Groups.tla` has each of these conditions, and is violated without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from rlock._client.handshake import ConnectError, ConnectOptions, HandshakeResult, handshake
from rlock._sync.runtime import run
from rlock.model import Code, FaultKind
from rlock.procedures.port import Request, WaitGenerator
from rlock.rules import commands
from rlock.rules.command_templates import Command
from rlock.rules.handles import Handle
from rlock.rules.keys import OWN
from rlock.rules.quorum import Ballot, Settle

from .wired import EPOCH_US, TIMEOUT_S, WiredCalls

FREE = commands.free(OWN, "job", "you:1")
#: A release that lets the owner read on.
READ_ON = commands.downgrade(OWN, "job", "you:1", "", "you+shared:1", 9_000, token=9)
TAKE = commands.transfer(Handle("job", "you:1", 9, 9, 1, 9_000, ()), "you:1", "me:1", guarded=True)


def group(masters: int = 1, replicas: int = 1) -> WiredCalls:
    """A client of groups, of which nobody has to wait for the restart guard."""
    calls = WiredCalls(masters, seconds=0.0, groups=dict.fromkeys(range(masters), replicas))
    calls.reconnect()
    for server in calls.servers:
        server.acknowledging, server.connected = replicas, [*range(replicas)]
        server.ran.clear()
    return calls


def fault(ballot: Ballot) -> FaultKind | None:
    (vote,) = ballot.votes.values()
    return None if vote.fault is None else vote.fault.kind


def test_a_grant_that_all_replicas_have_counts_in_one_trip() -> None:
    calls = group(3, 2)
    assert calls.acquire(settle=Settle.ALL).granted == 3
    assert calls.trips == 1
    assert [server.ran for server in calls.servers] == [["acquire", "WAIT", "INFO"]] * 3
    assert [calls.connection(master).writes for master in range(3)] == [1, 1, 1]


#: Each with what is written behind a command that may only read: WAIT needs something to wait for.
ASKED: list[tuple[Command, list[str]]] = [
    (commands.acquire("job", "me:1", 9_000), []),
    (commands.renew(9_000, [("job", "you:1", 1, 9)]), []),
    (READ_ON, []),
    (commands.status("another", guarded=True), ["PUBLISH"]),
    (commands.fence("job", "you:1", EPOCH_US), ["PUBLISH"]),
]


@pytest.mark.rule("2.4")
@pytest.mark.parametrize(("command", "marks"), ASKED, ids=[command.script.name for command, _ in ASKED])
def test_an_answer_that_a_replica_lacks_is_no_vote(command: Command, marks: list[str]) -> None:
    for acknowledging in (1, 0):
        calls = group()
        calls.acquire("you:1")
        calls.servers[0].ran.clear()
        calls.servers[0].acknowledging = acknowledging
        assert fault(calls.ask(command)) is (None if acknowledging else FaultKind.UNREPLICATED)
        assert calls.servers[0].ran == [command.script.name, *marks, "WAIT", "INFO"]


def test_a_release_waits_for_no_replica() -> None:
    calls = group()
    calls.acquire("you:1")
    calls.servers[0].ran.clear()
    assert calls.ask(FREE).granted == 1
    assert calls.servers[0].ran == ["release"]


#: Behind its undo, a change of hands would leave the lock to nobody.
@pytest.mark.parametrize(("command", "again"), [(READ_ON, True), (TAKE, False)])
def test_what_replicas_lack_is_sent_to_the_next_primary_if_it_frees(command: Command, again: bool) -> None:
    calls = group()
    calls.acquire("you:1")
    calls.servers[0].acknowledging = 0
    run(calls.call(Request(command, TIMEOUT_S, resend_for=9.0)))
    calls.servers[0].ran.clear()
    calls.cut(0)
    calls.reconnect()
    assert (command.script.name in calls.servers[0].ran) is again


@pytest.mark.rule("3.6")
def test_a_vote_is_judged_by_the_longest_lease_that_is_known_when_the_replicas_have_it() -> None:
    """The group restarted 5 s ago. While its vote waits for WAIT, another one tells of a lease of 30 s."""
    calls = WiredCalls(1, max_ttl=1.0, groups={0: 1})
    calls.servers[0].note = f"{calls.servers[0].run_id} {EPOCH_US - 5_000_000} 1000"
    calls.reconnect()
    ballot = calls.start(Request(commands.acquire("job", "me:1", 1_000), TIMEOUT_S, count_late=True))
    connection = calls.connection(0)
    replies = connection.arrived
    wait = replies.rindex(b":1\r\n$")
    connection.arrived = replies[:wait]
    calls._connections.read()
    calls.guard.max_ttl = 30.0
    call = connection.undecided[0].call
    assert call is not None
    calls._judge_again(call)
    connection.arrived = replies[wait:]
    calls._connections.read()
    assert ballot.votes[0].guarded


def test_a_vote_that_no_replica_confirmed_yet_is_a_fault_when_the_connection_ends() -> None:
    calls = group()
    ballot = calls.start(Request(commands.acquire("job", "me:1", 9_000), TIMEOUT_S, count_late=True))
    connection = calls.connection(0)
    connection.arrived = connection.arrived[: connection.arrived.index(b"role:")]
    calls._connections.read()
    calls.cut(0)
    assert ballot.votes[0].code is Code.FAULT


def shake_hands(replication: bytes) -> HandshakeResult:
    """With a primary whose settings make a master durable."""
    told: dict[tuple[str, ...], Any] = {
        ("INFO", "replication"): b"role:master\r\nmaster_replid2:0\r\n" + replication,
        ("INFO", "server"): b"run_id:r0",
        ("INFO", "persistence"): b"aof_enabled:1",
        ("CONFIG", "GET", "appendfsync"): [b"appendfsync", b"always"],
        ("CONFIG", "GET", "no-appendfsync-on-rewrite"): [b"no-appendfsync-on-rewrite", b"no"],
    }

    def exchange(asked: Sequence[tuple[str, ...]]) -> WaitGenerator[list[Any]]:
        yield from ()
        return [told.get(words, [1, b"r0+id0 1 0", 0, 0, 0]) for words in asked]

    return run(handshake("m0", ConnectOptions(1.0, replicas=1), exchange))


@pytest.mark.rule("2.4")
def test_a_server_of_a_group_is_never_durable() -> None:
    """Another server may replace it, whose memory is older."""
    assert shake_hands(b"master_replid:id0").memory_report[:2] == ("r0+id0", "volatile")


@pytest.mark.rule("2.4")
def test_a_server_whose_promotions_cannot_be_seen_has_no_vote() -> None:
    with pytest.raises(ConnectError, match="master_replid"):
        shake_hands(b"")
