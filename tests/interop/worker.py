"""A Python process of a contest: wants one lock again and again, and notes each of its sections.

``python -m tests.interop.worker '{"urls": [...], ...}'``; see `Task`. Says ``ready`` when its clients are
connected, begins when it is told to on stdin, and ends with a line of JSON.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import rlock

from .journal import DIGITS, Journal


@dataclass(frozen=True)
class Task:
    """What a worker is to do."""

    urls: Sequence[str]
    name: str
    label: str  # its journals are label-0, label-1, ...
    folder: str
    counter: str
    threads: int = 1
    ms: int = 1000
    hold_ms: int = 1
    fair: bool = False

    def __str__(self) -> str:
        return json.dumps(asdict(self))


def shares_with_redisson() -> bool:
    """Whether this rlock can be told to wake, and be woken by, Redisson."""
    return "interop" in inspect.signature(rlock.Client).parameters


def shared_client(urls: Sequence[str], **options: Any) -> rlock.Client:
    """A client that works with Redisson as well as it can."""
    if shares_with_redisson():
        options["interop"] = "redisson"
    return rlock.Client(urls, **options)


def section(lock: rlock.RLock, task: Task, journal: Journal) -> bool:
    """Once in and out; False if the lock raised an error."""
    journal.note("ask")
    try:
        lock.acquire()
    except rlock.RLockError as error:
        journal.note("fault", type(error).__name__)
        return False
    begin = time.monotonic_ns()
    file = os.open(task.counter, os.O_RDWR)
    seen = int(os.pread(file, DIGITS, 0))
    journal.note("got", seen, at=begin)
    time.sleep(task.hold_ms / 1000)
    os.pwrite(file, f"{seen + 1:0{DIGITS}}".encode(), 0)
    os.close(file)
    journal.note("leave")
    try:
        lock.release()
    except rlock.RLockError as error:
        journal.note("fault", type(error).__name__)
        return False
    journal.note("left")
    return True


def work(client: rlock.Client, task: Task, number: int, until: int, told: list[bool]) -> None:
    """One thread of it."""
    journal = Journal(Path(task.folder) / f"{task.label}-{number}.journal")
    lock = client.lock(task.name, fair=task.fair)
    while time.monotonic_ns() < until:
        told.append(section(lock, task, journal))
        if not told[-1]:
            time.sleep(0.02)  # masters that are all away must not make a busy loop of this
    journal.note("end")
    journal.close()


def main() -> None:
    task = Task(**json.loads(sys.argv[1]))
    with shared_client(task.urls) as client:
        client.status(task.name)  # connects
        print("ready", flush=True)
        sys.stdin.readline()
        told: list[bool] = []
        until = time.monotonic_ns() + task.ms * 1_000_000
        threads = [
            threading.Thread(target=work, args=(client, task, number, until, told))
            for number in range(task.threads)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(json.dumps({"sections": sum(told), "errors": len(told) - sum(told)}), flush=True)


if __name__ == "__main__":
    main()
