"""Ctrl-C before every line of the reading of a message.

`evidence/interrupts` has the other operations.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import rlock

from ..interrupts import interrupted
from ..servers import Fleet
from .conftest import eventually

#: The files through which a message goes.
READING = ("subscriptions.py", "notifications.py", "_sync/connections.py", "_sync/connection.py")
NEVER = 1_000_000_000


def test_ctrl_c_before_any_line_that_reads_a_message_keeps_no_other_waiter_asleep(masters1: Fleet) -> None:
    """One thread reads for all that wait; the message is for another one of them."""
    holder, client = rlock.Client(masters1.urls, ttl=10.0), rlock.Client(masters1.urls, ttl=10.0)
    subscriptions: Any = client._engine().notifications
    late: dict[str, float] = {}

    def asleep(name: str) -> bool:
        found = subscriptions._by_name.values()
        return any(inbox.asleep for one in found for inbox in one.inboxes if inbox.name == name)

    def attempt(at: int) -> str:
        """An interrupt in front of the n-th line from when the first message has come."""
        told, got = threading.Event(), threading.Event()
        released_at = got_at = 0.0
        poll = subscriptions._connections.poll

        def polled(timeout: float) -> Any:
            events = poll(timeout)
            if events and told.is_set() and threading.current_thread() is reader and tracer.left > at:
                tracer.left = NEVER if got.is_set() else at
            return events

        def wait() -> None:
            nonlocal got_at
            with client.lock("b"):
                got_at = time.monotonic()
                got.set()
                tracer.left = NEVER

        def release() -> None:
            nonlocal released_at
            with holder.lock("b"):
                ready.set()
                assert eventually(lambda: subscriptions._connections._leader and asleep("a"))
                waiter.start()
                assert eventually(lambda: asleep("b"))
                told.set()
                released_at = time.monotonic()

        ready, reader = threading.Event(), threading.current_thread()
        waiter, releaser = threading.Thread(target=wait), threading.Thread(target=release)
        releaser.start()
        ready.wait(10)
        subscriptions._connections.poll = polled
        with interrupted(NEVER, *READING) as tracer:
            client.lock("a").acquire(timeout=2.0)
        subscriptions._connections.poll = poll
        releaser.join(10)
        waiter.join(10)
        if got_at - released_at > 0.7:
            late[tracer.where] = got_at - released_at
        return tracer.where

    with holder, client, holder.lock("a"):
        at = 1
        while attempt(at):
            at += 1
    assert at > 20
    assert late == {}, "looked again only after the poll cap of about 1.2 s"
