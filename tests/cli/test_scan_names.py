"""Which keys are locks, and whether patterns mean to us what they mean to the servers."""

from __future__ import annotations

import random
import string

import pytest

from rlock.cli.scan import info
from rlock.cli.scan.names import lock_of, matcher, queues, waited_for
from rlock.rules.keys import NOTE, queue

from ..scripted import Box

NAMES = ("x", "orders:42", "a b", "ü", "{x}", "a{b", "}", "{", "x:queue", "rloc", ":", "a:released")


def test_names_come_back_out_of_the_keys_that_are_made_of_them() -> None:
    for name in NAMES:
        assert waited_for(queue(name).encode()) == name
        assert lock_of(name.encode()) == name


@pytest.mark.parametrize(
    "key",
    [
        b"rlock:fleet",
        b"rlock:x:queue",
        b"rlock:{x:queue",
        b"rlock:{}:queue",
        b"rlock::x:queue",
        b"rlock:{{x}}:queue",
        b"rlock:{x}:fence",
        b"x:queue",
        b"\xff",
        b"",
    ],
)
def test_other_keys_are_no_queues(key: bytes) -> None:
    assert waited_for(key) is None


def test_what_no_lock_can_be_called_is_none() -> None:
    for key in (b"rlock:fleet", b"\xff\xfe", b"", b"x" * 1100):
        assert lock_of(key) is None


PATTERNS = [
    "*",
    "?",
    "a*",
    "*a",
    "a**b",
    "[ab]",
    "[^ab]",
    "[a-c]x",
    "[c-a]*",
    "\\*",
    "\\",
    "[",
    "[a",
    "[]",
    "[^]",
]
PATTERNS += [
    "[a-]",
    "[\\]]",
    "[\\-a]",
    "?ü",
    "ü",
    "??",
    "a.c",
    "(a)",
    "[ab",
    "x]",
    "[a-c-e]",
    "^a",
    "[!a]",
    "a\\",
]


def test_a_pattern_means_here_what_it_means_on_a_server(box: Box) -> None:
    draw = random.Random(7)
    words = ["".join(draw.choices("abcx-^*?[]\\.ü(", k=draw.randint(1, 3))) for _ in range(300)]
    words += list(string.ascii_letters[:6]) + ["*", "]", "a.c", "(a)", "ü", "aü"]
    for word in words:
        box.client.set(word, "1")
    patterns = [*PATTERNS, *("".join(draw.choices("abc-^*?[]\\ü", k=draw.randint(1, 5))) for _ in range(300))]
    for pattern in patterns:
        found = {str(key) for key in box.client.keys(pattern)} - {NOTE}
        matches = matcher(pattern)
        assert {word for word in words if matches(word)} == found, pattern


def test_the_pattern_for_queues_finds_all_of_them(box: Box) -> None:
    for name in NAMES:
        box.client.zadd(queue(name), {"w": 1})
    for pattern in ("*", "x*", "?", "[{]*", "*{*", "\\{x\\}", "orders:[0-9]*"):
        found = {waited_for(str(key).encode()) for key in box.client.keys(queues(pattern))}
        assert found >= {name for name in NAMES if matcher(pattern)(name)}, pattern


def test_durable_takes_both_settings() -> None:
    for aof, fsync, durable in (
        ("1", "always", True),
        ("1", "everysec", False),
        ("1", None, None),
        ("0", "always", False),
        ("0", None, False),
    ):
        assert info.health({"aof_enabled": aof}, fsync)["durable"] is durable
