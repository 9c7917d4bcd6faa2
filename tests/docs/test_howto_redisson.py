"""docs/howto/redisson.md: its two programs wait for one lock, and each of them gets it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import rlock

from ..interop.conftest import redisson as redisson  # a fixture
from ..lock.conftest import eventually
from ..servers import Fleet, left
from .pages import PYTHON, lay_out, starter


def test_the_two_programs_of_the_page_take_their_turns(
    masters3: Fleet, redisson: list[str], tmp_path: Path
) -> None:
    urls = masters3.urls
    lay_out("howto/redisson.md", tmp_path)
    commands = ([*redisson, "Nightly.java", *urls], [PYTHON, "nightly.py", *urls])
    with rlock.Client(urls, 3.0, interop="redisson") as client, starter(tmp_path, urls) as start:
        lock = client.lock("nightly")
        lock.acquire()
        processes = [start(*command, stderr=subprocess.PIPE) for command in commands]
        assert eventually(lambda: client.status("nightly").queue_length == 1, 30)
        with pytest.raises(subprocess.TimeoutExpired):
            processes[0].wait(1)
        lock.release()
        told = [process.communicate(timeout=60) for process in processes]
    assert [out for out, _ in told] == ["java has it\n", "python has it\n"], told
    assert [process.returncode for process in processes] == [0, 0]
    assert not [key for key in left(urls[0]) if "latch" not in key]
