"""The driver and the restart guard: which answers are compared, read, or asked for again."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rlock.model import Fault, FaultKind, Verdict
from rlock.procedures.port import Request
from rlock.rules import commands
from rlock.rules.keys import OWN
from rlock.rules.quorum import Settle
from rlock.rules.timing import guard_time

from .wired import EPOCH_US, TIMEOUT_S, WiredCalls, interrupted, resp

FULL = guard_time(10.0)
FREE = commands.free(OWN, "job", "me:1")


def note(run_id: str, age_s: float, max_ttl_ms: int = 10_000) -> str:
    """A note that was this old when the test began."""
    return f"{run_id} {EPOCH_US - round(age_s * 1e6)} {max_ttl_ms}"


def connected(masters: int = 3, *, age_s: float = 3_600.0) -> WiredCalls:
    """A client with a connection to each master; all memories have this age."""
    calls = WiredCalls(masters)
    for server in calls.servers:
        server.note = note(server.run_id, age_s)
    calls.reconnect()
    return calls


def test_an_unjudged_vote_is_sent_again_behind_the_handshake_and_counts() -> None:
    """The operator vouched for the masters while this client was idle."""
    calls = connected(age_s=0.0)
    for server in calls.servers:
        server.shake_hands("vouched")
    links = [calls.connection(i) for i in range(3)]
    ballot = calls.acquire()
    assert ballot.judge(calls.now, 9.0) is Verdict.WON
    assert calls.trips == 2, "the first delivery, and the second one together with the handshake"
    assert ballot.resent == {0, 1, 2}
    for i, server in enumerate(calls.servers):
        assert server.ran == ["acquire", "handshake", "acquire"]
        assert calls.connection(i) is links[i], "on the same connection"
    assert calls.acquire().granted == 2, "settled by two"
    assert calls.trips == 1


def test_what_is_no_longer_wanted_is_not_sent_again() -> None:
    """A healing behind the release of its hold would put the key back."""
    calls, answers = connected(age_s=0.0), iter([True, False])
    for server in calls.servers:
        server.shake_hands("vouched")
    ballot = calls.ask(commands.acquire("job", "me:1", 9_000), wanted=lambda: next(answers))
    assert ballot.granted == 0
    assert [server.ran for server in calls.servers] == [["acquire", "handshake"]] * 3


@pytest.mark.parametrize("reply", ["NOPERM no permissions to run script|load", b"5e7d"])
def test_no_reply_to_script_load_is_a_refusal(reply: str | bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = connected()
    last = calls.servers[2]
    forgot = "NOSCRIPT No matching script."
    monkeypatch.setattr(last, "run", lambda words: resp(forgot if words[0] == "EVALSHA" else reply))
    assert calls.acquire().granted == 2
    assert calls._connections.read(), "the reply to SCRIPT LOAD"
    assert calls._connections.servers[2].refusal is None
    assert not calls.connection(2).pending


def test_a_refusal_of_a_master_whose_note_is_not_judged_counts_and_asks_for_the_handshake() -> None:
    calls = connected()
    for server in calls.servers:
        server.flush()
        server.master.run(commands.acquire("job", "you:1", 60_000))
    ballot = calls.acquire(settle=Settle.ALL)
    assert (ballot.refused, ballot.voters) == (3, 0)
    assert calls.trips == 1, "nothing is sent again"
    assert all(server.ran == ["acquire", "handshake"] for server in calls.servers)


def unused(masters: int = 3) -> WiredCalls:
    """A fleet that nobody has used yet; its servers have been up for an hour."""
    calls = WiredCalls(masters)
    for server in calls.servers:
        server.note = ""
    return calls


def test_the_first_use_of_a_fleet_is_immediate() -> None:
    calls = unused()
    calls.reconnect()
    assert [server.ran for server in calls.servers] == [["handshake"]] * 3, "behind those of the greetings"
    assert calls.acquire(settle=Settle.ALL).granted == 3
    assert calls.trips == 1, "the answer to the handshake comes first on the same connection"
    assert [calls.guard.remaining(i, calls.now) for i in range(3)] == [0.0] * 3
    calls.cut(1)
    calls.reconnect()
    assert calls.servers[1].ran == ["handshake", "acquire"], "it is asked for once"


def test_a_running_round_is_sent_to_a_master_that_connects_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise it waits for a stalled master although enough others are there."""
    calls = connected()
    calls.away(2)
    calls.cut(2)
    monkeypatch.setattr(calls.connection(1), "write", len)  # it gets nothing
    read = calls._connections.read

    def connect_first() -> bool:
        calls._connections.down.clear()
        calls.reconnect()
        return read()

    monkeypatch.setattr(calls._connections, "read", connect_first)
    ballot = calls.acquire()
    assert ballot.judge(calls.now, 9.0) is Verdict.WON
    assert sorted(ballot.votes) == [0, 2]
    assert calls.servers[2].ran == ["acquire"]
    assert ballot.maybe_granted() == [0, 1, 2]


def test_an_answer_that_belongs_to_another_command_is_no_vote() -> None:
    """A reply too many on the wire, as after an interrupt in the middle of a command."""
    calls = connected(1)
    before = calls.connection(0)
    before.write(commands.acquire("another", "somebody:1", 5_000).packed)
    assert calls.acquire().granted == 1, "sent again on a new connection"
    assert before.ended
    assert calls.servers[0].ran == ["acquire"] * 3


def test_a_new_connection_to_another_life_is_no_older_than_the_last_answer_of_the_one_before() -> None:
    """The clock of the master was set forward between: its note says that the memory is a day old."""
    calls = connected(1)
    calls.now = 100.0
    calls.acquire()
    calls.now = 150.0
    server = calls.servers[0]
    calls.cut(0)
    server.life = "another"
    server.note = note("another", 86_400.0)
    calls.now = 105.0
    calls.reconnect()
    assert calls.guard.remaining(0, calls.now) == pytest.approx(FULL - 5.0)


@pytest.mark.parametrize(
    ("resend_for", "after_s", "resent"), [(9.0, 0.0, ["release"]), (9.0, 9.1, []), (0.0, 0.0, [])]
)
def test_a_release_that_a_master_missed_comes_first_while_it_means_something(
    resend_for: float, after_s: float, resent: list[str]
) -> None:
    calls = connected(1)
    calls.acquire()
    calls.away(0)
    calls.cut(0)
    calls.send(FREE, resend_for=resend_for)
    calls.now += after_s
    calls._connections.down.clear()
    calls.reconnect()
    calls.send(commands.status("job", guarded=True))
    assert calls.servers[0].ran == ["acquire", *resent, "status"]


def test_an_interrupt_while_a_connection_ends_loses_no_release_that_it_owed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = connected()
    connections, server = calls._connections, calls._connections.servers[0]
    connections.down = {0}
    calls.send(FREE, resend_for=9.0)

    def interrupted(_: object) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(connections, "_unregister", interrupted)
    with pytest.raises(KeyboardInterrupt):
        connections.drop(server, Fault(FaultKind.BROKEN, "reset"))
    assert (server.connection, connections.up) == (None, 2)
    assert {pending.command for pending in server.missed} == {FREE}
    assert server.kill, "or the server could run it when it goes on"


def test_a_connection_lives_as_long_as_a_lock_with_a_longer_request_time_out_waits() -> None:
    calls = connected()
    calls.start(Request(commands.acquire("job", "me:1", 9_000), 5 * TIMEOUT_S))
    for passed, up in ((3 * TIMEOUT_S, 3), (3 * TIMEOUT_S, 0)):
        calls.now += passed
        calls.drop_overdue(calls.now)
        assert calls._connections.up == up


@pytest.mark.parametrize("age_s", [0.0, FULL - 0.1, FULL + 0.1])
def test_an_answer_is_compared_only_while_grants_of_its_master_count(age_s: float) -> None:
    calls = connected(1, age_s=age_s)
    assert (calls.connection(0).expected_end is not None) == (age_s > FULL)
    ballot = calls.acquire()
    assert ballot.granted == (age_s > FULL)
    vote = ballot.votes[0]
    assert (vote.note is None) == (age_s > FULL), "a vote that was read has its note"
    if age_s > FULL:
        assert (vote.holder, vote.hold_count, vote.ttl_ms, vote.token) == ("me:1", 1, 9_000, EPOCH_US)
    end = calls.connection(0).expected_end
    calls.servers[0].flush()
    assert calls.acquire("me:2").granted == 0
    assert calls.connection(0).expected_end != end or age_s < FULL, "a note that changed is compared away"


def test_a_longer_lease_that_a_new_connection_tells_of_takes_votes_that_are_compared() -> None:
    """Otherwise two masters that forgot a lease of a minute would grant it again after ten seconds."""
    calls = connected(age_s=FULL + 1)
    calls.cut(2)
    calls.servers[2].note = note("r2", FULL + 1, 60_000)
    calls.reconnect()
    assert calls.guard.max_ttl == 60.0
    ballot = calls.acquire(settle=Settle.ALL)
    assert ballot.granted == 0
    assert all(vote.guarded for vote in ballot.votes.values())


def test_a_new_connection_changes_no_round_that_is_over() -> None:
    """Its caller reads the votes at the same time, and undoes what they say."""
    calls = connected()
    calls.away(2)
    calls.cut(2)
    calls.connection(1).write = len  # type: ignore[method-assign, assignment]  # it gets nothing
    calls.servers[0].master.run(commands.acquire("job", f"them:{0:032x}", 9_000, token=5))
    ballot = calls.acquire(settle=Settle.HOLDER)
    calls._connections.down.clear()
    calls.reconnect()
    assert (sorted(ballot.votes), ballot.faulted, calls.servers[2].ran) == ([0, 2], 1, [])


def test_ctrl_c_behind_a_noscript_loses_no_release(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = connected()
    calls.acquire(settle=Settle.ALL)
    for server in calls.servers:
        monkeypatch.setattr(server, "run", lambda words, run=server.run: flushed(words) or run(words))
    calls.send(FREE, resend_for=10.0)
    monkeypatch.setattr(calls, "_send_script", interrupted)
    with pytest.raises(KeyboardInterrupt):
        calls._connections.read()
    monkeypatch.undo()
    calls.reconnect()
    calls._connections.read()
    assert [server.master.find("job") for server in calls.servers] == [None] * 3


def flushed(words: Sequence[str]) -> bytes:
    return resp("NOSCRIPT No matching script.") if words[0] == "EVALSHA" else b""
