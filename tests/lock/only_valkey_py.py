"""A thread, a task and the command line, by a Python that has valkey-py and no redis-py."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from importlib.util import find_spec

import rlock
import rlock.asyncio
from rlock.testing.local.embedded import Masters, find_server


async def task(url: str) -> None:
    async with rlock.asyncio.Client(url) as client, client.lock("x") as lock:
        assert lock.is_owned()


if __name__ == "__main__":
    assert find_spec("redis") is None, "redis-py is installed: this shows nothing"
    with Masters(1, find_server()) as masters:
        url = os.environ["RLOCK_MASTERS"] = masters.urls[0].replace("redis://", "valkey://")
        with rlock.Client(url) as client, client.lock("x") as lock:
            assert lock.is_owned()
        asyncio.run(task(url))
        for words in ("run x -- echo held", "list", "doctor"):
            subprocess.run([sys.executable, "-m", "rlock", *words.split()], check=True)
