"""Which keys of a master are locks."""

from __future__ import annotations

import pytest

from rlock.cli.scan.names import lock_of, queues, waited_for
from rlock.rules.keys import queue

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


def test_the_patterns_for_queues_find_the_locks_that_a_pattern_matches(box: Box) -> None:
    for name in NAMES:
        box.client.zadd(queue(name), {"w": 1})
        box.client.set(name, "1")
    for pattern in ("*", "x*", "?", "[{]*", "*{*", "\\{x\\}", "orders:[0-9]*", "?ü", "[^a-x]"):
        found = {
            waited_for(str(key).encode()) for keys in map(box.client.keys, queues(pattern)) for key in keys
        }
        assert found == {*map(str, box.client.keys(pattern))} & {*NAMES}, pattern
