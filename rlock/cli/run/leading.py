"""`rlock run --leader`: one process of many runs the command, again and again."""

from __future__ import annotations

import time
from collections.abc import Callable

from ...client import Client
from ...errors import LeaseLostError
from .child import GuardedCommand
from .events import Outcome

#: The command's part of the validity that is left at a step-down; the rest is for SIGKILL.
GRACE_PART = 0.8


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
        hold = client._engine().hold(name)
        owner = hold.owner if hold else ""
        found.update(environment(owner, token))
        outcome.event("acquired", {"owner": owner, "fencing_token": token, "ttl": client.ttl}, "leads")

    def on_stopped() -> None:
        # The next leader may start when the validity ends.
        guarded.stop(LeaseLostError(name, "its term is over"), lock.remaining() * GRACE_PART)

    while True:
        with client.leader(name, on_started, on_stopped, fair=fair) as leader:
            leader.wait()
            code = guarded.run(found)
        outcome.event("ended", {"exit_status": code}, f"ended with status {code}")
        guarded.reset()
        if guarded.ended_by_signal:  # behind the reset: from there on a signal raises SystemExit
            return code
        time.sleep(pause)
