"""Processes that stand in the queue of "x", and what they asked."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

import rlock
from rlock._client.calls import Calls
from rlock.procedures.port import WaitGenerator
from rlock.rules import scripts
from rlock.rules.command_templates import Command
from rlock.rules.quorum import Ballot

from .conftest import Child, StartChild, eventually

WAITER = """
    import sys, time, rlock
    client = rlock.Client(sys.argv[2:], ttl=5.0)
    lock = client.lock("x", fair=sys.argv[1] == "fair")
    print("waiting", flush=True)
    with lock:
        print(time.monotonic_ns(), flush=True)
        sys.stdin.readline()
        released = time.monotonic_ns()
    print(released, flush=True)
"""


def queue_of(client: rlock.Client) -> list[str]:
    """The processes in the queue, in order."""
    return [waiter.owner.split("/")[1] for waiter in client.status("x").waiters]


def started(child: StartChild, client: rlock.Client, urls: list[str], mode: str = "fair") -> Child:
    """A process that stands in the queue."""
    before = client.status("x").queue_length
    one = child(WAITER, mode, *urls)
    assert one.line() == "waiting"
    assert eventually(lambda: client.status("x").queue_length == before + 1)
    return one


class Attempt(NamedTuple):
    """A round of an acquire."""

    client: str
    at: float


@contextmanager
def counted_attempts(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Attempt]]:
    """Each time this process asked the masters for a lock: its `<client>`, and the instant."""
    asked: list[Attempt] = []
    call = Calls.call

    def count(self: Calls[Any], command: Command, *args: Any, **options: Any) -> WaitGenerator[Ballot]:
        if command.script is scripts.ACQUIRE:
            asked.append(Attempt(str(command.echo).rpartition(":")[0], time.monotonic()))
        return call(self, command, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Calls, "call", count)
        yield asked
