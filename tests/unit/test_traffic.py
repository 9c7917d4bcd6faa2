"""The driver and the restart guard: which answers are compared, read, or asked for again."""

from __future__ import annotations

import pytest

from rlock.model import Code, FaultKind, Verdict
from rlock.rules import scripts
from rlock.rules.quorum import Settle
from rlock.rules.timing import guard_time

from .wired import EPOCH_US, WiredFanout

FULL = guard_time(10.0)


def note(run_id: str, age_s: float, max_ttl_ms: int = 10_000) -> str:
    """A note that was this old when the test began."""
    return f"{run_id} {EPOCH_US - round(age_s * 1e6)} {max_ttl_ms}"


def connected(masters: int = 3, *, age_s: float = 3_600.0) -> WiredFanout:
    """A client with a connection to each master; all memories have this age."""
    fanout = WiredFanout(masters)
    for server in fanout.servers:
        server.note = note(server.run_id, age_s)
    fanout.connect()
    return fanout


# -- a note that nobody has judged -------------------------------------------------------------------------


def test_an_unjudged_vote_is_sent_again_behind_the_handshake_and_counts() -> None:
    """The operator vouched for the masters while this client was idle."""
    fanout = connected(age_s=0.0)
    for server in fanout.servers:
        server.shake_hands("vouched")
    links = [fanout.link(i) for i in range(3)]
    ballot = fanout.acquire()
    assert ballot.judge(fanout.now, 9.0) is Verdict.WON
    assert fanout.trips == 2, "the first delivery, and the second one together with the handshake"
    assert ballot.resent == {0, 1, 2}
    for i, server in enumerate(fanout.servers):
        assert server.ran == ["acquire", "handshake", "acquire"]
        assert fanout.link(i) is links[i], "on the same connection"
    assert fanout.acquire().granted == 2, "settled by two"
    assert fanout.trips == 1


def test_one_unjudged_vote_costs_nothing_where_the_others_are_a_quorum() -> None:
    fanout = connected()
    fanout.servers[0].shake_hands("vouched")
    ballot = fanout.acquire()
    assert ballot.granted == 2
    assert fanout.trips == 1
    assert fanout.servers[0].ran == ["acquire", "handshake"], "judged for the next round"
    assert fanout.acquire("me:2").refused >= 2
    assert fanout.servers[0].ran == ["acquire", "handshake", "acquire"]


def test_a_flush_of_an_idle_client_s_master_takes_its_vote() -> None:
    fanout = connected(1)
    fanout.now = 100.0
    fanout.servers[0].flush()
    ballot = fanout.acquire()
    (vote,) = ballot.votes.values()
    assert vote.fault is not None
    assert vote.fault.kind is FaultKind.GUARDED, "sent again behind the handshake, which wrote a young note"
    assert fanout.trips == 2
    assert fanout.guard.wait(0, fanout.now) == pytest.approx(FULL)
    fanout.now += FULL + 0.001
    assert fanout.acquire().granted == 1
    assert fanout.trips == 1


def test_a_refusal_of_a_master_whose_note_is_not_judged_counts_and_asks_for_the_handshake() -> None:
    fanout = connected()
    for server in fanout.servers:
        server.flush()
        server.master.run(scripts.acquire("job", "you:1", 60_000))
    ballot = fanout.acquire(settle=Settle.ALL)
    assert (ballot.refused, ballot.voters) == (3, 0)
    assert fanout.trips == 1, "nothing is sent again"
    assert all(server.ran == ["acquire", "handshake"] for server in fanout.servers)


def test_many_answers_with_an_unjudged_note_ask_for_one_handshake() -> None:
    fanout = connected(1)
    fanout.servers[0].shake_hands("vouched")
    link = fanout.link(0)
    for _ in range(3):
        fanout.send(scripts.status("job"))
    assert fanout.acquire().granted == 1
    assert fanout.servers[0].ran.count("handshake") == 1
    assert fanout.link(0) is link


def test_a_handshake_that_fails_is_asked_for_again_with_the_next_answer() -> None:
    """The disk was full, or there was no memory for the note: that may have been mended since."""
    fanout = connected(1)
    server = fanout.servers[0]
    server.flush()
    server.refuses["handshake"] = "MISCONF no disk"
    assert fanout.acquire().granted == 0
    assert server.note == ""
    server.refuses.clear()
    fanout.acquire()
    assert server.note, "another handshake was sent on the same connection"
    fanout.now += FULL + 0.001
    assert fanout.acquire().granted == 1


# -- the first use of a fleet ------------------------------------------------------------------------------


def unused(masters: int = 3) -> WiredFanout:
    """A fleet that nobody has used yet; its servers have been up for an hour."""
    fanout = WiredFanout(masters)
    for server in fanout.servers:
        server.note = ""
    return fanout


def test_the_first_use_of_a_fleet_is_immediate() -> None:
    fanout = unused()
    fanout.connect()
    assert [server.ran for server in fanout.servers] == [["handshake"]] * 3, "behind those of the greetings"
    assert fanout.acquire(settle=Settle.ALL).granted == 3
    assert fanout.trips == 1, "the answer to the handshake comes first on the same connection"
    assert [fanout.guard.wait(i, fanout.now) for i in range(3)] == [0.0] * 3
    fanout.cut(1)
    fanout.connect()
    assert fanout.servers[1].ran == ["handshake", "acquire"], "it is asked for once"


def test_a_master_that_lost_its_memory_is_guarded_at_first_use_and_its_peers_are_not() -> None:
    fanout = unused()
    fanout.servers[2].flush()
    fanout.connect()
    assert fanout.acquire(settle=Settle.ALL).granted == 2
    assert fanout.guard.wait(2, fanout.now) == pytest.approx(FULL)


def test_while_one_master_was_not_reached_there_is_no_first_use() -> None:
    """It may be the one that knows of a lease."""
    fanout = unused()
    fanout.away(2)
    fanout.connect()
    assert fanout.acquire(settle=Settle.ALL).granted == 0
    assert [server.ran for server in fanout.servers] == [["acquire"], ["acquire"], []]
    assert fanout.guard.wait(0, fanout.now) == pytest.approx(FULL)


@pytest.mark.parametrize("granted", [False, True])
def test_when_the_last_master_is_reached_the_others_are_asked_unless_one_has_granted(granted: bool) -> None:
    fanout = unused()
    fanout.away(2)
    fanout.connect()
    if granted:
        fanout.acquire("you:1", settle=Settle.ALL)
    fanout._roster.down.clear()
    fanout.connect()
    asked = [server.ran.count("handshake") for server in fanout.servers]
    assert asked == [0 if granted else 1] * 3
    assert fanout.acquire(settle=Settle.ALL).granted == (0 if granted else 3)


def test_a_lease_that_is_granted_between_the_look_and_the_question_leaves_that_master_young() -> None:
    fanout = unused()
    fanout.away(2)
    fanout.connect()
    fanout.servers[0].master.run(scripts.acquire("other", "you:1", 9_000))
    fanout._roster.down.clear()
    fanout.connect()
    assert fanout.acquire(settle=Settle.ALL).granted == 2
    assert fanout.guard.wait(0, fanout.now) == pytest.approx(FULL)


# -- another life ------------------------------------------------------------------------------------------


def test_an_answer_of_another_life_drops_the_connection() -> None:
    """A proxy may keep a connection over a restart; the handshake of a new one tells the life."""
    fanout = connected(1)
    server, before = fanout.servers[0], fanout.link(0)
    server.run_id = "another"
    server.shake_hands("volatile")
    ballot = fanout.acquire()
    (vote,) = ballot.votes.values()
    assert vote.fault is not None
    assert vote.fault.kind is FaultKind.GUARDED
    assert before.ended
    assert fanout.link(0) is not before
    assert fanout.link(0).run_id == "another"
    assert server.ran == ["acquire", "acquire"], (
        "sent again on the new connection, which began with a handshake"
    )


def test_no_answer_of_a_dropped_connection_is_judged_or_counted() -> None:
    """Two answers have arrived together, and the first of them tells of another life."""
    fanout = connected(1)
    server, before = fanout.servers[0], fanout.link(0)
    server.run_id = "another"
    server.shake_hands("volatile")
    fanout.away(0)
    fanout.send(scripts.status("job"))
    server.note = note("r0", 3_600.0)
    ballot = fanout.acquire()
    assert before.ended
    assert ballot.granted == 0
    assert fanout.guard.wait(0, fanout.now) == pytest.approx(FULL), "the last note was not believed"


def test_a_new_connection_to_another_life_is_no_older_than_the_last_answer_of_the_one_before() -> None:
    """The clock of the master was set forward between: its note says that the memory is a day old."""
    fanout = connected(1)
    fanout.now = 100.0
    fanout.acquire()
    fanout.now = 150.0
    server = fanout.servers[0]
    fanout.cut(0)
    server.run_id = "another"
    server.note = note("another", 86_400.0)
    fanout.now = 105.0
    fanout.connect()
    assert fanout.guard.wait(0, fanout.now) == pytest.approx(FULL - 5.0)


# -- the short way: an answer that is compared and not read -------------------------------------------------


@pytest.mark.parametrize("age_s", [0.0, FULL - 0.1, FULL + 0.1])
def test_an_answer_is_compared_only_while_grants_of_its_master_count(age_s: float) -> None:
    fanout = connected(1, age_s=age_s)
    assert (fanout.link(0).tail is not None) == (age_s > FULL)
    ballot = fanout.acquire()
    assert ballot.granted == (age_s > FULL)
    assert (ballot.votes[0].note is None) == (age_s > FULL), "a vote that was read has its note"


def test_answers_are_compared_from_the_first_one_on_that_counts() -> None:
    fanout = connected(1, age_s=0.0)
    assert fanout.acquire().granted == 0
    fanout.now = FULL - 0.001
    assert fanout.acquire().granted == 0
    assert fanout.link(0).tail is None
    fanout.now = FULL + 0.001
    assert fanout.acquire().granted == 1
    assert fanout.link(0).tail is not None


def test_a_note_that_changed_is_never_compared_away() -> None:
    fanout = connected(1)
    tail = fanout.link(0).tail
    fanout.servers[0].flush()
    assert fanout.acquire().granted == 0
    assert fanout.link(0).tail != tail


def test_a_longer_lease_that_an_answer_tells_of_takes_votes_that_are_compared() -> None:
    fanout = connected(age_s=FULL + 1)
    assert all(fanout.link(i).tail for i in range(3))
    fanout.servers[0].note = note("r0", FULL + 1, 60_000)
    fanout.ask(scripts.status("job"), Settle.ALL)
    assert fanout.guard.max_ttl == 60.0
    assert fanout.acquire(settle=Settle.ALL).granted == 0
    fanout.now = guard_time(60.0)
    assert fanout.acquire("me:1", settle=Settle.ALL).granted == 3


def test_a_longer_lease_that_a_new_connection_tells_of_takes_votes_that_are_compared() -> None:
    """Otherwise two masters that forgot a lease of a minute would grant it again after ten seconds."""
    fanout = connected(age_s=FULL + 1)
    fanout.cut(2)
    fanout.servers[2].note = note("r2", FULL + 1, 60_000)
    fanout.connect()
    assert fanout.guard.max_ttl == 60.0
    ballot = fanout.acquire(settle=Settle.ALL)
    assert ballot.granted == 0
    assert all(vote.guarded for vote in ballot.votes.values())


# -- a round that learns of a longer lease -----------------------------------------------------------------


def test_a_round_judges_its_votes_again_when_it_has_learned_of_a_longer_lease() -> None:
    fanout = connected(age_s=FULL + 1)
    fanout.servers[1].note = note("r1", FULL + 1, 60_000)
    ballot = fanout.acquire()
    assert ballot.votes[0].code == Code.FAULT
    assert ballot.granted == 0


def test_a_round_that_learns_of_a_longer_lease_by_its_second_delivery_judges_its_votes_again() -> None:
    """Master 0 counts at first. 1 tells of a lease of a minute only behind its handshake; 2 is down."""
    fanout = connected(age_s=FULL + 1)
    fanout.cut(2)
    fanout.away(2)
    fanout.servers[1].note = "r1 0 60000"
    ballot = fanout.acquire()
    assert fanout.trips == 2
    assert ballot.votes[1].code == Code.YES
    assert ballot.votes[0].code == Code.FAULT, "its memory is younger than a minute"
    assert ballot.judge(fanout.now, 9.0) is not Verdict.WON


def test_with_the_guard_off_every_grant_counts_and_no_note_is_asked_for() -> None:
    fanout = WiredFanout(1, seconds=0)
    fanout.servers[0].flush()
    fanout.connect()
    ballot = fanout.ask(scripts.acquire("job", "me:1", 9_000, guarded=False))
    assert ballot.granted == 1
