"""Wake-ups: the samples that count."""

from __future__ import annotations

from typing import Any

import pytest

from bench.harness.hand_over import HandOver, Pair


class Replying:
    """A runner that answers each request in the same way."""

    runs = True

    def __init__(self, **reply: Any) -> None:
        self.reply = reply

    def send(self, verb: str, **request: Any) -> None:
        pass

    def answer(self, timeout: float = 1.0) -> dict[str, Any]:
        return self.reply

    def ask(self, verb: str, **request: Any) -> dict[str, Any]:
        return self.reply


def pair(asked: int, acquired: bool = True) -> Pair:
    holder = Replying(acquired=True, asked=10, entered=40, began=100, ended=200)
    waiter = Replying(acquired=acquired, asked=asked, entered=5_100)
    return Pair(holder, waiter)  # type: ignore[arg-type]


@pytest.mark.parametrize(("asked", "expected"), [(99, HandOver(30, 5_000)), (100, None)])
def test_only_a_waiter_that_began_before_the_release_is_a_sample(asked: int, expected: HandOver) -> None:
    both = pair(asked)
    assert both.hand_over("a", 0.0) == expected
    assert both.error is None


def test_a_waiter_that_gets_nothing_is_an_error() -> None:
    both = pair(99, acquired=False)
    assert both.hand_over("a", 0.0) is None
    assert both.error is not None
