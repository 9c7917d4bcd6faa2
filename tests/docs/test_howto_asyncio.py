"""docs/howto/asyncio.md: its programs, run on real masters."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import rlock
import rlock.asyncio
from rlock.testing import lose

from ..servers import Fleet, left
from .pages import PYTHON, block, lay_out, module, starter

PAGE = "howto/asyncio.md"
Run = Callable[[Callable[[rlock.asyncio.Client], Awaitable[None]]], None]


@pytest.fixture
def run(masters3: Fleet) -> Run:
    """``run(main)``: with a client, in an event loop of its own."""

    def loop(main: Callable[[rlock.asyncio.Client], Awaitable[None]]) -> None:
        async def limited() -> None:
            async with rlock.asyncio.Client(masters3.urls, ttl=1.0) as client:
                await asyncio.wait_for(main(client), 30)

        asyncio.run(limited())

    return loop


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_the_program_of_the_page_runs_on_every_loop(loop: str, masters3: Fleet, tmp_path: Path) -> None:
    pytest.importorskip(loop, reason="uvloop is in the extra test")
    lay_out(PAGE, tmp_path)
    with starter(tmp_path, masters3.urls) as start:
        process = start(PYTHON, "-c", f"import {loop}, ship; {loop}.run(ship.main())")
        assert process.communicate(timeout=60)[0] == "False\n"
        assert process.returncode == 0
    assert not [key for url in masters3.urls for key in left(url)]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="TaskGroup came with Python 3.11")
def test_child_tasks_get_the_loss_signal_and_the_token_of_their_parent(run: Run) -> None:
    parts, written = module(block(PAGE, "parts.py")), []

    async def main(client: rlock.asyncio.Client) -> None:
        lock = client.lock("x")

        async def write(part: int, token: int) -> None:
            with pytest.raises(rlock.LeaseLostError, match="does not hold it"):
                lock.check()
            written.append((part, token))

        parts.write = write
        await parts.work(lock, [1, 2])
        with pytest.raises(rlock.LeaseLostError):
            async with lock:
                await lose(lock)
                with pytest.raises(RuntimeError, match="another owner may hold the lock"):
                    await asyncio.create_task(parts.pack(3, lock.lost, 0))

    run(main)
    assert [part for part, _ in written] == [1, 2]
    assert written[0][1] == written[1][1] > 0


def test_a_thread_leaves_the_loop_to_the_renewal_and_learns_of_a_loss(run: Run) -> None:
    thread, begun, go_on = module(block(PAGE, "thread.py")), threading.Event(), threading.Event()
    compute = thread.compute

    def waiting(image: str, stop: threading.Event, token: int) -> Any:
        begun.set()
        go_on.wait(1.5 if image == "a" else 20)  # longer than the ttl
        return compute(image, stop, token)

    async def main(client: rlock.asyncio.Client) -> None:
        thread.compute = waiting
        image, token = await thread.resize(client, "a")
        assert image == "a"
        assert token > 0
        begun.clear()
        resizing = asyncio.create_task(thread.resize(client, "b"))
        await asyncio.to_thread(begun.wait, 20)
        await lose(client.lock("image:b"))
        await asyncio.sleep(0)
        go_on.set()
        with pytest.raises(RuntimeError, match="another owner may hold the lock"):
            await resizing

    run(main)
