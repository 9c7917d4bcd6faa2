"""What others write: a terminal gets nothing that it would obey, and no call ends in a traceback."""

from __future__ import annotations

import json
import tracemalloc
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

import rlock
from evidence.neighbours.faults import server
from rlock.procedures.port import new_owner
from rlock.rules import keys

from ..servers import Fleet, raw, tell
from .shell import inside
from .shell import rlock as run

#: Sets the title, clears the screen, hides (as one character, too), turns the writing round, goes back.
RUDE = "\x1b]0;owned\x07\x1b[2J\x9b8m\x1b[30m\u202egnorts\x08\x08"

_INFO = f"""\
redis_version:7.0{RUDE}
redis_mode:{RUDE}
run_id:abc{RUDE}
role:{RUDE}
master_host:{RUDE}
uptime_in_seconds:100000
maxmemory:1
maxmemory_policy:{RUDE}
""".replace("\n", "\r\n")


def rude(kind: str) -> AbstractContextManager[str]:
    """``kind``: "errors" and "refusals" for every command; "facts": what it tells of itself is odd."""
    known = {
        "INFO": b"$%d\r\n%s\r\n" % (len(_INFO.encode()), _INFO.encode()),
        "TIME": b"*2\r\n$10\r\n1795300000\r\n$1\r\n0\r\n",
        "SCAN": b"*2\r\n$1\r\n0\r\n*0\r\n",
    }
    refusal = f"-{'NOPERM' if kind == 'refusals' else 'ERR'} {RUDE}\r\n".encode()
    return server(lambda command: known.get(command, refusal) if kind == "facts" else refusal)


NAME = f"jobs{RUDE}\nrlock: all is well"

COMMANDS = (
    ("status", NAME),
    ("list",),
    ("watch", "--once"),
    ("doctor", "--measure", "0"),
    ("evict", "--yes", NAME),
    ("run", "-n", NAME, "true"),
)


def obeyed(text: str) -> set[str]:
    """What a terminal would not show as a character."""
    return {c for c in text if not c.isprintable()} - {"\n"}


@pytest.mark.parametrize("kind", ["errors", "refusals", "facts"])
def test_no_answer_of_a_master_reaches_the_terminal_as_more_than_text(kind: str) -> None:
    with rude(kind) as place:
        for words in COMMANDS:
            # A log record has to be fit for a terminal, too: only a process of its own prints it.
            found = (run if words[0] in ("run", "status") else inside)(*words, masters=[f"redis://{place}"])
            assert obeyed(found.out + found.err) == set(), words
            assert "\nrlock: all is well" not in found.out + found.err, words
            assert found.out or found.err or words[0] == "run", words


def test_names_and_owners_are_shown_as_text(masters3: Fleet) -> None:
    owner = f"host{RUDE}/1/main:{uuid.uuid4().hex}"
    tell(masters3.urls, "HSET", NAME, owner, 1)
    tell(masters3.urls, "PEXPIRE", NAME, 60_000)
    for words in (
        ("status", NAME),
        ("list", "--json"),
        ("watch", "--once"),
        ("run", "-n", NAME, "true"),
        ("evict", "--yes", NAME),
    ):
        found = (run if words[0] == "run" else inside)(*words, masters=masters3.urls)
        assert obeyed(found.out + found.err) == set(), words
        assert "jobs\\x1b]0;" in found.out + found.err or "--json" in words, words
        if "--json" in words:
            told = json.loads(found.out or found.err)
            assert told["name"] == NAME
            assert told["holder"] == owner


OWNER = new_owner("host/1/main")


def queue(name: str, score: str, member: str | bytes) -> tuple[Any, ...]:
    return "ZADD", keys.queue(name), score, member


#: Keys that a master has in the place of a lock.
HOSTILE: dict[str, Callable[[str], tuple[Any, ...]]] = {
    "a place at infinity": lambda name: queue(name, "inf", "y"),
    "a place that no integer holds": lambda name: queue(name, "1e300", f"{OWNER}|s"),
    "a field that is no owner": lambda name: ("HSET", name, "user:1", "1"),
}


def test_a_place_that_no_waiter_took_costs_those_who_wait_nothing(masters3: Fleet) -> None:
    for kind in ("a place at infinity", "a place that no integer holds"):
        tell(masters3.urls[:1], *HOSTILE[kind]("x"))
    with rlock.Client(masters3.urls) as client, rlock.Client(masters3.urls) as other:
        assert client.status("x").waiters == ()
        for _ in range(3):
            with client.lock("x"):
                assert not other.lock("x").acquire(timeout=0.05)
            with other.lock("x", fair=True):
                pass


def test_a_hash_that_no_lock_wrote_is_neither_evicted_nor_waited_for_nor_listed(masters3: Fleet) -> None:
    """One field with a number in it is what a counter of somebody's looks like, too."""
    field = HOSTILE["a field that is no owner"]("cart")
    tell(masters3.urls, *field)
    with rlock.Client(masters3.urls) as client:
        for call in (
            lambda: client.evict("cart"),
            lambda: client.status("cart"),
            lambda: client.lock("cart").locked(),
            lambda: client.lock("cart").acquire(timeout=1.0),
        ):
            with pytest.raises(rlock.OptionsError, match="something that no lock wrote"):
                call()
    found = inside("evict", "--yes", "cart", masters=masters3.urls)
    assert found.code == 64
    assert inside("list", "--json", masters=masters3.urls).out.count("cart") == 0
    for url in masters3.urls:
        with raw(url) as server:
            assert server.hgetall("cart") == {"user:1": "1"}


def test_a_holder_with_a_name_of_megabytes_is_not_asked_for_its_name(masters3: Fleet) -> None:
    """Five names of 64 MB cost `rlock list` 547 MB."""
    tell(masters3.urls, "HSET", "long", new_owner("o" * 8_000_000), "1")
    tell(masters3.urls, "HSET", "short", new_owner("o" * 900), "1")
    tracemalloc.start()
    found = inside("list", "--json", masters=masters3.urls).out
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "short" in found
    assert "long" not in found
    assert peak < 8_000_000


def test_on_a_minority_a_hash_that_no_lock_wrote_survives_an_eviction(masters3: Fleet) -> None:
    tell(masters3.urls[:1], *HOSTILE["a field that is no owner"]("x"))
    with rlock.Client(masters3.urls) as client, rlock.Client(masters3.urls) as operator:
        lock = client.lock("x")
        assert lock.acquire(timeout=5.0)
        assert len(operator.evict("x")) == 1
        with raw(masters3.urls[0]) as server:
            assert server.hgetall("x") == {"user:1": "1"}
        assert lock.lost.wait(5.0)
