"""The page about readers and writers."""

from __future__ import annotations

import pytest

import rlock
from rlock.testing import MemoryMasters, memory_client

from .pages import block, module


def test_readers_serve_while_the_one_who_published_indexes(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = MemoryMasters(3)
    monkeypatch.setattr(rlock.Client, "from_env", lambda: memory_client(masters=memory))
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
