"""`rlock run --leader`: where the command runs, and when it ends."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlock import Client

from ..fixtures import FreshMasters
from ..lock.conftest import eventually
from ..servers import Fleet, gone
from .shell import Start, rlock, starter

TTL = 2.0
#: Ignores SIGTERM, and notes its pid and the time as long as it runs.
STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True:
    with open(sys.argv[1], "a") as file:
        print(os.getpid(), time.monotonic(), file=file)
    time.sleep(0.02)
"""


@pytest.fixture
def masters(fresh_masters: FreshMasters) -> Fleet:
    return fresh_masters(3)


@pytest.fixture
def start(masters: Fleet) -> Iterator[Start]:
    words = ("run", "--leader", "--retry-delay", "0.1")
    with starter(masters.urls, *words, RLOCK_TTL=f"{TTL:g}") as start:
        yield start


def ticks(path: Path) -> list[tuple[int, float]]:
    """Pid and instant of each tick."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [(int(line.split()[0]), float(line.split()[1])) for line in lines if len(line.split()) == 2]


def pids(path: Path) -> list[int]:
    """The commands, in the order in which they began."""
    return list(dict.fromkeys(pid for pid, _ in ticks(path)))


@pytest.mark.parametrize("how", ["killed", "cut off"])
def test_the_command_ends_before_the_next_one_starts(
    how: str, start: Start, masters: Fleet, tmp_path: Path
) -> None:
    path = tmp_path / "ticks"
    command = ("beat", "--", sys.executable, "-c", STUBBORN, str(path))
    first = start(*command)
    assert eventually(lambda: pids(path), 20)
    second = start(*command)
    began = time.monotonic()
    if how == "killed":
        first.kill()
    else:
        masters.pause()
        # SIGKILL before the end of the lease, although the command ignores SIGTERM.
        assert eventually(lambda: ticks(path)[-1][1] < time.monotonic() - 0.5, 20)
        assert ticks(path)[-1][1] < began + TTL
        masters.resume()
    assert eventually(lambda: len(pids(path)) == 2, 20)
    found = ticks(path)
    assert [pid for pid, _ in found] == sorted((pid for pid, _ in found), key=pids(path).index)
    assert second.poll() is None


def test_an_evicted_command_is_killed_and_started_again(start: Start, masters: Fleet, tmp_path: Path) -> None:
    path = tmp_path / "ticks"
    start("beat", "--", sys.executable, "-c", STUBBORN, str(path))
    assert eventually(lambda: pids(path), 20)
    assert rlock("evict", "--yes", "beat", masters=masters.urls).code == 0
    assert eventually(lambda: len(pids(path)) == 2, 20)
    assert gone(pids(path)[0])


def test_a_command_that_ends_hands_over(start: Start, tmp_path: Path) -> None:
    path = tmp_path / "names"
    runs = [start("beat", "-c", f"echo {name} >> {path}; sleep 0.3") for name in "ab"]
    assert eventually(lambda: path.exists() and {*path.read_text().split()} == {*"ab"}, 30)
    assert [run.poll() for run in runs] == [None, None], "both campaign again"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_the_status_of_the_command(
    number: signal.Signals, start: Start, masters: Fleet
) -> None:
    program = f"import signal, sys, time; signal.signal({number.value}, lambda *_: sys.exit(42)); "
    leader = start("beat", "--", sys.executable, "-c", program + "print('runs', flush=True); time.sleep(60)")
    assert leader.stdout is not None
    assert leader.stdout.readline() == "runs\n"
    standby = start("beat", "--", "echo", "ran")
    with Client(masters.urls) as client:
        assert eventually(lambda: client.status("beat").queue_length == 1)
    standby.send_signal(signal.SIGUSR1)  # as for a rotation of logs
    time.sleep(0.3)
    assert standby.poll() is None
    standby.send_signal(number)
    assert (standby.wait(20), standby.communicate()[0]) == (128 + number, "")
    leader.send_signal(number)
    assert leader.wait(20) == 42


@pytest.mark.parametrize(("word", "code"), [("no-such-command-here", 127), ("/etc/passwd", 126)])
def test_a_command_that_cannot_start_ends_it(word: str, code: int, start: Start, masters: Fleet) -> None:
    leader = start("beat", word)
    assert leader.wait(20) == code
    with Client(masters.urls) as client:
        assert client.status("beat").holder is None
    assert leader.communicate()[1].count("\n") == 1, "the reason is told once, and no loss"


@pytest.mark.parametrize(("option", "told"), [("--fair", 2), ("--quiet", 0)])
def test_a_command_that_fails_is_told_and_started_again(option: str, told: int, start: Start) -> None:
    leader = start(option, "beat", "-c", "echo sh: not found >&2; exit 127")
    assert leader.stderr is not None
    lines = [leader.stderr.readline() for _ in range(4)]
    assert lines.count("rlock: ended with status 127\n") == told


@pytest.mark.parametrize("words", [("-n",), ("-w", "3"), ("--max-hold", "9"), ("--on-lost", "warn")])
def test_options_that_contradict_it_are_refused(words: tuple[str, ...]) -> None:
    found = rlock("run", "--leader", *words, "beat", "true", masters=["redis://127.0.0.1:1"])
    assert found.code == 64
    assert "--leader" in found.err
