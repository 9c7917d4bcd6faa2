"""The ledger: a real file that many processes rewrite, and that breaks when two of them do so at once.

It says how many sections were completed, by whom, and a chain: a digest over every entry in order. An
entry's digest contains its predecessor's, so the final file is one path through all the entries that were
ever written, and an update that was overwritten is an entry that is not on it.

The file is rewritten in place and in two pieces, as careless programs do; a checksum in its last line tells
a torn one. Before that, the state that was read goes to ``ledger.before``. A process that is killed between
the two pieces leaves a torn ledger and a whole ``before``: the next one puts that back, and the killed
section counts as one that never happened. Nothing repairs a lost update: the chain shows it.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

GENESIS = "0" * 16
#: Between the two pieces of a rewrite: as on a slow disk, so that a reader can come in between.
PIECES_S = 0.0003


@dataclass(frozen=True)
class State:
    """What the ledger says."""

    count: int  # entries on the chain
    chain: str  # the digest of the last of them
    tally: Mapping[int, int]  # how many of them each worker wrote

    def after(self, worker: int, serial: int) -> State:
        """With one more entry: this worker's section number ``serial``."""
        tally = {**self.tally, worker: self.tally.get(worker, 0) + 1}
        return State(self.count + 1, digest(self.chain, worker, serial), tally)


EMPTY = State(0, GENESIS, {})


def digest(parent: str, worker: int, serial: int) -> str:
    """An entry's place in the chain. Unique: a worker never uses a serial twice."""
    return hashlib.blake2s(f"{parent} {worker} {serial}".encode(), digest_size=8).hexdigest()


def encode(state: State) -> bytes:
    """The whole file: what it says in one line, the checksum of that in the next."""
    tally = {str(worker): state.tally[worker] for worker in sorted(state.tally)}
    body = json.dumps({"sections": state.count, "chain": state.chain, "by worker": tally}).encode() + b"\n"
    return body + hashlib.blake2s(body, digest_size=8).hexdigest().encode() + b"\n"


def decode(data: bytes) -> State | None:
    """What a file says; None if it is torn: not exactly what one writer wrote."""
    body, newline, rest = data.partition(b"\n")
    body += newline
    if rest != hashlib.blake2s(body, digest_size=8).hexdigest().encode() + b"\n":
        return None
    try:
        told = json.loads(body)
        return State(told["sections"], told["chain"], {int(k): n for k, n in told["by worker"].items()})
    except (ValueError, KeyError, TypeError):
        return None


class Ledger:
    """One ledger in the file system. No protection of any kind in here: that is what the lock is for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.before = path.with_name(path.name + ".before")

    def create(self) -> None:
        """An empty one."""
        self.path.write_bytes(encode(EMPTY))
        self.before.write_bytes(encode(EMPTY))

    def read(self) -> tuple[State | None, bool]:
        """What it says, and whether it was found torn; a torn one says what it said before.

        None: both files are torn, which takes two writers at once.
        """
        state = decode(self.path.read_bytes())
        if state is not None:
            return state, False
        return decode(self.before.read_bytes()), True

    def final(self) -> State | None:
        """What it says when nobody writes any more; None if it is torn."""
        return decode(self.path.read_bytes())

    def rewrite(self, old: State, new: State, *, half: bool = False) -> None:
        """Replace it, in place and in two pieces; ``half`` stops after the first, as a crash would."""
        self.before.write_bytes(encode(old))
        data = encode(new)
        middle = len(data) // 2
        # No O_TRUNC: a file that is empty for a moment would be one more way to break, and this one has
        # to break by the absence of the lock alone.
        with open(self.path, "r+b", buffering=0) as file:
            file.write(data[:middle])
            if half:
                return
            time.sleep(PIECES_S)
            file.write(data[middle:])
            os.ftruncate(file.fileno(), len(data))
