"""A process that contends: ``python -m rlock.testing.contention.worker NAME FOLDER``.

It reads orders from stdin, each a line of JSON, notes its holds in FOLDER and ends with its stdin. The
environment has the masters: a command line, with its passwords, can be read by everybody on the machine.
"""

from __future__ import annotations

import json
import os
import queue
import random
import signal
import sys
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlock.client import Client

from .counter import Counter
from .journal import SECOND, Journal, now_ns
from .recorder import Hold, Recorder

#: After an error: masters that are all away must not make a busy loop.
ERROR_PAUSE_S = 0.02
#: The time that a section may take after stdin has ended: a killed parent must leave no process behind.
END_S = 1.5


@dataclass(frozen=True)
class Load:
    """The work of each thread: think, acquire, hold, release, and again. Ranges are seconds."""

    lock: str
    hold: tuple[float, float] = (0.0, 0.0)
    think: tuple[float, float] = (0.0, 0.0)
    threads: int = 1
    fair: bool = False
    timeout: float = -1.0
    nesting: int = 0  # up to so many nested acquires, at least one
    counter: str = ""  # the path of a `Counter` that each hold raises
    unlocked: bool = False  # a control: raise the counter without the lock, and note nothing
    buffered: bool = False  # the journal is written when the load has ended
    begin_at: int = 0
    end_at: int | None = None  # without it the load goes on until the next order


class Worker:
    """Obeys orders until stdin ends."""

    def __init__(self, name: str, folder: Path) -> None:
        self._journal = Journal(folder, name)
        self._client = Client.from_env()
        self._recorder = Recorder(self._journal, self._client.ttl)
        self._orders: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._newest = 0

    def run(self) -> None:
        """Until stdin ends."""
        threading.Thread(target=self._read, name="orders", daemon=True).start()
        with self._client:
            self._journal.note("idle", order=0)
            while (order := self._orders.get()) is not None:
                if order["load"] is not None:
                    self._perform(Load(**order["load"]), order["order"])
                self._journal.note("idle", order=order["order"])
        self._journal.note("end")

    def _read(self) -> None:
        for line in sys.stdin:
            order = json.loads(line)
            self._newest = order["order"]
            self._orders.put(order)
        self._newest = -1
        self._orders.put(None)
        time.sleep(END_S)
        os._exit(0)

    def _perform(self, load: Load, number: int) -> None:
        self._journal.buffered = load.buffered
        threads = [threading.Thread(target=self._contend, args=(load, number)) for _ in range(load.threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self._journal.flush()

    def _contend(self, load: Load, number: int) -> None:
        lock = self._client.lock(load.lock, fair=load.fair)
        counter = Counter(Path(load.counter)) if load.counter else None

        def newest() -> bool:
            return self._newest == number

        def work(hold: Hold) -> None:
            with ExitStack() as nested:
                for _ in range(random.randint(1, load.nesting) if load.nesting else 0):
                    nested.enter_context(hold.nested(lock))
                value = counter.read() if counter is not None else None
                hold.keep(random.uniform(*load.hold), newest)
                if counter is not None and value is not None:
                    counter.write(value + 1)

        time.sleep(max(0.0, (load.begin_at - now_ns()) / SECOND))
        while newest() and (load.end_at is None or now_ns() < load.end_at):
            if counter is not None and load.unlocked:
                value = counter.read() or 0
                time.sleep(random.uniform(*load.hold))
                counter.write(value + 1)
            elif not self._recorder.attempt(lock, work, timeout=load.timeout, fair=load.fair):
                time.sleep(ERROR_PAUSE_S)
            if load.think[1] > 0:  # sleep(0) gives the processor away, which distorts a measurement
                time.sleep(random.uniform(*load.think))


def main() -> None:
    """Entry point."""
    # Otherwise a terminal's Ctrl-C would end it before its parent does.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Worker(sys.argv[1], Path(sys.argv[2])).run()


if __name__ == "__main__":
    main()
