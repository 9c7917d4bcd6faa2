"""The masters of a run: the same server program for every scenario."""

from __future__ import annotations

from pathlib import Path

from rlock.testing.local import embedded
from rlock.testing.local.binaries import read_version
from rlock.testing.local.embedded import ServerBinary, find_server

_chosen: list[ServerBinary] = []


def choose(path: Path) -> None:
    """Take this program from now on. Raises ``EmbeddedError`` if it is no Redis or Valkey server."""
    _chosen[:] = [read_version(path)]


def server() -> ServerBinary:
    """The chosen program, else the first that is found."""
    if not _chosen:
        _chosen.append(find_server())
    return _chosen[0]


class Masters(embedded.Masters):
    def __init__(self, count: int) -> None:
        super().__init__(count, server())
