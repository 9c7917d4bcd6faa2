"""The masters of a run: the same server program for every scenario."""

from __future__ import annotations

import functools
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
    return _chosen[0] if _chosen else _found()


@functools.cache
def _found() -> ServerBinary:
    return find_server()


class Masters(embedded.Masters):
    """So many masters, ended with the block."""

    def __init__(self, count: int) -> None:
        super().__init__(count, server())
