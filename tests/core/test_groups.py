"""Groups: which votes of a primary count, by its replies to the WAIT and to the INFO behind the command."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from rlock.rules import commands
from rlock.rules.command_templates import Command

from .wired import Server, WiredCalls, resp

ACQUIRE = commands.acquire("job", "me:1", 9_000, token=5)
RENEW = commands.renew(9_000, [("job", "me:1", 1, 7)])


class Primary(Server):
    """The primary of a group with one replica. Each handshake finds the replication id p1."""

    found: dict[str, Any]
    acknowledged = 1

    def run(self, words: Sequence[str]) -> bytes:
        if words[0] == "WAIT":
            return resp(self.acknowledged)
        if words[0] == "INFO":
            return resp("".join(f"{name}:{value}\r\n" for name, value in self.found.items()).encode())
        return super().run(words)


@pytest.fixture
def group() -> WiredCalls:
    calls = WiredCalls(masters=1, seconds=0.0)
    primary = Primary(0, lambda: calls.now)
    primary.run_id = "r0+p1"
    primary.found = {"role": "master", "connected_slaves": 1, "master_replid": "p1"}
    calls.servers[0] = primary
    calls._groups = {0: 1}
    return calls


@pytest.mark.rule("2.4")
@pytest.mark.parametrize("command", [ACQUIRE, RENEW], ids=lambda command: command.script.name)
@pytest.mark.parametrize(
    "change",
    [
        {"acknowledged": 0},
        {"connected_slaves": 2},
        {"role": "slave"},
        {"master_replid": "p2"},
    ],
    ids=str,
)
def test_a_vote_counts_if_all_replicas_have_it_and_no_promotion_came_between(
    group: WiredCalls, command: Command, change: dict[str, Any]
) -> None:
    primary = group.servers[0]
    assert isinstance(primary, Primary)
    assert group.ask(ACQUIRE).granted == 1
    assert group.ask(command).granted == 1
    primary.acknowledged = change.get("acknowledged", 1)
    primary.found.update(change)
    assert group.ask(command).granted == 0
