"""docs/howto/semaphore.md and docs/howto/several.md: their programs, on masters in memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import rlock
from rlock.testing import MemoryMasters, lose, memory_client

from .pages import block, module


@pytest.fixture
def masters() -> MemoryMasters:
    return MemoryMasters(3)


@pytest.fixture
def client(masters: MemoryMasters, monkeypatch: pytest.MonkeyPatch) -> Iterator[rlock.Client]:
    client = memory_client(masters=masters)
    monkeypatch.setattr(rlock.Client, "from_env", lambda: client)
    with client:
        yield client


def test_four_jobs_have_a_gpu_each_and_a_fifth_has_none(client: rlock.Client, masters: MemoryMasters) -> None:
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
    with memory_client(masters=masters) as other:
        gpu = other.semaphore("gpu", permits=4)
        for _ in range(4):
            gpu.acquire()
        assert not page.train([1], run)


def test_a_transfer_holds_both_accounts(client: rlock.Client, masters: MemoryMasters) -> None:
    page = module(block("howto/several.md", "transfer.py", "timeout=5", "timeout=0.2"))
    moved: list[set[str]] = []
    assert page.transfer(2, 1, lambda source, target, tokens: moved.append(set(tokens)))
    assert moved == [{"account:1", "account:2"}]
    with memory_client(masters=masters) as other, other.lock("account:2"):
        assert not page.transfer(1, 2, pytest.fail)
