"""What the locks of the soak protect: cells of a database, each read, thought about, and written back.

The workload is Jepsen's lock-set (jepsen-io/etcd, src/jepsen/etcd/lock.clj): an update is lost when a later
one was built on what was there before it. A ``plain`` cell takes every write; a ``fenced`` one refuses access
under a token that is lower than the highest that it has seen. It has to see the token when it is *read*,
too: else a holder that was paused could still write between the read and the write of the next one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CELLS = ("plain", "fenced")


class Resource:
    """A connection to the database; one for each thread."""

    def __init__(self, path: Path) -> None:
        # Longer than any stop: a process that was stopped inside a transaction has the database locked.
        self._db = sqlite3.connect(path, timeout=120.0, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=OFF")  # processes are killed here, not the machine

    def create(self) -> Resource:
        """Empty cells."""
        self._db.execute("CREATE TABLE cell (name TEXT PRIMARY KEY, last TEXT, fence INTEGER)")
        self._db.execute("CREATE TABLE acknowledged (name TEXT, id TEXT, parent TEXT)")
        for name in CELLS:
            self._db.execute("INSERT INTO cell VALUES (?, '', 0)", (name,))
        return self

    def read(self, name: str, token: int | None = None) -> str | None:
        """The last update; None: refused, somebody with a higher token was here."""
        with self._transaction():
            if token is not None and not self._admitted(name, token):
                return None
            (last,) = self._db.execute("SELECT last FROM cell WHERE name = ?", (name,)).fetchone()
            return str(last)

    def write(self, name: str, ident: str, parent: str, token: int | None = None) -> bool:
        """Put an update that was built on ``parent``; whether it was acknowledged."""
        with self._transaction():
            if token is not None and not self._admitted(name, token):
                return False
            self._db.execute("UPDATE cell SET last = ? WHERE name = ?", (ident, name))
            self._db.execute("INSERT INTO acknowledged VALUES (?, ?, ?)", (name, ident, parent))
            return True

    def tally(self, name: str) -> Tally:
        """How many updates were acknowledged, and how many are in what is there now."""
        rows = self._db.execute("SELECT id, parent FROM acknowledged WHERE name = ?", (name,))
        parents: dict[str, str] = dict(rows.fetchall())
        return tally(parents, self.read(name) or "")

    def close(self) -> None:
        """Close the connection."""
        self._db.close()

    def _admitted(self, name: str, token: int) -> bool:
        statement = "UPDATE cell SET fence = ? WHERE name = ? AND fence <= ?"
        return self._db.execute(statement, (token, name, token)).rowcount == 1

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            self._db.execute("ROLLBACK")
            raise


class Tally:
    """Acknowledged updates, and those among them that a later one overwrote unseen."""

    def __init__(self, acknowledged: int, lost: int) -> None:
        self.acknowledged = acknowledged
        self.lost = lost

    @property
    def percent(self) -> float:
        """The lost ones, of a hundred."""
        return 100.0 * self.lost / self.acknowledged if self.acknowledged else 0.0

    def __str__(self) -> str:
        return f"{self.lost} of {self.acknowledged} ({self.percent:.1f} %)"


def tally(parents: dict[str, str], last: str) -> Tally:
    """Walk back from the last update, each to the one that it was built on; the others are lost."""
    survived, at = 0, last
    open_ends = dict(parents)
    while at in open_ends:
        at = open_ends.pop(at)
        survived += 1
    return Tally(len(parents), len(parents) - survived)
