"""Ctrl-C in a call that is sent again: no late reply may send its acquire once more behind the undo."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rlock.procedures.port import Request
from rlock.rules import commands

from ..interrupts import interrupted
from .wired import TIMEOUT_S, WiredCalls


def _undecided(calls: WiredCalls) -> bool:
    """Whether a reply of an interrupted call would still be worked with."""
    servers = calls._connections.servers
    pending = [one for server in servers if server.connection for one in server.connection.pending]
    return any(one.call is not None and not one.call.over for one in pending)


CONFIRMATION = Request(commands.acquire("job", "me:1", 9_000), TIMEOUT_S)
#: The functions under test, each with the least number of its lines.
WORK: dict[str, tuple[Callable[[WiredCalls], object], int]] = {
    "a call that is sent again": (lambda calls: calls.acquire(), 50),
    "a confirmation": (lambda calls: calls.start(CONFIRMATION), 10),
}


@pytest.mark.parametrize("what", WORK)
def test_ctrl_c_before_any_line_ends_the_call(what: str) -> None:
    work, lines = WORK[what]
    left: list[str] = []
    for at in range(1, 500):
        calls = WiredCalls(3)
        calls.reconnect()
        for server in calls.servers:
            server.shake_hands("vouched")  # the first delivery gives no vote, and the call is sent again
        with interrupted(at, "_client/calls.py") as tracer:
            work(calls)
        if not tracer.where:
            break
        if _undecided(calls):
            left.append(tracer.where)
    assert at > lines
    assert left == []
