"""The restart guard: from which instant on the grants of a master count, by all that its note says."""

from __future__ import annotations

import math

import pytest

from rlock.model import Code, Fault, FaultKind, Vote
from rlock.rules.restart_guard import FLUSHED, NEW, NO_INFO, RESTARTED, Guard, MemoryReport, Note
from rlock.rules.timing import guard_time

NAMES = ["redis://a", "redis://b", "redis://c"]
TIME_US = 1_790_000_000_000_000  # the master's time at the local instant 100
FULL = guard_time(10.0)
DAY = 86_400.0
YES = Vote(Code.YES, "me:1", token=5)


def note(age_s: float | None, run_id: str = "a1", max_ttl_ms: int = 10_000) -> str:
    """A note that is this old at the instant 100; None: the operator vouched."""
    since = 0 if age_s is None else TIME_US - round(age_s * 1e6)
    return f"{run_id} {since} {max_ttl_ms}"


def told(text: str, now: float = 100.0, run_id: str | None = None) -> MemoryReport:
    """A handshake that found this note."""
    known = text.split(" ")[0] if run_id is None else run_id
    return MemoryReport(known, "volatile", text, TIME_US + round((now - 100.0) * 1e6))


def met(text: str, run_id: str | None = None) -> Guard:
    """A client whose first connection to master 0 found this note at the instant 100."""
    guard = Guard(len(NAMES), 10.0)
    guard.judge(0, told(text, run_id=run_id), 100.0)
    return guard


def whole_from(guard: Guard, now: float, master: int = 0) -> float:
    """The instant since when a memory is whole; the earliest one of which a wait can tell."""
    return guard.remaining(master, now) + now - guard.time


NO_NOTES = ["", " ", "a1", "a1 5", "5 10000", "a1 5 x", "a1 x 5", "a1 -5 10", "a1 5 ٣", "a1 5 10 "]


@pytest.mark.parametrize("text", [*NO_NOTES, f"a1 {10**16} 5"])
def test_a_text_that_cannot_be_understood_is_no_note(text: str) -> None:
    assert Note.parse(text) is None
    guard = met(text, run_id="a1")
    assert not guard.counts(0, text, 100.0 + DAY)
    assert not guard.counts(0, None, 100.0 + DAY)


def test_a_master_that_was_never_met_has_no_vote() -> None:
    guard = Guard(len(NAMES), 10.0)
    assert not guard.counts(0, None, 1e9)
    assert not guard.counts(0, note(DAY), 1e9)
    assert (guard.remaining(0, 100.0), guard.run_id(0)) == (0.0, "")
    assert guard.check_note(0, note(DAY), 100.0), "there is nothing to compare it with"
    assert not guard.check_note(0, "", 100.0)
    assert not guard.counts(0, note(DAY), 100.0)


@pytest.mark.rule("3.6")
@pytest.mark.parametrize("new_connection", [False, True])
def test_a_memory_whose_clock_was_set_back_is_known_by_its_first_date(*, new_connection: bool) -> None:
    guard, first = met(note(3.0)), note(3.0).split(" ")[1]
    dated = f"a1@{first} {TIME_US - 3_600_000_000} 10000"
    assert guard.check_note(0, dated, 105.0), "its votes go on"
    report = MemoryReport("a1", "volatile", dated, TIME_US - 3_599_000_000)
    guard.judge(0, report, 105.0, new_connection=new_connection)
    assert whole_from(guard, 105.0) == pytest.approx(97.0)
    newcomer, flushed = Guard(len(NAMES), 10.0), f"a1 {TIME_US - 3_600_000_000} 10000"
    newcomer.judge(0, report, 105.0)
    assert whole_from(newcomer, 105.0) == pytest.approx(104.0)
    assert not guard.check_note(0, flushed, 105.0), "a memory that was lost after the clock was set back"
    guard.judge(0, report._replace(note=flushed), 105.0, new_connection=new_connection)
    assert whole_from(guard, 105.0) == pytest.approx(104.0)


#: By their age at the instant 100: what a client knew, and what a handshake finds 7 s later.
AGES = (-7.0, -3.0, 0.0, 3.0, 3.5, FULL - 0.5, FULL + 1.0, DAY, None)


def judged(
    before: str | None, after: MemoryReport, last_reply_at: float, *, new_connection: bool
) -> tuple[float, str]:
    """Since when the memory is whole at the instant 107, and why not for longer. The rules, written again."""
    old, found = Note.parse(before or ""), Note.parse(after.note)
    if found is None:
        return math.inf, NEW if before is None else FLUSHED
    age_s = (after.time_us - found.since_us) / 1e6
    whole, reason = (107.0 - max(0.0, age_s) if found.since_us else -math.inf), NEW
    if before is not None and found.since_us:
        if old is not None and old.since_us == found.since_us:  # somebody may have set the clock
            whole = 100.0 - max(0.0, (TIME_US - old.since_us) / 1e6)
        elif old is None or old.run_id != after.run_id or old.since_us < found.since_us:
            whole, reason = max(whole, last_reply_at), FLUSHED if after.run_id == "a1" else RESTARTED
        # else at first use the memory was found to be as old as its life
    if after.run_id:
        return whole, reason
    # A snapshot may have brought the note back, and nothing tells of a restart but the connection.
    return (107.0 if before is None or new_connection else max(whole, 100.0)), NO_INFO


@pytest.mark.parametrize("new_connection", [False, True])
@pytest.mark.parametrize("clock_set", [-DAY, -2.0, 0.0, 2.0, DAY])
@pytest.mark.parametrize("run_id", ["a1", "a2", ""])
def test_a_memory_is_as_old_as_its_note_and_as_what_was_known_before_allow(
    run_id: str, clock_set: float, *, new_connection: bool
) -> None:
    first = run_id and "a1"
    for known in (None, "", *(note(age, first) for age in AGES)):
        for text in ("", *(note(age, run_id) for age in AGES)):
            for last_reply_at in (-math.inf, 100.0, 103.0, 106.0):
                guard = Guard(len(NAMES), 10.0) if known is None else met(known, first)
                report = told(text, 107.0 + clock_set, run_id)
                guard.judge(0, report, 107.0, last_reply_at=last_reply_at, new_connection=new_connection)
                whole, reason = judged(known, report, last_reply_at, new_connection=new_connection)
                case = known, text, last_reply_at
                assert guard.counts(0, text, 107.0) == (whole + FULL <= 107.0), case
                if text:
                    assert guard.remaining(0, 107.0) == pytest.approx(max(0.0, whole + FULL - 107.0)), case
                assert guard.fault(0, 107.0).startswith(reason), case


def test_a_longer_lease_in_a_note_makes_the_votes_of_other_masters_wait_at_once() -> None:
    guard = Guard(len(NAMES), 10.0)
    guard.judge(1, told(note(30.0, "b1")), 100.0)
    assert guard.counts(1, None, 100.0)
    longer: list[tuple[int, float, float]] = []
    guard.on_longer = lambda *told: longer.append(told)
    guard.judge(0, told(note(3.0, max_ttl_ms=60_000)), 100.0)
    assert guard.max_ttl == 60.0
    assert guard.time == guard_time(60.0)
    assert not guard.counts(1, None, 100.0)
    assert guard.remaining(1, 100.0) == pytest.approx(guard_time(60.0) - 30.0)
    assert guard.remaining(0, 100.0) == pytest.approx(guard_time(60.0) - 3.0)
    assert longer == [(0, 60.0, 10.0)]


def test_a_longer_lease_is_forgotten_when_an_operator_vouches_for_all_masters() -> None:
    guard = Guard(len(NAMES), 10.0)
    for master in range(len(NAMES)):
        guard.judge(master, told(note(3.0, f"m{master}", max_ttl_ms=86_400_000)), 100.0)
    for master in range(len(NAMES)):
        assert guard.max_ttl == DAY
        guard.judge(master, told(f"m{master} 0 {60_000 if master else 0}"), 101.0)
    assert guard.max_ttl == 60.0, "a lease of 60 s was granted since"
    assert guard.remaining(1, 101.0) == 0.0


@pytest.mark.parametrize("max_ttl_ms", [86_400_001, 10**15])
def test_a_note_of_a_lease_that_no_client_may_have_costs_the_fleet_a_day_at_most(max_ttl_ms: int) -> None:
    assert met(note(DAY, max_ttl_ms=max_ttl_ms)).max_ttl == DAY
    guard = met(note(DAY))
    assert guard.check_note(0, note(DAY, max_ttl_ms=max_ttl_ms), 101.0)
    assert guard.max_ttl == DAY


TEXTS = {
    "the same": note(DAY),
    "a longer lease": note(DAY, max_ttl_ms=60_000),
    "a shorter lease": note(DAY, max_ttl_ms=1),
    "another since": note(DAY - 1.0),
    "the operator": note(None),
    "another life": note(DAY, "a2"),
    "none": "",
    "no note": "hello",
}


@pytest.mark.parametrize("how", TEXTS)
def test_an_answer_counts_with_the_note_that_was_judged_and_with_a_longer_lease_in_it(how: str) -> None:
    guard, text = met(note(DAY)), TEXTS[how]
    known = how in ("the same", "a longer lease", "a shorter lease")
    assert guard.check_note(0, text, 101.0) == known
    assert guard.counts(0, text, 101.0) == known
    assert guard.counts(0, None, 101.0) == known
    assert guard.max_ttl == (60.0 if how == "a longer lease" else 10.0)
    if known:
        assert guard.counts(0, None, 101.0)
        return
    assert not guard.counts(0, text, 101.0 + DAY), "until a handshake has judged it"
    assert guard.check_note(0, text, 102.0) is False, "and the same text again is no better known"
    assert guard.fault(0, 102.0) == f"{FLUSHED}: the age of its memory is not known yet"


def test_a_note_that_was_lost_and_is_judged_again_is_no_older_than_the_loss() -> None:
    """It came back from somewhere with the old text: an operator's RESTORE, for one."""
    guard = met(note(DAY))
    guard.check_note(0, "", 105.0)
    guard.judge(0, told(note(DAY), 106.0), 106.0, last_reply_at=104.0, new_connection=False)
    assert whole_from(guard, 106.0) == pytest.approx(105.0)


def test_a_grant_of_a_young_memory_is_a_fault_that_says_for_how_long() -> None:
    guard = met(note(3.0))
    granted = YES._replace(note=note(3.0))
    vote = guard.filter_vote(0, granted, 101.0, grants=True)
    assert (vote.code, vote.guarded) == (Code.FAULT, True)
    assert vote.fault is not None
    assert vote.fault.kind is FaultKind.GUARDED
    assert vote.fault.text == f"{NEW}: it has no vote for 6.1 s more, while a lease from before may be valid"
    assert guard.filter_vote(0, granted, 100.0 + FULL, grants=True) == granted
    assert guard.filter_vote(0, YES, 100.0 + FULL, grants=True) == YES


@pytest.mark.parametrize("text", [note(3.0), note(1.0), "", None])
@pytest.mark.parametrize("grants", [False, True])
def test_refusals_count_looks_are_told_and_a_batch_settles_nothing(text: str | None, *, grants: bool) -> None:
    guard = met(note(3.0))
    for vote in (
        Vote(Code.FOREIGN, "you:1", 1, 500),
        Vote(Code.ABSENT),
        Vote(Code.NOT_A_LOCK),
        Vote(Code.QUEUED),
    ):
        told_of = vote._replace(note=text)
        assert guard.filter_vote(0, told_of, 101.0, grants=grants) == told_of._replace(guarded=True)
    status = YES._replace(note=text)
    assert guard.filter_vote(0, status, 101.0, grants=False) == status._replace(guarded=True)
    batch = Vote(Code.YES, "me:1", codes=[1, 1], note=text)
    assert guard.filter_vote(0, batch, 101.0, grants=False) == batch._replace(code=Code.FOREIGN, guarded=True)


def test_a_fault_stays_the_fault_that_it_was() -> None:
    """It is no answer, so a reader that adds up missing and young masters counts it once."""
    down = Vote(Code.FAULT, fault=Fault(FaultKind.DOWN, "refused"))
    for guard in (met(note(3.0)), met(""), Guard(len(NAMES), 10.0)):
        for grants in (False, True):
            assert guard.filter_vote(0, down, 101.0, grants=grants) == down


def test_turned_off_it_judges_nothing_and_stops_nobody() -> None:
    guard = Guard(len(NAMES), 10.0, 0)
    assert not guard.on
    for i in range(3):
        guard.judge(i, told(note(0.0, f"{'abc'[i]}1", 60_000 if i == 0 else 0)), 100.0)
    assert (guard.remaining(0, 100.0), guard.max_ttl) == (0.0, 10.0)
    assert guard.first_use(100.0) == []
    for vote in (YES, YES._replace(note=""), Vote(Code.YES, "me:1", codes=[1, 1])):
        for grants in (False, True):
            assert guard.filter_vote(0, vote, 100.0, grants=grants) == vote


# -- First use: when a master may be as old as its server, and not only as its note


def fleet(*notes: str) -> Guard:
    """A client that has met the first of its three masters, with these notes."""
    guard = Guard(len(NAMES), 10.0)
    for i, text in enumerate(notes):
        guard.judge(i, told(text, run_id="abc"[i] + "1"), 100.0)
    return guard


YOUNG = [note(0.0, f"{name}1", 0) for name in "abc"]


def test_at_first_use_each_master_that_does_not_count_is_asked_with_the_note_that_is_known() -> None:
    assert fleet(*YOUNG).first_use(100.0) == list(enumerate(YOUNG))


@pytest.mark.parametrize("granted", [0, 1, 2])
@pytest.mark.parametrize("max_ttl_ms", [1, 10_000])
def test_where_one_master_has_granted_a_lease_there_is_no_first_use(max_ttl_ms: int, granted: int) -> None:
    """One without grants may have lost its memory, or be another server than it was."""
    notes = [*YOUNG]
    notes[granted] = note(DAY, f"{'abc'[granted]}1", max_ttl_ms)
    guard = fleet(*notes)
    assert guard.first_use(100.0) == []
    guard.judge(granted, told(note(None, f"{'abc'[granted]}1", 0), 101.0), 101.0)
    assert guard.first_use(101.0) == [], "nor afterwards: it was in use"


#: It is no first use by these: the instant, a later note of the first master, the note of the third one.
LATE: dict[str, tuple[float, str | None, str]] = {
    # Otherwise the third master, replaced by an old server meanwhile, would be believed beside a holder.
    "the notes were read a while ago": (101.1, None, YOUNG[2]),
    "a lease was granted meanwhile": (100.0, note(0.0, "a1", 10_000), YOUNG[2]),
    # It was refused: what was granted there is not known.
    "the third one has no note": (100.0, None, ""),
}


@pytest.mark.parametrize("why", LATE)
def test_it_is_no_first_use(why: str) -> None:
    guard, (now, later, third) = fleet(*YOUNG[:2]), LATE[why]
    if later:
        guard.check_note(0, later, now)
    assert guard.first_use(now) == [], "the third one, which was not reached, may know of a lease"
    guard.judge(2, told(third, run_id="c1"), now)
    assert guard.first_use(now) == []


def test_first_use_is_asked_for_once() -> None:
    """Later this client's own grants, which notes need not tell of any more, would be forgotten."""
    guard = fleet(*YOUNG)
    guard.first_use(100.0)
    assert guard.first_use(100.0) == []
    guard.judge(0, told(note(-3.0, "a2", 0), 104.0), 104.0, last_reply_at=103.0)
    assert guard.first_use(104.0) == []
