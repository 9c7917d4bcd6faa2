"""`rlock status`: when it calls a lock free."""

from __future__ import annotations

import json

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
    assert told == f"job: unknown, {holder} on 1 of 3 masters, and 1 did not answer"
    told = ask([*masters3.urls[1:], "redis://127.0.0.1:1"], "status", "job")[1].splitlines()[0]
    assert told == "job: free (no holder on 2 of 3 masters)"


def test_without_a_quorum_it_shows_the_views_of_the_masters_that_answer(masters3: Fleet) -> None:
    holder = owner_token("box/1/MainThread")
    raw(masters3.urls[0]).execute_command("HSET", "job", holder, 1)
    urls = [masters3.urls[0], "redis://127.0.0.1:1", "redis://127.0.0.1:2"]
    code, out, err = ask(urls, "status", "job", "--json")
    found = json.loads(out)
    assert (code, err.count("\n")) == (69, 1)
    assert (found["holder"], found["free"]) == (None, False)
    assert [view["holder"] for view in found["masters"]] == [holder, None, None]
    assert [view["fault"] is None for view in found["masters"]] == [True, False, False]
    code, out, err = ask(urls, "status", "job")
    assert (code, err.count("\n"), holder in out) == (69, 1, True)
