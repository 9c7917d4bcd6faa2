"""Clients and other processes for the contract tests, and the kinds of client that keep the contract."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from inspect import signature
from typing import Any, TypeVar

import pytest

import rlock

from .. import memory
from ..servers import Fleet
from . import tasks

T = TypeVar("T")
MakeClient = Callable[..., rlock.Client]


class Writers:
    """The locks of a client are fair unless a test says otherwise: the writers of read-write locks."""

    def lock(self, name: str, *, fair: bool = True, **options: Any) -> Any:
        client: Any = super()
        if "hold_at_least" in options:
            return client.lock(name, fair=fair, **options)
        return client.read_write_lock(name, fair=fair, **options).writer


class FairClient(Writers, rlock.Client): ...


class TasksFairClient(Writers, tasks.Client): ...


class ReaderClient(rlock.Client):
    """Its locks are readers."""

    def lock(self, name: str, **options: Any) -> rlock.RLock:
        return self.read_write_lock(name, **options).reader


class TasksReaderClient(tasks.Client):
    def lock(self, name: str, **options: Any) -> Any:
        return self.read_write_lock(name, **options).reader


@dataclass(frozen=True)
class Kind:
    """A kind of client, and the masters that it is tested on."""

    client: Callable[..., Any]  # makes one: URLs, ttl, options
    masters: str = "real_masters"  # the fixture of its masters
    servers: bool = True  # other processes reach them, and a test can look into them with all commands
    #: On how many masters, in the tests of EVERY_KIND that use ``urls``; the quick set has the last.
    sizes: tuple[int, ...] = (1, 3, 5)


#: The tests of a module that says `EVERY_KIND = True` run for each of these. Tests that are marked
#: ``kinds("blocking", ...)`` run only for the kinds that are named.
KINDS = {
    "blocking": Kind(rlock.Client),
    "fair": Kind(FairClient, sizes=(1, 5, 3)),
    "asyncio-fair": Kind(TasksFairClient, sizes=(1, 5, 3)),
    "interop": Kind(partial(rlock.Client, interop="redisson"), sizes=(1, 3)),
    "memory": Kind(memory.client, masters="memory_masters", servers=False, sizes=(1, 5)),
    "asyncio": Kind(tasks.Client, sizes=(1, 5)),
    "reader": Kind(ReaderClient),
    "asyncio-reader": Kind(TasksReaderClient, sizes=(1, 3)),
    "asyncio-memory": Kind(memory.asyncio_client, masters="memory_masters", servers=False, sizes=(3,)),
}
#: The tests that need no exclusion: they run for the readers, too.
SHARED = {
    "test_two_objects_of_one_name_nest_in_one_thread",
    "test_nested_acquires_cost_no_network",
    "test_what_a_holder_and_what_others_see",
    "test_a_loss_does_not_mask_the_bodys_exception_and_is_raised_without_one",
    "test_after_a_loss_everything_says_so_until_it_is_released",
    "test_release_without_a_hold_is_a_runtime_error_that_says_who_does_hold_it",
}
#: The kinds of all other tests, and on how many masters they run.
USUAL = {"blocking": (1, 5), "asyncio": (1,)}

#: About threads, forks, signals, or the parts of `threading.RLock` that asyncio has no use for.
threads_only = pytest.mark.kinds(*(name for name in KINDS if not name.startswith("asyncio")))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "kind" not in metafunc.fixturenames:
        return
    real = "child" in metafunc.fixturenames or metafunc.definition.get_closest_marker("real_masters")
    mark = metafunc.definition.get_closest_marker("kinds")
    every = getattr(metafunc.module, "EVERY_KIND", False)
    names = [name for name in (KINDS if every else USUAL) if mark is None or name in mark.args]
    if "child" in metafunc.fixturenames:
        names = [name for name in names if name != "interop"]
    shared = metafunc.function.__name__ in SHARED
    names = [name for name in names if shared or "reader" not in name]
    kinds = [name for name in names if KINDS[name].servers or not real]
    if "make_client" not in metafunc.fixturenames and "kind" not in signature(metafunc.function).parameters:
        kinds = kinds[:1]  # its clients are in other processes: there is only one kind of these
    if "urls" in metafunc.fixturenames:
        sizes = {name: KINDS[name].sizes if every else USUAL[name] for name in kinds}
        each = [_fleet(name, size, sizes[name][-1]) for name in kinds for size in sizes[name]]
        metafunc.parametrize(("kind", "urls"), each, indirect=True)
    else:
        metafunc.parametrize("kind", kinds, indirect=True)


def _fleet(name: str, size: int, quick: int) -> Any:
    """A kind of client on so many masters."""
    marks = () if size == quick else pytest.mark.slow
    return pytest.param(name, size, id=f"{name}-N{size}", marks=marks)


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


@pytest.fixture
def masters(kind: Kind, request: pytest.FixtureRequest) -> Fleet:
    fleet: Fleet = request.getfixturevalue(kind.masters)
    return fleet


@pytest.fixture
def masters1(masters: Fleet) -> Fleet:
    return masters(1)


@pytest.fixture
def fresh_masters(kind: Kind, request: pytest.FixtureRequest) -> Callable[..., Fleet]:
    make: Callable[..., Fleet] = request.getfixturevalue("fresh_real_masters")
    return make if kind.servers else memory.fleet


@pytest.fixture
def urls(request: pytest.FixtureRequest, masters: Fleet) -> list[str]:
    """One, three or five masters."""
    return masters(request.param).urls


@pytest.fixture
def make_client(request: pytest.FixtureRequest) -> Iterator[MakeClient]:
    """Clients that are closed with the test."""
    made: list[rlock.Client] = []
    # Tests of other folders use this, too: they have no kinds.
    kind = request.getfixturevalue("kind") if "kind" in request.fixturenames else KINDS["blocking"]

    def make(urls: Any, ttl: float = 3.0, **options: Any) -> rlock.Client:
        made.append(kind.client(urls, ttl, **options))
        return made[-1]

    yield make
    for client in made:
        client.close()


@pytest.fixture
def connect(urls: list[str], make_client: MakeClient) -> MakeClient:
    """The same on ``urls``: ``connect(ttl=1.5)``. Each one stands for a process."""
    return partial(make_client, urls)


@pytest.fixture
def connect3(masters3: Fleet, make_client: MakeClient) -> MakeClient:
    """The same on three masters, for what the number of masters does not matter to."""
    return partial(make_client, masters3.urls)


@pytest.fixture
def client(connect: MakeClient) -> rlock.Client:
    return connect()


@pytest.fixture
def other(connect: MakeClient) -> rlock.Client:
    """As another process."""
    return connect()


class Child:
    """A Python program in another process, which says what it does line by line."""

    def __init__(self, program: str, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-u", "-c", textwrap.dedent(program), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def say(self, text: str = "") -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def end(self) -> int:
        return self.process.wait(30)


#: A program that waits for the lock "x", and holds it until it is told to go on: mode, ttl, URLs.
WAITER = """
    import sys, time, rlock
    client = rlock.Client(sys.argv[3:], ttl=float(sys.argv[2]))
    print("waiting", flush=True)
    with client.lock("x", fair=sys.argv[1] == "fair"):
        print(time.monotonic_ns(), flush=True)
        sys.stdin.readline()
    print("released", flush=True)
"""
StartChild = Callable[..., Child]


@pytest.fixture
def child() -> Iterator[StartChild]:
    """Other processes, ended with the test."""
    children: list[Child] = []

    def start(program: str, *arguments: str) -> Child:
        children.append(Child(program, *arguments))
        return children[-1]

    yield start
    for one in children:
        if one.process.poll() is None:
            one.process.kill()
        one.process.wait()
        for pipe in (one.process.stdin, one.process.stdout):
            if pipe is not None:
                pipe.close()


def acquired(client: rlock.Client, **options: Any) -> rlock.RLock:
    """The lock "x" of the caller, who holds it."""
    lock = client.lock("x", **options)
    lock.acquire()
    return lock


def in_thread(work: Callable[[], T]) -> T:
    """Do it in a thread that has ended afterwards."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(work).result(60)


def in_background(work: Callable[[], T]) -> Future[T]:
    """Do it in a thread of its own, for which nobody waits at the end."""
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return done


@contextmanager
def running(*works: Callable[[], object]) -> Iterator[list[Future[object]]]:
    """Do this in threads. They have ended behind the block, which raises their first exception."""
    done = [in_background(work) for work in works]
    yield done
    for each in done:
        each.result(60)


def eventually(what: Callable[[], Any], within: float = 10.0) -> Any:
    """Wait until ``what()`` is true; its value."""
    until = time.monotonic() + within
    while True:
        value = what()
        if value or time.monotonic() > until:
            return value
        time.sleep(0.02)
