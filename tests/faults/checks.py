"""What the fault tests check: who has a lock, who is kept out, and how long something takes."""

from __future__ import annotations

import _thread
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import pytest

import rlock

from ..lock.conftest import eventually
from ..servers import raw


def refuse_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """No thread can be started."""

    def refused(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    monkeypatch.setattr(_thread, "start_new_thread", refused)


def waiting(asked: rlock.Client, count: int = 1) -> None:
    """Return when so many stand in the queue of "x"."""
    assert eventually(lambda: asked.status("x").queue_length >= count), "nobody waits"


def excluded(client: rlock.Client) -> None:
    """The lock is somebody else's, and is known to be: contention, not an error."""
    assert client.lock("x").acquire(blocking=False) is False


def usable(client: rlock.Client, within: float = 5.0, name: str = "x") -> int:
    """The lock can be had and given back; its fencing token."""
    lock = client.lock(name)
    assert lock.acquire(timeout=within), f"not to be had within {within} s"
    token = lock.fencing_token
    lock.release()
    return token


@contextmanager
def unharmed(holder: rlock.Client, other: rlock.Client, seconds: float = 1.7) -> Iterator[None]:
    """The holder keeps its lock, and the other one stays out, for longer than a lease after the body."""
    usable(other)
    with holder.lock("x") as lock:
        yield
        with within(0.5):
            excluded(other)
        time.sleep(seconds)
        lock.check()
        with within(0.5):
            excluded(other)
    with within(1.0):
        usable(other)


def holders(urls: Iterable[str], name: str = "x") -> list[str | None]:
    """Who has the lock on each master."""
    return [next(map(str, raw(url).hkeys(name)), None) for url in urls]


def everywhere(urls: Sequence[str], name: str = "x") -> bool:
    """Whether one owner has it on all of these masters; waits a little for the last answers."""
    return bool(eventually(lambda: len(set(holders(urls, name))) == 1 and holders(urls, name)[0], 3.0))


def subscribers(url: str) -> int:
    return str(raw(url).execute_command("CLIENT", "LIST", "TYPE", "pubsub")).count("id=")


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """What is inside takes no longer."""
    began = time.monotonic()
    yield
    took = time.monotonic() - began
    assert took < seconds, f"took {took:.2f} s, more than {seconds:g} s"
