"""Three owners want two permits on three masters, without any fault. redis-semaphore gives each of them one.

It counts the owners on each master, and a majority of masters grants a permit. Each owner has another master
far away. So every master has counted its two near owners before the third one asks.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Barrier

import pytest

import rlock
from bench.harness.delay import Delay

from ..servers import Fleet, raw

# The first test of a machine fetches redis-semaphore.
pytestmark = pytest.mark.timeout(600)

OWNERS, PERMITS, ROUNDS = 3, 2, 3
FAR_MS = 300.0
#: Each owner tries once, at the same time.
PEER = """
import { Redis } from "ioredis";
import { RedlockSemaphore } from "redis-semaphore";
const [owners, permits] = JSON.parse(process.argv[1]);
const clients = owners.map((urls) => urls.map((url) => new Redis(url)));
await Promise.all(clients.flat().map((client) => client.ping()));
const options = { acquireAttemptsLimit: 1 };
const semaphores = clients.map((mine) => new RedlockSemaphore(mine, "gpu", permits, options));
await Promise.all(semaphores.map((semaphore) => semaphore.tryAcquire()));
console.log(JSON.stringify(semaphores.map((semaphore) => semaphore.isAcquired)));
process.exit();
"""


@pytest.fixture
def urls(masters3: Fleet) -> Iterator[list[list[str]]]:
    """The masters of each owner. Owner i has master i far away."""
    near = masters3.urls
    with Delay(near) as far:
        far.set(FAR_MS)
        yield [[*near[:i], far.urls[i], *near[i + 1 :]] for i in range(OWNERS)]


def test_of_a_counter_with_a_majority_three_owners_have_two_permits(
    masters3: Fleet, urls: list[list[str]], node: tuple[str, Path]
) -> None:
    program, folder = node
    command = [program, "--input-type=module", "-e", PEER, json.dumps([urls, PERMITS])]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.stdout == "[true,true,true]\n", done.stderr
    assert [raw(url).zcard("semaphore:gpu") for url in masters3.urls] == [PERMITS] * 3


def test_of_three_owners_two_have_a_permit_of_ours(urls: list[list[str]]) -> None:
    together = Barrier(OWNERS, timeout=30)

    def owns(client: rlock.Client) -> bool:
        gpu = client.semaphore("gpu", permits=PERMITS)
        together.wait()
        owned = gpu.acquire(timeout=2.0)
        together.wait()
        if owned:
            gpu.release()
        return owned

    with ExitStack() as stack:
        clients = [stack.enter_context(rlock.Client(mine)) for mine in urls]
        pool = stack.enter_context(ThreadPoolExecutor(OWNERS))
        for _ in range(ROUNDS):
            assert sorted(pool.map(owns, clients)) == [False, True, True]
