"""One process that contends: ``python -m rlock.cli.bench.worker``, started by `rlock bench`.

Orders and answers are lines of JSON on stdin and stdout. The masters come from the environment: a command
line, with its passwords, can be read by everybody on the machine. All instants are of time.monotonic, which
the processes of one machine share.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import time
from dataclasses import asdict, dataclass

from ...client import Client
from ...errors import RLockError

#: How long one acquire waits before it looks whether it is still wanted.
PATIENCE_S = 1.0
#: How long a section may still take when nobody reads us any more.
END_S = 5.0


@dataclass(frozen=True)
class Order:
    """Contend for a lock from ``start`` to ``close``."""

    name: str
    fair: bool
    start: float
    close: float
    hold: float  # seconds inside
    think: float  # seconds outside


class Worker:
    """Does sections as it is ordered."""

    def __init__(self) -> None:
        self._client = Client.from_env()
        self._orders: queue.SimpleQueue[Order | None] = queue.SimpleQueue()
        self._over = threading.Event()

    def run(self) -> None:
        """Obey until stdin ends."""
        threading.Thread(target=self._read, name="orders", daemon=True).start()
        with self._client:
            print(json.dumps({"ready": os.getpid()}), flush=True)
            while (order := self._orders.get()) is not None:
                print(json.dumps(self._perform(order)), flush=True)

    def _read(self) -> None:
        for line in sys.stdin:
            self._orders.put(Order(**json.loads(line)))
        self._over.set()
        self._orders.put(None)
        time.sleep(END_S)
        os._exit(0)  # rlock bench has ended, kill -9 included: leave no process behind

    def _perform(self, order: Order) -> dict[str, object]:
        sections: list[tuple[float, float, float]] = []
        failure = ""
        lock = self._client.lock(order.name, fair=order.fair)
        try:
            self._sleep(order.start - time.monotonic())
            while not self._over.is_set() and (asked := time.monotonic()) < order.close:
                while not self._over.is_set() and time.monotonic() < order.close + PATIENCE_S:
                    if lock.acquire(timeout=PATIENCE_S):
                        break
                else:
                    break
                entered = time.monotonic()
                self._sleep(order.hold)
                left = time.monotonic()
                lock.release()
                sections.append((asked, entered, left))
                self._sleep(order.think)
        except RLockError as error:
            failure = str(error)
        return {"sections": sections, "failure": failure}

    def _sleep(self, seconds: float) -> None:
        if seconds > 0:
            time.sleep(seconds)


def order_line(order: Order) -> str:
    """An order as it is sent."""
    return json.dumps(asdict(order)) + "\n"


def main() -> None:
    """Entry point."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for rlock bench; it closes our stdin
    try:
        Worker().run()
    except BrokenPipeError:
        os._exit(0)


if __name__ == "__main__":
    main()
