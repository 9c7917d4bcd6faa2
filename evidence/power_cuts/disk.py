"""Disks that lose unsynced bytes in a power cut (see disk.c)."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

from rlock.testing.local.embedded import Master, ServerBinary

SOURCE = Path(__file__).with_name("disk.c")


class Disk:
    """The disk of one master, whose directory is ``folder / "data"``."""

    def __init__(self, library: Path, folder: Path) -> None:
        self.data = folder / "data"
        self.data.mkdir(parents=True)
        self._library = library
        self._kept = folder / "kept"
        self._program = folder / "on-this-disk"
        self._remember()

    def binary(self, server: ServerBinary) -> ServerBinary:
        self._program.write_text(
            f'#!/bin/sh\nLD_PRELOAD="{self._library}" RLOCK_TEST_DISK="{self._kept}" '
            f'exec "{server.path}" "$@"\n'
        )
        self._program.chmod(0o755)
        return ServerBinary(self._program, server.flavour, server.version)

    def cut(self, master: Master) -> int:
        """Kill the master, and drop all that it had not synced; how many bytes that were."""
        if master.pid is not None:
            os.killpg(master.pid, signal.SIGKILL)  # with the child that rewrites its file
        master.kill()
        lengths: dict[int, int] = {}
        for line in (self._kept / "log").read_text().splitlines():
            inode, length = map(int, line.split())
            lengths[inode] = max(length, lengths.get(inode, 0))
        dropped = 0
        for path in self.files():
            found = path.stat()
            durable = min(found.st_size, lengths.get(found.st_ino, 0))
            dropped += found.st_size - durable
            os.truncate(path, durable)
        self._remember()
        return dropped

    def files(self) -> Iterator[Path]:
        """The files that the server keeps its data in."""
        for path in sorted(self.data.rglob("*")):
            if path.is_file() and not path.name.startswith("server."):
                yield path

    def _remember(self) -> None:
        """The disk as it is now is what a power cut leaves."""
        shutil.rmtree(self._kept, ignore_errors=True)
        self._kept.mkdir()
        lines = []
        for path in self.files():
            found = path.stat()
            os.link(path, self._kept / str(found.st_ino))
            lines.append(f"{found.st_ino} {found.st_size}\n")
        (self._kept / "log").write_text("".join(lines))
