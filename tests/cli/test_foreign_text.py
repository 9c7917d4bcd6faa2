"""What others write: a terminal gets nothing that it would obey, and no call ends in a traceback."""

from __future__ import annotations

import json
import uuid
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
    ("evict", "--yes", NAME),
    ("status", NAME),
    ("list",),
    ("watch", "--once"),
    ("doctor", "--measure", "0"),
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
    told = json.loads(inside("list", "--json", masters=masters3.urls).out)
    assert (told["name"], told["holder"]) == (NAME, owner)
    for words in reversed(COMMANDS):
        found = inside(*words, masters=masters3.urls)
        assert obeyed(found.out + found.err) == set(), words
        assert "jobs\\x1b]0;" in found.out + found.err or words[0] == "doctor", words


OWNER = new_owner("host/1/main")


def test_a_place_that_no_waiter_took_costs_those_who_wait_nothing(masters3: Fleet) -> None:
    for score, member in (("inf", "y"), ("1e300", f"{OWNER}|s")):
        tell(masters3.urls[:1], "ZADD", keys.queue("x"), score, member)
    with rlock.Client(masters3.urls) as client, rlock.Client(masters3.urls) as other:
        assert client.status("x").waiters == ()
        for _ in range(3):
            with client.lock("x"):
                assert not other.lock("x").acquire(timeout=0.05)
            with other.lock("x", fair=True):
                pass


#: A counter of somebody's; a read-write lock of Redisson, with `interop`.
FOREIGN: dict[str, tuple[dict[Any, Any], Any]] = {
    "a counter": ({"user:1": "1"}, None),
    "a lock of Java": ({"mode": "read", f"{uuid.uuid4()}:35": "1"}, "redisson"),
}


@pytest.mark.parametrize("what", FOREIGN)
def test_a_hash_that_no_lock_wrote_is_neither_evicted_nor_waited_for_nor_listed(
    what: str, masters3: Fleet
) -> None:
    fields, interop = FOREIGN[what]
    for url in masters3.urls:
        raw(url).hset("cart", mapping=fields)
    with rlock.Client(masters3.urls, interop=interop) as client:
        for call in (
            lambda: client.evict("cart"),
            lambda: client.status("cart"),
            lambda: client.lock("cart").locked(),
            lambda: client.lock("cart").acquire(timeout=1.0),
        ):
            with pytest.raises(rlock.OptionsError, match="something that no lock wrote"):
                call()
    assert inside("evict", "--yes", "cart", masters=masters3.urls).code == 64
    assert inside("list", "--json", masters=masters3.urls).out.count("cart") == 0
    assert [raw(url).hgetall("cart") for url in masters3.urls] == [fields] * 3


def test_on_a_minority_a_hash_that_no_lock_wrote_survives_an_eviction(masters3: Fleet) -> None:
    tell(masters3.urls[:1], "HSET", "x", "user:1", "1")
    with rlock.Client(masters3.urls) as client, rlock.Client(masters3.urls) as operator:
        lock = client.lock("x")
        assert lock.acquire(timeout=5.0)
        assert len(operator.evict("x")) == 1
        with raw(masters3.urls[0]) as server:
            assert server.hgetall("x") == {"user:1": "1"}
        assert lock.lost.wait(5.0)
