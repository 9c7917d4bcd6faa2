"""One worker process: ``python -m rlock.cli.demo.worker NUMBER DIRECTORY``.

Its orders are lines on stdin, each a mode; what it does it writes to its journal. The masters and the ttl
come from RLOCK_MASTERS and RLOCK_TTL.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import rlock
from rlock.cli.demo.journal import Journal, now_ns
from rlock.cli.demo.ledger import EMPTY, Ledger

#: The name that all workers share.
LOCK = "rlock-demo:ledger"

IDLE = "idle"
CONTROL = "control"  # sections without the lock
TURNS = "turns"  # sections under the lock, as many as come
HANDOFF = "hand-off"  # sections under the lock, long enough for the other one to be parked
HOLD = "hold"  # one section that never ends: it stands in the middle of a rewrite until it is killed

COMPUTE_S = (0.001, 0.003)  # between reading the ledger and rewriting it
THINK_S = (0.0005, 0.002)  # outside, so that others find the lock free as well
HANDOFF_HOLD_S = (0.025, 0.035)  # the other one needs about 5 ms to ask, subscribe and park
HANDOFF_THINK_S = 0.01  # long enough for the other one to have entered: it is its wake-up that counts
WATCH_S = 0.01  # how often a holder that waits to be killed writes down its validity
MAX_NESTING = 3


class Worker:
    """A loop that does sections in the mode that was ordered last."""

    def __init__(self, number: int, directory: Path) -> None:
        self.number = number
        self.journal = Journal(journal_path(directory, number))
        self.lock = rlock.Client.from_env().lock(LOCK)
        self.mode = IDLE
        self.ordered = threading.Event()
        self._control = Ledger(control_path(directory))
        self._guarded = Ledger(guarded_path(directory))
        self._random = random.Random()
        self._serial = 0
        self._last = EMPTY

    def run(self) -> None:
        """Obey for ever; the end is the end of stdin, in `obey`."""
        modes: dict[str, Callable[[], None]] = {
            CONTROL: self.control,
            TURNS: self.turn,
            HANDOFF: self.hand_off,
            HOLD: self.hold,
        }
        confirmed = ""
        while True:
            self.ordered.clear()
            mode = self.mode
            if mode != confirmed:
                # After the last section of the old mode: who reads this knows that no more of it come.
                self.journal.write("mode", mode=mode)
                confirmed = mode
            if mode == IDLE:
                self.ordered.wait()
                continue
            try:
                modes[mode]()
            except rlock.RLockError as error:
                self.journal.write("thrown out", at=now_ns())
                self.journal.write("fault", text=str(error))

    def obey(self) -> None:
        """Read orders; end the process when nobody can give any more."""
        for line in sys.stdin:
            self.mode = line.strip()
            self.ordered.set()
        # The demonstration has ended, in whatever way, kill -9 included: leave no process behind.
        os._exit(0)

    # -- the modes ---------------------------------------------------------------------------------

    def control(self) -> None:
        """One section without the lock: everything else is the same."""
        asked_at = now_ns()
        self._enter(CONTROL, asked_at, locked=False)
        self._update(self._control, depth=0, locked=False)
        self._pause(THINK_S)

    def turn(self) -> None:
        """One section under the lock."""
        asked_at = now_ns()
        with self.lock:
            self._enter(TURNS, asked_at)
            with ExitStack() as nested:
                depth = self._nest(nested)
                self._update(self._guarded, depth)
        self._pause(THINK_S)

    def hand_off(self) -> None:
        """One section that is held until the other worker certainly waits for it."""
        asked_at = now_ns()
        with self.lock:
            self._enter(HANDOFF, asked_at)
            self._pause(HANDOFF_HOLD_S)
            self._update(self._guarded, depth=0)
        time.sleep(HANDOFF_THINK_S)

    def hold(self) -> None:
        """Stop in the middle of a rewrite, tell so, and hold on until killed."""
        asked_at = now_ns()
        with self.lock:
            self._enter(HOLD, asked_at)
            state, _ = self._guarded.read()
            state = state or self._last
            self._guarded.rewrite(state, state.after(self.number, self._serial), half=True)
            self.journal.write("half", at=now_ns())
            while True:
                self.journal.write("valid", until=self._valid_until())
                time.sleep(WATCH_S)

    # -- their parts -------------------------------------------------------------------------------

    def _enter(self, phase: str, asked_at: int, *, locked: bool = True) -> None:
        entered_at = now_ns()
        self._serial += 1
        self.journal.write(
            "enter",
            phase=phase,
            asked_at=asked_at,
            entered_at=entered_at,
            valid_until=self._valid_until() if locked else None,
            serial=self._serial,
        )

    def _update(self, ledger: Ledger, depth: int, *, locked: bool = True) -> None:
        """What breaks without mutual exclusion: read, compute, rewrite."""
        state, found_torn = ledger.read()
        if state is None:
            state = self._last  # nothing whole is left to build on but our own memory
        self._pause(COMPUTE_S)
        new = state.after(self.number, self._serial)
        ledger.rewrite(state, new)
        self._last = new
        self.journal.write(
            "leave",
            left_at=now_ns(),
            valid_until=self._valid_until() if locked else None,
            count=new.count,
            parent=state.chain,
            chain=new.chain,
            depth=depth,
            found_torn=found_torn,
        )

    def _nest(self, nested: ExitStack) -> int:
        depth = self._random.randrange(1, MAX_NESTING + 1)
        for _ in range(depth):
            nested.enter_context(self.lock)
        if self.lock.hold_count != 1 + depth:
            self.journal.write("fault", text=f"hold count {self.lock.hold_count} after {1 + depth} acquires")
        return depth

    def _valid_until(self) -> int:
        # The instant first: the sum is then never later than the lease knows.
        now, remaining = now_ns(), self.lock.remaining()
        return now + int(remaining * 1e9) if remaining else 0

    def _pause(self, between: tuple[float, float]) -> None:
        time.sleep(self._random.uniform(*between))


def journal_path(directory: Path, number: int) -> Path:
    """Where a worker writes what it did."""
    return directory / f"worker-{number}.jsonl"


def control_path(directory: Path) -> Path:
    """The ledger that is rewritten without the lock."""
    return directory / "ledger-without-lock"


def guarded_path(directory: Path) -> Path:
    """The ledger that is rewritten under the lock."""
    return directory / "ledger"


def main() -> None:
    """Entry point."""
    # Ctrl-C is for the demonstration; it ends us by closing our stdin.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    worker = Worker(int(sys.argv[1]), Path(sys.argv[2]))
    threading.Thread(target=worker.obey, name="orders", daemon=True).start()
    worker.run()


if __name__ == "__main__":
    main()
