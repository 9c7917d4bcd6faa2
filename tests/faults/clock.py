"""Wall clocks of single masters that jump, or run fast or slow, while the master runs (see clock.c)."""

from __future__ import annotations

import mmap
import shutil
import struct
import subprocess
import time
from pathlib import Path

from rlock.testing.local.embedded import ServerBinary

from ..docs.pages import write_scripts

SOURCE = Path(__file__).with_name("clock.c")
_SETTING = struct.Struct("=Qqqd")  # struct setting of clock.c


def build(folder: Path, source: Path = SOURCE) -> tuple[Path, str]:
    """The library for LD_PRELOAD, and why there is none (empty: there is)."""
    library = folder / f"{source.stem}.so"
    compiler = shutil.which("cc")
    if compiler is None:
        return library, f"the {source.stem} library needs a C compiler (cc)"
    command = [compiler, "-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", str(library), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return library, f"cc does not build the {source.stem} library: {done.stderr}" if done.returncode else ""


class Clock:
    """One master's wall clock. True until `step` or `run`."""

    def __init__(self, library: Path, folder: Path) -> None:
        self._folder = folder
        self._library = library
        self._path = folder / "clock"
        self._path.write_bytes(bytes(_SETTING.size))
        with self._path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _SETTING.size)
        self._version = 0
        self._real_at = self._shown_at = time.time_ns()
        self._rate = 1.0
        self.run(1.0)

    def binary(self, server: ServerBinary) -> ServerBinary:
        """This server with this clock."""
        name = f"clocked-{server.path.name}"
        preload = f'LD_PRELOAD="{self._library}" RLOCK_TEST_CLOCK="{self._path}"'
        write_scripts(self._folder, {name: f'{preload} exec "{server.path}" "$@"'})
        return ServerBinary(self._folder / name, server.flavour, server.version)

    def step(self, seconds: float) -> None:
        """Jump, forward or (negative) back."""
        self._set(seconds, self._rate)

    def run(self, rate: float) -> None:
        """From now on so many seconds pass in one."""
        self._set(0.0, rate)

    def _set(self, step_s: float, rate: float) -> None:
        now_ns = time.time_ns()
        shown_ns = self._shown_at + int((now_ns - self._real_at) * self._rate)
        self._real_at, self._shown_at, self._rate = now_ns, shown_ns + int(step_s * 1e9), rate
        for version in (self._version + 1, self._version + 2):  # odd: do not read yet
            _SETTING.pack_into(self._map, 0, version, self._real_at, self._shown_at, rate)
        self._version += 2
