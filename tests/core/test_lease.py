"""The lease's transition table, what the clock does to a lease, and the signal of its loss."""

from __future__ import annotations

import itertools
import sys
import threading
import time
from types import FrameType
from typing import Any

import pytest

from rlock import LossSignal
from rlock._sync.runtime import Runtime
from rlock.model import LeaseState
from rlock.rules.lease import TRANSITIONS, Lease, LeaseEvent
from rlock.rules.timing import drift

HELD, SUSPECT, LOST, RELEASED = (LeaseState.HELD, LeaseState.SUSPECT, LeaseState.LOST, LeaseState.RELEASED)


def test_the_table_has_every_state_with_every_event_and_nothing_else() -> None:
    assert set(TRANSITIONS) == set(itertools.product(LeaseState, LeaseEvent))


@pytest.mark.rule("3.5")
def test_a_failed_renewal_alone_never_loses_a_lease() -> None:
    assert TRANSITIONS[HELD, LeaseEvent.FAILED] is SUSPECT
    assert TRANSITIONS[SUSPECT, LeaseEvent.FAILED] is SUSPECT


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_all_sequences_keep_the_first_reason_and_never_revive(length: int) -> None:
    for events in itertools.product(LeaseEvent, repeat=length):
        lease = Lease(10.0, 0.0)
        lost_at = None
        for i, event in enumerate(events):
            before = lease.state
            lease.on(event, f"reason {i}")
            if lease.state is LOST and before is not LOST:
                lost_at = i
            if before in (LOST, RELEASED):
                assert lease.state is (RELEASED if event is LeaseEvent.RELEASE else before)
        if lost_at is not None:
            assert lease.reason == f"reason {lost_at}"


@pytest.mark.rule("3.1")
def test_validity_counts_from_before_sending_and_ends_before_the_masters_lease() -> None:
    lease = Lease(10.0, sent_at=100.0)
    assert lease.valid_until == pytest.approx(100.0 + 10.0 - drift(10.0))
    assert lease.remaining(100.0) == pytest.approx(10.0 - 0.102)


@pytest.mark.rule("3.2")
def test_loss_needs_nobody_to_notice_it() -> None:
    lease = Lease(10.0, sent_at=0.0)
    assert lease.look(9.897) is HELD
    assert lease.look(9.898) is LOST
    assert lease.remaining(9.898) == 0.0
    assert "validity ended" in lease.reason


@pytest.mark.rule("3.5")
def test_a_majority_that_is_complete_after_the_old_validity_does_not_revive() -> None:
    lease = Lease(10.0, sent_at=0.0)
    assert lease.renewed(sent_at=9.0, now=9.9) is LOST
    assert lease.remaining(9.9) == 0.0


def test_validity_only_grows() -> None:
    lease = Lease(10.0, sent_at=5.0)
    before = lease.valid_until
    lease.renewed(sent_at=4.0, now=6.0)  # an older round that was answered late
    assert lease.valid_until == before
    lease.renewed(sent_at=6.0, now=6.1)
    assert lease.valid_until == pytest.approx(before + 1.0)


@pytest.mark.rule("3.5")
def test_disowned_by_a_majority_is_a_loss_at_once() -> None:
    lease = Lease(10.0, sent_at=0.0)
    assert lease.on(LeaseEvent.DISOWNED, "evicted") is LOST
    assert lease.remaining(0.1) == 0.0
    assert lease.reason == "evicted"


def test_a_question_before_any_line_of_a_wait_blocks_nothing() -> None:
    def wait() -> None:
        for at in range(1, 30):
            signal, lines = LossSignal(None, time.monotonic, Runtime()), itertools.count(1)

            def handler(
                frame: FrameType, kind: str, _: Any, signal: Any = signal, lines: Any = lines, at: int = at
            ) -> Any:
                if not frame.f_code.co_filename.endswith("_client/loss_signal.py"):
                    return None
                if kind == "line" and next(lines) == at:
                    sys.settrace(None)
                    signal.set()
                return handler

            sys.settrace(handler)
            signal.wait(0.05)
            sys.settrace(None)
        finished.set()

    finished = threading.Event()
    threading.Thread(target=wait, daemon=True).start()
    assert finished.wait(10.0), "a handler waits for its own thread"
