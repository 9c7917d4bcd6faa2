"""A thread that was kept from running: replies that have arrived meanwhile count."""

from __future__ import annotations

import ctypes
import threading
import time

import rlock

from ..servers import Fleet, raw

#: The request time-out of a lease of 10 s, and a pause that is longer.
TIMEOUT_S, PAUSE_S = 0.5, 0.8
#: How long the masters keep their replies back.
DELAY_MS = 100


def test_an_extension_that_keeps_all_threads_from_running_costs_no_call(masters3: Fleet) -> None:
    """It holds the interpreter's lock: no thread can read until the time of every call is over."""
    got: list[object] = []

    def work(name: str) -> None:
        try:
            got.append(client.lock(name).acquire(blocking=False))
        except rlock.RLockError as error:
            got.append(error)

    with rlock.Client(masters3.urls, ttl=10.0) as client:
        client.lock("first").acquire()
        for attempt in range(3):
            threads = [threading.Thread(target=work, args=(f"{attempt}-{i}",)) for i in range(3)]
            for master in masters3:
                raw(master.url).client_pause(DELAY_MS)
            for thread in threads:
                thread.start()
            time.sleep(DELAY_MS / 4000)
            ctypes.PyDLL(None).usleep(round(PAUSE_S * 1e6))
            for thread in threads:
                thread.join(10)
    assert got == [True] * 9
