"""The harness itself: the clock that both sides share, errors, and processes that end."""

from __future__ import annotations

import time

import pytest

from ..servers import AnyMaster
from .conftest import MakeJava, MakeJvm
from .jvm import JavaError, Jvm


def test_java_reads_the_clock_that_python_reads(jvm: Jvm) -> None:
    for _ in range(20):
        before = time.monotonic_ns()
        told = jvm.clock()
        assert before <= told <= time.monotonic_ns(), "not one clock: no journal can be compared"


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
