"""docs/howto/asyncio.md: its code as it stands there, and what it says of tasks, loops and threads."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import rlock
import rlock.asyncio
from rlock.testing import lose

from ..contract.conftest import make_client as make_client  # a fixture
from ..servers import Fleet, left
from .pages import PYTHON, block, lay_out, module, starter

PAGE = "howto/asyncio.md"
Main = Callable[[rlock.asyncio.Client], Awaitable[None]]
Run = Callable[..., None]

groups = pytest.mark.skipif(sys.version_info < (3, 11), reason="TaskGroup and timeout came with Python 3.11")


@pytest.fixture
def run(masters3: Fleet) -> Run:
    """``run(main)``: with a client, in an event loop of its own."""

    def loop(main: Main, ttl: float = 10.0) -> None:
        async def limited() -> None:
            async with rlock.asyncio.Client(masters3.urls, ttl) as client:
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


def test_what_the_page_calls_awaited_is_a_coroutine_function_and_nothing_else() -> None:
    def awaited(kind: type) -> set[str]:
        public = {name: found for name, found in vars(kind).items() if not name.startswith("_")}
        return {name for name, found in public.items() if asyncio.iscoroutinefunction(found)}

    assert awaited(rlock.asyncio.RLock) == {"acquire", "release", "locked", "statistics"}
    assert awaited(rlock.asyncio.Client) == {"status", "evict", "init", "close"}


# -- the owner -----------------------------------------------------------------------------------------------


@groups
def test_children_are_given_the_signal_and_the_token_of_their_parent(run: Run) -> None:
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
                with pytest.raises(RuntimeError, match="another one may be on"):
                    await asyncio.create_task(parts.pack(3, lock.lost, 0))

    run(main)
    assert [part for part, _ in written] == [1, 2]
    assert written[0][1] == written[1][1] > 0


# -- time-outs and cancellation ------------------------------------------------------------------------------


@groups
def test_a_time_out_around_it_leaves_nothing_behind(run: Run, masters3: Fleet) -> None:
    async def main(client: rlock.asyncio.Client) -> None:
        lock = client.lock("x")
        async with rlock.asyncio.Client(masters3.urls) as stranger:
            async with stranger.lock("x"):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.3):
                        await lock.acquire()
                assert (await stranger.lock("x").statistics()).queue_length == 0
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.3), lock:
                    await asyncio.sleep(30)
            assert await stranger.lock("x").acquire(blocking=False), "the release was cut short"
            await stranger.lock("x").release()

    run(main)
    assert not [key for url in masters3.urls for key in left(url)]


# -- the event loop ------------------------------------------------------------------------------------------


def test_blocking_code_loses_the_lock_and_the_log_says_why(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def main(client: rlock.asyncio.Client) -> None:
        lock = client.lock("orders:42")
        with pytest.raises(rlock.LeaseLostError):
            async with lock:
                time.sleep(1.5)
                with pytest.raises(rlock.LeaseLostError):
                    lock.check()
                await asyncio.sleep(0.1)

    run(main, ttl=1.0)
    assert "s late: the event loop did not run" in caplog.text


def test_a_thread_leaves_the_loop_to_the_renewal_and_is_told_of_a_loss(run: Run) -> None:
    thread, begun, go_on = module(block(PAGE, "thread.py")), threading.Event(), threading.Event()
    compute = thread.compute

    def slow(image: str, stop: threading.Event, token: int) -> Any:
        time.sleep(1.5)
        return compute(image, stop, token)

    def waiting(image: str, stop: threading.Event, token: int) -> Any:
        begun.set()
        assert go_on.wait(20)
        return compute(image, stop, token)

    async def main(client: rlock.asyncio.Client) -> None:
        thread.compute = slow
        image, token = await thread.resize(client, "a")
        assert image == "a"
        assert token > 0
        thread.compute = waiting
        resizing = asyncio.create_task(thread.resize(client, "b"))
        await asyncio.to_thread(begun.wait, 20)
        await lose(client.lock("image:b"))
        await asyncio.sleep(0)
        go_on.set()
        with pytest.raises(RuntimeError, match="another one may be on"):
            await resizing

    run(main, ttl=1.0)


def test_a_cancellation_releases_while_the_thread_still_runs(run: Run) -> None:
    thread, begun, go_on = module(block(PAGE, "thread.py")), threading.Event(), threading.Event()

    def compute(image: str, stop: threading.Event, token: int) -> None:
        begun.set()
        go_on.wait(20)

    async def main(client: rlock.asyncio.Client) -> None:
        thread.compute = compute
        resizing = asyncio.create_task(thread.resize(client, "a"))
        await asyncio.to_thread(begun.wait, 20)
        resizing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await resizing
        try:
            assert not await client.lock("image:a").locked()
        finally:
            go_on.set()

    run(main)


# -- clients -------------------------------------------------------------------------------------------------


def test_a_client_outlives_an_event_loop_and_a_cancelled_main_gives_back(masters3: Fleet) -> None:
    client = rlock.asyncio.Client(masters3.urls)

    async def main(last: bool) -> bool:
        taken = await client.lock("x").acquire(blocking=False)
        await client.lock("x").release()
        if last:
            await client.close()
        return taken

    async def cancelled() -> None:
        async with client.lock("x"):
            asyncio.get_running_loop().call_later(0.05, asyncio.current_task().cancel)  # type: ignore[union-attr]
            await asyncio.sleep(30)

    assert asyncio.run(main(False))
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())
    assert asyncio.run(main(True))


def test_a_blocking_client_excludes_threads_and_asyncio_and_no_tasks_of_its_thread(
    run: Run, masters3: Fleet, make_client: Callable[..., rlock.Client]
) -> None:
    blocking = make_client(masters3.urls).lock("x")

    async def main(client: rlock.asyncio.Client) -> None:
        inside = most = 0

        async def visit() -> None:
            nonlocal inside, most
            with blocking:
                inside += 1
                most = max(most, inside)
                await asyncio.sleep(0.05)
                inside -= 1

        await asyncio.gather(visit(), visit())
        assert most == 2
        async with client.lock("x"):
            assert await asyncio.to_thread(blocking.acquire, False) is False
            waiting = asyncio.create_task(asyncio.to_thread(_visit, blocking))
            await asyncio.sleep(0.1)
        assert await waiting is True

    run(main)


def _visit(lock: rlock.RLock) -> bool:
    with lock:
        return lock.is_owned()


# -- what does not work --------------------------------------------------------------------------------------
