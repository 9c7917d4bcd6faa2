"""docs/howto/fastapi.md: its application, served to httpx without a server, in one process and in two."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from collections.abc import AsyncIterator
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


class Gate:
    """In the place of the packing: says that it has begun, and goes on when told."""

    def __init__(self) -> None:
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()

    async def __call__(self, order_id: int) -> None:
        if order_id == 1:
            self.begun.set()
            await self.go_on.wait()


@asynccontextmanager
async def serving() -> AsyncIterator[Any]:
    """The application of one worker, with a client of its own."""
    app = module(block(PAGE, "app.py")).app
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://shop", timeout=SERVED_S) as web,
    ):
        yield web


def test_a_second_request_for_an_order_is_answered_with_409_by_every_worker(
    masters3: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay_out(PAGE, tmp_path)
    monkeypatch.setenv("DATABASE", str(tmp_path / "shop.db"))
    monkeypatch.setenv("RLOCK_MASTERS", ",".join(masters3.urls))
    orders = module(block(PAGE, "orders.py"), "orders")
    monkeypatch.setitem(sys.modules, "orders", orders)

    def states() -> list[str]:
        return [state for (state,) in database.execute("SELECT state FROM orders ORDER BY id")]

    async def main() -> None:
        orders.pack = gate = Gate()
        async with serving() as one, serving() as two:
            first = asyncio.create_task(one.post("/orders/1/ship"))
            await gate.begun.wait()
            for worker in (one, two):
                refused = await worker.post("/orders/1/ship")
                assert (refused.status_code, refused.headers["Retry-After"]) == (409, "1")
                assert (await worker.post("/orders/2/ship")).status_code == 200
            assert states() == ["new", "shipped"]
            gate.go_on.set()
            assert (await first).json() == {"order": 1, "state": "shipped"}
            assert (await two.post("/orders/1/ship")).status_code == 200

    with closing(sqlite3.connect(tmp_path / "shop.db")) as database:
        with database:
            database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, state TEXT, fence BIGINT)")
            database.executemany("INSERT INTO orders VALUES (?, 'new', 0)", [(1,), (2,)])
        asyncio.run(asyncio.wait_for(main(), SERVED_S))
        assert states() == ["shipped", "shipped"]
