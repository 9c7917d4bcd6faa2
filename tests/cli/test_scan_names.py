"""Which keys of a master are locks."""

from __future__ import annotations

from rlock.cli.scan.names import lock_of, queues, waited_for
from rlock.rules.keys import queue

from ..scripted import Box

NAMES = ("x", "orders:42", "a b", "ü", "{x}", "a{b", "}", "{", "x:queue", "rloc", ":", "a:released")


def test_names_come_back_out_of_the_keys_that_are_made_of_them() -> None:
    for name in NAMES:
        assert waited_for(queue(name).encode()) == name
        assert lock_of(name.encode()) == name


def test_the_patterns_for_queues_find_the_locks_that_a_pattern_matches(box: Box) -> None:
    for name in NAMES:
        box.client.zadd(queue(name), {"w": 1})
        box.client.set(name, "1")
    for pattern in ("*", "x*", "?", "[{]*", "*{*", "\\{x\\}", "orders:[0-9]*", "?ü", "[^a-x]"):
        found = {
            waited_for(str(key).encode()) for keys in map(box.client.keys, queues(pattern)) for key in keys
        }
        assert found == {*map(str, box.client.keys(pattern))} & {*NAMES}, pattern
