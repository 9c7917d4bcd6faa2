"""`rlock run --leader`: one process of many runs the command, again and again."""

from __future__ import annotations

import time
from collections.abc import Callable

from ...client import Client
from ...errors import LeaseLostError
from .child import GuardedCommand
from .events import Outcome


def lead(
    client: Client,
    name: str,
    guarded: GuardedCommand,
    outcome: Outcome,
    environment: Callable[[str, int], dict[str, str]],
    *,
    fair: bool,
    pause: float,
) -> int:
    """Run the command in each term, until a signal ends it; its exit status."""
    lock = client.lock(name)
    found: dict[str, str] = {}

    def on_started(token: int) -> None:
        owner = client._engine().held(name).owner
        found.update(environment(owner, token))
        outcome.event("acquired", {"owner": owner, "fencing_token": token, "ttl": client.ttl}, "leads")

    def on_stopped() -> None:
        # The next leader may start when the validity ends.
        guarded.stop(LeaseLostError(name, "its term is over"), lock.remaining())

    while True:
        with client.leader(name, on_started, on_stopped, fair=fair) as leader:
            leader.wait()  # raises if the campaign is over: the command must not run without the lock
            code = guarded.run(found)
        if guarded.error is not None:
            outcome.event("lost", {"reason": guarded.error.reason})
        always = guarded.started and code != 0 and not outcome.quiet
        outcome.event("ended", {"exit_status": code}, f"ended with status {code}", always=always)
        guarded.reset()
        # Behind the reset: from there on a signal raises SystemExit.
        if guarded.not_startable or guarded.ended_by:
            return code
        time.sleep(pause)
