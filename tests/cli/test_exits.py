"""Every exit code of the table comes out of a real command; on-lost, retries, --json of `rlock run`."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable

import pytest

import rlock as library
from rlock.cli import exits

from ..fixtures import FreshMasters
from ..servers import Fleet
from .shell import RLOCK, Done, begin, done, environment, rlock

NOWHERE = ["redis://127.0.0.1:1", "redis://127.0.0.1:2"]


def busy(masters: list[str]) -> Done:
    with library.Client(masters).lock("job"):
        return rlock("run", "-n", "job", "true", masters=masters)


def lost(masters: list[str], *words: str, script: str = "echo ready; sleep 30") -> Done:
    """A run of a script, whose lock is evicted as soon as it has said that it is ready."""
    process = begin("run", *words, "job", "--", "sh", "-c", script, masters=masters, RLOCK_TTL="1")
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    with library.Client(masters) as operator:
        operator.evict("job")
    out, err = process.communicate(timeout=40)
    assert "Traceback" not in err
    return Done(process.returncode, out, err)


def unwritten(masters: list[str]) -> Done:
    found = done(["sh", "-c", '"$@" > /dev/full', "sh", *RLOCK, "config"], env=environment(masters))
    assert len(found.err.splitlines()) == 1
    return found


#: How each code comes about; SIGNAL is 128 and a number.
WAYS: dict[int, Callable[[list[str]], Done]] = {
    exits.FAILED: lambda masters: rlock("evict", "--yes", "job", masters=masters),
    exits.USAGE: lambda masters: rlock("status", masters=masters),
    exits.UNREACHABLE: lambda masters: rlock("status", "job", masters=NOWHERE),
    exits.OUTPUT: unwritten,
    exits.NOT_ACQUIRED: busy,
    exits.LOST: lost,
    exits.CONFIG: lambda masters: rlock("config", RLOCK_CONFIG="/"),
    exits.NOT_EXECUTABLE: lambda masters: rlock("run", "job", "/etc/passwd", masters=masters),
    exits.NOT_FOUND: lambda masters: rlock("run", "job", "no-such-command-here", masters=masters),
    exits.SIGNAL: lambda masters: rlock("run", "job", "sh", "-c", "kill -9 $$", masters=masters),
}


@pytest.mark.parametrize("code", exits.TABLE)
def test_each_code_of_the_table_comes_out_of_a_command(code: int, fresh_masters: FreshMasters) -> None:
    found = WAYS[code](fresh_masters(1).urls)
    assert found.code == (code + signal.SIGKILL if code == exits.SIGNAL else code), found.err


def test_a_lost_lock_with_warn_leaves_the_command_alone_and_takes_its_status(masters3: Fleet) -> None:
    found = lost(masters3.urls, "--on-lost", "warn", script="echo ready; sleep 1.5; echo done; exit 5")
    assert found[:2] == (5, "done\n")
    assert "was lost" in found.err


def test_a_lost_lock_with_kill_gives_no_chance_to_tidy_up(masters3: Fleet) -> None:
    script = "trap 'echo told; exit 0' TERM; echo ready; sleep 30 & wait"
    began = time.monotonic()
    assert lost(masters3.urls, "--on-lost", "kill", "--grace", "25", script=script)[:2] == (76, "")
    assert time.monotonic() - began < 20
    assert lost(masters3.urls, "--on-lost", "term", script=script)[:2] == (76, "told\n")


def test_retries_try_again_until_masters_answer(fresh_masters: FreshMasters) -> None:
    fleet = fresh_masters(1)
    fleet[0].stop()
    words = ("run", "-n", "--retries", "60", "--retry-delay", "0.3", "--json", "job", "echo", "ran")
    process = begin(*words, masters=fleet.urls, RLOCK_RESTART_GUARD="0")
    assert process.stderr is not None
    told = next(row for row in map(json.loads, process.stderr) if row["event"] == "retrying")
    assert told["retries_left"] == 59
    assert list(told["faults"]) == fleet.urls
    fleet[0].start()
    out, _ = process.communicate(timeout=40)
    assert (process.returncode, out) == (0, "ran\n")


def test_retries_are_counted_and_not_for_a_lock_that_is_held(masters3: Fleet) -> None:
    words = ["run", "-n", "--retries", "2", "--retry-delay", "0", "--json", "job", "true"]
    found = rlock(*words, masters=NOWHERE)
    assert found.code == 69
    events = [json.loads(line)["event"] for line in found.err.splitlines()]
    assert [event for event in events if event != "log"] == ["retrying", "retrying", "not_acquired"]
    with library.Client(masters3.urls).lock("job"):
        began = time.monotonic()
        words = ["run", "-n", "--retries", "9", "--retry-delay", "9", "job", "true"]
        assert rlock(*words, masters=masters3.urls).code == 75
        assert time.monotonic() - began < 9
    found = rlock("run", "--retries", "2", "job", "true", masters=masters3.urls)
    assert found.code == 64
    assert "--retries needs" in found.err


def test_json_tells_what_happened_on_stderr_one_object_a_line(masters3: Fleet) -> None:
    found = rlock("run", "--json", "job", "sh", "-c", "echo out; exit 3", masters=masters3.urls)
    assert (found.code, found.out) == (3, "out\n")
    acquired, ended = map(json.loads, found.err.splitlines())
    assert (acquired["event"], acquired["name"]) == ("acquired", "job")
    assert acquired["fencing_token"] > 1_700_000_000_000_000
    assert acquired["owner"].count("/") == 2
    assert 0 < acquired["waited"] < 30
    assert (ended["event"], ended["exit_status"]) == ("ended", 3)
    with library.Client(masters3.urls).lock("job"):
        found = rlock("run", "--json", "-w", "0.2", "job", "true", masters=masters3.urls)
    (told,) = map(json.loads, found.err.splitlines())
    assert (told["event"], told["outcome"]) == ("not_acquired", "busy")
    assert told["holder"]
    assert told["waited"] >= 0.2
    rows = [json.loads(line) for line in lost(masters3.urls, "--json").err.splitlines()]
    assert [row["event"] for row in rows if row["event"] != "log"] == ["acquired", "lost", "ended"]
    assert rows[-1]["exit_status"] == 76
