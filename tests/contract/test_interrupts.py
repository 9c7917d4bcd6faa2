"""Ctrl-C at thousands of random instants: no crash, no reply out of step, nothing left behind."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ..servers import Fleet, left
from .conftest import Child

StartChild = Callable[..., Child]

#: A real signal at a random instant of each acquire and release; four threads go on meanwhile.
STORM = """
    import random, signal, sys, threading, time
    import rlock

    client = rlock.Client(sys.argv[2:], ttl=3.0)
    lock, rng = client.lock("x"), random.Random(int(sys.argv[1]))
    stop, worked, errors, stranded, hits, slowest = threading.Event(), [], [], 0, 0, 0.0

    def work(i):
        mine = client.lock(f"background-{i}")
        while not stop.is_set():
            try:
                with mine:
                    assert mine.is_owned()
                    worked.append(i)
            except Exception as error:
                errors.append(repr(error))

    def interrupt(*_):
        raise KeyboardInterrupt

    threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(4)]
    for thread in threads:
        thread.start()
    signal.signal(signal.SIGALRM, interrupt)
    until = time.monotonic() + 6.0
    while time.monotonic() < until:
        try:
            try:
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(0.00002, 0.004))
                with lock:
                    pass
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            hits += 1
        while lock.hold_count:  # the one line between acquire and the body, as with any lock in Python
            stranded += 1
            lock.release()
        began = time.monotonic()
        if not lock.acquire(timeout=2.5):
            errors.append("a vote was left behind")
        else:
            lock.release()
        slowest = max(slowest, time.monotonic() - began)
    stop.set()
    for thread in threads:
        thread.join(20)
    alive = sum(thread.is_alive() for thread in threads)
    print(hits, stranded, len(set(worked)), alive, slowest, errors[:3], sep=";", flush=True)
    client.close()
"""


@pytest.mark.parametrize("masters_count", [1, 3])
def test_ctrl_c_at_any_instant(masters_count: int, masters: Fleet, child: StartChild) -> None:
    fleet = masters(masters_count)
    storm = child(STORM, str(masters_count), *fleet.urls)
    hits, stranded, busy, alive, slowest, errors = storm.line().split(";")
    assert storm.end() == 0, "the interpreter crashed"
    assert int(hits) > 200, "too few interrupts to mean anything"
    assert errors == "[]"
    assert (int(busy), int(alive)) == (4, 0), "a thread was blocked for ever"
    assert int(stranded) <= int(hits) * 0.02
    # Undone at once and not by the end of a lease of 3 s.
    assert float(slowest) < 2.0
    assert all(left(master.url) == [] for master in fleet)
