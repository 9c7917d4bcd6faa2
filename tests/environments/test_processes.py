"""docs/environments.md, and rlock in the processes of multiprocessing and concurrent.futures."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rlock._sync.connections import WakePipe
from rlock._sync.greenlets import EVENTLET, OTHER_NATIVE_THREAD, PATCHED_IN_PART, PATCHED_TOO_LATE

from ..docs.pages import marked
from ..servers import Fleet
from .programs import COMMON, ORDINARY, PAGE, assert_nothing_is_left, blocks, counter, needs, outcome, program

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


def test_the_errors_of_the_page_are_those_of_the_code() -> None:
    text = " ".join(PAGE.read_text(encoding="utf-8").split())
    for error in (EVENTLET, OTHER_NATIVE_THREAD, PATCHED_IN_PART, PATCHED_TOO_LATE):
        assert error in text


def test_every_program_of_the_page_is_run_by_a_test() -> None:
    named = marked(PAGE, "tests/environments/test_processes.py")
    programs = blocks()
    assert len(named) == len(programs) == 4
    tests = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*.py"))
    for name, code in programs.items():
        compile(code, name, "exec")
        assert f'blocks()["{name}"]' in tests, f"no test runs {name}"


@needs("gevent")
def test_the_greenlets_of_the_page_take_turns(masters3: Fleet, tmp_path: Path) -> None:
    (tmp_path / "crawl.py").write_text(blocks()["crawl.py"])
    with program("", masters3.urls, cwd=tmp_path, command=["crawl.py"]) as started:
        assert started.line() == "True"
        assert started.end() == 0
    assert_nothing_is_left(masters3)


def test_a_closed_wake_pipe_reads_from_no_other_descriptor() -> None:
    pipe = WakePipe()
    number = pipe.fileno
    pipe.close()
    pipe.close()
    near, far = os.pipe()
    os.set_blocking(near, False)
    try:
        if near != number:
            os.dup2(near, number)
        os.write(far, b"x")
        # In a child of a process with greenlets, the copy of a waiter still believes in its pipe.
        pipe.clear()
        assert os.read(near, 1) == b"x"
    finally:
        for descriptor in {near, far, number}:
            os.close(descriptor)
