"""docs/howto/fastapi.md: its application, served to httpx without a server, in one process and in two."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from ..servers import Fleet
from .pages import block, lay_out, module

fastapi = pytest.importorskip("fastapi", "0.121", reason="fastapi is in the extra test")
httpx = pytest.importorskip("httpx", reason="httpx is in the extra test")

PAGE = "howto/fastapi.md"
SERVED_S = 30


class Shop:
    """The files of the page, and the database that they write to."""

    def __init__(self, folder: Path, orders: Any) -> None:
        self.folder = folder
        self.orders = orders

    def app(self) -> Any:
        """The application of one worker, with a client of its own."""
        return module(block(PAGE, "app.py")).app

    def rows(self) -> list[tuple[str, int]]:
        with closing(sqlite3.connect(self.folder / "shop.db")) as database:
            return database.execute("SELECT state, fence FROM orders ORDER BY id").fetchall()


@pytest.fixture
def shop(masters3: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    lay_out(PAGE, tmp_path)
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database, database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, state TEXT, fence BIGINT)")
        database.executemany("INSERT INTO orders VALUES (?, 'new', 0)", [(1,), (2,)])
    monkeypatch.setenv("DATABASE", str(tmp_path / "shop.db"))
    monkeypatch.setenv("RLOCK_MASTERS", ",".join(masters3.urls))
    orders = module(block(PAGE, "orders.py"), "orders")
    monkeypatch.setitem(sys.modules, "orders", orders)
    return Shop(tmp_path, orders)


@asynccontextmanager
async def serving(app: Any, strict: bool = False) -> AsyncIterator[Any]:
    transport = httpx.ASGITransport(app, raise_app_exceptions=strict)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://shop", timeout=SERVED_S) as web,
    ):
        yield web


def run(main: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        await asyncio.wait_for(main(), SERVED_S)

    asyncio.run(limited())


class Gate:
    """In the place of the packing: says that it has begun, and goes on when told."""

    def __init__(self) -> None:
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()

    async def __call__(self, order_id: int) -> None:
        if order_id == 1:
            self.begun.set()
            await self.go_on.wait()


def test_a_second_request_for_an_order_is_answered_with_409_by_every_worker(shop: Shop) -> None:
    async def main() -> None:
        shop.orders.pack = gate = Gate()
        async with serving(shop.app()) as one, serving(shop.app()) as two:
            first = asyncio.create_task(one.post("/orders/1/ship"))
            await gate.begun.wait()
            for worker in (one, two):
                refused = await worker.post("/orders/1/ship")
                assert (refused.status_code, refused.headers["Retry-After"]) == (409, "1")
                assert (await worker.post("/orders/2/ship")).status_code == 200
            assert shop.rows()[0] == ("new", 0)
            gate.go_on.set()
            assert (await first).json() == {"order": 1, "state": "shipped"}
            assert (await two.post("/orders/1/ship")).status_code == 200

    run(main)
    assert [state for state, _ in shop.rows()] == ["shipped", "shipped"]
