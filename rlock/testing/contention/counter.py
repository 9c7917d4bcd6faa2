"""The counter: a number in a file that holders of a lock read, and write back one higher after a while.

Without mutual exclusion updates are lost, as in Jepsen's lock-set test: the number is lower than the count of
acknowledged writes. A ``token`` is checked at the read, too: otherwise a paused holder could write between
the read and the write of the next holder.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

#: Digits of each number. Java's contestant reads and writes the first number only.
DIGITS = 20


class Count(NamedTuple):
    """The content of the file."""

    value: int
    acknowledged: int
    highest_token: int

    @property
    def lost(self) -> int:
        """Acknowledged writes that a later write did not see."""
        return self.acknowledged - self.value


class Counter:
    """One thread's access to the file. Each access is atomic, a read with its write is not."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        with self._locked():
            if not os.fstat(self._file).st_size:
                self._put(Count(0, 0, 0))

    def read(self, token: int | None = None) -> int | None:
        """The number; None when a higher token was here before."""
        with self._locked():
            count = self._admitted(token)
            return None if count is None else count.value

    def write(self, value: int, token: int | None = None) -> bool:
        """Replace the number; False when a higher token was here before."""
        with self._locked():
            count = self._admitted(token)
            if count is None:
                return False
            self._put(count._replace(value=value, acknowledged=count.acknowledged + 1))
            return True

    def count(self) -> Count:
        """The whole content."""
        numbers = os.pread(self._file, 3 * (DIGITS + 1), 0).split()
        return Count(*map(int, numbers))

    def _admitted(self, token: int | None) -> Count | None:
        count = self.count()
        if token is None:
            return count
        if token < count.highest_token:
            return None
        count = count._replace(highest_token=token)
        self._put(count)
        return count

    def _put(self, count: Count) -> None:
        # One write of fixed width: a reader, or a SIGKILL, never meets half a number.
        os.pwrite(self._file, b"".join(b"%0*d\n" % (DIGITS, number) for number in count), 0)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)
