"""rlock in the processes of multiprocessing and concurrent.futures, by all three ways of starting them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..servers import Fleet
from .programs import COMMON, ORDINARY, assert_nothing_is_left, blocks, counter, outcome, program

#: argv: the way of starting, the kind of pool, the counter, times for each worker.
COUNT = """
import multiprocessing
from concurrent.futures import ProcessPoolExecutor

def work(lock, path, times):
    count(path, times, lock)
    return lock.is_owned()

if __name__ == "__main__":
    method, kind, path, times = sys.argv[1:5]
    context = multiprocessing.get_context(method)
    client = rlock.Client(URLS, 3.0)
    lock = client.lock("x")
    with lock:  # used before the workers start
        pass
    arguments = [(lock, path, int(times))] * 3
    if kind == "process":
        workers = [context.Process(target=work, args=each) for each in arguments]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        tell(codes=[worker.exitcode for worker in workers])
    else:
        with ProcessPoolExecutor(3, mp_context=context) as pool:
            futures = [pool.submit(work, *each) for each in arguments]
            tell(codes=[int(future.result()) for future in futures])
"""

#: argv: the way of starting.
END = """
import multiprocessing

def hold(lock):
    lock.acquire()

if __name__ == "__main__":
    method = sys.argv[1]
    context = multiprocessing.get_context(method)
    lock = rlock.Client(URLS, 10.0).lock("x")
    lock.locked()  # the client is in use before the child starts
    child = context.Process(target=hold, args=(lock,))
    child.start()
    child.join()
    began = time.monotonic()
    tell(got=lock.acquire(timeout=8.0), after=time.monotonic() - began)
"""


def script(folder: Path, text: str) -> list[str]:
    """A program in a file: spawned children have to import it."""
    (folder / "program.py").write_text(COMMON + text)
    return [str(folder / "program.py")]


@pytest.mark.parametrize(
    ("method", "kind"),
    [("fork", "process"), ("spawn", "process"), ("forkserver", "executor"), ("fork", "executor")],
)
def test_workers_and_an_ordinary_process_lose_no_update(
    method: str, kind: str, masters3: Fleet, tmp_path: Path
) -> None:
    path = counter(tmp_path)
    with program(ORDINARY, masters3.urls, "x", path, 40) as process:
        told = outcome("", masters3.urls, method, kind, path, 20, command=script(tmp_path, COUNT))
        assert process.end() == 0
    assert told["codes"] == [0, 0, 0]
    assert int(path.read_bytes()) == 3 * 20 + 40
    assert_nothing_is_left(masters3)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_child_that_ends_with_the_lock_held_frees_it(method: str, tmp_path: Path, masters3: Fleet) -> None:
    told = outcome("", masters3.urls, method, command=script(tmp_path, END))
    assert told["got"] is True
    assert told["after"] < 2.0
    assert_nothing_is_left(masters3)


def test_the_program_of_the_page_adds_up(masters3: Fleet, tmp_path: Path) -> None:
    (tmp_path / "pool.py").write_text(blocks()["pool.py"])
    (tmp_path / "total").write_text("0")
    with program("", masters3.urls, cwd=tmp_path, command=["pool.py"]) as started:
        assert started.end() == 0
    assert (tmp_path / "total").read_text() == "100"
    assert_nothing_is_left(masters3)
