"""A job of many steps. It stops as soon as it has lost its lock: ``python long_job.py --steps 100``.

rlock renews the lease in the background, so the job may take hours. The lock can still be lost: too few
masters answer for a whole lease, the machine is suspended, or an operator runs ``rlock evict long-job``.
"""

import argparse
import sys
import threading

import rlock

LOST = 76


def step(number: int, token: int) -> None:
    """Do one step; a database would store the token and refuse a lower one."""
    print(f"step {number}", flush=True)


def run(lock: rlock.RLock, steps: int) -> None:
    """Do all steps under the lock."""
    with lock:
        lost = lock.lost  # an event; rlock sets it when the lease is lost
        for number in range(steps):
            # Right before the step: the gap in which a loss goes unnoticed stays small.
            lock.check()
            step(number, lock.fencing_token)
            lost.wait(0.1)  # pause between steps; ends at once after a loss


def alarm(error: rlock.LeaseLostError) -> None:
    """Tell people; runs in a thread of its own, even while a step is blocked."""
    print(f"alarm in {threading.current_thread().name}", flush=True)


def main(steps: int) -> int:
    """Return an exit status that tells a loss from other errors."""
    with rlock.Client.from_env() as client:
        try:
            # A job that hangs for a day loses its lock, and another machine can start.
            run(client.lock("long-job", on_lost=alarm, max_hold=24 * 3600.0), steps)
        except rlock.LeaseLostError as error:
            print(f"stopped: {error.reason}", flush=True)
            return LOST
    print("finished", flush=True)
    return 0


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--steps", type=int, default=10, help="default: 10")
    sys.exit(main(arguments.parse_args().steps))
