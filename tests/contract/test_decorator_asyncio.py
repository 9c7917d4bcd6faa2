"""rlock.locked on coroutine functions, with rlock.asyncio on real masters."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import rlock
import rlock.asyncio

from ..conftest import FreshMasters
from ..servers import Fleet, left

Main = Callable[[rlock.asyncio.Client, rlock.asyncio.Client], Awaitable[None]]
Run = Callable[[Main], None]


@pytest.fixture
def masters(real_masters: Fleet) -> Fleet:
    """Servers only: the kinds of client of this folder have no part in it."""
    return real_masters(3)


@pytest.fixture
def run(masters: Fleet) -> Run:
    """``run(main)``: with a client and a stranger, in an event loop of its own; nothing is left behind."""

    def loop(main: Main) -> None:
        async def limited() -> None:
            kind = rlock.asyncio.Client
            async with kind(masters.urls, 3) as client, kind(masters.urls, 3) as stranger:
                await asyncio.wait_for(main(client, stranger), 30)
                # Before the clients are closed, which would release what was forgotten.
                keys = [key for url in masters.urls for key in left(url)]
                assert not [key for key in keys if ":evicted:" not in key]

        asyncio.run(limited())

    return loop


def test_the_body_runs_under_the_lock_of_its_task_and_the_result_is_returned(run: Run) -> None:
    async def main(client: rlock.asyncio.Client, stranger: rlock.asyncio.Client) -> None:
        @rlock.locked(client, "report:{user_id}")
        async def report(user_id: int) -> tuple[int, bool, bool, int]:
            """Makes one."""
            lock = report.lock(user_id)
            lock.check()
            await asyncio.sleep(0)
            taken = await stranger.lock("report:7").acquire(blocking=False)
            return user_id, lock.is_owned(), taken, lock.fencing_token

        user_id, owned, taken, token = await report(7)
        assert (user_id, owned, taken) == (7, True, False)
        assert token > 0
        assert asyncio.iscoroutinefunction(report)
        assert (report.__name__, report.__doc__) == ("report", "Makes one.")

    run(main)


def test_tasks_exclude_each_other_by_their_arguments(run: Run) -> None:
    async def main(client: rlock.asyncio.Client, stranger: rlock.asyncio.Client) -> None:
        inside, most, met = {1: 0, 2: 0}, {1: 0, 2: 0}, asyncio.Event()

        @rlock.locked(client, "count:{key}")
        async def work(key: int) -> None:
            inside[key] += 1
            most[key] = max(most[key], inside[key])
            if inside == {1: 1, 2: 1}:
                met.set()
            await met.wait()
            await asyncio.sleep(0.005)
            inside[key] -= 1

        await asyncio.gather(*[work(key) for key in (1, 2) * 5])
        assert most == {1: 1, 2: 1}

    run(main)


def test_a_second_call_is_skipped_and_the_log_says_so(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def main(client: rlock.asyncio.Client, stranger: rlock.asyncio.Client) -> None:
        ran = []

        @rlock.locked(client, "x", blocking=False)
        async def work() -> str:
            ran.append(1)
            return "done"

        async with stranger.lock("x"):
            assert await work() is None
        assert not ran
        assert await work() == "done"

    with caplog.at_level(logging.INFO, "rlock"):
        run(main)
    (told,) = [record.getMessage() for record in caplog.records if "skipped" in record.getMessage()]
    assert "'x'" in told


def test_a_caller_whose_time_is_over_gets_a_lock_busy_error(run: Run) -> None:
    async def main(client: rlock.asyncio.Client, stranger: rlock.asyncio.Client) -> None:
        @rlock.locked(client, "x", timeout=0.3)
        async def work() -> None:
            raise AssertionError("without the lock")

        async with stranger.lock("x"):
            with pytest.raises(rlock.LockBusyError) as caught:
                await work()
            assert caught.value.name == "x"
            assert 0.29 < caught.value.waited < 5

    run(main)


def test_a_waiting_caller_gets_the_lock_when_it_is_free(run: Run) -> None:
    async def main(client: rlock.asyncio.Client, stranger: rlock.asyncio.Client) -> None:
        @rlock.locked(client, "x", timeout=20)
        async def work() -> bool:
            return client.lock("x").is_owned()

        async with stranger.lock("x"):
            waiting = asyncio.create_task(work())
            await asyncio.sleep(0.2)
            assert not waiting.done()
        assert await waiting is True

    run(main)


def test_on_busy_may_be_a_coroutine_function_or_a_function(run: Run) -> None:
    async def main(client: rlock.asyncio.Client, stranger: rlock.asyncio.Client) -> None:
        async def body(a: int, b: int = 0) -> tuple[str, int, int]:
            return "body", a, b

        async def answer(a: int, b: int = 0) -> tuple[str, int, int]:
            await asyncio.sleep(0)
            assert not client.lock("x").is_owned()
            return "busy", a, b

        awaiting = rlock.locked(client, "x", blocking=False, on_busy=answer)(body)
        plain = rlock.locked(client, "x", timeout=0.1, on_busy=lambda a, b=0: ("plain", a, b))(body)
        raising = rlock.locked(client, "x", blocking=False, on_busy="raise")(body)
        async with stranger.lock("x"):
            assert await awaiting(1, b=2) == ("busy", 1, 2)
            assert await plain(1) == ("plain", 1, 0)
            with pytest.raises(rlock.LockBusyError):
                await raising(1)
        assert await awaiting(1) == await plain(1) == await raising(1) == ("body", 1, 0)

    run(main)


def test_unreachable_masters_do_not_count_as_busy(fresh_real_masters: FreshMasters) -> None:
    fleet = fresh_real_masters(3)
    for master in fleet[:2]:
        master.kill()

    async def answer() -> None:
        raise AssertionError("it is not known to be busy")

    async def main() -> None:
        async with rlock.asyncio.Client(fleet.urls, 3, request_timeout=0.2) as client:
            for options in ({"blocking": False}, {"timeout": 0.3}, {"timeout": 0.3, "on_busy": answer}):
                work: Any = rlock.locked(client, "x", **options)(answer)
                with pytest.raises(rlock.QuorumUnreachableError):
                    await work()

    asyncio.run(main())


def test_calls_nest_in_one_task_and_a_task_that_is_made_waits(run: Run) -> None:
    async def main(client: rlock.asyncio.Client, stranger: rlock.asyncio.Client) -> None:
        counts: list[int] = []

        @rlock.locked(client, "x", timeout=0.3, on_busy="skip")
        async def inner() -> str:
            counts.append(client.lock("x").hold_count)
            return "done"

        @rlock.locked(client, "x", blocking=False)
        async def outer(depth: int) -> int:
            assert await inner() == "done"
            assert await asyncio.create_task(inner()) is None
            return depth and 1 + (await outer(depth - 1) or 0)

        assert await outer(2) == 2
        assert counts == [2, 3, 4]
        assert client.lock("x").hold_count == 0

    run(main)


def test_the_exception_of_the_body_comes_out_and_a_loss_never_in_its_place(run: Run) -> None:
    async def main(client: rlock.asyncio.Client, stranger: rlock.asyncio.Client) -> None:
        @rlock.locked(client, "x", timeout=5)
        async def work(lose: bool, fail: bool) -> None:
            if lose:
                await stranger.evict("x")
                assert await work.lock(lose, fail).lost.wait(20)
            if fail:
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await work(False, True)
        assert not await client.lock("x").locked()
        with pytest.raises(ZeroDivisionError):
            await work(True, True)
        with pytest.raises(rlock.LeaseLostError):
            await work(True, False)

    run(main)


def test_a_cancellation_while_it_waits_leaves_nothing_behind(run: Run) -> None:
    async def main(client: rlock.asyncio.Client, stranger: rlock.asyncio.Client) -> None:
        ran = []

        @rlock.locked(client, "x")
        async def work() -> None:
            ran.append(1)

        async with stranger.lock("x") as lock:
            waiting = asyncio.create_task(work())
            while not (await lock.statistics()).queue_length:
                await asyncio.sleep(0.02)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert (await lock.statistics()).queue_length == 0
        assert not ran

    run(main)


def test_a_cancellation_in_the_body_releases(run: Run) -> None:
    async def main(client: rlock.asyncio.Client, stranger: rlock.asyncio.Client) -> None:
        begun = asyncio.Event()

        @rlock.locked(client, "x")
        async def work() -> None:
            begun.set()
            await asyncio.sleep(30)

        working = asyncio.create_task(work())
        await begun.wait()
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        assert await stranger.lock("x").acquire(blocking=False)
        await stranger.lock("x").release()

    run(main)


def test_a_client_that_a_factory_makes_is_made_once_and_outlives_an_event_loop(masters: Fleet) -> None:
    made: list[rlock.asyncio.Client] = []

    def factory() -> rlock.asyncio.Client:
        made.append(rlock.asyncio.Client(masters.urls, 3))
        return made[-1]

    @rlock.locked(factory, "x", blocking=False)
    async def work() -> bool:
        return made[0].lock("x").is_owned()

    async def main(last: bool) -> list[bool | None]:
        found = [*await asyncio.gather(work(), work())]
        if last:
            await made[0].close()
        return found

    assert not made
    for last in (False, True):
        found = asyncio.run(main(last))
        assert found.count(True) == found.count(None) == 1
    assert len(made) == 1
    assert not [key for url in masters.urls for key in left(url)]


def test_the_wrong_kind_of_client_is_an_error(masters: Fleet) -> None:
    async def coroutine() -> None: ...

    def function() -> None: ...

    blocking, waiting = rlock.Client(masters.urls), rlock.asyncio.Client(masters.urls)
    with pytest.raises(rlock.OptionsError, match=r"give it an rlock.asyncio.Client"):
        rlock.locked(blocking, "x")(coroutine)
    with pytest.raises(rlock.OptionsError, match=r"give it an rlock.Client"):
        rlock.locked(waiting, "x")(function)
    # What a factory makes is known in the call only.
    late: Any = rlock.locked(lambda: blocking, "x")(coroutine)
    with pytest.raises(rlock.OptionsError, match=r"give it an rlock.asyncio.Client"):
        asyncio.run(late())
    late = rlock.locked(lambda: waiting, "x")(function)
    with pytest.raises(rlock.OptionsError, match=r"give it an rlock.Client"):
        late()
    blocking.close()
