"""`rlock list`: what it prints, for people and for programs."""

from __future__ import annotations

import os
import threading

import rlock
from rlock.rules.keys import owner_token, queue, waiter_name

from ..lock.conftest import eventually
from ..servers import Fleet, raw
from .shell import ask


def test_it_prints_a_table_of_what_is_held_and_waited_for(masters3: Fleet) -> None:
    with rlock.Client(masters3.urls) as client, rlock.Client(masters3.urls) as other:
        client.lock("b").acquire()
        client.lock("a").acquire()
        client.lock("a").acquire()
        waits = threading.Thread(target=lambda: other.lock("b").acquire(timeout=30))
        waits.start()
        try:
            assert eventually(lambda: client.status("b").queue_length == 1)
            code, out, err = ask(masters3.urls, "list")
        finally:
            client.lock("b").release()
            waits.join()
        client.lock("a").release()
    assert (code, err) == (0, "")
    head, first, second = out.splitlines()
    assert head.split() == ["NAME", "HOLDER", "HELD", "FOR", "LEASE", "COUNT", "WAITERS", "VOTES"]
    name, holder, *_, waiters, votes = first.split()
    assert (name, waiters, votes) == ("a", "-", "3/3")
    assert f"/{os.getpid()}/MainThread" in holder
    name, *_, waiters, votes = second.split()
    assert (name, waiters, votes) == ("b", "1", "3/3")
    assert "\x1b" not in out


def test_it_chooses_and_sorts(masters3: Fleet) -> None:
    owners = {name: owner_token(f"web/1/{name}") for name in ("a:1", "a:2", "b:1")}
    for server in map(raw, masters3.urls):
        for name, owner in owners.items():
            server.hset(name, mapping={owner: 1})
            server.pexpire(name, 60_000)
        for number, name in ((1, "a:2"), (2, "b:1"), (1, "c:1")):
            for i in range(number):
                server.zadd(queue(name), {waiter_name(owner_token(f"web/2/{i}"), "s"): i})

    def names(*words: str) -> list[str]:
        code, out, _ = ask(masters3.urls, "list", *words)
        assert code == 0
        return [line.split()[0] for line in out.splitlines()[1:]]

    assert names() == ["a:1", "a:2", "b:1", "c:1"]
    assert names("a:*") == ["a:1", "a:2"]
    assert names("?:[1]") == ["a:1", "b:1", "c:1"]
    assert names("--held") == ["a:1", "a:2", "b:1"]
    assert names("--held", "--waited") == ["a:2", "b:1"]
    assert names("--waited", "--sort", "waiters") == ["b:1", "a:2", "c:1"]
    assert names("--sort", "since") == ["a:1", "a:2", "b:1", "c:1"]
