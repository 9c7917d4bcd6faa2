"""Names, owners and errors are whatever others make them: a terminal gets nothing that it would obey."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Callable
from typing import Any

import pytest

import rlock
from tests.servers import Fleet, raw

from .rude import RUDE, SHAPES, rude
from .shell import inside
from .shell import rlock as run

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


def hold(masters: Fleet, name: str, owner: str) -> None:
    for url in masters.urls:
        raw(url).hset(name, owner, 1)
        raw(url).pexpire(name, 60_000)


@pytest.mark.parametrize("kind", ["errors", "refusals", "facts", "shapes"])
def test_no_answer_of_a_master_reaches_the_terminal_as_more_than_text(kind: str) -> None:
    with rude(kind) as url:
        for words in COMMANDS:
            # A log record has to be fit for a terminal, too: only a process of its own prints it.
            found = (run if words[0] in ("run", "status") else inside)(*words, masters=[url])
            assert obeyed(found.out + found.err) == set(), words
            assert "\nrlock: all is well" not in found.out + found.err, words
            assert found.out or found.err or words[0] == "run", words


@pytest.mark.parametrize("kind", ["shapes", "shapes of scripts"])
@pytest.mark.parametrize("beside", [0, 2])
def test_no_answer_of_a_server_makes_a_call_raise_anything_but_our_errors(
    kind: str, beside: int, masters3: Fleet
) -> None:
    with rude(kind) as url:
        urls = [url, *masters3.urls[:beside]]
        with client_of(urls) as client, client_of(urls) as other:
            for i in range(len(SHAPES)):
                for call in calls_of(client, other, f"x{i}"):
                    with contextlib.suppress(rlock.RLockError):
                        call()


def calls_of(client: rlock.Client, other: rlock.Client, name: str) -> tuple[Callable[[], Any], ...]:
    lock = client.lock(name)
    return (
        lambda: lock.acquire(timeout=0.05),
        lambda: other.lock(name).acquire(timeout=0.05),
        lambda: client.status(name),
        lock.locked,
        lock.release,
    )


def client_of(urls: list[str]) -> rlock.Client:
    return rlock.Client(urls, ttl=0.5, restart_guard=0)


def test_names_and_owners_are_shown_as_text(masters3: Fleet) -> None:
    owner = f"host{RUDE}/1/main:{uuid.uuid4().hex}"
    hold(masters3, NAME, owner)
    for words in (
        ("status", NAME),
        ("list", "--json"),
        ("watch", "--once"),
        ("run", "-n", NAME, "true"),
        ("evict", "--yes", NAME),
    ):
        found = run(*words, masters=masters3.urls)
        assert obeyed(found.out + found.err) == set(), words
        assert "jobs\\x1b]0;" in found.out + found.err or "--json" in words, words
        if "--json" in words:
            told = json.loads(found.out or found.err)
            assert told["name"] == NAME
            assert told["holder"] == owner
