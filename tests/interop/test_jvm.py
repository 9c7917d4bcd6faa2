"""The harness itself: the clock that both sides share, errors, and processes that end."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

import pytest

from ..servers import AnyMaster
from . import building
from .building import Build, NotBuiltError
from .conftest import MakeJava, MakeJvm
from .jvm import JavaError, Jvm


def test_java_reads_the_clock_that_python_reads(jvm: Jvm) -> None:
    for _ in range(20):
        before = time.monotonic_ns()
        told = jvm.clock()
        assert before <= told <= time.monotonic_ns(), "not one clock: no journal can be compared"


def test_the_instant_of_an_answer_lies_between_question_and_answer(jvm: Jvm) -> None:
    before = time.monotonic_ns()
    answer = jvm.ask("clock")
    assert before <= answer.value <= answer.at <= time.monotonic_ns()


def test_an_error_of_java_is_told(jvm: Jvm) -> None:
    with pytest.raises(JavaError, match="no client nobody") as caught:
        jvm.call("lock", client="nobody", name="x")
    assert caught.value.kind == "IllegalArgumentException"


def test_threads_of_java_are_different_owners_and_wait_each_for_itself(
    master: AnyMaster, java: MakeJava
) -> None:
    client = java([master.url])
    one, other = client.thread("one"), client.thread("other")
    assert one.owners != other.owners
    assert one.owners == client.thread("one").owners
    one.lock("x")
    waiting = other.begin("lock", "x")
    time.sleep(0.2)
    assert not waiting.done()
    unlocked = one.unlock("x")
    got = waiting.result(10.0)
    assert got.at > unlocked.at - 50_000_000, "it got it with the unlock, not before"
    other.unlock("x")


def test_a_question_to_a_killed_process_is_an_error_and_not_a_wait(
    master: AnyMaster, fresh_jvm: MakeJvm
) -> None:
    jvm = fresh_jvm()
    client = jvm.client([master.url])
    holder, waiter = client.thread("one"), client.thread("other")
    holder.lock("x")
    pending = waiter.begin("lock", "x")
    jvm.kill()
    with pytest.raises(JavaError, match="Ended"):
        pending.result(10.0)
    with pytest.raises(JavaError, match="Ended"):
        holder.unlock("x")


def test_a_stopped_process_does_not_answer_in_time(fresh_jvm: MakeJvm) -> None:
    jvm = fresh_jvm()
    jvm.pause()
    with pytest.raises(TimeoutError, match="did not answer clock"):
        jvm.call("clock", within_s=0.3)
    jvm.resume()
    assert jvm.clock() > 0


def test_nothing_is_left_of_a_process_behind_its_block(redisson: Build, tmp_path: Path) -> None:
    with Jvm(redisson, tmp_path) as jvm:
        jvm.pause()
    assert jvm.process.returncode is not None


def test_a_jvm_ends_with_its_stdin(redisson: Build) -> None:
    process = subprocess.Popen(redisson.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        process.communicate(timeout=30.0)
        assert process.returncode == 0, "it would outlive a pytest that was killed"
    finally:
        process.kill()
        process.wait()


def test_a_second_build_is_the_first_one(redisson: Build) -> None:
    stamp = (redisson.folder / "built").stat().st_mtime_ns
    assert building.build() == redisson
    assert (redisson.folder / "built").stat().st_mtime_ns == stamp


def test_without_maven_the_reason_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotBuiltError, match="no java on this machine"):
        building.build()


@pytest.mark.skipif(
    shutil.which("java") is None or shutil.which("mvn") is None, reason="no Java, or no Maven"
)
def test_a_redisson_that_does_not_exist_is_told_once_and_then_remembered(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(building, "_cache", lambda: tmp_path)
    monkeypatch.setenv("RLOCK_TEST_REDISSON", "3.52.0-never")
    # Without the registry: a test need not ask a server for what there is not.
    calls: list[tuple[str, ...]] = []

    def offline(maven: str, wanted: str, folder: Path, limit_s: float, *options: str) -> bool:
        calls.append(options)
        if options:
            return False
        raise NotBuiltError(f"Maven cannot get Redisson {wanted}")

    monkeypatch.setattr(building, "_maven", offline)
    for _ in range(2):
        with pytest.raises(NotBuiltError, match=r"cannot get Redisson 3\.52\.0-never"):
            building.build()
    assert calls == [("--offline",), ()], "offline, then online, and not again"
