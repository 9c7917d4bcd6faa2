"""Descriptors at a fork and at the end of a process."""

from __future__ import annotations

import os

from rlock._sync.connections import WakePipe

from ..servers import Fleet
from .programs import assert_nothing_is_left, outcome

#: What a poll answers for a descriptor that is closed.
CLOSED = """
import select
from rlock._sync.connections import Connections
poll = Connections.poll
def watched(self, timeout):
    events = poll(self, timeout)
    tell(closed=any(event & select.POLLNVAL for _, event in events))
    return events
client = rlock.Client(URLS, 10.0)
client.lock("x").acquire()
Connections.poll = watched
"""


def test_the_end_of_a_process_polls_no_closed_descriptor(masters3: Fleet) -> None:
    assert outcome(CLOSED, masters3.urls) == {"closed": False}
    assert_nothing_is_left(masters3)


def test_a_closed_wake_pipe_reads_from_no_other_descriptor() -> None:
    pipe = WakePipe()
    number = pipe.fileno
    pipe.close()
    pipe.close()
    near, far = os.pipe()
    os.set_blocking(near, False)
    try:
        if near != number:
            os.dup2(near, number)
        os.write(far, b"x")
        # In a child of a process with greenlets, the copy of a waiter still believes in its pipe.
        pipe.clear()
        assert os.read(near, 1) == b"x"
    finally:
        for descriptor in {near, far, number}:
            os.close(descriptor)
