"""The pages of docs/howto whose code runs in this process.

FastAPI is served to httpx without a server. The recipes of locks have masters in memory. And testing.md: its
files are a project whose tests pass.
"""

from __future__ import annotations

import asyncio
import inspect
import re
import sqlite3
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

import rlock
import rlock.asyncio
from rlock.testing import MemoryMasters, lose, memory_client

from ..lock.conftest import MakeClient, in_thread
from ..lock.conftest import make_client as make_client  # a fixture
from ..servers import Fleet, left
from .pages import DOCS, PYTHON, block, lay_out, marked, module, starter, told


def run_tasks(masters: Fleet, main: Callable[[rlock.asyncio.Client], Awaitable[None]]) -> None:
    async def limited() -> None:
        async with rlock.asyncio.Client(masters.urls, ttl=1.0) as client:
            await asyncio.wait_for(main(client), 30)

    asyncio.run(limited())


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_the_program_of_the_page_runs_on_every_loop(loop: str, masters3: Fleet, tmp_path: Path) -> None:
    pytest.importorskip(loop, reason="uvloop is in the group test-all")
    lay_out("howto/asyncio.md", tmp_path)
    with starter(tmp_path, masters3.urls) as start:
        assert told(start(PYTHON, "-c", f"import {loop}, ship; {loop}.run(ship.main())")) == "False\n"
    assert not [key for url in masters3.urls for key in left(url)]


def test_child_tasks_get_the_loss_signal_and_the_token_of_their_parent(masters3: Fleet) -> None:
    parts, written = module(block("howto/asyncio.md", "parts.py")), []

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

    run_tasks(masters3, main)
    assert [part for part, _ in written] == [1, 2]
    assert written[0][1] == written[1][1] > 0


def test_a_thread_leaves_the_loop_to_the_renewal_and_learns_of_a_loss(masters3: Fleet) -> None:
    thread = module(block("howto/asyncio.md", "thread.py"))
    compute, begun, go_on = thread.compute, threading.Event(), threading.Event()

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

    run_tasks(masters3, main)


SERVED_S = 30


@asynccontextmanager
async def serving(httpx: Any) -> AsyncIterator[Any]:
    """The application of one worker, with a client of its own."""
    app = module(block("howto/fastapi.md", "app.py")).app
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://shop", timeout=SERVED_S) as web,
    ):
        yield web


def test_a_second_request_gets_409(masters3: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fastapi", "0.121", reason="fastapi is in the group test-all")
    httpx = pytest.importorskip("httpx", reason="httpx is in the group test-all")
    lay_out("howto/fastapi.md", tmp_path)
    monkeypatch.setenv("DATABASE", str(tmp_path / "shop.db"))
    monkeypatch.setenv("RLOCK_MASTERS", ",".join(masters3.urls))
    orders = module(block("howto/fastapi.md", "orders.py"), "orders")
    monkeypatch.setitem(sys.modules, "orders", orders)

    def states() -> list[str]:
        return [state for (state,) in database.execute("SELECT state FROM orders ORDER BY id")]

    async def main() -> None:
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def pack(order_id: int) -> None:
            if order_id == 1:
                begun.set()
                await go_on.wait()

        orders.pack = pack
        async with serving(httpx) as one, serving(httpx) as two:
            first = asyncio.create_task(one.post("/orders/1/ship"))
            await begun.wait()
            for worker in (one, two):
                refused = await worker.post("/orders/1/ship")
                assert (refused.status_code, refused.headers["Retry-After"]) == (409, "1")
                assert (await worker.post("/orders/2/ship")).status_code == 200
            assert states() == ["new", "shipped"]
            go_on.set()
            assert (await first).json() == {"order": 1, "state": "shipped"}
            assert (await two.post("/orders/1/ship")).status_code == 200

    with closing(sqlite3.connect(tmp_path / "shop.db")) as database:
        with database:
            database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, state TEXT, fence BIGINT)")
            database.executemany("INSERT INTO orders VALUES (?, 'new', 0)", [(1,), (2,)])
        asyncio.run(asyncio.wait_for(main(), SERVED_S))
        assert states() == ["shipped", "shipped"]


#: Blocks with one or two lines before, and one or two now.
PAIRS = ["redis_py", "pottery", "redis_lock", "redlock_plus"]


def defined(source: str, urls: Sequence[str] = (), **given: Any) -> dict[str, Any]:
    """The names that the source defines, with the masters at ``urls`` in place of those of the page."""
    for number, url in enumerate(urls, 1):
        source = source.replace(f"redis://10.0.0.{number}", url)
    assert "10.0.0." not in source, "more masters are named than there are"
    exec(compile(source, "migrating.md", "exec"), given)
    return given


@pytest.fixture
def setup(masters3: Fleet) -> Iterator[dict[str, Any]]:
    """The objects that the examples of the page use."""
    found = defined(block("howto/migrating.md", "setup"), masters3.urls)
    yield found
    found["client"].close()


@pytest.mark.parametrize("name", PAIRS)
def test_the_new_lines_exclude_other_threads_and_clients(
    name: str, setup: dict[str, Any], masters3: Fleet, make_client: MakeClient
) -> None:
    now = "\n".join(line for line in block("howto/migrating.md", name).splitlines() if line.endswith("# now"))
    found = defined(now, masters3.urls, **setup)
    client, lock = found["client"], found["lock"]
    other = make_client(masters3(len(client.masters)).urls, ttl=10.0).lock("orders:42")
    with lock, lock:
        assert in_thread(lambda: lock.acquire(blocking=False)) is False
        assert other.acquire(blocking=False) is False
    assert other.acquire(blocking=False) is True
    other.release()
    client.close()


def test_with_a_thread_as_owner_any_thread_may_acquire_and_release(setup: dict[str, Any]) -> None:
    lock = setup["client"].lock("x")
    acquire, release = block("howto/migrating.md", "owner").split("if held:\n")
    found = in_thread(lambda: defined(acquire, lock=lock))
    assert found["held"] is True
    assert lock.locked()
    assert not lock.is_owned()
    defined("if held:\n" + release, **found)
    assert not lock.locked()
    found["owner"].shutdown()


def test_release_a_excludes_old_code_and_release_b(
    setup: dict[str, Any], masters3: Fleet, make_client: MakeClient
) -> None:
    made = defined(block("howto/migrating.md", "both"), **setup)["Both"]
    old, other = (setup["server"].lock("v2-old", timeout=30) for _ in range(2))
    new = make_client(masters3(len(setup["client"].masters)).urls, ttl=10.0).lock("v2")
    both = made(setup["client"].lock("v2"), old)
    for outside in (other, new):
        with outside:
            assert not both.acquire(timeout=0.2)
        with both, both:
            assert not outside.acquire(blocking=False)
    with other, new:
        pass


LISTED = '["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"]'


def worker(masters: list[str], timeout: str) -> Any:
    text = block("howto/service.md", "worker.py", LISTED, repr(masters))
    assert "timeout=5" in text
    return module(text.replace("timeout=5", timeout))


def test_the_worker_works_skips_and_stops_after_a_loss(masters3: Fleet) -> None:
    one = worker(masters3.urls, "timeout=0.1")
    one.client = rlock.Client(masters3.urls, ttl=1.0)
    steps: list[str] = []

    def loses(order: int, step: str, token: int) -> None:
        lost = one.client.lock(f"order:{order}").lost
        assert other.evict(f"order:{order}")
        assert lost.wait(10)

    with one.client, rlock.Client(masters3.urls) as other:
        assert one.work_once(1, lambda order, step, token: steps.append(step))
        assert steps == ["pack", "ship"]
        with other.lock("order:1"):
            assert not one.work_once(1, pytest.fail)
        assert not one.work_once(1, loses)
        assert one.work_once(1, lambda *_: None), "the next try has a lock of its own"


def test_the_worker_survives_an_outage_of_the_masters() -> None:
    one = worker(["redis://127.0.0.1:1"], "timeout=0")
    with one.client:
        assert not one.work_once(1, pytest.fail)


def test_the_short_list_of_the_reference_is_right() -> None:
    (text,) = marked(DOCS / "api.md", "tests/docs/test_howto_library.py")
    listed = re.findall(r"(?m)^(Client|RLock)\.?(\w*)\((.*?)\)", text)
    assert len(listed) == 14
    for kind, name, arguments in listed:
        real = inspect.signature(getattr(getattr(rlock, kind), name or "__init__"))
        assert {part.split("=")[0] for part in arguments.split(", ") if part not in "*"} <= {*real.parameters}
        for part in arguments.split(", "):
            option, _, default = part.partition("=")
            assert not default or str(real.parameters[option].default).strip("()") == default, part
    for name in re.findall(r"RLock\.(\w+)[,\n]", text):
        assert hasattr(rlock.RLock, name)


@pytest.fixture
def memory() -> MemoryMasters:
    return MemoryMasters(3)


@pytest.fixture
def client(memory: MemoryMasters, monkeypatch: pytest.MonkeyPatch) -> Iterator[rlock.Client]:
    client = memory_client(masters=memory)
    monkeypatch.setattr(rlock.Client, "from_env", lambda: client)
    with client:
        yield client


def test_four_jobs_have_a_gpu_each_and_a_fifth_has_none(client: rlock.Client, memory: MemoryMasters) -> None:
    page = module(block("howto/semaphore.md", "gpu.py", "timeout=60", "timeout=0.2"))
    ran: list[tuple[int, int]] = []

    def run(step: int, device: int, token: int) -> None:
        ran.append((step, device))
        if step == 9:
            lose(client.lock(f"gpu#{device}"))

    assert page.train([1, 2], run)
    assert [step for step, _ in ran] == [1, 2]
    assert len({device for _, device in ran}) == 1
    with pytest.raises(rlock.LeaseLostError):
        page.train([9, 10], run)
    with memory_client(masters=memory) as other:
        gpu = other.semaphore("gpu", permits=4)
        for _ in range(4):
            gpu.acquire()
        assert not page.train([1], run)


def test_a_worker_ends_what_a_request_began(memory: MemoryMasters, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rlock.Client, "from_env", lambda **how: memory_client(masters=memory, **how))
    page = module(block("howto/hand-over.md", "jobs.py"))
    jobs: list[tuple[int, str]] = []
    done: list[int] = []
    assert page.request(7, lambda *job: jobs.append(job))
    assert not page.client.lock("order:7").acquire(blocking=False)
    page.worker(*jobs[0], lambda order, token: done.append(order))
    assert done == [7]
    with memory_client(masters=memory, max_ttl=60) as other, other.lock("order:7"):
        assert not page.request(7, pytest.fail)
    with pytest.raises(rlock.LeaseLostError):
        page.worker(*jobs[0], pytest.fail)


def test_a_transfer_holds_both_accounts(client: rlock.Client, memory: MemoryMasters) -> None:
    page = module(block("howto/several.md", "transfer.py", "timeout=5", "timeout=0.2"))
    moved: list[set[str]] = []
    assert page.transfer(2, 1, lambda source, target, tokens: moved.append(set(tokens)))
    assert moved == [{"account:1", "account:2"}]
    with memory_client(masters=memory) as other, other.lock("account:2"):
        assert not page.transfer(1, 2, pytest.fail)


def test_readers_serve_while_the_publisher_indexes(client: rlock.Client, memory: MemoryMasters) -> None:
    page = module(block("howto/readwrite.md", "content.py"))
    tokens: list[int] = []
    with memory_client(masters=memory) as other, memory_client(masters=memory) as third:
        reader, writer = other.read_write_lock("content:42").reader, third.lock("content:42")

        def load(token: int) -> None:
            tokens.append(token)
            assert not reader.acquire(blocking=False)

        def index() -> None:
            with reader:
                assert not writer.acquire(blocking=False)

        page.publish(load, index)
        assert len(tokens) == 1
        assert page.serve(lambda: not writer.acquire(blocking=False))
        assert third.status("content:42").free


pytest_plugins = ["pytester"]


@pytest.mark.usefixtures("server")
def test_the_tests_of_the_page_pass(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RLOCK_TEST_MASTERS", raising=False)
    lay_out("howto/testing.md", pytester.path)
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=9)
