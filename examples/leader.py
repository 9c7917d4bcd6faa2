"""One process leads, the others stand by. Start it on several machines, each under a supervisor."""

import logging
import os
import signal
import threading
import time

import rlock

stopping = threading.Event()


def step(token: int) -> None:
    """Do one piece of work; the work is complete when this returns."""
    print(os.getpid(), token, flush=True)


def main() -> None:
    """Lead or stand by until SIGTERM or Ctrl-C."""
    logging.basicConfig(level=logging.INFO)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    with rlock.Client.from_env() as client, client.leader("reports") as leader:
        while not stopping.is_set():
            try:
                token = leader.token  # raises unless this process leads at this moment
            except rlock.LeaseLostError:
                leader.wait(timeout=1)  # a standby looks every second whether it has to stop
            else:
                step(token)
                time.sleep(0.5)  # in stopping.wait() the signal handler could wait for ever


if __name__ == "__main__":
    main()
