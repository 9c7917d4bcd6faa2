"""rlock under gevent, monkey-patched; under eventlet it refuses to work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rlock
from rlock._sync.greenlets import EVENTLET

from ..servers import Fleet
from .gevent_programs import COUNT, EARLY, END, HALF, KILL, LATE, OWNERS, PRELUDE, SLEEP, THREAD, WAIT
from .programs import COMMON, ORDINARY, assert_nothing_is_left, counter, holder, needs, outcome, program

pytestmark = needs("gevent")


def patched(text: str) -> str:
    """The program, with gevent's patch in its first line."""
    return PRELUDE + COMMON + text


def patched_outcome(text: str, urls: list[str], *arguments: object, **options: Any) -> Any:
    return outcome("", urls, *arguments, command=["-c", patched(text)], **options)


def test_greenlets_and_an_ordinary_process_lose_no_update(masters3: Fleet, tmp_path: Path) -> None:
    path = counter(tmp_path)
    with program(ORDINARY, masters3.urls, "x", path, 40) as process:
        patched_outcome(COUNT, masters3.urls, "x", path, 10)
        assert process.end() == 0
    assert int(path.read_bytes()) == 6 * 10 + 40
    assert_nothing_is_left(masters3)


def test_a_greenlet_is_an_owner(masters3: Fleet) -> None:
    told = patched_outcome(OWNERS, masters3.urls)
    assert told["mine"] == [True, 2]
    assert told["others"] == [False, 0, False, "NotHeldError"]
    assert_nothing_is_left(masters3)


def test_other_greenlets_run_while_one_waits_and_the_release_wakes_it(masters3: Fleet) -> None:
    ordinary = holder(masters3.urls, "x")
    try:
        with program("", masters3.urls, command=["-c", patched(WAIT)]) as waiting:
            assert waiting.facts() == {"waits": True}
            assert waiting.facts() == {"half": True}
            ordinary.say()
            released = ordinary.facts()["released_at"]
            told = waiting.facts()
            assert waiting.end() == 0
    finally:
        ordinary.close()
    # A waiter that heard nothing would look again 0.9 s later.
    assert 0 <= told["got_at"] - released < 0.6
    assert told["ticks"] > 30
    assert told["longest"] < 0.5
    assert_nothing_is_left(masters3)


def test_a_lease_is_renewed_while_its_holder_sleeps(masters3: Fleet) -> None:
    with program("", masters3.urls, command=["-c", patched(SLEEP)]) as sleeping:
        assert sleeping.facts() == {"held": True}
        with rlock.Client(masters3.urls, 0.9) as other:
            assert other.lock("x").acquire(timeout=2.0) is False
        assert sleeping.facts()["remaining"] > 0
        assert sleeping.end() == 0


def test_a_waiter_that_is_killed_or_runs_out_of_time_leaves_nothing(masters3: Fleet) -> None:
    told = patched_outcome(KILL, masters3.urls)
    assert (told["before"], told["killed"], told["timed_out"]) == (1, 0, 0)
    assert told["got"] is True
    assert told["after"] < 2.0  # less than a ttl: nothing was forgotten
    assert_nothing_is_left(masters3)


def test_the_end_of_the_process_frees_what_its_greenlets_hold(masters3: Fleet) -> None:
    patched_outcome(END, masters3.urls)
    with rlock.Client(masters3.urls, 3.0) as other:
        # The ttl is 10 s.
        assert other.lock("x").acquire(timeout=3.0)
        assert other.lock("y").acquire(timeout=3.0)


def test_a_native_thread_needs_a_client_of_its_own(masters3: Fleet) -> None:
    told = patched_outcome(THREAD, masters3.urls)
    assert told == {"shared": "OptionsError", "own": True}


def test_a_client_that_was_used_before_the_patch_says_so(masters3: Fleet) -> None:
    text = COMMON + EARLY + PRELUDE + LATE
    told = outcome("", masters3.urls, command=["-c", text])
    assert "patch in the first lines of the program" in told["used"]
    assert told["unused"] is True


@pytest.mark.parametrize(("left_out", "named"), [("thread=False", "thread"), ("select=False", "select")])
def test_a_process_that_is_patched_in_part_is_refused(left_out: str, named: str, masters1: Fleet) -> None:
    prelude = PRELUDE.replace("patch_all()", f"patch_all({left_out})")
    told = outcome("", masters1.urls, command=["-c", prelude + COMMON + HALF])
    assert told["error"].startswith("gevent has patched ")
    assert f"but not {named}" in told["error"]


@needs("eventlet")
def test_a_process_that_eventlet_has_patched_is_refused(masters1: Fleet) -> None:
    patch = "import eventlet; eventlet.monkey_patch()\n"
    assert outcome("", masters1.urls, command=["-c", patch + COMMON + HALF]) == {"error": EVENTLET}
    told = outcome("", masters1.urls, command=["-c", COMMON + EARLY + patch + LATE])
    assert told == {"used": EVENTLET, "unused": EVENTLET}
