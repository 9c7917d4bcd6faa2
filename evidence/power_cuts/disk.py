"""Disks that lose unsynced bytes in a power cut (see disk.c)."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rlock.testing.local.embedded import Master, ServerBinary

SOURCE = Path(__file__).with_name("disk.c")


class Cut(NamedTuple):
    """The damage of a power cut."""

    dropped: int  # bytes
    early: int  # replies that were sent while bytes of the append-only file were not synced


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
        """This server with this disk."""
        self._program.write_text(
            f'#!/bin/sh\nLD_PRELOAD="{self._library}" RLOCK_TEST_DISK="{self._kept}" '
            f'exec "{server.path}" "$@"\n'
        )
        self._program.chmod(0o755)
        return ServerBinary(self._program, server.flavour, server.version)

    def cut(self, master: Master, *, names: bool) -> Cut:
        """Kill the master, and drop all that it had not synced.

        ``names``: files that were created, renamed or removed since their folder was synced have their old
        names again. A file system with a journal keeps names in order; POSIX does not promise it.
        """
        if master.pid is not None:
            os.killpg(master.pid, signal.SIGKILL)  # with the child that rewrites its file
        master.kill()
        lengths, folders, early = self._read_log()
        if names:
            self._restore_names(folders)
        dropped = 0
        for path in self.files():
            length = path.stat().st_size
            durable = min(length, lengths.get(path.stat().st_ino, 0))
            dropped += length - durable
            os.truncate(path, durable)
        self._remember()
        return Cut(dropped, early)

    def files(self) -> Iterator[Path]:
        """The files that the server keeps its data in."""
        for path in sorted(self.data.rglob("*")):
            if path.is_file() and not path.name.startswith("server."):
                yield path

    def _read_log(self) -> tuple[dict[int, int], dict[Path, dict[str, int]], int]:
        lengths: dict[int, int] = {}
        folders: dict[Path, dict[str, int]] = {}
        early, folder = 0, Path()
        for line in (self._kept / "log").read_text().splitlines():
            kind, _, rest = line.partition(" ")
            if kind == "early":
                early += 1
            elif kind == "folder":
                folder = Path(rest)
                folders[folder] = {}
            else:
                inode, _, told = rest.partition(" ")
                if kind == "file":
                    lengths[int(inode)] = max(int(told), lengths.get(int(inode), 0))
                else:
                    folders[folder][told] = int(inode)
        return lengths, folders, early

    def _restore_names(self, folders: dict[Path, dict[str, int]]) -> None:
        for path in list(self.files()):
            path.unlink()
        for folder, entries in folders.items():
            for name, inode in entries.items():
                if not name.startswith("server."):
                    os.link(self._kept / str(inode), folder / name)

    def _remember(self) -> None:
        """The disk as it is now is what a power cut leaves."""
        shutil.rmtree(self._kept, ignore_errors=True)
        self._kept.mkdir()
        lines = []
        for folder in [self.data, *(path for path in self.data.iterdir() if path.is_dir())]:
            files = [path for path in self.files() if path.parent == folder]
            lines.append(f"folder {folder.resolve()}")
            for path in files:
                found = path.stat()
                os.link(path, self._kept / str(found.st_ino))
                lines += [f"entry {found.st_ino} {path.name}", f"file {found.st_ino} {found.st_size}"]
        (self._kept / "log").write_text("".join(f"{line}\n" for line in lines))
