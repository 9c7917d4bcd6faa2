"""A hold that changes hands between processes that are killed."""

from __future__ import annotations

import pytest

import rlock

from ..lock.conftest import eventually
from ..servers import Fleet, raw
from .hands import Event, judge, rounds


@pytest.mark.slow
@pytest.mark.rule("3.12")
def test_between_processes_that_are_killed_nothing_overlaps_and_nothing_is_lost(masters3: Fleet) -> None:
    outcomes, wrong = rounds(masters3.urls, 40, 1)
    assert not wrong
    assert outcomes["adopted"] > 5
    assert outcomes.total() == 40


def test_each_fault_of_a_round_is_seen() -> None:
    holder = [Event("holder", "enter", 1.0, 5), Event("holder", "leave", 2.0), Event("holder", "handle", 3.0)]
    good = [
        *holder,
        Event("adopter", "enter", 4.0, 5),
        Event("adopter", "killed", 5.0),
        Event("rival", "enter", 6.0, 6),
    ]
    assert judge(good, "adopted") == []
    assert judge([*holder, Event("rival", "enter", 3.5, 6)], "adopted") == ["the rival was in between"]
    assert judge([*good, Event("another", "enter", 7.0, 5)], "adopted") == ["another enters beside rival"]
    assert judge([*holder, Event("adopter", "enter", 4.0, 6)], "adopted") == ["the adopter has another token"]
    assert judge([*holder, Event("rival", "enter", 9.0, 5)], "") == [
        "the rival has a token that is not greater"
    ]


def test_a_detach_that_fails_as_its_process_ends_prolongs_no_lease(masters3: Fleet) -> None:
    """A stopped server executes what a client sent before it gave up."""
    client = rlock.Client(masters3.urls, 3, request_timeout=0.2)
    lock = client.lock("x")
    lock.acquire()
    for master in masters3[:2]:
        master.pause()
    try:
        with pytest.raises(rlock.QuorumUnreachableError):
            lock.detach(10)
        client._engine().abandon()
    finally:
        for master in masters3[:2]:
            master.resume()
    for url in masters3.urls:
        with raw(url) as master:
            assert master.pttl("x") <= 3000


def test_a_master_that_does_not_answer_an_adopter_follows_later(masters3: Fleet) -> None:
    with rlock.Client(masters3.urls) as first, rlock.Client(masters3.urls, request_timeout=0.2) as second:
        lock = first.lock("x")
        lock.acquire()
        handle = lock.detach(10)
        masters3[2].pause()
        try:
            adopted = second.adopt(handle)
        finally:
            masters3[2].resume()
        with raw(masters3.urls[0]) as one, raw(masters3.urls[2]) as late:
            assert eventually(lambda: late.hkeys("x") == one.hkeys("x"))
        adopted.release()
