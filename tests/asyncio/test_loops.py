"""A client and event loops: several, one after another and at once; forks; what Python's debug modes say."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import subprocess
import sys
import textwrap
import threading
import traceback

import pytest

import rlock
import rlock.asyncio
from rlock.asyncio import Client, RLock

from ..lock.conftest import eventually, in_background
from .conftest import TTL, Eyes, Run, free_at_once, nothing_left, soon

EVERY_LOOP = True

SHORT = 0.6


def test_one_client_serves_one_event_loop_after_another(run: Run, eyes: Eyes) -> None:
    client = Client(eyes.urls, TTL)
    before = eyes.connections()

    async def work(*, last: bool = False) -> int:
        lock = client.lock("x")
        assert lock.hold_count == 0
        async with lock:
            token = lock.fencing_token
        if last:
            await client.close()
        return token

    tokens = [run(work(last=i == 4)) for i in range(5)]
    assert tokens == sorted(set(tokens))
    assert eyes.keys() == []
    # Also the connections of the loops that ended without a close.
    gc.collect()
    assert eventually(lambda: eyes.connections() <= before, 3.0)
    with pytest.raises(rlock.RLockError, match="closed"):
        run(work())


@pytest.mark.parametrize("closer", ["a third loop", "the loop of the holder", "the loop of who waits"])
def test_a_close_from_one_loop_ends_what_the_client_does_in_all(
    run: Run, eyes: Eyes, closer: str, caplog: pytest.LogCaptureFixture
) -> None:
    client, held = Client(eyes.urls, TTL), threading.Event()

    async def close_in(loop: str) -> None:
        if loop == closer:
            assert await soon(lambda: held.is_set() and eyes.queued("y"))
            await asyncio.wait_for(client.close(), 5)

    async def hold() -> None:
        lock = client.lock("x")
        await lock.acquire()
        lost = lock.lost
        held.set()
        await close_in("the loop of the holder")
        # Ends its loop at once: the other loop's close() must neither hang nor be cancelled by that.
        assert await lost.wait(5)
        with pytest.raises(rlock.LeaseLostError, match="its client was closed"):
            await lock.release()

    async def wait() -> None:
        waiting = asyncio.ensure_future(client.lock("y").acquire())
        await close_in("the loop of who waits")
        with pytest.raises(rlock.RLockError, match="closed"):
            await waiting

    async def main() -> None:
        async with Client(eyes.urls, TTL) as other, other.lock("y"):
            works = [in_background(lambda work=work: run(work())) for work in (hold, wait)]  # type: ignore[misc]
            await close_in("a third loop")
            for work in works:
                await asyncio.to_thread(work.result, 8)
            await free_at_once(other, "x")

    run(main())
    assert "unhandled" not in caplog.text
    assert eyes.keys() == []


@pytest.mark.rule("1.3")
def test_a_child_that_was_forked_in_a_running_loop_holds_nothing_and_disturbs_nothing(
    run: Run, eyes: Eyes
) -> None:
    client = Client(eyes.urls, SHORT)

    async def in_the_child() -> None:
        lock = client.lock("x")
        assert lock.hold_count == 0
        assert not lock.is_owned()
        with pytest.raises(rlock.NotHeldError):
            await lock.release()
        assert await lock.acquire(timeout=SHORT * 2) is False
        async with client.lock("y"):
            await asyncio.sleep(SHORT * 1.5)
            client.lock("y").check()
        await client.close()

    def child(sockets: int) -> int:
        try:
            assert _sockets() <= sockets, "it has copies of the parent's connections"
            asyncio._set_running_loop(None)
            run(in_the_child())
        except BaseException:
            traceback.print_exc()
            return 1
        return 0

    async def wait(lock: RLock) -> None:
        async with lock:
            pass

    async def main() -> None:
        lock = client.lock("x")
        assert not eyes.queued("x")  # it has its own connection from here on
        sockets = _sockets()
        async with lock:
            waiter = asyncio.ensure_future(wait(client.lock("x")))
            # Of an attempt in the middle the child would have a copy, which nobody there could close.
            tables = client._engine().masters._connections, client._engine().notifications._connections
            assert await soon(lambda: eyes.queued("x") and [each.up for each in tables] == [3, 3])
            numbers = {one["id"] for one in eyes.raws[0].client_list()}
            pid = os.fork()
            if not pid:
                os._exit(child(sockets))
            _, status = await asyncio.to_thread(os.waitpid, pid, 0)
            assert os.waitstatus_to_exitcode(status) == 0
            lock.check()
            assert not waiter.done()
            # The same connections: none had to be made anew.
            assert {one["id"] for one in eyes.raws[0].client_list()} == numbers
        await asyncio.wait_for(waiter, 2.0)
        await nothing_left(eyes, client)
        await client.close()

    run(main())


def _sockets() -> int:
    found = 0
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found += os.readlink(f"/proc/self/fd/{descriptor}").startswith("socket:")
    return found


_EVERYTHING = """
    import asyncio, contextlib, gc, sys
    import rlock, rlock.asyncio

    async def take(lock):
        async with lock:
            await asyncio.sleep(0.001)

    async def main():
        urls = sys.argv[1:]
        async with rlock.asyncio.Client(urls, 0.6) as client, rlock.asyncio.Client(urls) as other:
            for fair in (False, True):
                async with other.lock("x", fair=fair):
                    tasks = [asyncio.ensure_future(take(client.lock("x", fair=fair))) for _ in range(20)]
                    await asyncio.sleep(0.1)
                    for task in tasks[::2]:
                        task.cancel()
                await asyncio.wait(tasks)
            async with client.lock("y") as lock:
                assert not await lock.lost.wait(0.7)
                await client.status("y")
            await asyncio.ensure_future(client.lock("left").acquire())
            half = asyncio.ensure_future(take(client.lock("y")))
            await asyncio.sleep(0)
        # A client that is closed while its first connections are being made.
        hurried = rlock.asyncio.Client(urls)
        task = asyncio.ensure_future(take(hurried.lock("z")))
        await asyncio.sleep(0)
        await hurried.close()
        await asyncio.gather(task, half, return_exceptions=True)

    asyncio.run(main())
    gc.collect()
    print("done")
"""


@pytest.mark.timing  # asyncio reports each step that takes 0.1 s
def test_the_debug_modes_of_python_and_of_asyncio_have_nothing_to_say(run: Run, eyes: Eyes) -> None:
    program = textwrap.dedent(_EVERYTHING)
    if run is not asyncio.run:
        program = program.replace("asyncio.run(", "import uvloop; uvloop.run(")
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", program, *eyes.urls]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.stdout == "done\n", done.stderr
    said = [line for line in done.stderr.splitlines() if "was still held" not in line]
    assert [line for line in said if "Executing <" not in line or "rlock" not in line] == []
    assert eyes.keys() == []
