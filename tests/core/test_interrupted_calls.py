"""Ctrl-C in a call that is sent again: no late reply may send its acquire once more behind the undo."""

from __future__ import annotations

from rlock.procedures.port import Request
from rlock.rules import commands

from ..interrupts import interrupted
from .wired import TIMEOUT_S, WiredCalls


def _undecided(calls: WiredCalls) -> bool:
    """Whether a reply of an interrupted call would still be worked with."""
    servers = calls._connections.servers
    pending = [one for server in servers if server.connection for one in server.connection.pending]
    return any(one.call is not None and not one.call.over for one in pending)


def test_ctrl_c_before_any_line_of_a_call_that_is_sent_again_ends_the_call() -> None:
    left: list[str] = []
    for at in range(1, 500):
        calls = WiredCalls(3)
        calls.reconnect()
        for server in calls.servers:
            server.shake_hands("vouched")  # the first delivery gives no vote, and the call is sent again
        with interrupted(at, "_client/calls.py") as tracer:
            calls.acquire()
        if not tracer.where:
            break
        if _undecided(calls):
            left.append(tracer.where)
    assert at > 50
    assert left == []


def test_ctrl_c_before_any_line_of_a_confirmation_ends_its_call() -> None:
    left: list[str] = []
    request = Request(commands.acquire("job", "me:1", 9_000), TIMEOUT_S)
    for at in range(1, 500):
        calls = WiredCalls(3)
        calls.reconnect()
        with interrupted(at, "_client/calls.py") as tracer:
            calls.start(request)
        if _undecided(calls):
            left.append(tracer.where)
        if not tracer.where:
            break
    assert at > 10
    assert left == []
