"""The restart guard: what a master's age is taken to be, from all that it tells."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from rlock.errors import OptionsError
from rlock.model import Code, FaultKind, Vote
from rlock.rules.guard import Guard, Handshake, Marker
from rlock.rules.options import ClientOptions, from_env
from rlock.rules.timing import guard_time

NAMES = ["redis://a", "redis://b", "redis://c"]
TIME_US = 1_790_000_000_000_000
FULL = guard_time(10.0)
DAY = 86_400.0
#: Somebody of the fleet has been here before, and stays.
NEIGHBOUR = Handshake("b1", DAY, TIME_US, f"b1 {TIME_US - 10**11} 10000")


def fresh(run_id: str = "a1", uptime_s: float | None = 3.0, **more: object) -> Handshake:
    return replace(Handshake(run_id, uptime_s, TIME_US), **more)  # type: ignore[arg-type]


def marked(since_s: float | None, run_id: str = "a1", max_ttl_ms: int = 10_000) -> str:
    """A marker that is so many seconds old; None: the operator's."""
    since = 0 if since_s is None else TIME_US - round(since_s * 1e6)
    return f"{run_id} {since} {max_ttl_ms}"


def wait(handshake: Handshake, *, neighbour: bool = False) -> float:
    """How long a client that has just come waits for this master."""
    guard = Guard(NAMES, 10.0)
    if neighbour:
        guard.met(1, NEIGHBOUR, 100.0)
    guard.met(0, handshake, 100.0)
    return guard.wait(0, 100.0)


def test_the_guard_lasts_longer_than_any_lease_by_drift_and_the_resolution_of_the_uptime() -> None:
    assert pytest.approx(10.0 + 0.102 + 1.0) == FULL


@pytest.mark.parametrize(
    ("handshake", "age"),
    [
        (fresh(), 3.0),
        (fresh(uptime_s=DAY), math.inf),
        (fresh(uptime_s=-58.0), 0.0),  # its clock was set back
        (fresh(uptime_s=TIME_US / 1e6 + 1), 0.0),  # started before 1970
        (fresh(uptime_s=1e12), 0.0),
        (fresh(uptime_s=None), 0.0),  # INFO is denied
        (fresh(uptime_s=DAY, promoted=True), 0.0),  # a replica lacks the last moments of its master
        (fresh(durable=True), math.inf),
        (fresh(uptime_s=DAY, marker=marked(5.0)), 5.0),  # flushed; the note was written then
        (fresh(uptime_s=4.0, marker=marked(DAY)), 5.0),  # its clock was set forward
        (fresh(uptime_s=None, marker=marked(5.0)), 5.0),
        (fresh(uptime_s=None, marker=marked(DAY)), math.inf),
        (fresh(marker=marked(None)), math.inf),  # the operator vouches for this life
        (fresh(marker=marked(None, "a0")), 3.0),  # and for that one, which is over: a snapshot was loaded
        (fresh(marker=marked(DAY, "a0")), 3.0),
        (fresh(marker=marked(DAY, "a0"), durable=True), math.inf),  # the note has outlived the restart
        (fresh(uptime_s=DAY, marker=marked(DAY, "a0"), durable=True, promoted=True), 0.0),
        (fresh(marker=marked(5.0), time_us=0), 0.0),  # TIME is denied
        (fresh(marker="what is this"), 3.0),
    ],
)
def test_the_age_of_a_master_is_the_least_that_anything_tells(handshake: Handshake, age: float) -> None:
    assert wait(handshake) == pytest.approx(max(0.0, FULL - age))


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("uptime_s", [5.0, DAY])
@pytest.mark.parametrize("neighbour_first", [False, True])
def test_an_empty_master_among_others_that_are_not_was_flushed_or_is_new(
    neighbour_first: bool, uptime_s: float, durable: bool
) -> None:
    """Its uptime says nothing about that; and who connects first must not matter."""
    guard = Guard(NAMES, 10.0)
    meetings = [(0, fresh(uptime_s=uptime_s, durable=durable)), (1, NEIGHBOUR)]
    for master, handshake in reversed(meetings) if neighbour_first else meetings:
        guard.met(master, handshake, 100.0)
    assert guard.wait(0, 100.0) == pytest.approx(FULL)
    assert guard.wait(1, 100.0) == 0.0


def test_a_fleet_of_old_servers_that_nobody_has_used_yet_is_ready_at_once() -> None:
    guard = Guard(NAMES, 10.0)
    for master in range(3):
        guard.met(master, fresh(f"r{master}", DAY), 100.0)
    for master in range(3):
        assert guard.wait(master, 100.0) == 0.0
        assert not guard.known(master, ""), "with the first answer a note is due"
        assert guard.told(master, "", 101.0) == pytest.approx(DAY + 1.0)
        assert guard.known(master, ""), "once"


def test_a_server_that_is_another_one_than_before_has_just_been_started_whatever_its_uptime() -> None:
    """Its uptime goes by the wall clock, which may have been set since."""
    for marker in ("", marked(3600.0, "a2")):
        guard = Guard(NAMES, 10.0)
        guard.met(0, fresh("a1", DAY, marker=marked(DAY)), 100.0)
        assert guard.wait(0, 100.0) == 0.0
        guard.met(0, fresh("a2", 3600.0, marker=marker), 101.0)
        assert guard.wait(0, 101.0) == pytest.approx(FULL)


def test_a_changed_server_counts_at_once_if_it_forgets_nothing_or_the_operator_says_so() -> None:
    for after in (fresh("a2", marker=marked(DAY), durable=True), fresh("a2", marker=marked(None, "a2"))):
        guard = Guard(NAMES, 10.0)
        guard.met(0, fresh("a1", DAY, marker=marked(DAY), durable=after.durable), 100.0)
        guard.met(0, after, 101.0)
        assert guard.wait(0, 101.0) == 0.0


def test_a_new_connection_to_the_same_life_changes_nothing() -> None:
    guard = Guard(NAMES, 10.0)
    guard.met(0, fresh(uptime_s=3.0), 100.0)
    guard.told(0, marked(3.0), 100.1)
    guard.met(0, fresh(uptime_s=9.0, marker=marked(3.0), time_us=TIME_US + 6_000_000), 106.0)
    assert guard.wait(0, 106.0) == pytest.approx(FULL - 9.0)
    assert guard.wait(0, 100.0 + FULL - 3.0) == 0.0


def test_the_operators_word_counts_on_a_new_connection_to_a_life_that_was_waited_for() -> None:
    guard = Guard(NAMES, 10.0)
    guard.met(0, fresh(uptime_s=3.0), 100.0)
    guard.told(0, marked(3.0), 100.1)
    guard.met(0, fresh(uptime_s=5.0, marker=marked(None)), 102.0)
    assert guard.wait(0, 102.0) == 0.0


def test_a_flush_is_noticed_by_the_marker_that_is_gone() -> None:
    guard = Guard(NAMES, 10.0)
    guard.met(0, fresh(uptime_s=DAY, marker=marked(DAY)), 100.0)
    assert guard.told(0, marked(DAY), 101.0) is None
    assert guard.known(0, marked(DAY))
    assert not guard.known(0, "")
    assert guard.told(0, "", 102.0) == 0.0, "a new note is due, with an age of nothing"
    assert guard.wait(0, 102.0) == pytest.approx(FULL)
    assert guard.told(0, "", 103.0) is None, "noticed once"
    assert guard.wait(0, 103.0) == pytest.approx(FULL - 1.0)
    again = fresh(uptime_s=DAY, marker=marked(-3.0), time_us=TIME_US + 5_000_000)
    guard.met(0, again, 104.0)
    assert guard.wait(0, 104.0) == pytest.approx(FULL - 2.0), "a new connection sees the new note"


@pytest.mark.parametrize("how", ["flushed", "restarted", "a longer max_ttl"])
def test_whoever_remembers_that_an_answer_was_no_news_sees_that_this_is_over(how: str) -> None:
    guard = Guard(NAMES, 10.0)
    for master in (0, 1):
        guard.met(master, fresh(f"r{master}", 15.0, marker=marked(15.0, f"r{master}")), 100.0)
        guard.screen(master, Vote(Code.YES), 100.0, grants=True)
        assert guard.known(master, marked(15.0, f"r{master}"))
    before = guard.changes
    assert guard.known(0, marked(15.0, "r0"))
    assert guard.changes == before, "to look changes nothing"
    if how == "flushed":
        guard.told(0, "", 101.0)
    elif how == "restarted":
        guard.met(0, fresh("another", 1.0), 101.0)
    else:
        guard.told(1, marked(15.0, "r1", max_ttl_ms=60_000), 101.0)
    assert not guard.known(0, marked(15.0, "r0"))
    assert guard.changes != before


def test_a_flush_while_nobody_was_connected_is_noticed_too() -> None:
    guard = Guard(NAMES, 10.0)
    guard.met(0, fresh(uptime_s=DAY, marker=marked(DAY)), 100.0)
    guard.met(0, fresh(uptime_s=DAY), 105.0)
    assert guard.wait(0, 105.0) == pytest.approx(FULL)
    assert guard.told(0, "", 105.0) == 0.0, "a note is due, with an age of nothing"


@pytest.mark.parametrize("connected", [True, False])
def test_a_flush_that_another_client_was_the_first_to_notice_is_one_for_us_too(connected: bool) -> None:
    """It has written the note again: of the same life, but younger."""
    for before in (marked(DAY), marked(None)):
        guard = Guard(NAMES, 10.0)
        guard.met(0, fresh(uptime_s=DAY, marker=before), 100.0)
        later = marked(-5.0)
        if connected:
            assert guard.told(0, later, 106.0) is None
        else:
            guard.met(0, fresh(uptime_s=DAY, marker=later, time_us=TIME_US + 6_000_000), 106.0)
        assert guard.wait(0, 106.0) == pytest.approx(FULL)
        assert "FLUSHALL" in guard.fault(0, 106.0)


def test_one_who_meets_the_flushed_master_first_neither_vouches_for_it_nor_believes_itself() -> None:
    guard = Guard(NAMES, 10.0)
    guard.met(0, fresh(uptime_s=DAY), 100.0)
    assert guard.told(0, "", 100.0) == 0.0, "nobody knows yet whether this one alone is empty"
    guard.told(0, marked(0.0), 100.0)
    guard.met(1, NEIGHBOUR, 100.1)
    assert guard.wait(0, 100.1) == pytest.approx(FULL - 0.1)
    guard = Guard(NAMES, 10.0)
    guard.met(0, fresh(uptime_s=DAY), 100.0)
    guard.met(1, NEIGHBOUR, 100.0)
    guard.met(2, NEIGHBOUR, 100.0)
    assert guard.told(0, "", 101.0) == pytest.approx(1.0)
    guard.told(0, marked(0.0), 101.0)
    assert guard.wait(0, 101.0) == pytest.approx(FULL - 1.0)


def test_the_operators_word_for_an_earlier_life_does_not_outlive_a_change_of_the_settings() -> None:
    guard = Guard(NAMES, 10.0)
    guard.met(0, fresh("a1", DAY, marker=marked(None)), 100.0)
    guard.met(0, fresh("a2", 1.0, marker=marked(None), durable=True), 105.0)
    assert guard.wait(0, 105.0) == pytest.approx(FULL), "a snapshot was loaded, and is kept from now on"


def test_a_durable_master_whose_disk_was_left_behind_is_one_that_restarted() -> None:
    guard = Guard(NAMES, 10.0)
    guard.met(0, fresh("a1", DAY, marker=marked(DAY), durable=True), 100.0)
    guard.met(0, fresh("a2", 1.0, durable=True), 105.0)
    assert guard.wait(0, 105.0) == pytest.approx(FULL)
    guard = Guard(NAMES, 10.0)
    guard.met(0, fresh("a1", DAY, marker=marked(DAY)), 100.0)
    guard.met(0, fresh("a2", 1.0, marker=marked(DAY), durable=True), 105.0)
    assert guard.wait(0, 105.0) == pytest.approx(FULL), "it is only now configured so"


def test_the_operators_word_reaches_those_who_wait_already() -> None:
    guard = Guard(NAMES, 10.0)
    guard.met(0, fresh(), 100.0)
    guard.told(0, marked(3.0), 100.5)
    assert guard.wait(0, 101.0) > 0
    assert guard.told(0, marked(None), 101.0) is None
    assert guard.wait(0, 101.0) == 0.0
    guard.met(1, fresh("b1"), 102.0)
    guard.told(1, marked(None, "b0"), 102.0)
    assert guard.wait(1, 102.0) > 0, "it was said of another life"


def test_who_came_first_knows_more_of_a_fleet_that_is_taken_into_use() -> None:
    """Two clients start at once: the first has noted one old master, not yet the other, when we look."""
    guard = Guard(NAMES, 10.0)
    guard.met(1, NEIGHBOUR, 100.0)
    guard.met(0, fresh(uptime_s=DAY), 100.0)
    assert guard.wait(0, 100.0) > 0
    guard.told(0, marked(DAY), 100.1)
    assert guard.wait(0, 100.1) == 0.0


def test_a_guarded_master_grants_nothing_and_says_for_how_long() -> None:
    guard = Guard(NAMES, 10.0)
    guard.met(0, fresh(), 100.0)
    granted = Vote(Code.YES, "me:1", token=5)
    vote = guard.screen(0, granted, 101.0, grants=True)
    assert vote.code == Code.FAULT
    assert vote.fault is not None
    assert vote.fault.kind is FaultKind.GUARDED
    assert "it has no vote for 7.1 s more" in vote.fault.text
    refused = Vote(Code.FOREIGN, "you:1", 1, 500)
    assert guard.screen(0, refused, 101.0, grants=True) == refused._replace(guarded=True)
    batch = Vote(Code.YES, "me:1", codes=[1, 1])
    assert guard.screen(0, batch, 101.0, grants=False) == batch._replace(code=Code.FOREIGN, guarded=True)
    assert guard.screen(0, granted, 100.0 + FULL, grants=True) == granted
    assert guard.known(0, None), "from then on it needs no look at the clock"


def test_turned_off_it_asks_for_nothing_and_stops_nobody() -> None:
    guard = Guard(NAMES, 10.0, 0)
    assert not guard.on
    guard.met(0, fresh(uptime_s=0.0), 100.0)
    assert guard.wait(0, 100.0) == 0.0
    assert guard.known(0, None)


def test_a_longer_max_ttl_in_the_fleet_is_used_and_told() -> None:
    guard = Guard(NAMES, 10.0)
    guard.met(1, fresh("b1", 30.0, marker=marked(30.0, "b1")), 100.0)
    assert guard.wait(1, 100.0) == 0.0
    guard.met(0, fresh(marker=marked(3.0, max_ttl_ms=60_000)), 100.0)
    assert guard.wait(1, 100.0) > 30.0, "also of masters that counted before"
    assert guard.max_ttl == 60.0
    assert guard.wait(0, 100.0) == pytest.approx(guard_time(60.0) - 3.0)
    assert "max_ttl of 60 s, this client has 10 s" in str(next(iter(guard.news)))
    assert guard.max_ttl_ms() == 60_000


def test_a_shorter_max_ttl_in_a_marker_is_raised() -> None:
    guard = Guard(NAMES, 10.0)
    for max_ttl_ms in (1_000, 10_000):
        marker = marked(None, max_ttl_ms=max_ttl_ms)
        guard.met(0, fresh(marker=marker), 100.0)
        assert (guard.told(0, marker, 100.0) is not None) == (max_ttl_ms == 1_000)
        assert guard.max_ttl == 10.0


def test_a_guard_is_told_of_once() -> None:
    guard = Guard(NAMES, 10.0)
    for now in (100.0, 101.0):
        guard.met(0, fresh(uptime_s=now - 100.0, time_us=TIME_US), now)
        for _ in range(2):
            guard.screen(0, Vote(Code.YES, "me:1"), 100.0, grants=True)
    assert [str(event) for event in guard.news] == [
        "redis://a: it is new, or restarted: it has no vote for 11.1 s more, while a lease from before may "
        "be valid"
    ]


@pytest.mark.parametrize("text", ["", "a1", "a1 5", "a1 5 x", "a1 -5 10", "a1 5 ٣"])
def test_what_is_no_marker_is_none(text: str) -> None:
    assert Marker.parse(text) is None


def test_a_marker_of_a_server_that_hides_its_run_id_is_one_too() -> None:
    assert Marker.parse(" 5 10000") == Marker("", 5, 10_000)


def test_a_guard_that_is_too_short_is_refused() -> None:
    assert ClientOptions(restart_guard=0).restart_guard == 0
    assert ClientOptions(restart_guard=30.0).restart_guard == 30.0
    with pytest.raises(OptionsError, match=r"takes 11\.1 s"):
        ClientOptions(restart_guard=5.0)
    with pytest.raises(OptionsError, match="restart_guard must be a number"):
        ClientOptions(restart_guard="off")  # type: ignore[arg-type]
    masters = {"RLOCK_MASTERS": "redis://a"}
    assert from_env({**masters, "RLOCK_RESTART_GUARD": "0"})[1] == {"restart_guard": 0.0}
    with pytest.raises(OptionsError, match="RLOCK_RESTART_GUARD"):
        from_env({**masters, "RLOCK_RESTART_GUARD": "off"})
