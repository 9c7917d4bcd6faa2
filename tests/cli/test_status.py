"""`rlock status`: what it adds for those who look for a lock."""

from __future__ import annotations

import os
import pty
import subprocess

import rlock
from rlock.rules.keys import owner_token

from ..servers import Fleet, raw
from .shell import RLOCK, ask, environment


def on_a_terminal(urls: list[str], *words: str, **extra: str) -> str:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*RLOCK, *words],
        env=environment(urls, **extra),
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    shown = b""
    try:
        while True:
            try:
                data = os.read(ours, 4096)
            except OSError:
                break
            if not data:
                break
            shown += data
    finally:
        assert process.wait(timeout=30) == 0
        os.close(ours)
    return shown.decode()


def test_on_a_terminal_a_typing_error_is_noticed(masters3: Fleet) -> None:
    with rlock.Client(masters3.urls) as client, client.lock("nightly:report"):
        shown = on_a_terminal(masters3.urls, "status", "nightly:reprot")
        assert "free" in shown
        assert "did you mean 'nightly:report'?" in shown
        assert "did you mean" not in on_a_terminal(masters3.urls, "status", "backup")
        code, out, err = ask(masters3.urls, "status", "nightly:reprot")
        assert (code, err) == (0, "")
        assert "free" in out


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
