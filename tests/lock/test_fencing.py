"""Fencing tokens: strictly greater for every later holder, whoever it is and however it got the lock."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

import rlock

from ..servers import Fleet, raw
from .conftest import MakeClient

FENCE = "rlock:{x}:fence"
#: Nobody listens there: masters that are dead.
DEAD = ("redis://127.0.0.1:1", "redis://127.0.0.1:2")


def take(client: rlock.Client, **options: Any) -> int:
    """The token of one hold."""
    with client.lock("x", **options) as lock:
        return lock.fencing_token


def without(urls: list[str], *dead: int) -> list[str]:
    """The same masters, as one sees them for whom a minority is dead."""
    return [DEAD[dead.index(i)] if i in dead else url for i, url in enumerate(urls)]


def rising(tokens: list[int]) -> bool:
    return all(before < after for before, after in itertools.pairwise(tokens))


def stamp(urls: list[str], *tokens: int) -> None:
    """Have the masters remember tokens of somebody else."""
    for url, token in zip(urls, tokens, strict=True):
        raw(url).set(FENCE, f"{token} somebody:else", px=3600_000)


@contextmanager
def write_backs(urls: list[str]) -> Iterator[set[tuple[str, str]]]:
    """The rounds that had a token stored, by owner and token, when the block has ended."""
    rounds: set[tuple[str, str]] = set()
    with ExitStack() as stack:
        ears = [stack.enter_context(raw(url).monitor()) for url in urls]
        yield rounds
        for url, ear in zip(urls, ears, strict=True):
            raw(url).echo("that is all")
            while "that is all" not in (command := ear.next_command()["command"]):
                # fence.lua is the only script that has these two keys; behind them: owner, token, time.
                words = command.split()
                if words[0].upper() in ("EVALSHA", "EVAL") and words[-6:-3] == ["2", "x", FENCE]:
                    rounds.add((words[-3], words[-2]))


def test_it_is_an_int_of_at_most_53_bits_that_begins_at_the_masters_time(
    urls: list[str], make_client: MakeClient
) -> None:
    token = take(make_client(urls))
    assert type(token) is int
    assert 0 < token < 2**53
    assert token / 1e6 == pytest.approx(time.time(), abs=10)


def test_it_is_still_there_after_a_loss_until_the_release(urls: list[str], make_client: MakeClient) -> None:
    client, other = make_client(urls), make_client(urls)
    lock = client.lock("x", ttl=0.6, renew=False)
    lock.acquire()
    token = lock.fencing_token
    assert take(other) > token
    with pytest.raises(rlock.LeaseLostError):
        lock.check()
    assert lock.fencing_token == token
    with pytest.raises(rlock.LeaseLostError):
        lock.release()
    with pytest.raises(rlock.LeaseLostError):
        _ = lock.fencing_token
    assert take(client) > token


@pytest.mark.rule("3.8")
@pytest.mark.parametrize("count", [3, 5])
def test_it_rises_from_majority_to_majority_without_any_clock(
    count: int, masters: Fleet, make_client: MakeClient
) -> None:
    """With counters and their maximum {1,2}, {1,3}, {2,3} give 1, 2, 2."""
    urls = masters(count).urls
    ahead = int(time.time() + 86400) * 10**6  # so that nobody's time plays a part
    stamp(urls, *[ahead] * count)
    minorities = itertools.combinations(range(count), count // 2)
    clients = [make_client(without(urls, *dead)) for dead in minorities]
    tokens = [ahead] + [take(client) for client in clients]
    chance = random.Random(11)
    tokens += [take(chance.choice(clients)) for _ in range(60)]
    assert rising(tokens)
    assert tokens[-1] <= ahead + 2 * len(tokens), "one more each time, or the one that a minority was given"


@pytest.mark.real_masters
def test_in_the_ordinary_case_it_costs_no_round(masters: Fleet, make_client: MakeClient) -> None:
    clients = [make_client(masters.urls) for _ in range(2)]
    for client in clients:
        take(client)
    time.sleep(0.05)
    with write_backs(masters.urls) as alone:
        assert rising([take(clients[0]) for _ in range(50)])
    assert alone == set()

    def work(client: rlock.Client) -> None:
        for _ in range(13):
            take(client)
            time.sleep(0.001)

    threads = [threading.Thread(target=work, args=(client,)) for client in clients * 2]
    with write_backs(masters.urls) as contended:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert len(contended) <= 3, "in 52 sections"
