"""One process leads, the others stand by. Start it on several machines, each under a supervisor."""

import logging
import os
import signal
import threading
import time

import rlock

TERM_S = 60.0  # after its term a leader releases, and a standby takes over
stopping = threading.Event()


def report_loss(error: rlock.LeaseLostError) -> None:
    """Log the loss; runs in a thread of its own, perhaps while a step still runs."""
    logging.error("%s", error)


@rlock.locked(
    rlock.Client.from_env,
    "leader:reports",
    timeout=5,  # a standby looks every 5 s whether it has to stop
    on_busy="skip",
    on_lost=report_loss,
    max_hold=2 * TERM_S,  # ends the lease of a leader that hangs in a step
)
def lead() -> None:
    """Lead for one term."""
    lock, until = lead.lock(), time.monotonic() + TERM_S
    token, lost = lock.fencing_token, lock.lost
    while time.monotonic() < until and not stopping.is_set():
        lock.check()  # raises LeaseLostError: another process may lead
        step(token)
        lost.wait(0.5)  # ends at once when the lease is lost


def step(token: int) -> None:
    """Do one piece of work; the work is complete when this returns."""
    print(os.getpid(), token, flush=True)


def main() -> None:
    """Lead or stand by until SIGTERM or Ctrl-C."""
    logging.basicConfig(level=logging.INFO)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    while not stopping.is_set():
        try:
            lead()
        except rlock.LeaseLostError:
            logging.warning("standing by again")
        except rlock.QuorumUnreachableError as error:
            logging.warning("nobody can lead: %s", error)
            stopping.wait(1)


if __name__ == "__main__":
    main()
