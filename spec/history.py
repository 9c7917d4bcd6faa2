"""Histories for checkers that are not ours: ``python -m spec.history FOLDER [--edn FILE] [--judge]``.

FOLDER has the journals of a run of the soak. The EDN form is the one that Knossos and Elle read: one map a line,
``:invoke`` and ``:ok`` or ``:info`` for each operation. An owner is one outermost acquisition, as on the wire.

- ``acquire``: from the call to its return, with the fencing token. Acquires that did not get the lock say nothing
  about exclusion and are left out.
- ``release``: from the call to its return.
- ``expire``: the end of a validity without a release, as far as its holder knew. It has no return: the lock may
  stay taken for longer, and nobody may have it earlier.

``--judge`` gives the history to Porcupine (spec/porcupine, in Go).
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import NamedTuple

from rlock.testing.contention.history import Attempt, History

PORCUPINE = Path(__file__).parent / "porcupine"
#: Exit status of a check whose tool this machine lacks.
LEFT_OUT = 77


class Event(NamedTuple):
    """One line of the EDN form."""

    at: int
    #: Among events of one instant an invocation comes first: equal instants count as concurrent.
    order: int
    process: int
    kind: str
    f: str
    lock: str
    owner: str
    token: int = 0

    def edn(self, index: int) -> str:
        """The line."""
        token = f", :token {self.token}" if self.token else ""
        lock = self.lock.replace("\\", "\\\\").replace('"', '\\"')
        return (
            f"{{:index {index}, :process {self.process}, :type :{self.kind}, :f :{self.f}, "
            f':time {self.at}, :value ["{lock}" {{:owner "{self.owner}"{token}}}]}}'
        )


def events(history: History) -> list[Event]:
    """The operations of all holds, in the order of their instants."""
    numbers = count()
    found = [event for hold in history.holds for event in _operations(hold, numbers)]
    return sorted(found)


def _operations(hold: Attempt, numbers: Iterator[int]) -> Iterator[Event]:
    def event(at: int, kind: str, f: str, token: int = 0) -> Event:
        return Event(at, kind != "invoke", process, kind, f, hold.lock, hold.id, token)

    process = next(numbers)
    yield event(hold.asked_at, "invoke", "acquire")
    yield event(hold.grant.at, "ok", "acquire", hold.grant.token)
    if hold.left_at is not None and hold.left_at <= hold.valid_to:
        yield event(hold.left_at, "invoke", "release")
        if hold.done_at is not None and hold.outcome == "released":
            yield event(hold.done_at, "ok", "release")
    else:
        yield event(hold.valid_to, "invoke", "expire")


def write(history: History, path: Path) -> int:
    """Write the EDN form; how many operations it has."""
    lines = events(history)
    text = "".join(f"{event.edn(index)}\n" for index, event in enumerate(lines))
    path.write_text(text, encoding="utf-8")
    return sum(event.kind == "invoke" for event in lines)


def judge(path: Path) -> int:
    """Porcupine's verdict, printed: 0 linearizable, 1 not, 2 none, 77 no Go on this machine."""
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if go is None:
        print("no Go on the path: install Go 1.21 or newer", file=sys.stderr)
        return LEFT_OUT
    return subprocess.run([go, "run", ".", str(path.resolve())], cwd=PORCUPINE, check=False).returncode


def main() -> int:
    """Exit status: that of `judge`."""
    parser = argparse.ArgumentParser(prog="python -m spec.history", description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="with the journals of a run")
    parser.add_argument("--edn", type=Path, metavar="FILE", help="write the history here")
    parser.add_argument("--judge", action="store_true", help="let Porcupine judge it")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.edn or Path(folder, "history.edn")
        operations = write(History().take(arguments.folder), path)
        print(f"{operations} operations")
        return judge(path) if arguments.judge else 0


if __name__ == "__main__":
    sys.exit(main())
