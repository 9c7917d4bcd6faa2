"""`rlock status`: when it calls a lock free."""

from __future__ import annotations

from rlock.rules.keys import owner_token

from ..servers import Fleet, raw
from .shell import ask


def test_free_is_said_only_where_nobody_can_have_it(masters3: Fleet) -> None:
    holder = owner_token("box/1/MainThread")
    raw(masters3.urls[0]).execute_command("HSET", "job", holder, 1)
    raw(masters3.urls[0]).execute_command("PEXPIRE", "job", 60_000)
    told = ask(masters3.urls, "status", "job")[1].splitlines()[0]
    assert told == f"job: free, nobody has 2 votes ({holder} on 1 of 3 masters)"
    # The second vote may be on the one that gives no answer.
    dead = [masters3.urls[0], masters3.urls[1], "redis://127.0.0.1:1"]
    told = ask(dead, "status", "job")[1].splitlines()[0]
    assert told == f"job: unknown, {holder} on 1 of 3 masters, and 1 that may name it give no answer"
    told = ask([*masters3.urls[1:], "redis://127.0.0.1:1"], "status", "job")[1].splitlines()[0]
    assert told == "job: free (no holder on 2 of 3 masters)"
