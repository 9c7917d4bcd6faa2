"""docs/howto/service.md and the short list of docs/api.md."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

import rlock

from ..servers import Fleet
from .pages import DOCS, block, marked, module

PAGE = "howto/service.md"
MASTERS = '["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"]'


def worker(masters: list[str], timeout: str) -> Any:
    text = block(PAGE, "worker.py", MASTERS, repr(masters))
    assert "timeout=5" in text
    return module(text.replace("timeout=5", timeout))


def test_the_worker_works_skips_and_stops_after_a_loss(masters3: Fleet) -> None:
    one = worker(masters3.urls, "timeout=0.1")
    one.client = rlock.Client(masters3.urls, ttl=1.0)
    steps: list[str] = []

    def store(order: int, step: str, token: int) -> None:
        steps.append(step)

    def loses(order: int, step: str, token: int) -> None:
        lost = one.client.lock(f"order:{order}").lost
        assert other.evict(f"order:{order}")
        assert lost.wait(10)

    with one.client, rlock.Client(masters3.urls) as other:
        assert one.work_once(1, store)
        assert steps == ["pack", "ship"]
        with other.lock("order:1"):
            assert not one.work_once(1, store)
        assert not one.work_once(1, loses)
        assert one.work_once(1, store), "the next try has a lock of its own"


def test_the_worker_survives_an_outage_of_the_masters() -> None:
    one = worker(["redis://127.0.0.1:1"], "timeout=0")
    with one.client:
        assert not one.work_once(1, pytest.fail)


def test_the_short_list_of_the_reference_is_right() -> None:
    (text,) = marked(DOCS / "api.md", "tests/docs/test_howto_service.py")
    listed = re.findall(r"(?m)^(Client|RLock)\.?(\w*)\((.*?)\)", text)
    assert len(listed) == 12
    for kind, name, arguments in listed:
        real = inspect.signature(getattr(getattr(rlock, kind), name or "__init__"))
        assert {part.split("=")[0] for part in arguments.split(", ") if part not in "*"} <= {*real.parameters}
        for part in arguments.split(", "):
            option, _, default = part.partition("=")
            assert not default or str(real.parameters[option].default).strip("()") == default, part
    for name in re.findall(r"RLock\.(\w+)[,\n]", text):
        assert hasattr(rlock.RLock, name)
