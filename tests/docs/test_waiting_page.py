"""docs/waiting.md: its example of statistics has the fields of the real ones."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any

from ..contract.conftest import eventually
from ..contract.conftest import make_client as make_client  # a fixture
from ..servers import Fleet
from .pages import DOCS, marked


def test_the_example_of_statistics_has_the_real_fields(
    masters3: Fleet, make_client: Callable[..., Any]
) -> None:
    (text,) = marked(DOCS / "waiting.md", "tests/docs/test_waiting_page.py")
    shown = re.fullmatch(r">>> lock\.statistics\(\)\n(.*)", text, re.DOTALL)
    assert shown
    client, lock = make_client(masters3.urls), make_client(masters3.urls).lock("orders:42")

    def wait() -> None:
        with client.lock("orders:42"):
            pass

    with lock:
        thread = threading.Thread(target=wait)
        thread.start()
        assert eventually(lambda: lock.statistics().queue_length == 1)
        told = repr(lock.statistics())
    thread.join(20)

    def names(of: str) -> list[str]:
        return re.findall(r"(\w+)(?==)|(?<![\w=])(Lock\w+|Waiter)\(", of)

    assert names(" ".join(shown[1].split())) == names(told)
