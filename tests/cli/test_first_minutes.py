"""What a stranger types in the first ten minutes, and what is said."""

from __future__ import annotations

import json
import os
import signal
import sys

import pytest

from ..servers import AnyMaster, Fleet
from .shell import begin, inside, one_line, refused, rlock

WHO = [sys.executable, "-c", "import os; print(os.environ['RLOCK_MASTERS'])"]
#: Every command that asks masters a question and ends by itself.
ASKING = (
    ["run", "-n", "job", "true"],
    ["hold", "-n", "job"],
    ["status", "job"],
    ["list"],
    ["list", "--json"],
    ["watch", "--once"],
    ["watch", "--once", "--json"],
    ["init"],
    ["evict", "-y", "job"],
    ["doctor", "--measure", "0"],
)


def test_up_runs_a_command_on_fresh_masters_and_ends_as_it_does() -> None:
    found = rlock("up", "-n", "1", "--", *WHO)
    assert found.code == 0
    assert found.out.startswith("redis://127.0.0.1:")
    assert f"export RLOCK_MASTERS={found.out.strip()}" in found.err
    assert rlock("up", "-n", "1", "--", "sh", "-c", "exit 3").code == 3
    assert rlock("up", "-n", "1", "--", "sh", "-c", "kill -TERM $$").code == 128 + signal.SIGTERM
    missing = rlock("up", "-n", "1", "--", "no-such-program")
    assert missing.code == 127
    assert "rlock: no-such-program: " in missing.err


@pytest.mark.parametrize("words", ASKING, ids=" ".join)
def test_a_wrong_password_has_one_exit_status(words: list[str], master: AnyMaster) -> None:
    found = inside(*words, masters=[master.url.replace("redis://", "redis://nobody:wrong@")])
    assert found.code == 64, found


@pytest.mark.parametrize("words", [["run", "-n", "job", "true"], ["list"], ["status", "job"]], ids=" ".join)
def test_missing_tls_is_named(words: list[str], master: AnyMaster) -> None:
    found = inside(*words, masters=[master.url.replace("redis://", "rediss://")], RLOCK_REQUEST_TIMEOUT="0.3")
    assert found.code == 69
    assert "does this port speak TLS, as the URL says (rediss://)?" in found.out + found.err


def test_host_and_port_are_enough() -> None:
    found = inside("config", "--json", masters=["localhost:6400"])
    told = json.loads(found.out)
    assert told["settings"]["masters"] == {"value": ["redis://localhost:6400"], "source": "RLOCK_MASTERS"}
    assert told["file"] is None


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["list", "--masters", ""], 64, "--masters is empty"),
        (["list", "--masters", "redis://a;redis://b"], 64, "separate URLs by commas"),
        (["list", "--masters", "foo://a"], 64, "valkey://"),
        (["--masters", "redis://a", "list"], 64, "--masters stands behind the command"),
        (["run", "-n", "-w", "5", "job", "true"], 64, "-n (--no-wait) or -w (--wait, --timeout)"),
        (["run", "-w", "-1", "job", "true"], 64, "-w (--wait, --timeout) must be"),
        (["run", "--permits", "2", "--also", "b", "a", "true"], 64, "--permits goes with no"),
        (["evict", "job"], 64, "confirm with --yes"),
        (["evict", "-y", "--owner", "", "job"], 64, "--owner is empty"),
        (["up", "-n", "abc"], 64, "'abc' is not a valid whole number"),
    ],
    ids=str,
)
def test_the_complaint_names_what_was_typed(words: list[str], code: int, told: str) -> None:
    refused(inside(*words, masters=["redis://127.0.0.1:1"]), code, told)


def test_a_variable_that_means_nothing_is_told(masters3: Fleet) -> None:
    found = inside("list", masters=masters3.urls, RLOCK_TLL="5", RLOCK_TEST_ANY="1")
    assert found.err.splitlines()[0] == (
        "rlock: RLOCK_TLL is no setting, and changes nothing: did you mean 'RLOCK_TTL'?"
    )
    assert "RLOCK_TEST_ANY" not in found.err


def test_json_is_json_also_for_errors_and_has_no_lines_for_people(masters3: Fleet) -> None:
    found = rlock("run", "--json", "job", "true", masters=["foo://a"])
    told = json.loads(found.err)
    assert (found.code, told["event"], told["name"]) == (64, "error", "job")
    assert inside("list", "--json", masters=masters3.urls) == (0, "", "")


def test_a_fault_is_told_once() -> None:
    found = inside("status", "job", masters=["redis://127.0.0.1:1"])
    assert found.code == 69
    assert (found.out + found.err).count("refused") == 1
    failed = inside("init", masters=["redis://127.0.0.1:1"])
    assert (failed.code, failed.out) == (69, "")
    assert "refused" in failed.err


def test_permits_let_so_many_in(masters3: Fleet) -> None:
    show = ["sh", "-c", 'echo "$RLOCK_NAME $RLOCK_PERMIT"; exec sleep 60']
    first, second = (begin("run", "--permits", "2", "gpu", *show, masters=masters3.urls) for _ in "ab")
    try:
        told = set()
        for process in (first, second):
            assert process.stdout is not None
            told.add(process.stdout.readline())
        assert told == {"gpu 0\n", "gpu 1\n"}
        third = rlock("run", "-n", "--permits", "2", "gpu", "true", masters=masters3.urls)
        assert third.code == 75
        assert "'gpu' is held by" in third.err
    finally:
        for process in (first, second):
            process.terminate()
            process.communicate()
    assert rlock("run", "-n", "--permits", "2", "gpu", "true", masters=masters3.urls).code == 0


def test_several_names_are_all_or_none(masters3: Fleet) -> None:
    held = ["sh", "-c", "$0 -m rlock status b; $0 -m rlock status a", sys.executable]
    found = rlock("run", "--pass-masters", "--also", "b", "a", *held, masters=masters3.urls)
    assert found.code == 0
    assert found.out.count("held by") == 2
    holder = begin("hold", "b", masters=masters3.urls)
    try:
        assert holder.stdout is not None
        holder.stdout.readline()
        refusal = rlock("run", "-n", "--also", "b", "a", "true", masters=masters3.urls)
        assert refusal.code == 75
        assert rlock("run", "-n", "a", "true", masters=masters3.urls).code == 0
    finally:
        holder.terminate()
        holder.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_hold_has_the_lock_until_a_signal(number: signal.Signals, masters3: Fleet) -> None:
    process = begin("hold", "job", masters=masters3.urls)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("holds 'job', fencing token ")
    busy = rlock("hold", "-n", "job", masters=masters3.urls)
    assert busy.code == 75
    assert one_line(busy.err)
    os.kill(process.pid, number)
    _, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (0, "released\n")
    assert rlock("run", "-n", "job", "true", masters=masters3.urls).code == 0


def test_hold_tells_a_loss(masters3: Fleet) -> None:
    process = begin("hold", "--ttl", "2", "job", masters=masters3.urls, RLOCK_MAX_TTL="2")
    assert process.stdout is not None
    process.stdout.readline()
    assert inside("evict", "-y", "job", masters=masters3.urls).code == 0
    _, err = process.communicate(timeout=20)
    assert process.returncode == 76
    assert err.splitlines()[-1] == "rlock: the lock 'job' was lost"


def test_help_completes_the_names_of_commands() -> None:
    told = rlock(COMP_WORDS="rlock help st", COMP_CWORD="2", _RLOCK_COMPLETE="bash_complete").out
    assert told == "plain,status\n"
