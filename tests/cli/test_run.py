"""`rlock run`: exit codes, signals, loss, retries, --json, --leader; as a user in a shell sees them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import rlock as library
from rlock.cli import exits

from ..fixtures import FreshMasters
from ..lock.conftest import eventually
from ..servers import Fleet, gone, raw
from .shell import NOWHERE, RLOCK, Done, Start, begin, done, environment, line, rlock, starter


@pytest.fixture
def start(masters3: Fleet) -> Iterator[Start]:
    with starter(masters3.urls, RLOCK_TTL="2") as start:
        yield start


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=30)
    assert "Traceback" not in err
    return process.returncode, out, err


def test_fair_runs_take_their_turns_and_status_shows_who_waits(start: Start, masters3: Fleet) -> None:
    with library.Client(masters3.urls, ttl=2.0) as client:
        lock = client.lock("job")
        lock.acquire()
        runs = []
        for _ in range(3):
            runs.append(start("run", "--fair", "job", "--", "date", "+%s%N"))
            assert eventually(lambda: client.status("job").queue_length == len(runs), 30)
        code, out, _ = ended(start("status", "job"))
        assert code == 0
        told = out.splitlines()
        assert told[-4] == "waiting: 3"
        for place, line in enumerate(told[-3:], 1):
            assert line.startswith(f"  {place}. ")
            assert f"/{runs[place - 1].pid}/" in line
            assert " since 2" in line
        lock.release()
    began = [int(ended(run)[1]) for run in runs]
    assert began == sorted(began)


def test_the_command_finds_the_lock_in_its_environment(start: Start, masters3: Fleet) -> None:
    program = "env | grep ^RLOCK_"
    code, out, _ = ended(start("run", "--ttl", "3", "job", "--", "sh", "-c", program))
    found = dict(line.split("=", 1) for line in out.splitlines())
    assert code == 0
    assert "RLOCK_MASTERS" not in found, "it may hold passwords: only --pass-masters passes it"
    assert (found["RLOCK_NAME"], found["RLOCK_TTL"]) == ("job", "3")
    assert len(found["RLOCK_OWNER"].rpartition(":")[2]) == 32
    assert int(found["RLOCK_FENCING_TOKEN"]) > 1_700_000_000_000_000


@pytest.mark.parametrize("delay", [0, 0.03])
def test_a_signal_while_the_command_is_being_started_reaches_it(delay: float, start: Start) -> None:
    process = start("run", "--json", "job", "-c", "sleep 60 & echo $!; wait")
    assert process.stderr is not None
    assert json.loads(process.stderr.readline())["event"] == "acquired"
    time.sleep(delay)
    process.terminate()
    code, out, _ = ended(process)
    assert code == 143
    assert all(gone(int(child)) for child in out.split()), "a shell leaves its children behind"


def test_a_client_of_the_command_gets_the_settings_of_rlock(masters3: Fleet, tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    settings = "ttl = 12.3456789\nmax_ttl = 31\ninterop = 'redisson'\n"
    path.write_text(f"masters = {json.dumps(masters3.urls)}\n{settings}")
    program = """from rlock import Client, RLockError
try: print(Client.from_env()._options)
except RLockError as error: print(error)"""
    command = [*RLOCK, "run", "--config", str(path), "job", "--", sys.executable, "-c", program]
    refused = done(command, env=environment())
    found = done([*command[:4], "--pass-masters", *command[4:]], env=environment())
    with library.Client(masters3.urls, ttl=12.3456789, max_ttl=31.0, interop="redisson") as client:
        assert found.out == f"{client._options}\n"
    assert "unless --pass-masters is given" in refused.out


@pytest.mark.parametrize(
    ("option", "to"), [("--json", "2>/dev/full"), ("--json", "2>&-"), ("--verbose", "2> >(:)")]
)
def test_a_stderr_that_takes_nothing_changes_nothing(option: str, to: str, masters3: Fleet) -> None:
    command = [*RLOCK, "run", option, "job", "-c", "sleep 0.1; echo ran; exit 3"]
    words = ["bash", "-c", f'"$@" {to}', "bash", *command]
    assert done(words, env=environment(masters3.urls))[:2] == (3, "ran\n")


@pytest.mark.parametrize("words", ["status job", "status job --json", "config"])
def test_a_stdout_that_is_closed_is_an_error(words: str, masters3: Fleet) -> None:
    told = done(["bash", "-c", '"$@" >&-', "bash", *RLOCK, *words.split()], env=environment(masters3.urls))
    assert (told.code, told.err) == (74, "rlock: standard output is closed\n")


@pytest.mark.parametrize("words", ["run job -- echo ran", "acquire job --ttl 2", "hold job"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_a_waiter_leaves_nothing(words: str, number: int, start: Start, masters3: Fleet) -> None:
    with library.Client(masters3.urls) as client, client.lock("job"):
        process = start(*words.split())
        assert eventually(lambda: client.status("job").queue_length == 1)
        process.send_signal(number)
        assert ended(process) == (128 + number, "", "")
        assert eventually(lambda: client.status("job").queue_length == 0)
    assert eventually(lambda: not any(raw(m.url).pubsub_channels() for m in masters3))
    assert not any(raw(url).exists("job") for url in masters3.urls)


@pytest.mark.parametrize(("session", "obeys"), [("", "trap 'sleep 0.3; exit' TERM;"), ("setsid", "")])
def test_a_command_that_ignores_sigterm_is_killed_with_all_it_started(
    session: str, obeys: str, start: Start, masters3: Fleet, tmp_path: Path
) -> None:
    beat = tmp_path / "beat"
    # The child that writes on and on ignores SIGTERM, and so does the command, unless it obeys.
    child = f"sh -c 'while true; do date +%N > {beat}; sleep 0.05; done' >&- 2>&-"
    daemon = "setsid -f sh -c 'echo $$; exec sleep 60 >&- 2>&-'"
    program = f"trap '' TERM; {daemon}; {session} {child} & {obeys} echo ready; wait"
    process = start("run", "--grace", "0.5", "job", "--", "sh", "-c", program)
    assert process.stdout is not None
    daemon_pid = int(next(line for line in process.stdout if line != "ready\n"))
    assert eventually(beat.exists)
    with library.Client(masters3.urls) as operator:
        operator.evict("job")
    assert process.wait(20) == 76
    last = beat.read_text()
    time.sleep(0.4)
    assert beat.read_text() == last, "what the command had started works on without the lock"
    os.kill(daemon_pid, signal.SIGKILL)  # a daemon is no part of the command


def test_a_command_without_its_lock_ends_although_nobody_reads_stderr(start: Start, masters3: Fleet) -> None:
    process = start("run", "--json", "job", "-c", "echo $$; exec sleep 60")
    assert process.stderr is not None
    command = int(line(process))
    process.stderr.close()
    masters3.pause()
    assert gone(command, 10), "it works on while another owner may hold the lock"
    masters3.resume()
    assert process.wait(20) == 76


@pytest.mark.parametrize("language", ["C", "C.UTF-8"])
def test_the_words_of_the_command_arrive_byte_by_byte(language: str, masters3: Fleet) -> None:
    words = [b"\xff\xfe", "größe".encode(), b"a\nb", b"", b"--", b"-c"]
    command: list[str | bytes] = [*RLOCK, "run", "job", "--", "printf", "%s|", *words]
    env = environment(masters3.urls, LC_ALL=language)
    found = subprocess.run(command, env=env, capture_output=True, timeout=60, check=False)
    assert found.stdout == b"".join(word + b"|" for word in words)


def busy(masters: list[str]) -> Done:
    with library.Client(masters).lock("job"):
        return rlock("run", "-n", "job", "true", masters=masters)


def lost(masters: list[str], *words: str, script: str = "echo ready; sleep 30") -> Done:
    """A run of a script, whose last lock is evicted as soon as it has said that it is ready."""
    process = begin("run", *words, "job", "--", "sh", "-c", script, masters=masters, RLOCK_TTL="1")
    assert line(process) == "ready\n"
    with library.Client(masters) as operator:
        operator.evict("other" if "other" in words else "job")
    return Done(*ended(process))


#: How each code comes about; SIGNAL is 128 and a number.
WAYS: dict[int, Callable[[list[str]], Done]] = {
    exits.FAILED: lambda masters: rlock("evict", "--yes", "job", masters=masters),
    exits.USAGE: lambda masters: rlock("status", masters=masters),
    exits.UNREACHABLE: lambda masters: rlock("status", "job", masters=NOWHERE),
    exits.OUTPUT: lambda masters: done(
        ["sh", "-c", '"$@" > /dev/full', "sh", *RLOCK, "config"], env=environment(masters)
    ),
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
    assert code != exits.OUTPUT or len(found.err.splitlines()) == 1


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
    assert list(told["faults"]) == fleet.labels
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
    rows = [json.loads(line) for line in lost(masters3.urls, "--json", "--also", "other").err.splitlines()]
    rows = [row for row in rows if row["event"] != "log"]
    assert [row["event"] for row in rows] == ["acquired", "lost", "ended"]
    assert rows[1]["name"] == "other"
    assert rows[-1]["exit_status"] == 76


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
def lead(masters3: Fleet) -> Iterator[Start]:
    words = ("run", "--leader", "--retry-delay", "0.1")
    with starter(masters3.urls, *words, RLOCK_TTL=f"{TTL:g}") as lead:
        yield lead


def ticks(path: Path) -> list[tuple[int, float]]:
    """Pid and instant of each tick."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [(int(line.split()[0]), float(line.split()[1])) for line in lines if len(line.split()) == 2]


def pids(path: Path) -> list[int]:
    """The commands, in the order in which they began."""
    return list(dict.fromkeys(pid for pid, _ in ticks(path)))


def test_the_command_ends_before_the_next_one_starts(lead: Start, masters3: Fleet, tmp_path: Path) -> None:
    path = tmp_path / "ticks"
    command = ("beat", "--", sys.executable, "-c", STUBBORN, str(path))
    lead(*command)
    assert eventually(lambda: pids(path), 20)
    second = lead(*command)
    began = time.monotonic()
    masters3.pause()
    # SIGKILL before the end of the lease, although the command ignores SIGTERM.
    assert eventually(lambda: ticks(path)[-1][1] < time.monotonic() - 0.5, 20)
    assert ticks(path)[-1][1] < began + TTL
    masters3.resume()
    assert eventually(lambda: len(pids(path)) == 2, 20)
    found = ticks(path)
    assert [pid for pid, _ in found] == sorted((pid for pid, _ in found), key=pids(path).index)
    assert second.poll() is None


def test_an_evicted_command_is_killed_and_started_again(lead: Start, masters3: Fleet, tmp_path: Path) -> None:
    path = tmp_path / "ticks"
    lead("beat", "--", sys.executable, "-c", STUBBORN, str(path))
    assert eventually(lambda: pids(path), 20)
    assert rlock("evict", "--yes", "beat", masters=masters3.urls).code == 0
    assert eventually(lambda: len(pids(path)) == 2, 20)
    assert gone(pids(path)[0])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_the_same_status(number: signal.Signals, lead: Start, masters3: Fleet) -> None:
    program = f"import signal, sys, time; signal.signal({number.value}, lambda *_: sys.exit(42)); "
    leader = lead("beat", "--", sys.executable, "-c", program + "print('runs', flush=True); time.sleep(60)")
    assert line(leader) == "runs\n"
    standby = lead("beat", "--", "echo", "ran")
    with library.Client(masters3.urls) as client:
        assert eventually(lambda: client.status("beat").queue_length == 1)
    standby.send_signal(signal.SIGUSR1)  # as for a rotation of logs
    time.sleep(0.3)
    assert standby.poll() is None
    standby.send_signal(number)
    assert (standby.wait(20), standby.communicate()[0]) == (128 + number, "")
    leader.send_signal(number)
    assert leader.wait(20) == 42


@pytest.mark.parametrize(("word", "code"), [("no-such-command-here", 127), ("/etc/passwd", 126)])
def test_a_command_that_cannot_start_ends_it(word: str, code: int, lead: Start, masters3: Fleet) -> None:
    leader = lead("beat", word)
    assert leader.wait(20) == code
    with library.Client(masters3.urls) as client:
        assert client.status("beat").holder is None
    assert leader.communicate()[1].count("\n") == 1, "the reason is told once, and no loss"


@pytest.mark.parametrize(("option", "told"), [("--fair", 2), ("--quiet", 0)])
def test_a_command_that_fails_is_told_and_started_again(option: str, told: int, lead: Start) -> None:
    leader = lead(option, "beat", "-c", "echo sh: not found >&2; exit 127")
    assert leader.stderr is not None
    lines = [leader.stderr.readline() for _ in range(4)]
    assert lines.count("rlock: ended with status 127\n") == told
