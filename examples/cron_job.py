"""A job for cron: every machine starts it at the same minute, and one machine runs it.

A lock keeps runs from overlapping. The pause at the end also keeps a second machine from running the job
again, as long as the clocks of the machines differ by less than ``CLOCK_DIFFERENCE_S``.
"""

import sys
import time

import rlock

NAME = "nightly-report"
CLOCK_DIFFERENCE_S = 2.0
BUSY = 75  # the exit status for "try again later" in sysexits.h


def report(lock: rlock.RLock) -> None:
    """Do the work. Ask the lock before each step that must not happen twice."""
    for part in ("orders", "invoices"):
        lock.check()
        print("report of", part, flush=True)


def main() -> int:
    """Run the job unless another machine runs it."""
    with rlock.Client.from_env() as client:
        lock = client.lock(NAME)
        if not lock.acquire(blocking=False):
            print("skipped, held by", client.status(NAME).holder, file=sys.stderr)
            return BUSY
        try:
            report(lock)
            time.sleep(CLOCK_DIFFERENCE_S)
        finally:
            lock.release()
    return 0


if __name__ == "__main__":
    sys.exit(main())
